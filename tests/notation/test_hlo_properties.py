"""`mhlo.sharding`: random shardings and random texts against what their text says, device by device."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.sharding import from_hlo, named_hlo, parse_hlo, parse_sharding, print_sharding
from shardwright.sharding import DimSharding, Partial, TensorSharding

FEW = settings(derandomize=True, deadline=None, database=None, max_examples=600)


def pieces_of(text: str, shape: tuple[int, ...], devices: int) -> dict[int, tuple[tuple[slice, ...], frozenset[int]]]:
    """Device → its slice and the devices that hold the same contribution to it, straight from V1 or V2 text."""
    every = frozenset(range(devices))
    if text in ("{replicated}", "{unreduced}"):
        whole = tuple(slice(0, size) for size in shape)
        return {d: (whole, every if text == "{replicated}" else frozenset({d})) for d in range(devices)}
    match = re.fullmatch(r"\{devices=\[([\d,]+)\](\S+?)(?: last_tile_dim(s=\{(.*)\}|_replicate))?\}", text)
    assert match is not None, text
    tile = [int(size) for size in match[1].split(",")]
    groups = (match[4] or "replicated").split(", ") if match[3] else []
    counted = re.fullmatch(r"<=\[([\d,]+)\](?:T\(([\d,]+)\))?", match[2])
    if counted:
        reshape = [int(size) for size in counted[1].split(",")]
        perm = [int(dim) for dim in (counted[2] or "0").split(",")]
        grid = np.arange(math.prod(reshape)).reshape(reshape).transpose(perm).reshape(tile)
    else:
        grid = np.array([int(device) for device in match[2].split(",")]).reshape(tile)
    rank = len(tile) - len(groups)
    assert rank == len(shape)
    pieces = {}
    for coordinates in itertools.product(*map(range, tile)):
        slices = []
        for size, parts, part in zip(shape, tile, coordinates, strict=False):
            length = -(-size // parts)
            slices.append(slice(min(part * length, size), min(part * length + length, size)))
        alike = grid[coordinates[:rank]]
        if "unreduced" in groups:
            alike = alike.take(coordinates[rank + groups.index("unreduced")], axis=groups.index("unreduced"))
        pieces[int(grid[coordinates])] = (tuple(slices), frozenset(int(device) for device in np.ravel(alike)))
    return pieces


def modelled(sharding: TensorSharding, shape: tuple[int, ...]) -> dict[int, tuple[tuple[slice, ...], frozenset[int]]]:
    """The same from the model, by brute force over grid positions."""
    mesh = sharding.mesh
    tiles = {
        position: tuple(mesh.index(axes, position) for axes in (*sharding.axes, sharding.partial_axes))
        for position in range(mesh.size)
    }
    alike: dict[tuple[int, ...], set[int]] = {}
    for position, tile in tiles.items():
        alike.setdefault(tile, set()).add(mesh.device_id(position))
    return {
        mesh.device_id(position): (sharding.device_slice(shape, position), frozenset(alike[tile]))
        for position, tile in tiles.items()
    }


def cut(size: int, rng: random.Random) -> list[int]:
    """`size` as factors, some of them joined."""
    factors: list[int] = []
    for prime in (2, 3, 5):
        while size % prime == 0:
            factors.append(prime)
            size //= prime
    rng.shuffle(factors)
    joined: list[int] = []
    for factor in factors:
        if joined and rng.random() < 0.4:
            factor *= joined.pop()
        joined.append(factor)
    return joined


def random_sharding(rng: random.Random, most: int) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding over parts of the axes of a mesh of up to six, and a shape that it may cut unevenly."""
    sizes: list[int] = []
    for _ in range(rng.randint(1, 6)):
        sizes.append(rng.choice([1, 2, 2, 3, 4, 6, 8, 12]))
        if math.prod(sizes) > most:
            sizes[-1] = 1
    total = math.prod(sizes)
    ids = rng.sample(range(total), total) if rng.random() < 0.3 else None
    mesh = Mesh(list(zip("uvwxyz", sizes, strict=False)), device_ids=ids)
    parts: list[AxisRef] = []
    for name, size in mesh.axes:
        pre = 1
        for factor in cut(size, rng):
            parts.append(AxisRef(name, pre, factor))
            pre *= factor
    rng.shuffle(parts)
    rank = rng.randint(0, 3)
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    partial: list[AxisRef] = []
    for part in parts:
        where = rng.randint(0, rank + 1)
        if where < rank:
            dims[where].append(part)
        elif where == rank:
            partial.append(part)
    ordered = tuple(Partial(axis) for axis in mesh.in_order(partial))
    sharding = TensorSharding(mesh, tuple(DimSharding(tuple(axes)) for axes in dims), partial=ordered).closed()
    return sharding, tuple(
        rng.randint(0, 3) * math.prod(axis.size for axis in axes) + rng.randint(0, 2) for axes in dims
    )


@FEW
@given(st.integers(0, 1 << 40))
def test_model_to_text_to_model_on_every_device(seed: int) -> None:
    sharding, shape = random_sharding(random.Random(seed), 64)
    text = print_sharding(sharding, shape)
    assert pieces_of(text, shape, sharding.mesh.size) == modelled(sharding, shape)
    assert parse_sharding(text, shape, sharding.mesh) == sharding
    assert from_hlo(parse_hlo(str(named_hlo(sharding)))) == TensorSharding(
        Mesh(sharding.mesh.axes, device_ids=sharding.mesh.device_ids), sharding.dims, partial=sharding.partial
    )


@FEW
@given(st.integers(0, 1 << 40))
def test_model_to_text_to_model_on_large_meshes(seed: int) -> None:
    sharding, _ = random_sharding(random.Random(seed), 4096)
    shape = (5,) * sharding.rank
    text = print_sharding(sharding)
    again = parse_sharding(text, shape, sharding.mesh)
    assert again == sharding
    assert print_sharding(again) == text
    if "<=" in text:
        assert print_sharding(parse_sharding(text, shape)) == text


@FEW
@given(st.integers(0, 1 << 40))
def test_any_text_is_expressed_exactly_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    reshape = [rng.randint(1, 4) for _ in range(rng.randint(2, 4))]
    total = math.prod(reshape)
    perm = rng.sample(range(len(reshape)), len(reshape))
    tile = cut(total, rng) or [1]
    rng.shuffle(tile)
    tile.insert(rng.randint(0, len(tile)), 1)
    groups = rng.choice([[], ["replicated"], ["unreduced"], ["unreduced", "replicated"], ["replicated", "unreduced"]])
    groups = groups[: len(tile)]
    tail = f" last_tile_dims={{{', '.join(groups)}}}" if groups else ""
    counted = f"<=[{','.join(map(str, reshape))}]T({','.join(map(str, perm))})"
    listed = ",".join(map(str, np.arange(total).reshape(reshape).transpose(perm).ravel()))
    dims = f"{{devices=[{','.join(map(str, tile))}]"
    shape = tuple(rng.randint(0, 9) for _ in range(len(tile) - len(groups)))
    expected = pieces_of(dims + counted + tail + "}", shape, total)
    orders = [counted, listed] if total > 1 else [counted]
    meshes = [
        Mesh(x=total),
        Mesh(list(zip("uvwx", reshape, strict=False))),
        Mesh(x=total, device_ids=rng.sample(range(total), total)),
    ]
    for mesh in (None, *meshes):
        results = []
        for order in orders:
            text = dims + order + tail + "}"
            whole = str(parse_hlo(text).canonical()) in ("{replicated}", "{unreduced}")
            if mesh is None and whole:
                continue
            try:
                results.append(modelled(parse_sharding(text, shape, mesh), shape))
            except ShardingError:
                results.append({})
        assert mesh is not None or {} not in results, "a mesh can be made for any text"
        assert all(result in ({}, expected) for result in results)
        assert len({bool(result) for result in results}) <= 1, "V1 and V2 of one order differ"


@FEW
@given(st.text(alphabet="{}[](),=<T? 0123456789'", max_size=30), st.integers(0, 1 << 40))
def test_mutilated_text_is_a_value_or_a_refusal(noise: str, seed: int) -> None:
    rng = random.Random(seed)
    sharding, shape = random_sharding(rng, 16)
    text = rng.choice([print_sharding(sharding), str(named_hlo(sharding))])
    at, to = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
    for bad in (text[:at] + noise + text[at:], text[:at] + noise + text[to:], text[:at] + text[to:]):
        with contextlib.suppress(ShardingError):
            parse_sharding(bad, shape, rng.choice([None, sharding.mesh])).check(shape)

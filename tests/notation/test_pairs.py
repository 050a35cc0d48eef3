"""Random shardings through every notation and through every pair of them: each device holds what it held before.

What a device holds is worked out here from the axes alone, in numpy, without the model's own arithmetic.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.sharding import named_hlo
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation, notation_names, parse_text
from shardwright.sharding import REDUCTION_KINDS, DimSharding, Partial, TensorSharding

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
NAMES = notation_names()
PAIRS = tuple(itertools.product(NAMES, NAMES))
Case = tuple[TensorSharding, Shape]


def held(sharding: TensorSharding, shape: Shape) -> list[Any]:
    """Per device, in the order of ids: where its slices begin and end, its halos, and whose contributions it shares."""
    mesh = sharding.mesh
    sizes = [size for _, size in mesh.axes]
    total = math.prod(sizes)
    grid = np.indices(sizes).reshape(len(sizes), total)
    coordinates = {name: grid[at] for at, (name, _) in enumerate(mesh.axes)}

    def part(axes: tuple[AxisRef, ...]) -> Any:
        index = np.zeros(total, dtype=np.int64)
        for axis in axes:
            below = dict(mesh.axes)[axis.name] // axis.pre // axis.size
            index = index * axis.size + coordinates[axis.name] // below % axis.size
        return index

    order = np.argsort(mesh.device_ids) if mesh.device_ids else np.arange(total)
    tiles, columns = [part(dim.axes) for dim in sharding.dims], []
    for dim, (tile, size) in enumerate(zip(tiles, shape, strict=True)):
        count = math.prod(axis.size for axis in sharding.dims[dim].axes)
        cuts = sharding.offsets[dim] if sharding.offsets else None
        ends = np.array(cuts) if cuts else np.minimum(np.arange(count + 1) * math.ceil(size / count), size)
        columns += [ends[tile][order].tolist(), ends[tile + 1][order].tolist()]
    facts: list[Any] = [columns, [halo or (0, 0) for halo in sharding.halos or [None] * len(shape)]]
    for kind in sorted({p.kind for p in sharding.partial}):
        along = tuple(p.axis for p in sharding.partial if p.kind == kind)
        if math.prod(axis.size for axis in along) > 1:
            facts.append((kind, labels([*tiles, part(along)], order)))
    return facts


def labels(columns: list[Any], order: Any) -> list[int]:
    """Devices that agree in all columns have the same number, counted from 0 as they come."""
    numbers: dict[tuple[int, ...], int] = {}
    return [numbers.setdefault(row, len(numbers)) for row in map(tuple, np.array(columns).T[order].tolist())]


def random_mesh(rng: random.Random, most: int) -> Mesh:
    """Up to six axes and `most` devices, in three of ten in another order; now and then one without axes."""
    if rng.random() < 0.03:
        return rng.choice([Mesh(), Mesh(device_ids=[rng.randint(0, 7)])])
    sizes: list[int] = []
    for _ in range(rng.randint(1, 6)):
        sizes.append(rng.choice([1, 2, 2, 3, 4, 4, 6, 8, 16, 64]))
        if math.prod(sizes) > most:
            sizes[-1] = 1
    total = math.prod(sizes)
    ids = rng.sample(range(total), total) if rng.random() < 0.3 else None
    return Mesh(list(zip("uvwxyz", sizes, strict=False)), device_ids=ids)


def parts(rng: random.Random, mesh: Mesh, whole: bool) -> list[AxisRef]:
    """The axes in any order, some of them cut where they need not stay `whole`."""
    refs: list[AxisRef] = []
    for name, size in mesh.axes:
        pre, rest = 1, size
        while not whole and rest > 1 and rng.random() < 0.5:
            piece = rng.choice([n for n in range(2, rest + 1) if rest % n == 0])
            refs.append(AxisRef(name, pre, piece))
            pre, rest = pre * piece, rest // piece
        if rest > 1 or size == 1:
            refs.append(AxisRef(name, pre, rest))
    return rng.sample(refs, len(refs))


def random_case(rng: random.Random, most: int) -> Case:
    """A sharding with any of what the model knows, and the shape of its tensor."""
    mesh, rank = random_mesh(rng, most), rng.randint(0, 3)
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    partial: list[Partial] = []
    kinds = rng.choice([["sum"], ["sum"], ["sum"], [rng.choice(REDUCTION_KINDS)], list(REDUCTION_KINDS)])
    ignored = rng.choice([0, 1, 3])  # how often an axis does nothing, beside once for each dimension and once partial
    for axis in parts(rng, mesh, rng.random() < 0.6):
        place = rng.randint(-1 - ignored, rank - 1)
        if place >= 0:
            dims[place].append(axis)
        elif place == -1:
            partial.append(Partial(axis, rng.choice(kinds)))
    partial.sort(key=lambda p: mesh.sort_key(p.axis))
    hinting = rng.random() < 0.2
    entries = tuple(DimSharding(tuple(axes), hinting and rng.random() < 0.5) for axes in dims)
    sharding = TensorSharding(mesh, entries, partial=tuple(partial))
    if rng.random() < 0.8:
        sharding = sharding.closed() if not hinting else sharding
    counts = [math.prod(axis.size for axis in axes) for axes in dims]
    uneven = rng.random() < 0.5
    shape = tuple(rng.randint(0, 3) * n + uneven * rng.randint(0, n) for n in counts)
    return bounded(rng, sharding, shape, counts), shape


def bounded(rng: random.Random, sharding: TensorSharding, shape: Shape, counts: list[int]) -> TensorSharding:
    """With halos or explicit offsets, in three of ten."""
    if rng.random() < 0.15:
        halos = [(rng.randint(0, 2), rng.randint(0, 2)) if n > 1 and rng.random() < 0.7 else None for n in counts]
        return with_bounds(sharding, halos=tuple(halos)) if any(halos) else sharding
    if rng.random() < 0.15:
        cuts = [
            (0, *sorted(rng.randint(0, size) for _ in range(n - 1)), size) if n > 1 and rng.random() < 0.7 else None
            for n, size in zip(counts, shape, strict=True)
        ]
        return with_bounds(sharding, offsets=tuple(cuts)) if any(cuts) else sharding
    return sharding


def with_bounds(sharding: TensorSharding, **entries: Any) -> TensorSharding:
    bounded = TensorSharding(sharding.mesh, sharding.dims, sharding.replicated, sharding.partial, **entries)
    bounded.check()
    return bounded


def cases(seed: int, count: int, most: int) -> list[Case]:
    rng = random.Random(seed)
    return [random_case(rng, most) for _ in range(count)]


def printed(sharding: TensorSharding, name: str, shape: Shape) -> str | None:
    """Its text, or nothing where the notation refuses it in words."""
    try:
        return notation(name).print(sharding, shape)
    except ShardingError as error:
        assert error.diagnostic.cause, error
        return None


def check_pairs(seed: int, count: int, most: int) -> Counter[tuple[str, str]]:
    """How often each pair was gone through; a notation alone is a pair with itself."""
    gone: Counter[tuple[str, str]] = Counter()
    for sharding, shape in cases(seed, count, most):
        sharding.check(shape)
        expected = held(sharding, shape)
        texts = {name: printed(sharding, name, shape) for name in NAMES}
        for first, text in texts.items():
            if text is None:
                continue
            told = f"{sharding!r} of {shape} on {sharding.mesh!r}: {first} {text[:300]}"
            back = notation(first).parse(text, shape, sharding.mesh)
            back.check(shape)
            assert held(back, shape) == expected, told
            assert notation(first).print(back, shape) == text, told
            assert parse_text(text, shape=shape, mesh=sharding.mesh) == back, told
            for second in NAMES:
                if texts[second] is None:
                    continue
                again = notation(second).parse(notation(second).print(back, shape), shape, sharding.mesh)
                assert held(again, shape) == expected, f"{told}, then {second} {texts[second]}"
                gone[first, second] += 1
    return gone


def test_every_pair_of_notations_keeps_what_every_device_holds(
    record_property: Callable[[str, object], None],
) -> None:
    gone = check_pairs(SEED, 1500, 96) + check_pairs(SEED + 1, 100, 4096)
    assert set(gone) == set(PAIRS)
    assert min(gone.values()) >= 400, gone
    least = min(gone, key=lambda pair: gone[pair])
    total = sum(gone.values())
    record_property(
        "summary", f"notations: {total} ways through {len(gone)} pairs keep every slice, {gone[least]} at least"
    )


@pytest.mark.long
def test_every_pair_of_notations_at_length() -> None:
    gone = sum((check_pairs(SEED + 10 + seed, 1000, 96) for seed in range(20)), Counter[tuple[str, str]]())
    gone += check_pairs(SEED + 2, 1500, 4096)
    assert min(gone.values()) >= 4000, gone


def test_the_cases_have_all_that_the_model_knows() -> None:
    drawn = cases(SEED, 500, 4096)
    shardings = [sharding for sharding, _ in drawn]
    assert max(len(sharding.mesh.axes) for sharding in shardings) == 6
    assert max(sharding.mesh.size for sharding in shardings) > 2048
    has: dict[str, int] = {
        "offsets": sum(sharding.offsets is not None for sharding in shardings),
        "halos": sum(sharding.halos is not None for sharding in shardings),
        "kinds": len({p.kind for sharding in shardings for p in sharding.partial}),
        "parts of axes": sum(any(not s.mesh.is_full(axis) for axis in s.used_axes) for s in shardings),
        "uneven shards": sum(not sharding.divides(shape) for sharding, shape in drawn),
        "hints": sum(any(dim.open for dim in sharding.dims) for sharding in shardings),
    }
    assert has["kinds"] == len(REDUCTION_KINDS)
    assert all(count >= 20 for what, count in has.items() if what != "kinds"), has


@pytest.mark.parametrize(
    ("name", "sharding", "message"),
    [
        ("rfc", TensorSharding.of(Mesh(), [[], []]), "a mesh of no axes"),
        ("rfc", TensorSharding.of(Mesh([("x", 2)], name=""), [["x"]]), "a mesh without a name"),
        ("mhlo", TensorSharding.of(Mesh(x=2), [["x"], *[[] for _ in range(58)]]), "cannot express 59 dimensions"),
    ],
)
def test_what_would_not_be_read_again_is_not_printed(name: str, sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        notation(name).print(sharding, (2,) * sharding.rank)


@pytest.mark.parametrize("name", ["rfc", "shard", "sdy"])
@pytest.mark.parametrize("mesh_name", ['a"b', "a\\b", "a-b", "0", "é", "a b", "]"])
def test_a_mesh_of_any_name_can_be_read_again(name: str, mesh_name: str) -> None:
    mesh = Mesh([("x", 2)], name=mesh_name)
    sharding = TensorSharding.of(mesh, [["x"]])
    text = notation(name).print(sharding, (2,))
    assert notation(name).parse(text, (2,), Mesh([("x", 2)])) == sharding


def test_the_named_form_of_a_mesh_with_too_many_axes_is_refused() -> None:
    mesh = Mesh([(f"a{number}", 1) for number in range(61)])
    with pytest.raises(ShardingError, match="a mesh of 61 axes"):
        named_hlo(TensorSharding.of(mesh, [["a0"]]))


def test_held_counts_as_the_sub_axes_say() -> None:
    mesh = Mesh([("x", 2), ("y", 4)], device_ids=[0, 2, 4, 6, 1, 3, 5, 7])
    sharding = TensorSharding.of(mesh, [[AxisRef("y", 2, 2), "x"]], partial=[AxisRef("y", 1, 2)], kind="max")
    slices, _, (kind, groups) = held(sharding, (7,))
    assert slices[0] == [0, 2, 4, 6, 0, 2, 4, 6]
    assert slices[1] == [2, 4, 6, 7, 2, 4, 6, 7]
    assert (kind, groups) == ("max", [0, 1, 2, 3, 4, 5, 6, 7])

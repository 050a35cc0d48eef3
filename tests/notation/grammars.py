"""Random texts of every notation, written from its grammar: all that may be said, in all the ways there are to say it.

The mesh is `x=2, y=4, z=3` and the tensor has two dimensions; now and then a text asks for something that they lack.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence

__all__ = ["GRAMMARS"]

SIZES = {"x": 2, "y": 4, "z": 3}
KINDS = ("sum", "max", "min", "product", "average", "bitwise_and", "bitwise_or", "bitwise_xor")


def shared(rng: random.Random, names: Iterable[str], lists: int) -> list[list[str]]:
    """Names dealt out to lists, some left over; now and then one that does not exist or is there twice."""
    shares: list[list[str]] = [[] for _ in range(lists)]
    for name in rng.sample(list(names), len(list(names))):
        place = rng.randint(-1, lists - 1)
        if place >= 0:
            shares[place].append(name)
    if shares and rng.random() < 0.04:
        rng.choice(shares).append(rng.choice(["w", "x"]))
    return shares


def maybe(rng: random.Random, text: str, chance: float = 0.5) -> str:
    return text if rng.random() < chance else ""


def sdy(rng: random.Random) -> str:
    head = rng.choice(["#sdy.sharding<@mesh", "<@mesh", '#sdy.sharding<@"a mesh"', '<mesh<["x"=2, "y"=4, "z"=3]>'])
    names = ['"x"', '"y"', '"z"'] if rng.random() < 0.6 else ['"x"', '"y":(1)2', '"y":(2)2', '"z"']
    *dims, kept, summed = shared(rng, names, 4)
    written = [
        "{" + ", ".join([*dim, *(["?"] if rng.random() < 0.3 else [])]) + "}" + maybe(rng, f"p{rng.randint(0, 3)}", 0.2)
        for dim in dims
    ]
    order = sorted(kept) if rng.random() < 0.9 else kept
    tail = f", replicated={{{', '.join(order)}}}" if kept else ""
    tail += f", unreduced={{{', '.join(sorted(summed))}}}" if summed else ""
    return f"{head}, [{', '.join(written)}]{tail}>"


def mhlo(rng: random.Random) -> str:
    word = rng.random()
    if word < 0.15:
        return rng.choice(
            ["{replicated}", "{maximal device=3}", "{manual}", "{unknown}", "{unreduced}", "{}", "{{replicated}}"]
        )
    if word < 0.4:
        return mhlo_named(rng)
    factors = rng.sample([2, 2, 2, 3], 4)
    tile = [1, 1, 1]
    for factor in factors:
        tile[rng.randint(0, 2)] *= factor
    perm = rng.sample(range(4), 4)
    order = f"<=[{','.join(map(str, factors))}]T({','.join(map(str, perm))})"
    if rng.random() < 0.2:
        order = ",".join(map(str, rng.sample(range(24), 24) if rng.random() < 0.3 else range(24)))
    elif rng.random() < 0.4:
        order = "<=[24]"
    last = rng.choice([" last_tile_dim_replicate", " last_tile_dims={replicated}", " last_tile_dims={unreduced}"])
    if rng.random() < 0.05:
        last = " last_tile_dims={manual}"
    metadata = maybe(rng, ' metadata={op_name="a{b"}', 0.1)
    return f"{{devices=[{','.join(map(str, tile))}]{order}{last}{metadata}}}"


def mhlo_named(rng: random.Random) -> str:
    quote = rng.choice(["'", "'", ""])
    axes = ",".join(f"{quote}{name}{quote}={size}" for name, size in SIZES.items())
    ids = maybe(rng, ", device_ids=([2,12]T(1,0))", 0.2)
    *dims, kept, summed = shared(rng, [f"{quote}{name}{quote}" for name in SIZES], 4)
    written = ", ".join("{" + ", ".join([*dim, *(["?"] if rng.random() < 0.2 else [])]) + "}" for dim in dims)
    tail = f", replicated={{{', '.join(kept)}}}" if kept else ""
    tail += f", unreduced={rng.choice(['', 'max'])}{{{', '.join(summed)}}}" if summed else ""
    return f"{{mesh[{axes}]{ids}, {rng.choice([f'[{written}]{tail}'] * 6 + ['replicated', 'unreduced'])}}}"


def lists_of(lists: Sequence[Sequence[str]]) -> str:
    return "[" + ", ".join("[" + ", ".join(numbers) + "]" for numbers in lists) + "]"


def shard(rng: random.Random) -> str:
    rows, columns, summed = shared(rng, ["0", "1", "2"], 3)
    lists = lists_of([rows, columns][: rng.randint(0 if not rows + columns else 1 + bool(columns), 2)])
    partial = f" partial = {rng.choice(KINDS)} [{', '.join(summed)}]" if summed else ""
    dialect = "mesh" if partial else rng.choice(["mesh", "shard"])
    if rng.random() < 0.2:
        return f"#mesh.shard<@g, {lists}{',' * bool(partial)}{partial or ', partial = sum []'}>"
    bounds = rng.choice(["", "", halo_sizes(rng, rows, columns), offsets(rng, rows, columns)])
    name, type_ = maybe(rng, "%s1 = ", 0.3), maybe(rng, f" : !{dialect}.sharding", 0.3)
    return f"{name}{dialect}.sharding @g split_axes = {lists}{partial}{bounds}{type_}"


def halo_sizes(rng: random.Random, *dims: Sequence[str]) -> str:
    sizes = [str(rng.randint(0, 2)) for dim in dims if dim for _ in range(2)]
    return f" halo_sizes = [{', '.join(sizes)}]"


def offsets(rng: random.Random, *dims: Sequence[str]) -> str:
    sizes = [math.prod(list(SIZES.values())[int(axis)] for axis in dim if axis.isdecimal()) for dim in dims]
    cuts = [
        [0, *sorted(rng.randint(0, 24) for _ in range(n - 1)), 24] for dim, n in zip(dims, sizes, strict=True) if dim
    ]
    return f" sharded_dims_offsets = {[cut for dim in cuts for cut in dim]}"


def rfc(rng: random.Random) -> str:
    lists = shared(rng, ["0", "1", "2"], 3)
    return f"#mesh.shard<{maybe(rng, '@mesh0, ')}{lists_of(lists[: 3 if lists[2] else 2])}>"


def jax(rng: random.Random) -> str:
    rows, columns, kept, summed = shared(rng, SIZES, 4)
    if rng.random() < 0.3:
        sizes = [f"24{'@' + type_axes(dim) if dim else ''}" for dim in (rows, columns)]
        sets = [f"{mark}:{type_axes(axes)}" for mark, axes in (("U", summed), ("R", kept)) if axes]
        return f"{rng.choice(['f32', 'bf16', 'i32<host>'])}[{','.join(sizes)}]{'{' + ', '.join(sets) + '}' if sets else ''}"
    entries = [entry(rng, dim) for dim in (rows, columns)]
    for keyword, axes in (("unreduced", summed), ("reduced", kept)):
        if axes:
            axis_set = "{" + ", ".join(map(repr, axes)) + "}"
            entries.append(f"{keyword}={rng.choice([axis_set, f'frozenset({axis_set})'])}")
    return f"{rng.choice(['P', 'PartitionSpec', 'jax.P', 'jax.sharding.PartitionSpec'])}({', '.join(entries)})"


def entry(rng: random.Random, axes: Sequence[str]) -> str:
    if not axes:
        return rng.choice(["None", "P.UNCONSTRAINED", "()"])
    quote = rng.choice("'\"")
    names = [f"{quote}{name}{quote}" for name in axes]
    return names[0] if len(names) == 1 and rng.random() < 0.8 else f"({', '.join(names)}{maybe(rng, ',', 0.3)})"


def type_axes(axes: Sequence[str]) -> str:
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"


def dtensor(rng: random.Random) -> str:
    one = [
        "Replicate()", "R", "Shard(0)", "Shard(dim=1)", "S(0)", "S(-1)", "Partial()", "Partial(sum)", "P(max)",
        "Partial('avg')", "Partial(reduce_op=min)", "Shard(0)", "Shard(1)", "Replicate()",
    ]  # fmt: skip
    placements = [rng.choice(one) for _ in SIZES]
    if rng.random() < 0.2:
        dim = rng.randint(0, 1)
        placements[:2] = [f"_StridedShard(dim={dim}, {rng.choice(['sf', 'split_factor'])}=4)", f"Shard({dim})"]
    opening, closing = rng.choice([("[", "]"), ("(", ")")])
    return f"{opening}{', '.join(placements)}{maybe(rng, ',', 0.1)}{closing}"


GRAMMARS: dict[str, Callable[[random.Random], str]] = {
    "sdy": sdy,
    "mhlo": mhlo,
    "rfc": rfc,
    "shard": shard,
    "jax": jax,
    "dtensor": dtensor,
}

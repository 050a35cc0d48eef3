"""Random meshes, shardings and shapes that divide."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hypothesis import strategies as st

from shardwright.axes import AxisRef, axes_size
from shardwright.mesh import Mesh
from shardwright.sharding import Partial, TensorSharding

SIZES = (1, 2, 2, 3, 4, 6, 8)


@st.composite
def meshes(draw: st.DrawFn, devices: int = 32, axes: int = 4) -> Mesh:
    """One to four axes, at most `devices` devices, sometimes in another order."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, axes))):
        room = devices // math.prod(sizes)
        sizes.append(draw(st.sampled_from([size for size in SIZES if size <= room])))
    order = draw(st.none() | st.permutations(range(math.prod(sizes)))) if len(sizes) == 2 else None
    return Mesh(zip("abcd", sizes, strict=False), device_ids=order)


@st.composite
def parts(draw: st.DrawFn, mesh: Mesh) -> list[AxisRef]:
    """All axes of `mesh`, some of them cut into sub-axes, in any order."""
    pieces: list[AxisRef] = []
    for name, size in mesh.axes:
        pre, rest = 1, size
        while rest > 1 and draw(st.booleans()):
            piece = draw(st.sampled_from([n for n in range(2, rest + 1) if rest % n == 0]))
            pieces.append(AxisRef(name, pre, piece))
            pre, rest = pre * piece, rest // piece
        if rest > 1 or size == 1:
            pieces.append(AxisRef(name, pre, rest))
    return draw(st.permutations(pieces))


@st.composite
def shardings(draw: st.DrawFn, mesh: Mesh, rank: int, kinds: Sequence[str] = ()) -> TensorSharding:
    """Each part splits a dimension, is unused, or is partial with one of `kinds`."""
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    partial: list[Partial] = []
    for part in draw(parts(mesh)):
        place = draw(st.integers(-1 - bool(kinds), rank - 1))
        if place >= 0:
            dims[place].append(part)
        elif place == -2:
            partial.append(Partial(part, draw(st.sampled_from(kinds))))
    return TensorSharding.of(mesh, dims).with_axes([tuple(dim) for dim in dims], partial).closed()


@st.composite
def reshards(
    draw: st.DrawFn, kinds: Sequence[str] = ("sum", "max")
) -> tuple[tuple[int, ...], TensorSharding, TensorSharding]:
    """A shape and two shardings of it; the target may stay partial along the major-most partial axes."""
    mesh, rank = draw(meshes()), draw(st.integers(1, 3))
    source = draw(shardings(mesh, rank, kinds))
    target = draw(shardings(mesh, rank))
    kept = tuple(
        p
        for p in source.partial[: draw(st.integers(0, len(source.partial)))]
        if not any(p.axis.overlaps(axis) or _clashes(p.axis, axis) for axis in target.used_axes)
    )
    staying = tuple(p for p in kept if all(q in kept or q.kind == p.kind for q in source.partial[: len(kept)]))
    target = target.with_axes(target.axes, staying if staying == source.partial[: len(staying)] else ())
    shape = tuple(
        math.lcm(axes_size(left), axes_size(right)) * draw(st.integers(1, 2))
        for left, right in zip(source.axes, target.axes, strict=True)
    )
    return shape, source, target.closed()


def _clashes(left: AxisRef, right: AxisRef) -> bool:
    cuts = sorted({left.pre, left.end, right.pre, right.end})
    return left.name == right.name and any(big % small for small, big in itertools.pairwise(cuts))

"""A reshape of shards is the shard of the reshape exactly where `same_elements` says so."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.axes import AxisRef
from shardwright.mesh import Mesh
from shardwright.partition.localize.layout import same_elements
from shardwright.sharding import TensorSharding

MESH = Mesh(x=2, y=4, z=3)
PARTS = (
    MESH.axis("x"),
    MESH.axis("y"),
    MESH.axis("z"),
    AxisRef("y", 1, 2),
    AxisRef("y", 2, 2),
)
SHAPES = [
    ((8, 4), (32,)),
    ((8, 4), (4, 8)),
    ((6, 4), (2, 3, 4)),
    ((6, 4), (8, 3)),
    ((12, 2), (2, 12)),
    ((1, 8), (8,)),
    ((4, 6, 2), (24, 2)),
    ((4, 6, 2), (4, 12)),
    ((24,), (2, 3, 4)),
    ((24,), (4, 6)),
]


@st.composite
def _layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], TensorSharding, tuple[int, ...], TensorSharding]:
    left, right = draw(st.sampled_from(SHAPES))
    if draw(st.booleans()):
        left, right = right, left
    return left, draw(_sharding(left)), right, draw(_sharding(right))


@st.composite
def _sharding(draw: st.DrawFn, shape: tuple[int, ...]) -> TensorSharding:
    dims: list[list[AxisRef]] = [[] for _ in shape]
    used: list[AxisRef] = []
    for axis in draw(st.permutations(PARTS)):
        dim = draw(st.integers(0, 2 * len(shape)))
        if dim >= len(shape) or any(axis.overlaps(other) for other in used):
            continue
        if shape[dim] % math.prod(a.size for a in (*dims[dim], axis)) == 0:
            dims[dim].append(axis)
            used.append(axis)
    return TensorSharding.of(MESH, dims).closed()


@settings(deadline=None, max_examples=400)
@given(_layouts())
def test_says_yes_only_where_every_device_holds_the_same_elements(
    case: tuple[tuple[int, ...], TensorSharding, tuple[int, ...], TensorSharding],
) -> None:
    shape, sharding, reshaped, resharding = case
    if not same_elements(shape, sharding, reshaped, resharding):
        return
    whole = np.arange(math.prod(shape)).reshape(shape)
    for position in range(MESH.size):
        one = whole[sharding.device_slice(shape, position)]
        other = whole.reshape(reshaped)[resharding.device_slice(reshaped, position)]
        assert one.ravel().tolist() == other.ravel().tolist()


def test_says_yes_to_what_reshapes_are_for() -> None:
    def of(*dims: list[str | AxisRef]) -> TensorSharding:
        return TensorSharding.of(MESH, dims)

    assert same_elements((24,), of(["x", "z"]), (2, 3, 4), of(["x"], ["z"], []))
    assert same_elements((8, 6), of([], ["z"]), (2, 4, 6), of([], [], ["z"]))
    assert same_elements((4, 1, 6), of(["y"], [], ["x"]), (2, 2, 6), of([PARTS[3]], [PARTS[4]], ["x"]))
    assert same_elements((6, 4), of(["x"], []), (8, 3), of(["x"], []))
    assert not same_elements((6, 4), of([], ["x"]), (24,), of(["x"]))

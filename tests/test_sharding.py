"""The sharding model against brute force over devices and elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwright.axes import AxisRef, axes_size, is_prefix
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.sharding import DimSharding, Partial, TensorSharding, replicated
from tests.reshard.strategies import meshes, shardings

PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
MESH = Mesh(x=4, y=2)
X, Y = MESH.axis("x"), MESH.axis("y")


@st.composite
def cases(draw: st.DrawFn) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding and a shape that need not divide."""
    sharding = draw(shardings(draw(meshes()), draw(st.integers(0, 3)), ("sum", "max")))
    return sharding, tuple(draw(st.integers(0, 20)) for _ in range(sharding.rank))


@PROPERTY
@given(cases())
def test_shards_cover_every_element_as_often_as_it_is_replicated(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    copies = np.zeros(shape, int)
    for position in range(sharding.mesh.size):
        copies[sharding.device_slice(shape, position)] += 1
    assert (copies == sharding.mesh.size // axes_size(sharding.used_axes)).all()


@PROPERTY
@given(cases())
def test_uneven_shards_are_ceil_sized_and_the_last_ones_clamped(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    for position in range(sharding.mesh.size):
        for dim, part in enumerate(sharding.device_slice(shape, position)):
            shards = axes_size(sharding.dims[dim].axes)
            chunk = -(-shape[dim] // shards)
            index = sharding.mesh.index(sharding.dims[dim].axes, position)
            assert part.stop - part.start == max(0, min(chunk, shape[dim] - index * chunk))
            assert sharding.local_shape(shape)[dim] == chunk
    largest = [max(s.stop - s.start for s in dim) for dim in zip(*slices(sharding, shape), strict=True)]
    assert tuple(largest) == sharding.local_shape(shape)


def slices(sharding: TensorSharding, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    return [sharding.device_slice(shape, position) for position in range(sharding.mesh.size)]


@PROPERTY
@given(cases())
def test_divides_means_equal_shards(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    assert sharding.divides(shape) == all(
        size == axes_size(dim.axes) * chunk
        for size, dim, chunk in zip(shape, sharding.dims, sharding.local_shape(shape), strict=True)
    )
    even = sharding.evenly_dividing(shape)
    assert even.divides(shape)
    assert all(is_prefix(left, right) for left, right in zip(even.axes, sharding.axes, strict=True))
    if sharding.divides(shape):
        assert even is sharding


@PROPERTY
@given(cases())
def test_equivalent_shardings_place_alike(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    split = TensorSharding(
        sharding.mesh,
        tuple(DimSharding(tuple(part for axis in dim.axes for part in halves(axis)), True, 1) for dim in sharding.dims),
        partial=tuple(Partial(part, p.kind) for p in sharding.partial for part in halves(p.axis)),
    )
    split.check(shape)
    assert split.equivalent(sharding)
    assert slices(split, shape) == slices(sharding, shape)
    assert split.closed() == sharding.closed() == split.closed().closed()


def halves(axis: AxisRef) -> tuple[AxisRef, ...]:
    if axis.size % 2 or axis.size == 2:
        return (axis,)
    return (AxisRef(axis.name, axis.pre, 2), AxisRef(axis.name, axis.pre * 2, axis.size // 2))


def test_layouts_that_differ_are_not_equivalent() -> None:
    left = TensorSharding.of(MESH, [["x", "y"]])
    assert not left.equivalent(TensorSharding.of(MESH, [["y", "x"]]))
    assert not left.equivalent(TensorSharding.of(MESH, [["x"]], partial=["y"]))
    assert not left.equivalent(TensorSharding.of(Mesh(MESH.axes, name="other"), [["x", "y"]]))
    summed, maxed = (TensorSharding.of(MESH, [[]], partial=["y"], kind=kind) for kind in ("sum", "max"))
    assert not summed.equivalent(maxed)


def test_offsets_say_where_shards_begin() -> None:
    sharding = replace(TensorSharding.of(MESH, [["y"], ["x"]]), offsets=((0, 1, 6), None))
    sharding.check((6, 8))
    assert sharding.local_shape((6, 8)) == (5, 2)
    assert [sharding.device_slice((6, 8), position)[0] for position in (0, 2, 4, 6)] == [slice(0, 1)] * 4
    assert sharding.device_slice((6, 8), 3) == (slice(1, 6), slice(2, 4))


def test_halos_widen_the_local_shape_and_not_the_slice() -> None:
    sharding = replace(TensorSharding.of(MESH, [["y"], []]), halos=((1, 2), None))
    sharding.check((8, 8))
    assert sharding.local_shape((8, 8)) == (7, 8)
    assert sharding.device_slice((8, 8), 1) == (slice(4, 8), slice(0, 8))


SPLIT = TensorSharding.of(MESH, [["y"]])


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (TensorSharding(MESH, (DimSharding((X, X)),)), "'x' is used twice"),
        (TensorSharding(MESH, (DimSharding((X,)),), replicated=(X,)), "'x' is used twice"),
        (TensorSharding(MESH, (DimSharding((X,)),), partial=(Partial(AxisRef("x", 1, 2)),)), "'x' is used twice"),
        (TensorSharding(Mesh(x=1), (DimSharding((AxisRef("x", 1, 1),) * 2),)), "'x' is used twice"),
        (TensorSharding(Mesh(x=6), (DimSharding((AxisRef("x", 1, 2), AxisRef("x", 3, 2))),)), "used together"),
        (TensorSharding(MESH, (DimSharding((AxisRef("z", 1, 2),)),)), "unknown mesh axis 'z'"),
        (TensorSharding(MESH, (DimSharding((AxisRef("x", 2, 4),)),)), "does not fit"),
        (TensorSharding(MESH, (DimSharding(),), partial=(Partial(X, "median"),)), "unknown reduction kind"),
        (replicated(MESH, 2), "2 dimensions"),
        (replace(SPLIT, offsets=((0, 4, 8),), halos=((1, 1),)), "offsets and halos"),
        (replace(SPLIT, offsets=((0, 4, 8), None)), "2 dimensions of 1"),
        (replace(SPLIT, halos=()), "0 dimensions of 1"),
        (replace(SPLIT, offsets=((0, 8),)), "do not cut it into 2"),
        (replace(SPLIT, offsets=((0, 9, 8),)), "do not cut it into 2"),
        (replace(SPLIT, offsets=((1, 4, 8),)), "do not cut it into 2"),
        (replace(SPLIT, offsets=((0, 4, 9),)), "end at 9"),
        (replace(SPLIT, halos=((-1, 0),)), "negative"),
        (replace(replicated(MESH, 1), halos=((1, 0),)), "not split"),
    ],
)
def test_what_is_no_sharding(sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        sharding.check((8,))


def test_shardings_are_values_and_print_short() -> None:
    sharding, same = (
        TensorSharding.of(MESH, [[AxisRef("x", 1, 2), "y"], []], open=True, partial=[AxisRef("x", 2, 2)])
        for _ in range(2)
    )
    assert (sharding, hash(sharding)) == (same, hash(same))
    assert repr(sharding) == "[{x:(1)2, y, ?}, {?}] partial=sum{x:(2)2}"
    assert (sharding.is_replicated, replicated(MESH, 2).is_replicated) == (False, True)
    assert (sharding.used_axes, sharding.partial_axes) == ((AxisRef("x", 1, 2), Y), (AxisRef("x", 2, 2),))

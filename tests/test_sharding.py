"""How a tensor lies on a mesh, against brute force over devices and elements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.mesh import AxisRef, Mesh, axes_size
from shardwright.sharding import DimSharding, Partial, TensorSharding, replicated

MESH = Mesh(x=2, y=4, z=3)


@st.composite
def shardings(draw: st.DrawFn) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding, with sub-axes and partials, and a shape that it need not divide."""
    pieces = [MESH.axis("x"), MESH.axis("y", 1, 2), MESH.axis("y", 2, 2), MESH.axis("z")]
    if draw(st.booleans()):
        pieces = [MESH.axis("x"), MESH.axis("y"), MESH.axis("z")]
    pieces = draw(st.permutations(pieces))
    rank = draw(st.integers(0, 3))
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    partial: list[AxisRef] = []
    for piece in pieces:
        place = draw(st.integers(-2, rank - 1)) if rank else -1
        if place >= 0:
            dims[place].append(piece)
        elif place == -2:
            partial.append(piece)
    kind = draw(st.sampled_from(["sum", "max"]))
    shape = tuple(draw(st.integers(1, 13)) for _ in range(rank))
    return TensorSharding.of(MESH, dims, partial=partial, kind=kind), shape


def elements(slices: tuple[slice, ...]) -> set[tuple[int, ...]]:
    return set(product(*(range(s.start, s.stop) for s in slices)))


@given(shardings())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_every_element_is_held_by_as_many_devices_as_do_not_split_the_tensor(
    case: tuple[TensorSharding, tuple[int, ...]],
) -> None:
    sharding, shape = case
    held = Counter(e for p in range(MESH.size) for e in elements(sharding.device_slice(shape, p)))
    copies = MESH.size // axes_size(sharding.used_axes)
    assert held == Counter(dict.fromkeys(product(*map(range, shape)), copies))


@given(shardings())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_shards_are_ceil_sized_and_clamped(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    local = sharding.local_shape(shape)
    for position in range(MESH.size):
        for dim, part in enumerate(sharding.device_slice(shape, position)):
            index = MESH.index(sharding.axes[dim], position)
            assert part.start == min(index * local[dim], shape[dim])
            assert part.stop - part.start == max(0, min(local[dim], shape[dim] - index * local[dim]))
    even = all(
        part.stop - part.start == local[dim]
        for position in range(MESH.size)
        for dim, part in enumerate(sharding.device_slice(shape, position))
    )
    assert sharding.divides(shape) == even


@given(shardings())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_closing_changes_nothing_for_any_device(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    opened = replace(sharding, dims=tuple(replace(dim, open=True, priority=1) for dim in sharding.dims))
    closed = opened.closed()
    assert closed.equivalent(opened)
    assert closed.equivalent(sharding)
    assert closed.closed() is closed or closed.closed() == closed
    for position in range(MESH.size):
        assert closed.device_slice(shape, position) == opened.device_slice(shape, position)


@given(shardings(), shardings())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_equivalent_shardings_are_those_that_place_every_element_alike(
    one: tuple[TensorSharding, tuple[int, ...]], other: tuple[TensorSharding, tuple[int, ...]]
) -> None:
    left, right = one[0], other[0]
    if left.rank != right.rank:
        return
    fine = (24,) * left.rank
    alike = all(left.device_slice(fine, p) == right.device_slice(fine, p) for p in range(MESH.size))
    assert left.equivalent(right) == (alike and left.closed().partial == right.closed().partial)


@given(shardings())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_what_divides_evenly_is_a_major_part(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    even = sharding.evenly_dividing(shape)
    assert even.divides(shape)
    if sharding.divides(shape):
        assert even is sharding
    for kept, had, size in zip(even.dims, sharding.dims, shape, strict=True):
        for position in range(MESH.size):
            rest = axes_size(had.axes) // axes_size(kept.axes)
            assert MESH.index(had.axes, position) // rest == MESH.index(kept.axes, position)
        assert size % axes_size(kept.axes) == 0


@given(shardings())
@settings(max_examples=50, derandomize=True, deadline=None)
def test_what_is_made_here_is_valid(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    sharding.check(shape)
    assert sharding.is_replicated == (not sharding.partial and not sharding.used_axes)


def test_offsets_and_halos() -> None:
    mesh = Mesh(a=4)
    offsets = replace(TensorSharding.of(mesh, [[], ["a"]]), offsets=(None, (0, 2, 5, 9, 14)))
    offsets.check((4, 14))
    widths = [offsets.device_slice((4, 14), p)[1] for p in range(4)]
    assert [s.stop - s.start for s in widths] == [2, 3, 4, 5]
    assert offsets.local_shape((4, 14)) == (4, 5)
    halo = replace(TensorSharding.of(mesh, [["a"]]), halos=((1, 2),))
    halo.check((16,))
    assert halo.local_shape((16,)) == (7,)


@pytest.mark.parametrize(
    ("sharding", "shape", "said"),
    [
        (TensorSharding.of(MESH, [["x"], ["x"]]), (4, 4), "'x' is used twice"),
        (TensorSharding.of(MESH, [["x"]], partial=["x"]), (4,), "used twice"),
        (TensorSharding.of(MESH, [["x"], []]), (4,), "2 dimensions is given to a tensor of 1"),
        (TensorSharding(MESH, (DimSharding((AxisRef("w", 1, 2),)),)), (4,), "unknown mesh axis 'w'"),
        (TensorSharding(MESH, (DimSharding((AxisRef("y", 2, 4),)),)), (4,), "does not fit"),
        (replace(replicated(MESH, 1), partial=(Partial(MESH.axis("x"), "mean"),)), (4,), "reduction kind 'mean'"),
        (replace(TensorSharding.of(MESH, [["x"]]), offsets=((0, 3),)), (4,), "do not cut it into 2 shards"),
        (replace(TensorSharding.of(MESH, [["x"]]), offsets=((0, 5, 3),)), (3,), "do not cut it into 2 shards"),
        (replace(TensorSharding.of(MESH, [["x"]]), offsets=((0, 2, 5),)), (4,), "end at 5"),
        (replace(TensorSharding.of(MESH, [["x"]]), halos=((-1, 0),)), (4,), "negative"),
        (replace(TensorSharding.of(MESH, [[]]), halos=((1, 0),)), (4,), "not split"),
        (replace(TensorSharding.of(MESH, [["x"]]), halos=((1, 0),), offsets=((0, 2, 4),)), (4,), "offsets and halos"),
        (replace(TensorSharding.of(MESH, [["x"]]), halos=()), (4,), "halos are given for 0"),
    ],
)
def test_what_is_no_sharding_is_refused(sharding: TensorSharding, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(ShardingError, match=said):
        sharding.check(shape)


def test_text_for_people() -> None:
    sharding = TensorSharding(
        MESH,
        (DimSharding((MESH.axis("x"), MESH.axis("y", 1, 2)), True, 1), DimSharding()),
        (MESH.axis("z"),),
        (Partial(MESH.axis("y", 2, 2), "max"),),
    )
    assert repr(sharding) == "[{x, y:(1)2, ?}p1, {}] replicated={z} partial=max{y:(2)2}"

"""Meshes and the algebra of axis lists, against brute force over device coordinates."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.mesh import (
    Axes,
    AxisRef,
    Mesh,
    axes_size,
    can_coexist,
    common_prefix,
    decompose,
    is_prefix,
    merge_axes,
    subtract_axes,
    truncate_by_divisor,
)

SIZES = (1, 2, 3, 4, 6, 8, 12)


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
    return Mesh(zip("xyz", sizes, strict=False))


@st.composite
def parts(draw: st.DrawFn, mesh: Mesh) -> AxisRef:
    """Any part of any axis of `mesh` that has more than one device, or a whole axis."""
    name, size = draw(st.sampled_from(mesh.axes))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    pre = draw(st.sampled_from([d for d in divisors if d < size or size == 1]))
    width = draw(st.sampled_from([d for d in divisors if size % (pre * d) == 0 and (d > 1 or size == 1)]))
    return mesh.axis(name, pre, width)


def digit(mesh: Mesh, axis: AxisRef, position: int) -> int:
    """A device's coordinate along part of an axis, by cutting the whole coordinate: the definition."""
    whole = mesh.coordinates(position)[axis.name]
    major = whole // (mesh.sizes[axis.name] // axis.end)
    return major % axis.size


def digits(mesh: Mesh, axes: Axes) -> list[tuple[int, ...]]:
    """For every device, its coordinates along each of `axes`."""
    return [tuple(digit(mesh, axis, position) for axis in axes) for position in range(mesh.size)]


def groups(mesh: Mesh, axes: Axes) -> set[frozenset[int]]:
    """The sets of devices that no axis of the list tells apart."""
    rows = digits(mesh, axes)
    return {frozenset(p for p in range(mesh.size) if rows[p] == row) for row in rows}


@given(st.data())
@settings(max_examples=60, derandomize=True, deadline=None)
def test_coordinates_count_row_major(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    grid = list(product(*(range(size) for _, size in mesh.axes)))
    assert [tuple(mesh.coordinates(position).values()) for position in range(mesh.size)] == grid


@given(st.data())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_index_is_the_mixed_radix_number_of_the_digits(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    axes = tuple(data.draw(st.lists(parts(mesh), max_size=3)))
    for position, row in enumerate(digits(mesh, axes)):
        expected = 0
        for axis, coordinate in zip(axes, row, strict=True):
            expected = expected * axis.size + coordinate
        assert mesh.index(axes, position) == expected
    for axis in axes:
        stride, size = mesh.digit(axis)
        assert [p // stride % size for p in range(mesh.size)] == [digit(mesh, axis, p) for p in range(mesh.size)]


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_parts_overlap_where_one_tells_devices_apart_that_the_other_does(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    one, other = data.draw(parts(mesh)), data.draw(parts(mesh))
    independent = len(groups(mesh, (one, other))) == one.size * other.size
    if one.size > 1 and other.size > 1 and can_coexist(one, other):
        assert one.overlaps(other) == (not independent)
    assert one.overlaps(other) == other.overlaps(one)
    if one.contains(other) and other.size > 1:
        assert one.overlaps(other)
        assert all(any(inner <= outer for outer in groups(mesh, (other,))) for inner in groups(mesh, (one,)))


@given(st.data())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_merging_changes_nothing_for_any_device(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    axes: list[AxisRef] = []
    for axis in data.draw(st.lists(parts(mesh), max_size=4)):
        if not any(axis.overlaps(other) for other in axes):
            axes.append(axis)
    merged = merge_axes(tuple(axes))
    assert [mesh.index(merged, p) for p in range(mesh.size)] == [mesh.index(tuple(axes), p) for p in range(mesh.size)]
    assert not any(a.joins(b) for a, b in pairwise(merged))
    assert merge_axes(merged) == merged


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_what_is_subtracted_is_gone_and_the_rest_stays(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    axis, gone = data.draw(parts(mesh)), data.draw(parts(mesh))
    if not can_coexist(axis, gone) or gone.size == 1:
        return
    rest = subtract_axes((axis,), (gone,))
    assert not any(piece.overlaps(gone) for piece in rest)
    assert all(axis.contains(piece) for piece in rest)
    covered = math.gcd(axis.size, axis.size) // axes_size(rest)
    shared = len(groups(mesh, (axis,))) * gone.size // len(groups(mesh, (axis, gone)))
    assert covered == shared


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_a_common_prefix_is_what_both_begin_with(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    left, right = (tuple(data.draw(st.lists(parts(mesh), max_size=3))) for _ in range(2))
    prefix = common_prefix(left, right)
    assert prefix == common_prefix(right, left)
    assert is_prefix(prefix, left)
    assert is_prefix(prefix, right)
    for axes in (left, right):
        rest = axes_size(axes) // axes_size(prefix)
        assert [mesh.index(axes, p) // rest for p in range(mesh.size)] == [
            mesh.index(prefix, p) for p in range(mesh.size)
        ]


def test_prefixes_by_example() -> None:
    mesh = Mesh(a=2, b=4, c=2)
    a, b, c = (mesh.axis(name) for name in "abc")
    assert common_prefix((a,), (a, b)) == (a,)
    assert common_prefix((a, b), (a, c)) == (a,)
    assert common_prefix((mesh.axis("b", 1, 2),), (b,)) == (mesh.axis("b", 1, 2),)
    assert common_prefix((mesh.axis("b", 2, 2),), (b,)) == ()
    assert not is_prefix((a, b), (a,))


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_truncation_keeps_the_longest_major_part_that_divides(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    axes = tuple(dict.fromkeys(data.draw(st.lists(parts(mesh), max_size=3))))
    length = data.draw(st.integers(1, 48))
    kept = truncate_by_divisor(axes, length)
    assert length % axes_size(kept) == 0
    assert is_prefix(kept, axes)
    if length % axes_size(axes) == 0:
        assert kept == axes


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_decomposed_parts_are_equal_or_disjoint_and_make_up_their_axis(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    axes = data.draw(st.lists(parts(mesh), max_size=4))
    try:
        cut = decompose([axes])
    except ShardingError:
        assert not all(can_coexist(one, other) for one in axes for other in axes)
        return
    pieces = [piece for parts_of in cut.values() for piece in parts_of]
    assert all(a == b or not a.overlaps(b) for a in pieces for b in pieces)
    assert all(merge_axes(parts_of) == (axis,) for axis, parts_of in cut.items())


def test_sub_axes_that_no_split_has_cannot_coexist() -> None:
    half, third = Mesh(x=6).axis("x", 1, 2), Mesh(x=6).axis("x", 1, 3)
    assert not can_coexist(half, third)
    assert can_coexist(half, Mesh(x=6).axis("x", 2, 3))
    with pytest.raises(ShardingError, match="cannot be used together"):
        decompose([[half], [third]])


def test_meshes_are_values() -> None:
    assert Mesh(x=2, y=4) == Mesh([("x", 2), ("y", 4)])
    assert hash(Mesh(x=2)) == hash(Mesh(x=2))
    assert Mesh(x=2, y=4) != Mesh(y=4, x=2)
    assert Mesh(x=2, device_ids=[0, 1]).device_ids is None
    assert Mesh(x=2, device_ids=[1, 0]).device_id(0) == 1
    assert repr(Mesh(x=2, y=4)) == "Mesh(x=2, y=4)"
    assert Mesh(device_ids=[3]).is_maximal
    assert not Mesh(x=2).is_maximal


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Mesh([("x", 2), ("x", 4)]), "twice"),
        (lambda: Mesh(x=0), "size 0"),
        (lambda: Mesh(x=2, device_ids=[0, 0]), "device ids"),
        (lambda: Mesh(x=4, device_ids=[0, 1]), "device ids"),
        (lambda: Mesh(x=2).axis("y"), "unknown mesh axis 'y'"),
        (lambda: Mesh(x=4).axis("x", 2, 4), "does not fit"),
    ],
)
def test_what_is_no_mesh_or_axis_is_refused(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(ShardingError, match=said):
        make()

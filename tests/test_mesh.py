"""The algebra of axes against what it means: the coordinates of devices."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shardwright.axes import (
    Axes,
    AxisRef,
    axes_size,
    can_coexist,
    common_prefix,
    decompose,
    is_prefix,
    merge_axes,
    overlaps_any,
    subtract_axes,
    truncate_by_divisor,
)
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from tests.reshard.strategies import meshes, parts

PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def digits(mesh: Mesh, axis: AxisRef, position: int) -> int:
    """The coordinate along a sub-axis, from its definition: `pre` major parts, then `size`, then the rest."""
    coordinate, full = mesh.coordinates(position)[axis.name], mesh.sizes[axis.name]
    rest = full // (axis.pre * axis.size)
    return coordinate // rest % axis.size


def sub_axes(size: int) -> list[AxisRef]:
    pairs = ((pre, width) for pre in range(1, size + 1) for width in range(1, size + 1) if size % (pre * width) == 0)
    return [AxisRef("x", pre, width) for pre, width in pairs if width > 1]


PAIRS = [(one, other) for size in (8, 12) for one in sub_axes(size) for other in sub_axes(size)]


@PROPERTY
@given(meshes(), st.data())
def test_index_is_the_mixed_radix_number_of_the_coordinates(mesh: Mesh, data: st.DataObject) -> None:
    axes = tuple(data.draw(parts(mesh)))
    for position in range(mesh.size):
        number = 0
        for axis in axes:
            number = number * axis.size + digits(mesh, axis, position)
        assert mesh.index(axes, position) == number


@PROPERTY
@given(meshes(), st.data())
def test_a_full_list_of_parts_numbers_every_device_once(mesh: Mesh, data: st.DataObject) -> None:
    axes = tuple(data.draw(parts(mesh)))
    assert sorted(mesh.index(axes, position) for position in range(mesh.size)) == list(range(mesh.size))


@PROPERTY
@given(meshes())
def test_positions_are_row_major(mesh: Mesh) -> None:
    ranges = [range(size) for _, size in mesh.axes]
    for position, coordinates in enumerate(itertools.product(*ranges)):
        assert tuple(mesh.coordinates(position).values()) == coordinates
    assert sorted(map(mesh.device_id, range(mesh.size))) == list(range(mesh.size))


@PROPERTY
@given(meshes(), st.data())
def test_merging_and_splitting_change_no_index(mesh: Mesh, data: st.DataObject) -> None:
    axes = tuple(data.draw(parts(mesh)))
    merged = merge_axes(axes)
    finer = decompose([merged, data.draw(parts(mesh).filter(lambda other: coexist(other, axes)))])
    split = tuple(part for axis in merged for part in finer[axis])
    for position in range(mesh.size):
        assert mesh.index(merged, position) == mesh.index(axes, position) == mesh.index(split, position)
    assert merge_axes(merged) == merged == merge_axes(split)


def coexist(left: list[AxisRef], right: Axes) -> bool:
    return all(can_coexist(one, other) for one in left for other in right)


@PROPERTY
@given(meshes(), st.data())
def test_in_order_sorts_and_merges_to_whole_axes(mesh: Mesh, data: st.DataObject) -> None:
    whole = mesh.in_order(data.draw(parts(mesh)))
    assert whole == tuple(mesh.axis(name) for name, _ in mesh.axes)
    assert all(map(mesh.is_full, whole))


@PROPERTY
@given(meshes(), st.data())
def test_decomposed_parts_are_equal_or_disjoint(mesh: Mesh, data: st.DataObject) -> None:
    left, right = data.draw(parts(mesh)), data.draw(parts(mesh))
    if not coexist(left, tuple(right)):
        with pytest.raises(ShardingError, match="cannot be used together"):
            decompose([left, right])
        return
    decomposed = decompose([left, right])
    for one, other in itertools.product(itertools.chain(*decomposed.values()), repeat=2):
        assert one == other or not one.overlaps(other)
    for axis, pieces in decomposed.items():
        assert merge_axes(pieces) == (axis,)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_overlap_and_containment_are_those_of_intervals(one: AxisRef, other: AxisRef) -> None:
    cuts = sorted({one.pre, one.end, other.pre, other.end})
    nested = all(big % small == 0 for small, big in itertools.pairwise(cuts))
    assert can_coexist(one, other) == nested
    if not nested:
        return
    atoms = list(itertools.pairwise(cuts))
    held = [{(low, high) for low, high in atoms if axis.pre <= low and high <= axis.end} for axis in (one, other)]
    assert one.overlaps(other) == bool(held[0] & held[1])
    assert one.contains(other) == (held[0] >= held[1])
    assert one.is_prefix_of(other) == (one.pre == other.pre and held[0] <= held[1])
    assert overlaps_any(one, [other]) == one.overlaps(other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_subtracting_keeps_exactly_the_rest(one: AxisRef, other: AxisRef) -> None:
    if not can_coexist(one, other):
        return
    rest = subtract_axes([one], [other])
    shared = one.size // axes_size(rest)
    assert not any(axis.overlaps(other) for axis in rest)
    assert all(one.contains(axis) for axis in rest)
    assert (shared > 1) == one.overlaps(other)


def test_axes_of_one_device_are_used_up_like_others() -> None:
    one = Mesh(one=1, x=2).axis("one")
    assert one.overlaps(one)
    assert subtract_axes([one], [one]) == ()
    assert decompose([[one]]) == {one: (one,)}


@PROPERTY
@given(meshes(), st.data())
def test_common_prefix_is_the_longest_both_begin_with(mesh: Mesh, data: st.DataObject) -> None:
    left = merge_axes(tuple(data.draw(parts(mesh))))
    right = merge_axes((*left[: data.draw(st.integers(0, len(left)))], *data.draw(parts(mesh))))
    assume(coexist(list(right), left))
    finer = decompose([left, right])
    atoms = [[part for axis in axes for part in finer[axis]] for axes in (left, right)]
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*atoms, strict=False))
    prefix = common_prefix(left, right)
    assert merge_axes(prefix) == merge_axes(tuple(part for part, _ in shared))
    assert is_prefix(prefix, left)
    assert is_prefix(prefix, right)


def test_prefixes_end_in_parts() -> None:
    a, x = AxisRef("a", 1, 2), AxisRef("x", 1, 8)
    half = AxisRef("x", 1, 2)
    assert common_prefix((a, x), (a, half)) == (a, half)
    assert is_prefix((a, half), (a, x))
    assert not is_prefix((a, x), (a, half))
    assert common_prefix((a, x), (x, a)) == ()


@PROPERTY
@given(meshes(), st.data(), st.integers(1, 64))
def test_truncation_is_the_longest_part_that_divides(mesh: Mesh, data: st.DataObject, length: int) -> None:
    axes = tuple(data.draw(parts(mesh)))
    kept = truncate_by_divisor(axes, length)
    assert length % axes_size(kept) == 0
    assert is_prefix(kept, axes)
    if kept != axes:
        index = len(kept) - (bool(kept) and kept[-1] != axes[len(kept) - 1])
        rest = axes[index].size // (kept[-1].size if index < len(kept) else 1)
        assert math.gcd(length // axes_size(kept), rest) < rest


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh([("x", 2), ("x", 3)]), "appears twice"),
        (lambda: Mesh(x=0), "has size 0"),
        (lambda: Mesh(x=1 << 30, y=1 << 30), "has 1152921504606846976 devices"),
        (lambda: Mesh(x=2, device_ids=[0, 0]), "do not name each"),
        (lambda: Mesh(x=2, device_ids=[0]), "do not name each"),
        (lambda: Mesh(x=2).axis("y"), "unknown mesh axis 'y'"),
        (lambda: Mesh(x=6).axis("x", 2, 2), "does not fit"),
        (lambda: Mesh(x=6).axis("x", 0, 2), "does not fit"),
    ],
)
def test_what_is_no_mesh_and_no_axis(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ShardingError, match=message):
        make()


def test_meshes_are_values() -> None:
    assert Mesh(x=2, y=2) == Mesh([("x", 2), ("y", 2)], device_ids=[0, 1, 2, 3])
    assert Mesh(x=2, y=2) != Mesh(y=2, x=2)
    assert Mesh(x=2) != Mesh(x=2, name="other")
    assert len({Mesh(x=2), Mesh(x=2)}) == 1
    assert repr(Mesh(x=2, device_ids=[1, 0])) == "Mesh(x=2, device_ids=[1, 0])"
    assert (Mesh(device_ids=[3]).is_maximal, Mesh().is_maximal, Mesh().size) == (True, False, 1)

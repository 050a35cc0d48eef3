"""Projection, agreement and both strategies, on rules written by hand."""

from __future__ import annotations

import pytest

from shardwright.axes import AxisRef
from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import (
    Direction,
    compatible_axes,
    is_strict_prefix,
    truncate_within,
    without_overlap,
)
from shardwright.propagation.engine.projection import FactorSharding, TensorProjection, project, unproject
from shardwright.propagation.engine.step import Strategy, common_mesh, step
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.sharding import DimSharding, Partial, TensorSharding

MESH = Mesh(x=2, y=4, z=2)
X, Y, Z = MESH.axis("x"), MESH.axis("y"), MESH.axis("z")
MATMUL = ShardingRule((8, 8, 8), (((0,), (2,)), ((2,), (1,))), (((0,), (1,)),), reduction=frozenset({2}))
SPLIT = ShardingRule((4, 2), (((0, 1),),), (((0,), (1,)),))  # reshape 8 -> 4x2
BOTH = (Direction.BOTH,)


def part(axis: str, pre: int, size: int) -> AxisRef:
    return MESH.axis(axis, pre, size)


def split_by(*dims: list[str | AxisRef], open: bool = True) -> TensorSharding:
    return TensorSharding.of(MESH, dims, open=open)


def test_axes_are_dealt_over_factors_and_cut_where_they_do_not_fit() -> None:
    tensor = project(((0, 1),), split_by(["x", "y"]), (4, 2))
    assert tensor.factors[0].axes == (X, part("y", 1, 2))
    assert tensor.factors[1].axes == (part("y", 2, 2),)


def test_an_axis_that_does_not_divide_a_factor_overflows_and_closes_the_next() -> None:
    mesh = Mesh(a=3, b=2)
    sharding = TensorSharding.of(mesh, [["a", "b"]], open=True)
    tensor = project(((0, 1),), sharding, (4, 2))
    assert tensor.factors[0].overflow == (mesh.axis("a"), mesh.axis("b"))
    assert tensor.factors[1] == FactorSharding((), (), True, True)
    assert unproject(((0, 1),), tensor.factors, (4, 2), mesh, (), ()) == sharding


@pytest.mark.parametrize("dims", [["x", "y"], ["y", "x"], ["y"], ["x"], [], ["z", "x", "y"]])
def test_projecting_there_and_back_changes_nothing(dims: list[str | AxisRef]) -> None:
    sharding = split_by(dims)
    factors = project(((0, 1),), sharding, (4, 2)).factors
    assert unproject(((0, 1),), factors, (4, 2), MESH, (), ()) == sharding


def test_a_factor_that_is_not_full_ends_its_dimension() -> None:
    factors = {0: FactorSharding((X,), (), False, False), 1: FactorSharding((Z,), (), False, True)}
    assert unproject(((0, 1),), factors, (4, 2), MESH, (), ()).axes == ((X,),)


def _pair(one: tuple[AxisRef, ...], other: tuple[AxisRef, ...]) -> list[TensorProjection]:
    return [TensorProjection({0: FactorSharding(axes, (), False, True)}, ()) for axes in (one, other)]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((X,), (X, Y), (X, Y)),
        ((X, Y), (X, Z), (X,)),
        ((part("y", 1, 2),), (Y,), (Y,)),
        ((part("y", 1, 2), X), (Y,), (part("y", 1, 2),)),
        ((part("y", 1, 2),), (part("y", 2, 2),), ()),
        ((), (X,), (X,)),
    ],
)
def test_compatible_axes(one: tuple[AxisRef, ...], other: tuple[AxisRef, ...], both: tuple[AxisRef, ...]) -> None:
    first, second = _pair(one, other)
    assert compatible_axes([first], [second], 0, Direction.BOTH) == both


def test_in_one_direction_only_the_source_adds_axes() -> None:
    operand, result = _pair((X,), (X, Y))
    assert compatible_axes([operand], [result], 0, Direction.FORWARD) == (X,)
    assert compatible_axes([operand], [result], 0, Direction.BACKWARD) == (X, Y)
    assert compatible_axes([operand], [result], 0, Direction.NONE) == ()


def test_prefixes() -> None:
    assert is_strict_prefix((X, part("y", 1, 2)), (X, Y))
    assert not is_strict_prefix((X, Y), (X, Y))
    assert not is_strict_prefix((Y,), (X, Y))


def test_overlap_leaves_the_part_before_it() -> None:
    assert without_overlap(Y, [part("y", 2, 2)]) == part("y", 1, 2)
    assert without_overlap(Y, [part("y", 1, 2)]) is None
    assert without_overlap(Y, [X]) == Y


def test_parts_that_cannot_coexist_leave_nothing() -> None:
    six = Mesh(a=6)
    assert without_overlap(six.axis("a", 1, 2), [six.axis("a", 1, 3)]) is None


def test_truncation_within_a_factor() -> None:
    tensor = TensorProjection({}, (Z,))
    open_, closed = FactorSharding((), (), False, False), FactorSharding((X,), (), True, True)
    assert truncate_within((X, Y), tensor, open_, 4) == (X, part("y", 1, 2))  # divides no further
    assert truncate_within((X, Z, Y), tensor, open_, 8) == (X,)  # replicated
    assert truncate_within((X, Y), tensor, closed, 8) == (X,)


def test_aggressive_lets_the_first_of_two_conflicting_factors_win() -> None:
    updates = step(MATMUL, (split_by(["x"], []), split_by([], ["x"]), None), BOTH * 3, False)
    assert dict(updates)[2].axes == ((X,), ())


def test_basic_lets_neither_win() -> None:
    assert step(MATMUL, (split_by(["x"], []), split_by([], ["x"]), None), BOTH * 3, False, Strategy.BASIC) == ()


def test_the_larger_tensor_wins() -> None:
    rule = ShardingRule((2, 8, 8), (((0,), (2,)), ((2,), (1,))), (((0,), (1,)),))
    updates = step(rule, (split_by(["x"], []), split_by([], ["x"]), None), BOTH * 3, False)
    assert dict(updates)[2].axes == ((), (X,))


def test_among_equals_an_elementwise_op_prefers_what_is_split_more() -> None:
    rule = identity_rule((8, 8), 2)
    updates = step(rule, (split_by(["x"], []), split_by([], ["x", "y"]), None), BOTH * 2, True)
    assert dict(updates)[2].axes == ((), (X, Y))
    updates = step(rule, (split_by(["x"], []), split_by([], ["x", "y"]), None), BOTH * 2, False)
    assert dict(updates)[2].axes == ((X,), ())


def test_elementwise_operands_are_split_no_further_than_the_result() -> None:
    rule = identity_rule((8,), 2)
    shardings = (split_by(["x"]), split_by([]), split_by([], open=False))
    assert step(rule, shardings, BOTH, True) == ()
    assert dict(step(rule, shardings, BOTH, False))[1].axes == ((X,),)


def test_a_step_keeps_replicated_and_partial_axes() -> None:
    held = TensorSharding(MESH, (DimSharding((), True),), (Z,), (Partial(Y),))
    ((index, new),) = step(identity_rule((8,)), (split_by(["x", "z"]), held), BOTH, False)
    assert (index, new.axes, new.replicated, new.partial) == (1, ((X,),), (Z,), (Partial(Y),))


def test_a_reshape_passes_parts_of_axes_on() -> None:
    ((_, new),) = step(SPLIT, (split_by(["y", "x"]), None), BOTH * 2, False)
    assert new.axes == ((Y,), (X,))
    ((_, new),) = step(SPLIT, (split_by(["x", "y"]), None), BOTH * 2, False)
    assert new.axes == ((X, part("y", 1, 2)), (part("y", 2, 2),))


def test_different_meshes_do_not_mix() -> None:
    other = TensorSharding.of(Mesh(x=4, name="other"), [["x"]])
    assert common_mesh((split_by(["x"]), other)) is None
    assert step(identity_rule((8,)), (split_by(["x"]), other), BOTH, False) == ()
    empty = TensorSharding(Mesh(name="empty"), (DimSharding(),))
    assert common_mesh((empty, split_by(["x"]))) == MESH


def test_a_mesh_of_one_device_does_not_propagate() -> None:
    device = TensorSharding(Mesh(device_ids=[3], name="device"), (DimSharding(),))
    assert step(identity_rule((8,)), (device, None), BOTH, False) == ()

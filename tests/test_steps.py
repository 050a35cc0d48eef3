"""Steps take and give what the sdy dialect's ops do, and refuse what these refuse."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings

from shardwright.axes import Axes, AxisRef
from shardwright.cost.price import step_cost
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.mesh import Mesh
from shardwright.notation.modules import located_text, read
from shardwright.partition import enclose, materialize
from shardwright.reshard.plan import plan
from shardwright.sharding import Partial, TensorSharding, replicated, same_placement
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Step,
    is_in_sdy,
    layouts_after,
)
from tests.reshard.sdy_text import module, redistribution
from tests.reshard.strategies import reshards

MESH = Mesh(x=8, y=4, z=2)
X, Y, Z = (MESH.axis(name) for name in "xyz")
MAJOR, MIDDLE, MINOR = AxisRef("x", 1, 2), AxisRef("x", 2, 2), AxisRef("x", 4, 2)


def of(*dims: Axes, partial: Axes = (), kind: str = "sum") -> TensorSharding:
    return TensorSharding.of(MESH, dims, partial=partial, kind=kind)


def test_steps_are_taken_one_after_the_other() -> None:
    steps = (ReduceScatter(((Y,), ())), AllGather(((Y,), ())), AllSlice(((), (Y,))))
    assert layouts_after(of((), (), partial=(Y,)), steps) == (of((Y,), ()), of((), ()), of((), (Y,)))
    assert layouts_after(of((Y,), ()), ()) == ()


@pytest.mark.parametrize(
    ("step", "before", "after", "sent"),
    [
        (AllSlice(((X,), ())), of((), (Y,)), of((X,), (Y,)), 0),
        (AllSlice(((MIDDLE,), ())), of((MAJOR,), ()), of((AxisRef("x", 1, 4),), ()), 0),
        (AllSlice(((MIDDLE, MINOR), ())), of((MAJOR,), ()), of((X,), ()), 0),
        (AllGather(((X,), ())), of((Y, X), ()), of((Y,), ()), 16 * 7),
        (AllGather(((MINOR,), (Y,))), of((X,), (Y,)), of((AxisRef("x", 1, 4),), ()), 16 * 7),
        (AllGather(((MIDDLE, MINOR), ())), of((X,), ()), of((MAJOR,), ()), 16 * 3),
        (AllToAll((((Y,), 0, 1),)), of((X, Y), (Z,)), of((X,), (Z, Y)), 16 * 3 / 4),
        (AllToAll((((Y,), 0, 2), ((Z,), 1, 3))), of((Y,), (Z,), (), ()), of((), (), (Y,), (Z,)), 16 * 7 / 8),
        (AllToAll((((X,), 2, 1), ((Y,), 0, 1))), of((Y,), (Z,), (X,)), of((), (Z, X, Y), ()), 16 * 31 / 32),
        (AllToAll((((Y,), 0, 1), ((X,), 0, 2))), of((Z, X, Y), (), ()), of((Z,), (Y,), (X,)), 16 * 31 / 32),
        (
            AllToAll((((X,), 0, 2), ((Z,), 1, 2), ((Y,), 0, 2))),
            of((X, Y), (Z,), ()),
            of((), (), (X, Z, Y)),
            16 * 63 / 64,
        ),
        (AllToAll((((MINOR,), 0, 1), ((MIDDLE,), 0, 1))), of((X,), ()), of((MAJOR,), (MINOR, MIDDLE)), 16 * 3 / 4),
        (AllToAll((((MIDDLE, MINOR), 0, 1),)), of((X,), ()), of((MAJOR,), (AxisRef("x", 2, 4),)), 12),
        (CollectivePermute(of((Y,), (X,))), of((AxisRef("x", 1, 4),), (Y, Z)), of((Y,), (X,)), 16),
        (CollectivePermute(of((Y,), (X,))), of((X,), (Y,)), of((Y,), (X,)), 16),
        (CollectivePermute(of((X,), ())), of((MAJOR, MIDDLE, MINOR), ()), of((X,), ()), 0),
        (AllReduce((X, Z)), of((Y,), partial=(X, Z)), of((Y,)), 2 * 16 * 15 / 16),
        (AllReduce((MIDDLE,), "max"), of((), partial=(X,), kind="max"), of((), partial=(MAJOR, MINOR), kind="max"), 16),
        (ReduceScatter(((X,), (Z,))), of((Y,), (), partial=(X, Z)), of((Y, X), (Z,)), 16 * 15 / 16),
        (ReduceScatter(((), (MINOR,))), of((), (), partial=(X,)), of((), (MINOR,), partial=(AxisRef("x", 1, 4),)), 8),
    ],
)
def test_layout_after_and_bytes_sent(step: Step, before: TensorSharding, after: TensorSharding, sent: float) -> None:
    assert (step.apply(before), step_cost(step, before, 16).bytes_sent) == (after, sent)


MIXED = TensorSharding(MESH, replicated(MESH, 1).dims, partial=(Partial(X, "max"), Partial(Y, "sum")))


@pytest.mark.parametrize(
    ("step", "before", "cause"),
    [
        (AllSlice(((X,), ())), of((), (X,)), "used twice"),
        (AllSlice(((X,),)), of((), ()), "1 dimensions of 2"),
        (AllSlice(((X,),)), of((), partial=(X,)), "used twice"),
        (AllSlice(((AxisRef("x", 1, 3),),)), of(()), "does not fit"),
        (AllGather(((X,),)), of((X, Y)), "minor-most"),
        (AllGather(((MAJOR,),)), of((X,)), "minor-most"),
        (AllGather(((X,),)), of((MINOR,)), "minor-most"),
        (AllGather(((X,),)), of(()), "minor-most"),
        (AllToAll(()), of((X,), ()), "named once"),
        (AllToAll((((X,), 0, 0),)), of((X,), ()), "named once"),
        (AllToAll((((X,), 0, 1), ((Y,), 1, 0))), of((X,), (Y,)), "more often on one side"),
        (AllToAll((((X,), 0, 1), ((X,), 0, 2))), of((X,), (), ()), "minor-most"),
        (AllToAll((((X,), 0, 2), ((Z,), 0, 1))), of((X, Y, Z), (), ()), "minor-most"),
        (AllToAll((((Y,), 2, 3), ((X,), 0, 1))), of((X,), (), (Y,), ()), "ascend"),
        (AllToAll((((X,), 0, 2),)), of((X,), ()), "not one of"),
        (AllToAll((((X,), 0, 1),)), of((X, Y), ()), "minor-most"),
        (CollectivePermute(of((X,), ())), of((Y,), ()), "number of shards"),
        (CollectivePermute(of((X,))), of((X,), ()), "ranks"),
        (CollectivePermute(of((X,))), of((X,), partial=(Y,)), "partial axes"),
        (CollectivePermute(replicated(Mesh(x=8), 1)), of(()), "mesh axes"),
        (AllReduce((X,)), of(()), "not partial"),
        (AllReduce((X,), "max"), of((), partial=(X,)), "not partial"),
        (AllReduce((Y, X)), of((), partial=(X, Y)), "mesh order"),
        (AllReduce((X, X)), of((), partial=(X, Y)), "named twice"),
        (AllReduce((X,), "max"), MIXED, "another kind"),
        (ReduceScatter(((X,),)), of((Y,)), "not partial"),
        (ReduceScatter(((X,), ())), of((), partial=(X,)), "2 dimensions of 1"),
    ],
)
def test_what_a_step_refuses(step: Step, before: TensorSharding, cause: str) -> None:
    with pytest.raises(ShardingError, match=cause):
        step.apply(before)


def test_the_minor_most_kind_comes_first() -> None:
    after = AllReduce((Y,), "sum").apply(MIXED)
    assert AllReduce((X,), "max").apply(after) == replicated(MESH, 1)


def test_same_placement_on_meshes_of_another_device_order() -> None:
    mesh = Mesh(x=2, y=2)
    within, across = Mesh(x=2, y=2, device_ids=[1, 0, 3, 2]), Mesh(x=2, y=2, device_ids=[0, 2, 1, 3])

    def rows(on: Mesh) -> TensorSharding:
        return TensorSharding.of(on, [["x"], []])

    assert same_placement(rows(mesh), rows(within))
    assert not same_placement(rows(mesh), rows(across))
    assert step_cost(CollectivePermute(rows(within)), rows(mesh), 16).bytes_sent == 0
    assert step_cost(CollectivePermute(rows(across)), rows(mesh), 16).bytes_sent == 16


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(reshards(kinds=("sum",)))
def test_sdy_accepts_every_plan(reshard: tuple[tuple[int, ...], TensorSharding, TensorSharding]) -> None:
    """What it has no op for is written as a computation that does the same."""
    shape, source, target = reshard
    steps = plan(shape, 4, source, target).steps
    layouts = (source, *layouts_after(source.closed(), steps))
    if all(is_in_sdy(step, before) for step, before in zip(steps, layouts, strict=False)):
        text = module(shape, source, steps)
    else:
        program = materialize(read(load_module(redistribution(shape, source, target)))).graph
        assert tuple(step for op in program.walk() if (step := op.signature.step)) == tuple(
            step for step in steps if not isinstance(step, CollectivePermute)
        )
        text = located_text(enclose(program))
    assert load_module(text).operation.verify()


def test_sdy_accepts_a_change_of_device_order() -> None:
    other = Mesh(MESH.axes, device_ids=[*range(1, 64), 0], name="other")
    for left, right in itertools.product([((X,), ()), ((), (Y,))], repeat=2):
        source, target = of(*left), TensorSharding.of(other, right)
        assert load_module(module((64, 64), source, plan((64, 64), 4, source, target).steps)).operation.verify()

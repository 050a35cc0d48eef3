"""Steps that sdy has no op for, in notations that have no manual computations: chains that give every device the same."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.cost.price import price
from shardwright.memo import Session
from shardwright.partition import check, with_named_steps
from shardwright.partition.named_steps import is_named_step
from shardwright.reshard.plan import plan
from shardwright.steps import layouts_after
from tests.frontends.devices import eight_devices
from tests.partition.test_beyond_sdy import CASES, SHUFFLED, partition

eight_devices()

WHOLE_AXES = [case[:3] for case in CASES if case[0] is not SHUFFLED and "(" not in case[1] + case[2]]
NAMED = ("sdy", "shard", "mesh", "rfc")


def text_of(mesh: str, source: str, target: str, to: str) -> tuple[sw.Spmd, str]:
    with Session(hardware=BYTES):
        spmd = partition(mesh, source, target)
        return spmd, spmd.module("explicit", to)


@pytest.mark.parametrize("to", NAMED)
@pytest.mark.parametrize(("mesh", "source", "target"), WHOLE_AXES)
def test_every_notation_writes_a_program_of_the_same_layouts_that_runs(
    mesh: str, source: str, target: str, to: str
) -> None:
    spmd, text = text_of(mesh, source, target, to)
    again = sw.load(text).plan().partition()
    assert ("manual_computation" in text) == (to == "sdy")
    assert [one.axes for one in again.in_shardings] == [one.axes for one in spmd.in_shardings]
    assert [one.axes for one in again.out_shardings] == [one.axes for one in spmd.out_shardings]
    assert again.verify().ok


def test_the_rfc_names_both_exchanges() -> None:
    _, text = text_of(*CASES[0][:3], "rfc")
    first, second = (line for line in text.splitlines() if "mesh.all_to_all" in line)
    assert "%0 = mesh.all_to_all %arg0 {mesh_axis = [0], tensor_axis = [2, 1]}" in first
    assert "%1 = mesh.all_to_all %0 {mesh_axis = [1], tensor_axis = [0, 1]}" in second


@pytest.mark.parametrize(("mesh", "source", "target"), [case[:3] for case in CASES])
def test_a_chain_of_named_steps_leads_where_the_step_does(mesh: str, source: str, target: str) -> None:
    with Session(hardware=BYTES):
        graph = partition(mesh, source, target).explicit
        made = with_named_steps(graph)
    assert not all(is_named_step(graph, op) for op in graph.walk())
    assert all(is_named_step(made, op) for op in made.walk())
    assert with_named_steps(made) is made
    check(made)
    (taken,), (given,) = made.main.block.arguments, made.main.block.terminator.operands
    assert (made.shardings[taken], made.shardings[given]) == (graph.shardings[taken], made.main.result_shardings[0])


@pytest.mark.parametrize(("mesh", "source", "target"), [case[:3] for case in CASES])
def test_no_chain_of_named_steps_is_cheaper_than_the_step(mesh: str, source: str, target: str) -> None:
    with Session(hardware=BYTES):
        graph = partition(mesh, source, target).explicit
        (taken,), (given,) = graph.main.block.arguments, graph.main.block.terminator.operands
        before, after = graph.shardings[taken], graph.shardings[given]
        assert before is not None
        assert after is not None
        one, chain = (plan((8, 16, 8), 4, before, after, named=named) for named in (False, True))
    assert price(one.cost, BYTES) <= price(chain.cost, BYTES)
    assert layouts_after(before, chain.steps)[-1] == after

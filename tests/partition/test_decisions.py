"""Deciding is separate from writing: what is decided is a value, and what is written follows from it alone."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph, Op
from shardwright.memo import Session
from shardwright.notation.modules import read, text_of
from shardwright.partition import check
from shardwright.partition.decide import decide
from shardwright.partition.decisions import AtUses, Computed, Decision, Decisions, Fresh, PassedOn, Reshard, Version
from shardwright.partition.values import Value
from shardwright.partition.write import write
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import AllGather, AllReduce, AllSlice, ReduceScatter
from tests.partition.compare import assert_equal, make_case
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program
from tools import floors

PACKAGE = Path(__file__).parents[2] / "src" / "shardwright"

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
T = "tensor<16x16xf32>"
SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}'
CONTRACTED = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}'

PRODUCT = f"""{MESH}
func.func @main(%a: {T} {CONTRACTED}, %b: {T} {SPLIT}, %c: {T} {SPLIT}) -> ({T} {SPLIT}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}
  %1 = stablehlo.constant dense<2.0> : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> {T}
  %3 = stablehlo.tanh %0 : {T}
  %4 = stablehlo.multiply %3, %2 : {T}
  %5 = stablehlo.add %4, %c : {T}
  return %5 : {T}
}}"""

REGIONS = f"""{MESH}
func.func @main(%a: {T} {SPLIT}, %n: tensor<i32>) -> ({T}, {T} {SPLIT}) {{
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.tanh %a : {T}
  %w:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, {T}
   cond {{
    %go = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %next = stablehlo.add %i, %one : tensor<i32>
    %whole = sdy.sharding_constraint %s <@mesh, [{{}}, {{}}]> : {T}
    %more = stablehlo.cholesky %whole, lower = true : {T}
    %sum = stablehlo.add %v, %more : {T}
    stablehlo.return %next, %sum : tensor<i32>, {T}
  }}
  %after = stablehlo.cholesky %s, lower = true : {T}
  return %after, %w#1 : {T}, {T}
}}"""


MAXIMUM = f"""{MESH}
func.func @main(%a: {T} {CONTRACTED}) -> tensor<16xf32> {{
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1]
    : ({T}, tensor<f32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}}"""


def propagated(text: str) -> Graph:
    return propagate(read(load_module(text)))


def decided() -> Iterator[tuple[Graph, Decisions]]:
    """Programs of every kind, those that are not refused, and what is decided of them."""
    random = (make(seed) for seed in range(8) for make in (random_program, wide_program))
    for graph in (propagated(text) for text in (PRODUCT, REGIONS, MAXIMUM, *random)):
        with suppress(ShardingError):
            yield graph, decide(graph)


def of_name(graph: Graph, decisions: Decisions, name: str) -> list[tuple[int, Op, Computed]]:
    """The ops of a name, each with its number and what was decided of it."""
    numbered: list[tuple[int, Op, Computed]] = []
    for number, (op, decision) in enumerate(zip(graph.walk(), decisions.ops, strict=True)):
        if op.name == f"stablehlo.{name}":
            assert isinstance(decision, Computed)
            numbered.append((number, op, decision))
    return numbered


def gathered(value: int, layout: TensorSharding) -> Reshard:
    return Reshard(value, layout, (AllGather(layout.axes),))


def sliced(value: int, layout: TensorSharding) -> Reshard:
    return Reshard(value, layout.with_axes([()] * layout.rank), (AllSlice(layout.axes),))


def one_op_whole(graph: Graph, decisions: Decisions, name: str) -> Decisions:
    """The one op of this name computed on every device as a whole, and its result cut for the op after it."""
    ((number, op, own),) = of_name(graph, decisions, name)
    after = decisions.ops[number + 1]
    (operand,), (result,) = own.operands, own.results
    assert isinstance(after, Computed)
    assert operand
    assert result
    whole = replicated(graph.mesh, result.rank)
    ops = list(decisions.ops)
    ops[number] = Computed((*own.before, gathered(op.operands[0], operand)), (whole,), (whole,))
    ops[number + 1] = replace(after, before=(sliced(op.results[0], result), *after.before))
    return replace(decisions, ops=tuple(ops))


def everything_whole(graph: Graph, decisions: Decisions) -> Decisions:
    """Arguments gathered, results cut, and every op between them computed on every device as a whole."""
    layouts = dict(zip(graph.main.block.arguments, decisions.arguments, strict=True))
    makers = {op.results[0]: op for op, one in zip(graph.walk(), decisions.ops, strict=True) if one == AtUses()}
    known: set[int] = set()

    def whole(*values: int) -> tuple[TensorSharding, ...]:
        return tuple(replicated(graph.mesh, graph.types[value].rank) for value in values)

    def brought(values: tuple[int, ...]) -> Iterator[Version]:
        for value in values:
            maker, layout = makers.get(value), layouts.get(value)
            if value not in known and maker:
                (layout,) = whole(value)
                yield Fresh(value, layout, tuple(brought(maker.operands)), whole(*maker.operands))
            elif value not in known and layout:
                yield gathered(value, layout)
            known.add(value)

    def computed(op: Op, decision: Decision | None) -> Decision | None:
        if not isinstance(decision, Computed):
            return decision
        known.update(op.results)
        if op is not graph.main.block.terminator:
            return Computed(tuple(brought(op.operands)), whole(*op.operands), whole(*op.results))
        cut = [sliced(value, layout) for value, layout in zip(op.operands, decisions.results, strict=True) if layout]
        return Computed(tuple(cut), decisions.results)

    ops = [computed(op, decision) for op, decision in zip(graph.walk(), decisions.ops, strict=True)]
    return replace(decisions, ops=tuple(ops))


def communication(graph: Graph) -> list[str]:
    return [op.name.removeprefix("sdy.") for op in graph.walk() if op.name.startswith("sdy.")]


def test_ops_that_depend_on_the_same_have_one_decision() -> None:
    last = f"  %5 = stablehlo.add %4, %c : {T}\n"
    graph = propagated(PRODUCT.replace(last, f"  %6 = stablehlo.add %4, %c : {T}\n  %5 = stablehlo.add %6, %c : {T}\n"))
    (_, _, first), (_, _, second) = of_name(graph, decide(graph), "add")
    assert first is second


def test_the_same_program_is_decided_alike() -> None:
    for graph, decisions in decided():
        with Session():
            assert decide(graph) == decisions


def test_decisions_can_be_kept() -> None:
    for graph, decisions in decided():
        kept = pickle.loads(pickle.dumps(decisions))
        assert kept == decisions
        assert text_of(write(graph, kept)) == text_of(write(graph, decisions))


def test_nothing_but_the_decisions_is_kept_while_the_collector_is_paused() -> None:
    """The versions of all values of a large program would be in memory while the explicit one is written."""
    graph = propagated(REGIONS)
    gc.collect()
    gc.disable()
    try:
        decided = decide(graph)
        kept = [value for value in gc.get_objects() if type(value) is Value]  # some warn of what they are asked
    finally:
        gc.enable()
    assert decided.ops
    assert not kept


def test_each_op_is_decided_on() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    dot, constant, broadcast, tanh, multiply, add, end = decisions.ops
    assert isinstance(dot, Computed)
    assert isinstance(tanh, Computed)
    assert isinstance(multiply, Computed)
    (product,), (layout,) = dot.results, tanh.operands
    assert product
    assert product.partial_axes == graph.mesh.in_order([graph.mesh.axis("y")])
    assert layout
    assert layout.axes == ((graph.mesh.axis("y"),), ())
    (reduced,) = tanh.before
    assert reduced == Reshard(graph.main.block.ops[0].results[0], product, (ReduceScatter(layout.axes),))
    assert (constant, broadcast) == (AtUses(), AtUses())
    assert [type(version) for version in multiply.before] == [Fresh]
    assert isinstance(add, Computed)
    assert end == Computed((), decisions.results)


def test_a_maximum_is_reduced_where_it_is_computed() -> None:
    graph = propagated(MAXIMUM)
    ((_, op, decision),) = of_name(graph, decide(graph), "reduce")
    (computed,) = decision.results
    assert computed
    assert decision.after == (Reshard(op.results[0], computed, (AllReduce(computed.partial_axes, "max"),)),)


def test_what_a_region_makes_is_known_until_its_end() -> None:
    graph = propagated(REGIONS)
    decisions = decide(graph)
    (_, _, inside), (_, _, after) = of_name(graph, decisions, "cholesky")
    (asked,) = (decision for decision in decisions.ops if isinstance(decision, PassedOn))
    assert inside.before == ()
    assert after.before == asked.before != ()


@pytest.mark.parametrize("replaced", [partial(one_op_whole, name="tanh"), everything_whole])
def test_what_is_replaced_is_written(replaced: Callable[[Graph, Decisions], Decisions]) -> None:
    case = make_case(PRODUCT, 0, lambda graph: write(graph, replaced(graph, decide(graph))))
    assert_equal("replaced", case, *try_jobs([case.unsharded, case.local]))


def test_a_replaced_decision_is_checked_as_any_other() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    one, every = one_op_whole(graph, decisions, "tanh"), everything_whole(graph, decisions)
    assert one != decisions != every
    assert communication(write(graph, decisions)) == ["reduce_scatter"]
    assert communication(write(graph, one)) == ["reduce_scatter", "all_gather", "all_slice"]
    assert communication(write(graph, every)) == ["all_gather"] * 3 + ["all_slice"]


def test_a_decision_that_does_not_fit_is_found_by_the_check() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    ((number, _, own),) = of_name(graph, decisions, "tanh")
    ops = list(one_op_whole(graph, decisions, "tanh").ops)
    whole = ops[number]
    assert isinstance(whole, Computed)
    ops[number], ops[number + 1] = replace(whole, results=own.results), decisions.ops[number + 1]
    with pytest.raises(ShardingError, match="not the split the others have"):
        check(write(graph, replace(decisions, ops=tuple(ops))))


def _with(decisions: Decisions, number: int, decision: Decision) -> Decisions:
    return replace(decisions, ops=(*decisions.ops[:number], decision, *decisions.ops[number + 1 :]))


def test_a_version_that_is_not_there_is_told() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    ((number, op, own),) = of_name(graph, decisions, "tanh")
    with pytest.raises(ShardingError) as caught:
        write(graph, _with(decisions, number, replace(own, before=())))
    told = caught.value.diagnostic
    assert told.message.startswith(f"the decision cannot be written: value %{op.operands[0]} is read as [{{y}}, {{}}]")
    assert told.op == "stablehlo.tanh"
    assert told.location == "-:7"
    assert told.cause == "it is there as [{}, {}] partial=sum{y}"
    assert "before" in told.remedy


def test_a_version_is_made_of_one_that_is_there() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    ((number, op, own),) = of_name(graph, decisions, "tanh")
    (layout,) = own.results
    assert layout
    of_nothing = replace(own, before=(gathered(op.operands[0], layout),))
    with pytest.raises(ShardingError, match="is not there so"):
        write(graph, _with(decisions, number, of_nothing))
    with pytest.raises(ShardingError, match="it is not computed before this op"):
        write(graph, _with(decisions, number, replace(own, before=(gathered(op.results[0], layout),))))
    with pytest.raises(ShardingError, match="what no device can make"):
        write(graph, _with(decisions, number, replace(own, before=(Fresh(op.operands[0], layout),))))


def test_what_a_region_computes_is_not_there_behind_it() -> None:
    graph = propagated(REGIONS)
    decisions = decide(graph)
    (_, inner, inside), (number, _, after) = of_name(graph, decisions, "cholesky")
    (layout,) = inside.results
    assert layout
    with pytest.raises(ShardingError, match="or in another region"):
        write(graph, _with(decisions, number, replace(after, before=(gathered(inner.results[0], layout),))))


def test_decisions_are_about_one_program() -> None:
    graph = propagated(PRODUCT)
    decisions = decide(graph)
    ((number, _, own),) = of_name(graph, decisions, "add")
    with pytest.raises(ShardingError, match="6 decisions for a program of 7 ops"):
        write(graph, replace(decisions, ops=decisions.ops[1:]))
    with pytest.raises(ShardingError, match="1 version for 2 operands"):
        write(graph, _with(decisions, number, replace(own, operands=own.operands[1:])))
    with pytest.raises(ShardingError, match="0 layouts for 1 result"):
        write(graph, _with(decisions, number, replace(own, results=())))


def test_what_writes_imports_nothing_that_chooses() -> None:
    files = floors.graph_of(PACKAGE, list(PACKAGE.rglob("*.py")))
    reached, ahead = set[Path](), [Path("partition/write.py")]
    while ahead:
        file = ahead.pop()
        ahead += [other for other in files[file] if other not in reached]
        reached.update(files[file])
    assert Path("partition/emit.py") in reached
    assert not [file for file in reached if file.parts[0] in ("cost", "reshard") or file.stem in ("assign", "decide")]

"""Values partial by kinds that sdy lacks: steps in the graph, manual computations in the text, and steps again."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import reduction_kinds
from shardwright.ir.graph import Graph
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Computed, Decision, Reshard
from shardwright.partition.write import write
from shardwright.runtime.execute import try_jobs
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, ReduceScatter, layouts_after
from tests.frontends.devices import eight_devices
from tests.partition.compare import assert_equal, make_case

eight_devices()

MESH = 'sdy.mesh @m = <["p"=2, "q"=4]>\n'
OPS = {"max": "maximum", "min": "minimum", "product": "multiply", "and": "and", "or": "or", "xor": "xor"}
STARTS = {"max": -(2**31), "min": 2**31 - 1, "product": 1, "and": -1, "or": 0, "xor": 0}
CASES = [(kind, "i32") for kind in OPS] + [(kind, "i1") for kind in ("and", "or", "xor")]


def reducing(kind: str, dtype: str = "i32", result: str = '{"p"}') -> str:
    """A reduction along `q` whose result is read by an op."""
    start = {-1: "true", 0: "false"}[STARTS[kind]] if dtype == "i1" else STARTS[kind]
    return f"""{MESH}
    func.func @main(%a: tensor<8x16x{dtype}> {{sdy.sharding = #sdy.sharding<@m, [{{"p"}}, {{"q"}}]>}})
        -> (tensor<8x{dtype}> {{sdy.sharding = #sdy.sharding<@m, [{result}]>}}) {{
      %c = stablehlo.constant dense<{start}> : tensor<{dtype}>
      %0 = stablehlo.reduce(%a init: %c) applies stablehlo.{OPS[kind]} across dimensions = [1]
        : (tensor<8x16x{dtype}>, tensor<{dtype}>) -> tensor<8x{dtype}>
      %1 = stablehlo.not %0 : tensor<8x{dtype}>
      return %1 : tensor<8x{dtype}>
    }}"""


def partition(text: str) -> sw.Spmd:
    return sw.load(text).plan().partition()


def kinds(graph: Graph) -> list[str]:
    """The kinds of the reductions between ops."""
    steps = (op.signature.step for op in graph.walk())
    return [step.kind for step in steps if isinstance(step, AllReduce | ReduceScatter)]


def without_locations(text: str) -> str:
    return re.sub(r" ?loc\(.*", "", re.sub(r"#loc.*\n", "", text))


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_a_reduction_is_a_step_of_its_kind_behind_its_op(kind: str, dtype: str) -> None:
    spmd = partition(reducing(kind, dtype))
    reduce, step = (op for op in spmd.explicit.walk() if op.name == "stablehlo.reduce" or op.signature.step)
    assert step.operands == reduce.results
    partial = spmd.explicit.shardings[reduce.results[0]]
    assert partial == TensorSharding.of(spmd.mesh, [["p"]], partial=["q"], kind=kind)
    x = np.random.default_rng(0).integers(-9, 9, (8, 16)).astype(np.int32)
    assert spmd.verify([x % 2 == 0 if dtype == "i1" else x]).ok


@pytest.mark.parametrize(("kind", "dtype"), CASES)
@pytest.mark.parametrize("result", ['{"p"}', '{"p", "q"}'])
def test_text_has_a_manual_computation_that_is_read_as_the_step(kind: str, dtype: str, result: str) -> None:
    spmd = partition(reducing(kind, dtype, result))
    text = spmd.module("explicit")
    assert ("sdy.manual_computation" in text) == (kind not in reduction_kinds())
    assert "shardwright." not in text
    again = partition(text)
    assert kinds(again.explicit) == [kind]
    assert again.module("explicit") == text
    assert without_locations(again.module("local")) == without_locations(spmd.module("local"))


def test_a_manual_computation_that_differs_anywhere_stays_one() -> None:
    text = partition(reducing("product")).module("explicit")
    assert "applies stablehlo.multiply across dimensions = [1]" in text
    other = text.replace("applies stablehlo.multiply across", "applies stablehlo.add across")
    assert other != text
    graph = partition(other).explicit
    assert kinds(graph) == []
    assert "sdy.manual_computation" in [op.name for op in graph.walk()]


@pytest.mark.parametrize("kind", ["max", "product"])
def test_what_is_returned_as_contributions_and_read_inside_is_written_so_that_it_can_be_read(kind: str) -> None:
    partial = f'(tensor<8xi32> {{sdy.sharding = #sdy.sharding<@m, [{{"p"}}], unreduced={kind}{{"q"}}>}}, tensor<8xi32>)'
    text = reducing(kind).replace('(tensor<8xi32> {sdy.sharding = #sdy.sharding<@m, [{"p"}]>})', partial)
    text = text.replace("return %1 : tensor<8xi32>", "return %0, %1 : tensor<8xi32>, tensor<8xi32>")
    spmd = partition(text)
    again = partition(spmd.module("explicit"))
    assert again.out_shardings == spmd.out_shardings
    assert spmd.out_shardings[0].partial[0].kind == kind
    x = np.random.default_rng(0).integers(1, 3, (8, 16)).astype(np.int32)
    reduced = {"max": x.max(axis=1), "product": x.prod(axis=1)}[kind]
    for one in (spmd, again):
        for actual, expected in zip(one.compile()(x), (reduced, ~reduced), strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", OPS)
def test_contributions_that_an_op_makes_cost_nothing_to_give(kind: str) -> None:
    partial = f'(tensor<8xi32> {{sdy.sharding = #sdy.sharding<@m, [{{"p"}}], unreduced={kind}{{"q"}}>}})'
    text = reducing(kind).replace('(tensor<8xi32> {sdy.sharding = #sdy.sharding<@m, [{"p"}]>})', partial)
    spmd = partition(text.replace("return %1", "return %0"))
    assert spmd.traffic.total.static == 0
    again = partition(spmd.module("explicit"))
    assert again.out_shardings == spmd.out_shardings
    assert again.traffic.total.static == 0
    x = np.random.default_rng(0).integers(0, 9, (8, 16)).astype(np.int32)
    assert spmd.verify([x]).ok


JOINED = f"""{MESH}
func.func @main(%a: tensor<8x16xi32> {{{{sdy.sharding = #sdy.sharding<@m, [{{{{"p"}}}}, {{{{"q"}}}}]>}}}},
                %b: tensor<8x16xi32> {{{{sdy.sharding = #sdy.sharding<@m, [{{{{"p"}}}}, {{{{"q"}}}}]>}}}})
    -> (tensor<8xi32> {{{{sdy.sharding = #sdy.sharding<@m, [{{{{"p"}}}}]>}}}}) {{{{
  %c = stablehlo.constant dense<{{start}}> : tensor<i32>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.{{op}} across dimensions = [1]
    : (tensor<8x16xi32>, tensor<i32>) -> tensor<8xi32>
  %1 = stablehlo.reduce(%b init: %c) applies stablehlo.{{op}} across dimensions = [1]
    : (tensor<8x16xi32>, tensor<i32>) -> tensor<8xi32>
  %2 = stablehlo.{{joining}} %0, %1 : tensor<8xi32>
  return %2 : tensor<8xi32>
}}}}"""


def joined(kind: str, joining: str = "") -> str:
    return JOINED.format(start=STARTS[kind], op=OPS[kind], joining=joining or OPS[kind])


def reduced_last(graph: Graph, whole: int = 0) -> Graph:
    """The explicit program whose contributions are joined first, and reduced then; of `whole` reductions before."""
    decisions = decide(graph)
    ops = dict(zip(graph.walk(), decisions.ops, strict=True))
    first, second, join = (op for op in ops if op.name.startswith("stablehlo.") and op.operands)
    one, other = reduction(ops[first]), reduction(ops[second])
    layouts = last(one) if whole else one.source, other.source
    for op in (first, second)[whole:]:
        own = ops[op]
        assert isinstance(own, Computed)
        ops[op] = replace(own, after=())
    ops[join] = Computed((), layouts, (other.source,), (replace(other, value=join.results[0]),))
    return write(graph, replace(decisions, ops=tuple(ops.values())))


def reduction(decision: Decision | None) -> Reshard:
    assert isinstance(decision, Computed)
    (version,) = decision.after
    return version


def last(version: Reshard) -> TensorSharding:
    return layouts_after(version.source, version.steps)[-1]


@pytest.mark.parametrize(("kind", "whole"), [(kind, 0) for kind in OPS] + [(kind, 1) for kind in ("max", "or")])
def test_contributions_are_joined_before_they_are_reduced(kind: str, whole: int) -> None:
    """Two to one maximum; and a complete value, which each device may join with its own."""
    case = make_case(joined(kind), 0, lambda graph: reduced_last(graph, whole))
    assert case.local.module.count("stablehlo.all_") == 1 + whole
    assert_equal(kind, case, *try_jobs([case.unsharded, case.local]))


@pytest.mark.parametrize(
    ("kind", "joining", "whole"), [("max", "minimum", 0), ("max", "add", 0), ("product", "add", 0), ("xor", "xor", 1)]
)
def test_contributions_do_not_pass_through_what_is_not_linear_in_their_kind(
    kind: str, joining: str, whole: int
) -> None:
    with pytest.raises(ShardingError, match="is not linear in them"):
        make_case(joined(kind, joining), 0, lambda graph: reduced_last(graph, whole))


def test_a_manual_computation_that_reduces_twice_is_no_reduction_of_the_whole() -> None:
    """Its first op reduces what comes in, and gives something of another rank than the result."""
    text = f"""{MESH}
    func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"p"}}, {{"q"}}]>}}) -> tensor<f32> {{
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = sdy.manual_computation(%a, %low) in_shardings=[<@m, [{{"p"}}, {{"q"}}]>, <@m, []>] out_shardings=[<@m, []>]
          manual_axes={{"p", "q"}} (%b: tensor<4x4xf32>, %i: tensor<f32>) {{
        %1 = stablehlo.reduce(%b init: %i) applies stablehlo.maximum across dimensions = [1]
          : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
        %2 = stablehlo.reduce(%1 init: %i) applies stablehlo.maximum across dimensions = [0]
          : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        %3 = "stablehlo.all_reduce"(%2) <{{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>,
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}> ({{
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %m = stablehlo.maximum %x, %y : tensor<f32>
            stablehlo.return %m : tensor<f32>
        }}) : (tensor<f32>) -> tensor<f32>
        sdy.return %3 : tensor<f32>
      }} : (tensor<8x16xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }}"""
    assert "sdy.manual_computation" in [op.name for op in partition(text).explicit.walk()]

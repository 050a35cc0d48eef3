"""The driver, its log, and programs that our own partitioner made."""

from __future__ import annotations

import pytest

from shardwright.analysis.memory import memory
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.memo import Session
from shardwright.notation.modules import read, text_of
from shardwright.optimize import optimizations, optimize
from shardwright.partition import localize, materialize
from shardwright.program import load
from tests.optimize.cases import CASES, CHANGING
from tests.optimize.explicit import NO_LATENCY, better, function, names, run_all


def explicit_of(text: str) -> Graph:
    return materialize(read(load_module(text))).graph


_TWICE = CASES["the same twice"]


def test_the_program_given_stays_as_it_is() -> None:
    graph = explicit_of(_TWICE.text)
    before = text_of(graph)
    assert optimize(graph).improvements
    assert text_of(graph) == before


def test_passes_are_found_by_name_only() -> None:
    graph = explicit_of(_TWICE.text)
    assert not optimize(graph, ["dead-collectives"]).improvements
    assert not optimize(graph, []).improvements
    with pytest.raises(ShardingError, match="no such pass over collectives: 'all-the-best'"):
        optimize(graph, ["all-the-best"])
    assert len({one.name for one in optimizations()}) == len(optimizations())


def test_a_change_is_told_with_its_place_reason_and_saving() -> None:
    (one,) = better(_TWICE.text, _TWICE.name).improvements
    assert (one.by, one.op, one.location) == ("common-collectives", "sdy.all_gather", "-:5")
    assert one.bytes_saved == 8 * 16 * 4 * 7 / 8
    assert one.seconds_saved > 0
    assert str(one).startswith(
        "-:5: common-collectives: sdy.all_gather: another version of the same value is there: 448 B and "
    )


_LOOP = """
%zero = stablehlo.constant «[]» dense<0> : tensor<i32>
%1:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<8x16xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}, {}]>]>}
cond {
  %n = stablehlo.constant «[]» dense<5> : tensor<i32>
  %c = stablehlo.compare LT, %i, %n «[]» : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
} do {
  %one = stablehlo.constant «[]» dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one «[]» : tensor<i32>
  %2 = sdy.all_gather [{"x"}, {}] %x «[{}, {}]» : tensor<8x16xf32>
  %3 = stablehlo.tanh %2 «[{}, {}]» : tensor<8x16xf32>
  %4 = sdy.all_slice [{"x"}, {}] %3 «[{"x"}, {}]» : tensor<8x16xf32>
  stablehlo.return %j, %4 : tensor<i32>, tensor<8x16xf32>
}
return %1#1 : tensor<8x16xf32>
"""


def test_what_loops_do_counts_as_often_as_they_do_it() -> None:
    made = better(function(['a: tensor<8x16xf32> [{"x"}, {}]'], 'tensor<8x16xf32> [{"x"}, {}]', _LOOP))
    assert names(made.after) == ["while", "compare", "add", "tanh"]
    assert sum(one.bytes_saved for one in made.improvements) == 5 * 8 * 16 * 4 / 2
    run_all([("a loop", made)])


def test_what_a_loop_changes_stays_in_it() -> None:
    assert "hoist-collectives" not in {one.by for one in optimize(explicit_of(CHANGING)).improvements}


def test_no_more_is_brought_out_of_loops_than_memory_holds() -> None:
    graph = explicit_of(CASES["of what comes from outside"].text)
    held = 8 * 16 * 2
    peak = memory(localize(graph)).peak
    assert not optimize(graph, ["hoist-collectives"], memory=peak + held - 1).improvements
    (one,) = optimize(graph, ["hoist-collectives"], memory=peak + held).improvements
    assert one.bytes_saved == 2 * held * 7 / 8
    assert one.reason == "the loop does not change it, and holds 256 B"


_MAXIMA = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
    %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<8xf32> {
  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.reduce(%b init: %c) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.maximum %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""


def test_maxima_of_maxima_are_reduced_once_and_exactly() -> None:
    explicit = load(_MAXIMA).plan().partition().explicit
    assert names(explicit).count("all_reduce") == 2
    made = better(explicit, exact=True)
    assert names(made.after).count("all_reduce") == 1
    assert {one.by for one in made.improvements} == {"all-reduce-reassociate"}
    run_all([("maxima", made)], bits=True)


_INSIDE = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x16xf32>) {
    %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> : (tensor<4x16xf32>) -> tensor<8x16xf32>
    sdy.return %1 : tensor<8x16xf32>
  } : (tensor<8x16xf32>) -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
"""


def test_bodies_of_manual_computations_stay() -> None:
    explicit = load(_INSIDE).plan().partition().explicit
    made = optimize(explicit)
    assert not made.improvements
    assert names(made.graph) == names(explicit)


def test_all_passes_together_find_what_each_finds() -> None:
    """Late ones find what the others leave, by another measure: what runs beside what."""
    late = {one.name for one in optimizations() if one.is_late}
    for name, case in CASES.items():
        if case.name in late:
            continue
        with Session(hardware=NO_LATENCY if case.needs_bytes else None):
            graph = explicit_of(case.text)
            alone, together = optimize(graph, [case.name]), optimize(graph)
        saved = [sum(one.seconds_saved for one in made.improvements) for made in (alone, together)]
        assert saved[1] >= saved[0] * (1 - 1e-9), name

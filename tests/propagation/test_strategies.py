"""Every strategy against the C++ pass of its name: within the pipeline, and alone. `SHARDWRIGHT_FUZZ=N` runs N programs."""

from __future__ import annotations

import os
import re

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate, propagate_only
from tests.jaxlib_differences import explains
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS, differences
from tests.propagation.programs import random_program

_PASS = "sdy-user-priority-propagate"
_IMPORT = UP_TO_RESHARDS[: UP_TO_RESHARDS.index(_PASS) - 1] + ")"
_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "20"))
_LONG = 400
_BATCH = 200

_PRIORITY = re.compile(r"\}p\d+")
"""Without user priority the C++ leaves priorities standing, also on dimensions it has emptied: its own parser refuses."""

_METHODS = [
    (strategy, factors, conservative)
    for strategy in ("basic", "aggressive", "op-priority", "user-priority")
    for factors in (("basic",) if strategy == "basic" else ("aggressive", "basic", "basic-then-aggressive"))
    for conservative in (False, True)
]


def _pass(strategy: str, factors: str, conservative: bool) -> str:
    options = ["conservative-propagation=true"] if conservative else []
    options += [f"propagation-strategy={factors}"] if strategy != "basic" else []
    return f"sdy-{strategy}-propagate{{{' '.join(options)}}}"


@pytest.mark.oracle
@pytest.mark.parametrize(("strategy", "factors", "conservative"), _METHODS)
def test_in_the_pipeline_a_strategy_shards_as_the_pass_of_its_name(
    strategy: str, factors: str, conservative: bool
) -> None:
    _check_pipeline(strategy, factors, conservative, 0, _COUNT)


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("strategy", "factors", "conservative"), _METHODS)
def test_many_programs_through_every_strategy(strategy: str, factors: str, conservative: bool) -> None:
    _check_pipeline(strategy, factors, conservative, 10_000, _LONG)
    _check_alone(strategy, factors, conservative, 10_000, _LONG)


def _check_pipeline(strategy: str, factors: str, conservative: bool, first: int, count: int) -> None:
    pipeline = UP_TO_RESHARDS.replace(_PASS, _pass(strategy, factors, conservative))
    for start in range(first, first + count, _BATCH):
        seeds = list(range(start, min(start + _BATCH, first + count)))
        graphs = [read(load_module(random_program(seed))) for seed in seeds]
        outputs = run_batch([(str(write(graph)), pipeline) for graph in graphs])
        for seed, graph, output in zip(seeds, graphs, outputs, strict=True):
            assert not isinstance(output, ShardyFailure), f"the C++ failed on seed {seed}: {output}"
            ours = propagate(graph, strategy=strategy, factors=factors, conservative=conservative)
            unlike = differences(ours, _PRIORITY.sub("}", output))
            program = random_program(seed)
            assert not unlike or explains(program, unlike), "\n".join([f"seed {seed}:", program, *unlike])


@pytest.mark.oracle
@pytest.mark.parametrize(("strategy", "factors", "conservative"), _METHODS)
def test_alone_a_strategy_leaves_what_the_pass_of_its_name_leaves(
    strategy: str, factors: str, conservative: bool
) -> None:
    _check_alone(strategy, factors, conservative, 0, _COUNT)


def _check_alone(strategy: str, factors: str, conservative: bool, first: int, count: int) -> None:
    alone = f"builtin.module({_pass(strategy, factors, conservative)})"
    for start in range(first, first + count, _BATCH):
        seeds = list(range(start, min(start + _BATCH, first + count)))
        sources = run_batch([(random_program(seed), _IMPORT) for seed in seeds])
        texts = [text for text in sources if not isinstance(text, ShardyFailure)]
        assert len(texts) == len(seeds), "the C++ imports every program"
        outputs = run_batch([(text, alone) for text in texts])
        for seed, text, output in zip(seeds, texts, outputs, strict=True):
            assert not isinstance(output, ShardyFailure), f"the C++ failed on seed {seed}: {output}"
            ours = propagate_only(
                read(load_module(text)), strategy=strategy, factors=factors, conservative=conservative
            )
            unlike = _unlike(ours, read(load_module(output)))
            assert not unlike, "\n".join([f"seed {seed}:", text, *unlike])


def _unlike(ours: Graph, theirs: Graph) -> list[str]:
    """What differs, openness, priorities and replicated axes included."""
    unlike: list[str] = []
    for number, (one, other) in enumerate(zip(ours.main.result_shardings, theirs.main.result_shardings, strict=True)):
        if one != other:
            unlike.append(f"result {number}: {one}, C++ {other}")
    _unlike_blocks(ours, ours.main.block, theirs, theirs.main.block, unlike)
    return unlike


def _unlike_blocks(ours: Graph, one: Block, theirs: Graph, other: Block, unlike: list[str]) -> None:
    names = [op.name for op in one.ops], [op.name for op in other.ops]
    if names[0] != names[1]:
        unlike.append(f"ops: {names[0]}, C++ {names[1]}")
        return
    pairs = list(zip(one.arguments, other.arguments, strict=True))
    for left, right in zip(one.ops, other.ops, strict=True):
        pairs += zip(left.results, right.results, strict=True)
        for inner, their in zip(left.regions, right.regions, strict=True):
            _unlike_blocks(ours, inner, theirs, their, unlike)
    for mine, its in pairs:
        if ours.shardings[mine] != theirs.shardings[its]:
            unlike.append(f"%{mine}: {ours.shardings[mine]}, C++ {theirs.shardings[its]}")


def test_an_unknown_strategy_is_refused() -> None:
    graph = read(load_module("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }"))
    with pytest.raises(ShardingError, match="unknown strategy 'greedy'"):
        propagate(graph, strategy="greedy")
    with pytest.raises(ShardingError, match="unknown way 'timid'"):
        propagate(graph, factors="timid")


_INTO_A_COMPUTATION = """sdy.mesh @mesh = <["y"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.named_computation<"f">(%a) (%b: tensor<8xf32>) {
    %5 = sdy.data_flow_edge %b : tensor<8xf32>
    %6 = stablehlo.tanh %5 : tensor<8xf32>
    sdy.return %6 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.data_flow_edge %0 : tensor<8xf32>
  %2 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y", ?}]>]>} : tensor<8xf32>
  %3 = stablehlo.add %1, %2 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : tensor<8xf32>
  return %3 : tensor<8xf32>
}"""


def test_an_edge_into_a_computation_waits_for_the_next_phase() -> None:
    once = propagate_only(read(load_module(_INTO_A_COMPUTATION)), strategy="basic")
    twice = propagate_only(read(load_module(_INTO_A_COMPUTATION)), strategy="op-priority")
    made = [graph.shardings[graph.main.block.ops[0].regions[0].ops[1].results[0]] for graph in (once, twice)]
    assert [repr(sharding) for sharding in made] == ["None", "[{y, ?}]"]

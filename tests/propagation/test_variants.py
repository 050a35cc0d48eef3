"""A program that is imported once and begun with other shardings is what it is when it is propagated with them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.ir.graph import Graph
from shardwright.program.tuning import trials_of
from shardwright.propagation.method import method
from shardwright.propagation.variants import variants_of
from tests.straight import straight_program

EXAMPLES = Path(__file__).parents[2] / "examples"


def told(graph: Graph) -> tuple[object, ...]:
    """All that a propagated graph says."""
    ops = [(op.signature, op.operands, op.results, op.location) for op in graph.main.block.ops]
    return ops, graph.shardings, graph.main.result_shardings, graph.types


def check(plan: sw.Plan, count: int, seed: int) -> None:
    """Some trials, one after the other in any order."""
    variants = variants_of(plan.annotated, method(plan.strategy))
    assert variants is not None
    assert told(variants.propagated({})) == told(plan.graph)
    main, trials = plan.graph.main, trials_of(plan)
    values = dict(zip(main.argument_names, main.block.arguments, strict=True))
    for names, sharding in random.Random(seed).sample(trials, min(count, len(trials))):
        if all(map(variants.may_change, map(values.__getitem__, names))):
            fresh = plan.with_arguments(dict.fromkeys(names, sharding)).graph
            assert told(variants.propagated({values[name]: sharding for name in names})) == told(fresh)


def test_it_is_so_of_the_example() -> None:
    check(sw.load(EXAMPLES / "gpt2.mlir").plan(), 15, 0)


def test_it_is_so_of_random_programs() -> None:
    for seed in range(40):
        check(sw.load(straight_program(seed)).plan(), 5, seed)


@pytest.mark.parametrize(("op", "strategy"), [("sdy.sharding_group %x group_id=0 : tensor<8xf32>", ""), ("", "cost")])
def test_others_have_none(op: str, strategy: str) -> None:
    """Groups tell of one value by another, and what is priced is priced as a whole."""
    program = f"""
    sdy.mesh @m = <["x"=2]>
    func.func @main(%x: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}]>}}) -> tensor<8xf32> {{
      {op}
      return %x : tensor<8xf32>
    }}
    """
    assert variants_of(sw.load(program).plan().annotated, method(strategy or "user-priority")) is None

"""Kinds of reduction in the sdy dialect itself, where the installed jaxlib has them (0.11 and newer)."""

from __future__ import annotations

import io

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text, reduction_kinds
from shardwright.ir.graph import Graph
from shardwright.notation import modules
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.runtime.execute import execute_local

pytestmark = pytest.mark.skipif(reduction_kinds() == ("sum",), reason="sdy of this jaxlib has no kinds of reduction")

KINDS = ("max", "min")
BODIES = {"max": ("maximum", "0xFF800000"), "min": ("minimum", "0x7F800000")}


def program(kind: str) -> str:
    """Partial results of every op that may have them, and both collectives that combine them."""
    partial = f'[{{"a"}}, {{}}], unreduced={kind}{{"b", "c":(1)2}}'
    return (
        'sdy.mesh @m = <["a"=2, "b"=2, "c"=4]>\n'
        f"func.func @main(%x: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, {partial}>}}) "
        "-> (tensor<8x8xf32>, tensor<8x8xf32>) {\n"
        f"  %0 = stablehlo.negate %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, {partial}>]>}} : tensor<8x8xf32>\n"
        f"  %1 = sdy.sharding_constraint %0 <@m, {partial}> : tensor<8x8xf32>\n"
        f'  %2 = sdy.all_reduce {kind} {{"b", "c":(1)2}} %1 out_sharding=<@m, [{{"a"}}, {{}}]> : tensor<8x8xf32>\n'
        f'  %3 = sdy.reduce_scatter {kind} [{{"b"}}, {{"c":(1)2}}] %1 '
        'out_sharding=<@m, [{"a", "b"}, {"c":(1)2}]> : tensor<8x8xf32>\n'
        "  return %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>\n}\n"
    )


def kinds(graph: Graph) -> list[str]:
    return [
        "" if sharding is None else " ".join(dict.fromkeys(partial.kind for partial in sharding.partial))
        for sharding in graph.shardings
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_left_to_the_parser_and_comes_back_without_carriers(kind: str) -> None:
    text = program(kind)
    assert prepare(text) == text
    graph = modules.read(load_module(text))
    assert [op.name for op in graph.main.block.ops[1:4]] == [
        "sdy.sharding_constraint",
        "sdy.all_reduce",
        "sdy.reduce_scatter",
    ]
    assert kinds(graph) == [kind, kind, kind, "", ""]
    written = module_text(modules.write(graph))
    assert "shardwright." not in written
    assert f'sdy.all_reduce {kind} {{"b", "c":(1)2}}' in written
    assert kinds(modules.read(load_module(written))) == kinds(graph)


def test_bytecode_is_read_as_its_text() -> None:
    module = load_module(program("max"))
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    again = modules.read(load_module(buffer.getvalue()))
    assert kinds(again) == kinds(modules.read(module))


def test_kinds_that_this_dialect_lacks_and_several_in_one_sharding_still_travel_as_text() -> None:
    text = program("max").replace("max", "product")
    assert "shardwright.sharding" in prepare(text)
    several = (
        'sdy.mesh @m = <["a"=2, "b"=2]>\nfunc.func @main(%x: tensor<8xf32> {sdy.sharding = '
        '#sdy.sharding<@m, [{}], unreduced=max{"a"}, unreduced={"b"}>}) -> tensor<8xf32> {\n'
        "  return %x : tensor<8xf32>\n}\n"
    )
    graph = modules.read(load_module(prepare(several)))
    assert kinds(graph) == ["max sum"]
    assert "shardwright.sharding" in module_text(modules.write(graph))


def reduced(kind: str, collective: str, after: str) -> str:
    body, start = BODIES[kind]
    return (
        'sdy.mesh @m = <["a"=2, "b"=2]>\nfunc.func @main(%x: tensor<8x8xf32> {sdy.sharding = '
        '#sdy.sharding<@m, [{"a"}, {}]>}) -> tensor<8xf32> {\n'
        f"  %c = stablehlo.constant dense<{start}> : tensor<f32>\n"
        f"  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.{body} across dimensions = [0] {{sdy.sharding = "
        f'#sdy.sharding_per_value<[<@m, [{{}}], unreduced={kind}{{"a"}}>]>}} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>\n'
        f"  %1 = {collective} %0 out_sharding=<@m, [{after}]> : tensor<8xf32>\n"
        "  return %1 : tensor<8xf32>\n}\n"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("collective", "after"), [('sdy.all_reduce {} {{"a"}}', "{}"), ('sdy.reduce_scatter {} [{{"a"}}]', '{"a"}')]
)
def test_a_program_with_kinds_computes_what_the_unsharded_one_does(kind: str, collective: str, after: str) -> None:
    spmd = sw.load(reduced(kind, collective.format(kind), after)).plan().partition()
    _, _, combined = spmd.module("local").partition("replica_groups")
    assert f"stablehlo.{BODIES[kind][0]}" in combined
    assert spmd.verify().ok


def test_a_collective_that_contradicts_its_operand_is_refused_at_its_line() -> None:
    text = reduced("max", 'sdy.all_reduce min {"a"}', "{}")
    with pytest.raises(ShardingError) as error:
        load_module(text, "f.mlir")
    assert error.value.diagnostic.location.startswith("f.mlir:5:")


def test_a_manual_computation_gives_back_what_is_unreduced_by_a_kind() -> None:
    text = (
        'sdy.mesh @m = <["a"=2, "b"=2]>\nfunc.func @main(%x: tensor<8x8xf32>) -> tensor<8xf32> {\n'
        '  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}, {}]>] '
        'out_shardings=[<@m, [{}], unreduced=max{"a"}>] manual_axes={"a"} (%y: tensor<4x8xf32>) {\n'
        "    %c = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "    %1 = stablehlo.reduce(%y init: %c) applies stablehlo.maximum across dimensions = [0] "
        ": (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>\n"
        "    sdy.return %1 : tensor<8xf32>\n  } : (tensor<8x8xf32>) -> tensor<8xf32>\n"
        "  %2 = stablehlo.negate %0 : tensor<8xf32>\n  return %2 : tensor<8xf32>\n}\n"
    )
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    plan = sw.load(text).plan()
    spmd = plan.partition()
    types = list(plan.program.results.values())
    execution = execute_local(spmd.module("local"), plan.mesh, spmd.in_shardings, spmd.out_shardings, [x], types)
    np.testing.assert_array_equal(execution.outputs[0], -x.max(axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_an_argument_may_come_as_contributions_of_a_kind_that_collectives_combine(kind: str) -> None:
    text = (
        'sdy.mesh @m = <["a"=2, "b"=4]>\nfunc.func @main(%x: tensor<8x8xf32> {sdy.sharding = '
        f'#sdy.sharding<@m, [{{"a"}}, {{}}], unreduced={kind}{{"b"}}>}}) -> tensor<8x8xf32> {{\n'
        "  %0 = stablehlo.tanh %x : tensor<8x8xf32>\n  return %0 : tensor<8x8xf32>\n}\n"
    )
    spmd = sw.load(text).plan().partition()
    assert f"sdy.all_reduce {kind}" in spmd.module("explicit") or f"sdy.reduce_scatter {kind}" in spmd.module(
        "explicit"
    )
    again = sw.load(spmd.module("explicit")).plan().partition()
    assert again.module("explicit") == spmd.module("explicit")
    assert spmd.verify().ok

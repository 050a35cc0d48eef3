"""The mesh RFC's completion: its own two models, its rules, and random programs."""

from __future__ import annotations

import re

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read, write
from shardwright.partition.materialize import materialize
from shardwright.program import Plan, load
from shardwright.propagation import propagate
from tests.partition.test_random_programs import terminating, well_defined
from tests.propagation.programs import random_program

_MLP = """sdy.mesh @mesh = <[{mesh}]>
func.func @main(%x: tensor<2x4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{{all}}}]>}},
                %w1: tensor<8x32xf32>, %w2: tensor<32x8xf32>)
    -> (tensor<2x4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{{all}}}]>}}) {{
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [2] x [0]{first} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %1 = stablehlo.constant dense<0.0> : tensor<2x4x32xf32>
  %2 = stablehlo.maximum %0, %1 : tensor<2x4x32xf32>
  %3 = stablehlo.dot_general %2, %w2, contracting_dims = [2] x [0]{second} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  return %3 : tensor<2x4x8xf32>
}}"""


def _note(dims: str, unreduced: str) -> str:
    return f" {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{dims}], unreduced={{{unreduced}}}>]>}}"


_ONE = _MLP.format(mesh='"x"=2', all='"x"', first="", second=_note("{}, {}, {}", '"x"'))
_ONE_PRESET = _MLP.format(mesh='"x"=2', all='"x"', first="", second=" {shardwright.option = [[], [], [], [0]]}")
_TWO = _MLP.format(
    mesh='"x"=2, "y"=2, "z"=2',
    all='"x", "y", "z"',
    first=_note('{}, {}, {"y", "z"}', '"x"'),
    second=_note('{}, {}, {"x"}', '"y", "z"'),
)
_TWO_PRESET = _MLP.format(
    mesh='"x"=2, "y"=2, "z"=2',
    all='"x", "y", "z"',
    first=" {shardwright.option = [[], [], [1, 2], [0]]}",
    second=' {shardwright.option = [[], [], ["x"], ["y", "z"]]}',
)


def _completed(text: str) -> Graph:
    return propagate(read(load_module(text)), strategy="rfc")


def _layout(graph: Graph) -> list[str]:
    arguments = [repr(graph.shardings[value]) for value in graph.main.block.arguments]
    ops = [f"{op.name.split('.')[1]} {graph.shardings[op.results[0]]!r}" for op in graph.main.block.ops if op.results]
    return arguments + ops + [repr(sharding) for sharding in graph.main.result_shardings]


@pytest.mark.parametrize("text", [_ONE, _ONE_PRESET])
def test_one_dimensional_weight_stationary(text: str) -> None:
    assert _layout(_completed(text)) == [
        "[{}, {}, {x}]",
        "[{}, {x}]",
        "[{x}, {}]",
        "reshard [{}, {}, {}]",
        "dot_general [{}, {}, {x}]",
        "constant [{}, {}, {}]",
        "reshard [{}, {}, {x}]",
        "maximum [{}, {}, {x}]",
        "dot_general [{}, {}, {}] partial=sum{x}",
        "reshard [{}, {}, {x}]",
        "[{}, {}, {x}]",
    ]


@pytest.mark.parametrize("text", [_TWO, _TWO_PRESET])
def test_two_dimensional_weight_stationary(text: str) -> None:
    graph = _completed(text)
    layout = _layout(graph)
    assert layout[:3] == ["[{}, {}, {x, y, z}]", "[{x}, {y, z}]", "[{y, z}, {x}]"]
    assert "maximum [{}, {}, {y, z}]" in layout
    assert layout[-1] == "[{}, {}, {x, y, z}]"


@pytest.mark.parametrize("text", [_TWO, _TWO_PRESET])
def test_ops_of_a_completed_program_say_how_their_loops_are_split(text: str) -> None:
    graph = _completed(text)
    stated = [(op.name, op.signature.text("shardwright.option")) for op in graph.main.block.ops if op.results]
    assert stated == [
        ("sdy.reshard", None),
        ("stablehlo.dot_general", "[[], [], [1, 2], [0]]"),
        ("stablehlo.constant", None),
        ("sdy.reshard", None),
        ("stablehlo.maximum", "[[], [], [1, 2]]"),
        ("stablehlo.dot_general", "[[], [], [0], [1, 2]]"),
        ("sdy.reshard", None),
    ]
    assert _layout(_completed(module_text(write(graph)))) == _layout(graph)


def test_along_parts_of_an_axis_or_on_another_mesh_no_option_is_said() -> None:
    part = _UNARY.replace("%a: tensor<8xf32>", '%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}')
    other = _UNARY.replace("%a: tensor<8xf32>", '%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@other, [{"z"}]>}')
    for text in (
        'sdy.mesh @mesh = <["x"=4]>\n' + part,
        'sdy.mesh @mesh = <["x"=4]>\nsdy.mesh @other = <["z"=4]>\n' + other,
    ):
        (op, _) = _completed(text).main.block.ops
        assert op.signature.text("shardwright.option") is None


@pytest.mark.parametrize("text", [_ONE, _TWO_PRESET])
def test_what_it_completes_computes_the_same_numbers(text: str) -> None:
    program = load(text)
    plan = Plan(program.source, None, program.graph, propagate(program.graph, strategy="rfc"), program.clock)
    assert plan.partition().verify().ok


def _conflict(first: str, second: str) -> str:
    return f"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = sdy.sharding_constraint %a <@mesh, [{first}]> : tensor<8xf32>
  %1 = sdy.sharding_constraint %b <@mesh, [{second}]> : tensor<8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}}"""


def test_required_annotations_that_contradict_each_other_are_both_named() -> None:
    with pytest.raises(ShardingError, match=r"operand 0 of stablehlo.add \[\{x\}\] and .*operand 1.* \[\{y\}\]"):
        _completed(_conflict('{"x"}', '{"y"}'))


def test_between_hints_the_earlier_wins_and_what_is_required_beats_it() -> None:
    assert "add [{x}]" in _layout(_completed(_conflict('{"x", ?}', '{"y", ?}')))
    assert "add [{y}]" in _layout(_completed(_conflict('{"x", ?}', '{"y"}')))


_UNARY = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}"""


def test_what_nothing_is_said_of_is_replicated() -> None:
    graph = _completed('sdy.mesh @mesh = <["x"=2]>\n' + _UNARY)
    assert _layout(graph) == ["[{}]", "tanh [{}]", "[{}]"]


@pytest.mark.parametrize("option", ["[[7]]", '[["w"]]', "[[0], [], [], [], []]", "3", "[[0], [0]]"])
def test_a_malformed_option_is_refused(option: str) -> None:
    with pytest.raises(ShardingError, match=r"shardwright\.option"):
        _completed(_ONE_PRESET.replace("[[], [], [], [0]]", option))


def test_what_the_rfc_does_not_know_is_refused() -> None:
    group = (
        "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  sdy.sharding_group %a group_id=0 : tensor<8xf32>\n"
    )
    with pytest.raises(ShardingError, match=r"does not know sdy\.sharding_group"):
        _completed('sdy.mesh @mesh = <["x"=2]>\n' + group + "  return %a : tensor<8xf32>\n}")
    with pytest.raises(ShardingError, match="cannot be conservative"):
        propagate(read(load_module(_ONE)), strategy="rfc", conservative=True)
    with pytest.raises(ShardingError, match="has no debug attributes"):
        propagate(read(load_module(_ONE)), strategy="rfc", debug_sharding_origins=True)
    with pytest.raises(ShardingError, match="not a tensor of static shape"):
        _completed('sdy.mesh @mesh = <["x"=2]>\n' + _UNARY.replace("8x", "?x"))
    with pytest.raises(ShardingError, match="has no mesh"):
        _completed("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }")


def test_random_programs_are_completed_to_what_verifies_and_partitions() -> None:
    completed = 0
    for seed in range(60):
        text = re.sub(r"^ *sdy\.sharding_group .*\n", "", random_program(seed), flags=re.MULTILINE)
        if "manual_computation" in text:
            continue
        try:
            graph = _completed(text)
        except ShardingError as error:
            assert "contradict" in str(error)
            continue
        assert write(graph).operation.verify()
        assert None not in [
            sharding for sharding, type in zip(graph.shardings, graph.types, strict=True) if type.is_tensor
        ]
        materialize(graph)
        completed += 1
    assert completed > 30


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same_numbers(seed: int) -> None:
    text = re.sub(r"^ *sdy\.sharding_group .*\n", "", random_program(seed), flags=re.MULTILINE)
    if "manual_computation" in text:
        pytest.skip("what is written per device has no meaning on one")
    program = load(well_defined(terminating(text)))
    plan = Plan(program.source, None, program.graph, propagate(program.graph, strategy="rfc"), program.clock)
    verification = plan.partition().verify()
    if any("reference is not finite" in output.problem for output in verification.outputs):
        pytest.skip("the unsharded program overflows")
    assert verification.ok

"""A text read by its forms of op says what it says when read as a whole, or is not read so."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jax
import pytest

from shardwright import ShardingError, load
from shardwright.ir.context import load_module, module_text, reduction_kinds
from shardwright.ir.fast import reduced as fast
from shardwright.notation import modules
from tests.ir.fast_peers import agree, described
from tests.models.test_jax_features import ZOO
from tests.propagation.programs import random_program

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("mlp", "gpt2", "gpt8", "decode", "gpt32_scan")
_NAME = re.compile(r"%[\w$.-]+")

LAYERS = """
module @layers {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.negate %arg0 : tensor<8x8xf32>
    %1 = stablehlo.negate %0 : tensor<8x8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
    %3 = stablehlo.add %1, %0 : tensor<8x8xf32>
    %4:2 = call @pair(%2, %3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    %5:2 = call @pair(%4#1, %4#0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    %6 = stablehlo.multiply %5#0, %5#0 : tensor<8x8xf32>
    %7 = stablehlo.multiply %arg0, %arg0 : tensor<8x8xf32>
    %c = stablehlo.constant dense<3> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %8:2 = stablehlo.while(%iterArg = %c_0, %iterArg_1 = %6) : tensor<i32>, tensor<8x8xf32>
    cond {
      %13 = stablehlo.compare LT, %iterArg, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    } do {
      %13 = stablehlo.add %iterArg, %c : tensor<i32>
      %14:2 = func.call @pair(%iterArg_1, %7) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
      stablehlo.return %13, %14#1 : tensor<i32>, tensor<8x8xf32>
    }
    %9 = "stablehlo.sort"(%8#1) <{dimension = 1 : i64}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %13 = stablehlo.compare LT, %arg1, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %10 = "stablehlo.sort"(%7) <{dimension = 1 : i64}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %13 = stablehlo.compare LT, %arg1, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %11 = stablehlo.subtract %9, %10 : tensor<8x8xf32>
    %12 = stablehlo.subtract %10, %11 : tensor<8x8xf32>
    return %12 : tensor<8x8xf32>
  }
  func.func private @pair(%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.subtract %arg0, %arg1 : tensor<8x8xf32>
    %1 = call @inner(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1, %arg0 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @inner(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.abs %arg0 : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
"""


@pytest.fixture(params=[0, 12, 200], ids=["every function", "main", "none"])
def looked_into(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether short functions are reduced too."""
    monkeypatch.setattr(fast, "FEW_LINES", request.param)


def test_steps_and_boundaries_are_read_alike() -> None:
    text = load((EXAMPLES / "gpt8.mlir").read_text()).plan().partition(effort="fast").module("explicit")
    assert agree(text)
    graph = modules.read(load_module(text))
    assert sum(op.signature.step is not None for op in graph.walk()) > 100
    bounded = any(op.signature.boundary.shardings for op in graph.walk())
    assert bounded == (reduction_kinds() == ("sum",))  # where sdy has no kinds, a maximum is a manual computation


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("printed", [False, True])
def test_examples_read_the_same(name: str, printed: bool) -> None:
    text = (EXAMPLES / f"{name}.mlir").read_text()
    assert agree(module_text(load_module(text)) if printed else text)


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize("located", [False, True])
def test_calls_loops_and_bodies_read_the_same(located: bool) -> None:
    assert agree(LAYERS)
    assert agree(module_text(load_module(LAYERS), locations=located))


def test_ops_of_one_form_are_parsed_once() -> None:
    text = (EXAMPLES / "gpt8.mlir").read_text()
    reduced = fast.reduce_text(text)
    assert len(reduced.text) < 0.35 * len(text)
    assert sum(len(function.chunks) for function in reduced.functions.values()) < 300


def test_names_tell_operands_apart_whose_definitions_look_the_same() -> None:
    read = modules.read_large(LAYERS + " " * modules.LARGE, "p.mlir")
    assert read is not None
    adds = [op.operands for op in read[0].main.block.ops if op.name == "stablehlo.add"]
    assert len(adds) == 2
    assert adds[0] == adds[1][::-1]
    assert adds[0][0] != adds[0][1]


def test_large_texts_are_loaded_by_their_forms_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = described(load(LAYERS).graph)
    assert modules.read_large(LAYERS) is None
    monkeypatch.setattr(modules, "LARGE", 0)
    assert modules.read_large(LAYERS) is not None
    assert described(load(LAYERS).graph) == whole


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_read_the_same(seed: int) -> None:
    text = random_program(seed)
    assert agree(module_text(load_module(text)))
    assert agree(module_text(load_module(text), locations=True))
    agree(text)


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize("name", ["cumsum", "sorting", "remat", "dropout"])
def test_what_jax_lowers_reads_the_same(name: str) -> None:
    function, arguments, _ = ZOO[name]
    lowered = jax.jit(function).lower(*arguments)
    assert agree(lowered.as_text())
    assert agree(lowered.as_text(debug_info=True))


WRONG = {
    "a name defined twice": ("%1 = stablehlo.negate %0", "%0 = stablehlo.negate %0"),
    "a name not defined": ("stablehlo.add %1, %0", "stablehlo.add %1, %100"),
    "a name of no result": ("@pair(%4#1, %4#0)", "@pair(%4#1, %4#2)"),
    "a value of another type": ("stablehlo.subtract %10, %11", "stablehlo.subtract %10, %c"),
    "another type": ("stablehlo.add %1, %0 : tensor<8x8xf32>", "stablehlo.add %1, %0 : tensor<8x9xf32>"),
    "a call with another type": ("@pair(%4#1, %4#0)", "@pair(%4#1, %c)"),
    "no such function": ("call @pair(%4#1", "call @pairs(%4#1"),
    "a missing bracket": ("    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n    %10", "     : tensor<8x8xf32>\n    %10"),
    "a missing end": ("  }\n}\n", "  }\n"),
    "a name of a region defined outside": ("cond {\n      %13", "cond {\n      %1"),
    "a name of a region read outside": ("stablehlo.subtract %9, %10", "stablehlo.subtract %9, %13"),
    "an op that is none": ("stablehlo.negate %0", "stablehlo.negates %0"),
    "a location that is none": ("%1 = stablehlo.negate %0 : tensor<8x8xf32>", "\\g<0> loc(#nowhere)"),
    "recursion": ("stablehlo.abs %arg0 :", "call @inner(%arg0) : (tensor<8x8xf32>) ->"),
    "an unknown mesh": ("<@mesh, [{", "<@other, [{"),
    "two ops on a line": ("abs %arg0 : tensor<8x8xf32>", "\\g<0> %0 = stablehlo.abs %arg0 : tensor<8x8xf32>"),
}


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize(("old", "new"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_as_of_the_whole_text(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(re.escape(old), new, LAYERS)
    assert text != LAYERS
    with pytest.raises(ShardingError) as whole:
        load(text)
    monkeypatch.setattr(modules, "LARGE", 0)
    with pytest.raises(ShardingError) as by_forms:
        load(text)
    assert by_forms.value.diagnostic == whole.value.diagnostic
    assert not agree(text)


UNUSUAL = {
    "a comment": ("%1 = stablehlo.negate %0 : tensor<8x8xf32>", "\\g<0> // %0 is {not} negated"),
    "a comment of a line": ("    %1 = stablehlo.negate", "    // %1\n\\g<0>"),
    "two lines": ("stablehlo.negate %0 :", "stablehlo.negate %0\n      :"),
    "two ops on a line": ("abs %arg0 : tensor<8x8xf32>", "\\g<0> %9 = stablehlo.abs %arg0 : tensor<8x8xf32>"),
    "carriage returns": ("\n", "\r\n"),
    "no indentation": ("\n +", "\n"),
    "brackets in a string": ("stablehlo.negate %0 :", 'stablehlo.negate %0 {a = "}{(\\\\"" } :'),
    "a name in a string": ("stablehlo.negate %0 :", 'stablehlo.negate %0 {a = "%1 = loc(" } :'),
    "a location": ("%1 = stablehlo.negate %0 : tensor<8x8xf32>", '\\g<0> loc("a loc(%0) }"("f.py":3:4))'),
    "an unknown location": ("%1 = stablehlo.negate %0 : tensor<8x8xf32>", "\\g<0> loc(unknown)"),
    "generic form": (
        "%1 = stablehlo.negate %0 : tensor<8x8xf32>",
        '%1 = "stablehlo.negate"(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>',
    ),
    "an alias": ("module @layers", "!T = tensor<8x8xf32>\n\\g<0>"),
    "a declaration": ("  func.func public", "  func.func private @external(tensor<8xf32>) -> tensor<8xf32>\n\\g<0>"),
    "a number of an only result": ("stablehlo.negate %0 ", "stablehlo.negate %0#0 "),
    "no number of several results": (r"stablehlo.multiply %5#0", "stablehlo.multiply %5"),
    "an annotated call": (
        "call @inner\\(%0\\)",
        '\\g<0> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}',
    ),
    "an annotated function": (
        r"@inner\(%arg0: tensor<8x8xf32>",
        "\\g<0> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}",
    ),
    "a function that nothing calls": ("%1 = call @inner.*", "%1 = stablehlo.abs %0 : tensor<8x8xf32>"),
}


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize(("old", "new"), UNUSUAL.values(), ids=UNUSUAL)
def test_texts_laid_out_in_another_way_read_the_same(old: str, new: str) -> None:
    text = re.sub(old, new, LAYERS)
    assert text != LAYERS
    agree(text)
    assert load(text).graph.main.block.ops


def test_every_op_alone_on_its_line_is_read_by_its_form() -> None:
    assert agree(re.sub(r"\n +", "\n", LAYERS))
    assert agree(LAYERS.replace("\n", "\r\n"))


@pytest.mark.usefixtures("looked_into")
@pytest.mark.parametrize("seed", range(12))
def test_damaged_texts_are_read_as_the_whole_is(seed: int) -> None:
    chance = random.Random(seed)
    text = module_text(load_module(chance.choice([LAYERS, random_program(seed)])), locations=seed % 3 == 0)
    for _ in range(12):
        agree(_damaged(text, chance))


def _damaged(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    line = lines[at]
    names, all_names = _NAME.findall(line), _NAME.findall(text)
    choice = chance.randrange(6)
    if choice == 0:
        lines.insert(at, line)
    elif choice == 1:
        del lines[at]
    elif choice == 2 and names:
        lines[at] = line.replace(chance.choice(names), chance.choice(all_names), 1)
    elif choice == 3 and line:
        cut = chance.randrange(len(line))
        lines[at] = line[:cut] + line[cut + 1 :]
    elif choice == 4:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = re.sub(r"\d+x", "5x", line, count=1)
    return "\n".join(lines)

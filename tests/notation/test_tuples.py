"""Tuples taken apart: what XLA makes of the tuples itself is what comes out, and shardings stay with what they are of."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.frontends.load import load_source
from shardwright.ir.context import load_module, module_bytecode, module_text
from shardwright.notation.conversion import convert_module
from shardwright.notation.modules import LARGE
from shardwright.notation.tuples import expand_tuples
from shardwright.runtime.execute import execute_unsharded

PAIR = "tuple<tensor<8xf32>, tuple<tensor<2xf32>, tensor<8xf32>>>"

PACKED = f"""module {{
  func.func private @swap(%p: {PAIR}, %z: tensor<2xf32>) -> tuple<tensor<2xf32>, tuple<>, tensor<8xf32>> {{
    %0 = stablehlo.get_tuple_element %p[0] : ({PAIR}) -> tensor<8xf32>
    %1 = stablehlo.get_tuple_element %p[1] : ({PAIR}) -> tuple<tensor<2xf32>, tensor<8xf32>>
    %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<2xf32>, tensor<8xf32>>) -> tensor<2xf32>
    %3 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %4 = stablehlo.add %2, %z : tensor<2xf32>
    %5 = stablehlo.subtract %0, %3 : tensor<8xf32>
    %6 = "stablehlo.tuple"() : () -> tuple<>
    %7 = stablehlo.tuple %4, %6, %5 : tuple<tensor<2xf32>, tuple<>, tensor<8xf32>>
    return %7 : tuple<tensor<2xf32>, tuple<>, tensor<8xf32>>
  }}
  func.func @main(%a: tensor<8xf32> SHARDED, %b: tensor<2xf32>, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<2xf32>) {{
    %0 = stablehlo.tuple %b, %c : tuple<tensor<2xf32>, tensor<8xf32>>
    %1 = stablehlo.tuple %a, %0 : {PAIR}
    %2 = call @swap(%1, %b) : ({PAIR}, tensor<2xf32>) -> tuple<tensor<2xf32>, tuple<>, tensor<8xf32>>
    %3 = stablehlo.get_tuple_element %2[2] : (tuple<tensor<2xf32>, tuple<>, tensor<8xf32>>) -> tensor<8xf32>
    %4 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<2xf32>, tuple<>, tensor<8xf32>>) -> tensor<2xf32>
    return %3, %4 : tensor<8xf32>, tensor<2xf32>
  }}
}}
"""

SPLIT = '{mhlo.sharding = "{devices=[4]<=[4]}"}'


def expanded(text: str) -> str:
    module = load_module(text)
    expand_tuples(module, "step.mlir")
    assert module.operation.verify()
    made = module_text(module)
    assert "tuple" not in made
    return made


def at_boundary(argument: str, result: str = "") -> str:
    kind = "tuple<tensor<8xf32>, tensor<4xf32>>"
    return f"""func.func @main(%x: tensor<4xf32>, %t: {kind} {argument}) -> ({kind} {result}) {{
        %0 = stablehlo.get_tuple_element %t[0] : ({kind}) -> tensor<8xf32>
        %1 = stablehlo.tuple %0, %x : {kind}
        return %1 : {kind}
    }}
    """


def test_xla_computes_the_same_of_the_tuples_itself() -> None:
    text = PACKED.replace("SHARDED", "")
    inputs = [np.arange(size, dtype=np.float32) for size in (8, 2, 8)]
    theirs = execute_unsharded(text, inputs)
    ours = execute_unsharded(expanded(text), inputs)
    assert [one.tolist() for one in ours] == [one.tolist() for one in theirs] == [[0.0] * 8, [0.0, 2.0]]


def test_the_sharded_program_is_equal() -> None:
    spmd = sw.load(PACKED.replace("SHARDED", SPLIT)).plan().partition()
    assert spmd.verify().ok
    assert str(spmd.in_shardings[0]) == "[{a}]"


@pytest.mark.parametrize("stated", ["{{devices=[4]<=[4]},{replicated}}", "{replicated}"])
def test_what_a_tuple_lies_like_is_said_of_what_it_holds(stated: str) -> None:
    made = expanded(at_boundary(f'{{mhlo.sharding = "{stated}", jax.arg = 1 : i32}}'))
    first = "{devices=[4]<=[4]}" if "devices" in stated else stated
    assert f'%arg1: tensor<8xf32> {{jax.arg = 1 : i32, mhlo.sharding = "{first}"}}' in made
    assert '%arg2: tensor<4xf32> {jax.arg = 1 : i32, mhlo.sharding = "{replicated}"}' in made
    assert "return %arg1, %arg0" in made


def test_a_sharding_of_packing_is_one_of_what_is_packed() -> None:
    stated = '{mhlo.sharding = "{{replicated},{devices=[4]<=[4]}}"}'
    text = PACKED.replace("SHARDED", "").replace("%4, %6, %5 :", f"%4, %6, %5 {stated} :")
    made = expanded(text)
    assert made.count("@Sharding") == 2
    spmd = sw.load(text).plan().partition()
    assert spmd.verify().ok
    assert '[{"a"}]' in spmd.module("explicit")


@pytest.mark.parametrize(("target", "kept"), [(0, False), (1, True)])
def test_a_donated_argument_stays_donated(target: int, kept: bool) -> None:
    kind = "tuple<tensor<4xf32>, tensor<4xf32>>"
    made = expanded(f"""func.func @main(%x: tensor<4xf32> {{tf.aliasing_output = {target} : i32}})
        -> ({kind}, tensor<4xf32>) {{
        %0 = stablehlo.tuple %x, %x : {kind}
        return %0, %x : {kind}, tensor<4xf32>
    }}""")
    assert ("tf.aliasing_output = 2 : i32" in made) is kept
    assert ("jax.buffer_donor = true" in made) is not kept


def test_a_custom_call_gives_what_its_tuple_held() -> None:
    kind = "tuple<tensor<8x4xf32>, tensor<8xi32>>"
    made = expanded(f"""func.func @main(%x: tensor<8x4xf32>) -> tensor<8xi32> {{
        %0 = stablehlo.custom_call @pick(%x) {{mhlo.sharding = "{{{{replicated}},{{replicated}}}}",
            operand_layouts = [dense<[1, 0]> : tensor<2xindex>],
            result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<0> : tensor<1xindex>]}}
            : (tensor<8x4xf32>) -> {kind}
        %1 = stablehlo.get_tuple_element %0[1] : ({kind}) -> tensor<8xi32>
        return %1 : tensor<8xi32>
    }}""")
    assert "%0:2 = stablehlo.custom_call @pick" in made
    assert "return %0#1" in made


def test_a_composite_takes_what_its_tuple_held() -> None:
    kind = "tuple<tensor<4xf32>, tensor<4xf32>>"
    text = f"""module {{
      func.func private @both(%t: {kind}) -> tensor<4xf32> {{
        %0 = stablehlo.get_tuple_element %t[0] : ({kind}) -> tensor<4xf32>
        %1 = stablehlo.get_tuple_element %t[1] : ({kind}) -> tensor<4xf32>
        %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
        return %2 : tensor<4xf32>
      }}
      func.func @main(%x: tensor<4xf32> {{mhlo.sharding = "{{devices=[2]<=[2]}}"}}, %y: tensor<4xf32>) -> tensor<4xf32> {{
        %0 = stablehlo.tuple %x, %y : {kind}
        %1 = stablehlo.composite "my.both" %0 {{decomposition = @both}} : ({kind}) -> tensor<4xf32>
        return %1 : tensor<4xf32>
      }}
    }}
    """
    assert 'stablehlo.composite "my.both" %arg0, %arg1' in expanded(text)
    assert sw.load(text).plan().partition().verify().ok


def test_bytecode_and_large_texts_are_read_so_too() -> None:
    text = PACKED.replace("SHARDED", SPLIT)
    for content in (module_bytecode(load_module(text)), text + "// " + "x" * LARGE + "\n"):
        graph = load_source(content).graph
        assert [op.name for op in graph.walk()] == ["stablehlo.add", "stablehlo.subtract", "func.return"]


def test_converted_it_has_no_tuples_and_no_locations() -> None:
    made = convert_module(PACKED.replace("SHARDED", SPLIT), "sdy")
    assert "tuple" not in made
    assert "loc(" not in made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (at_boundary('{mhlo.sharding = "{{replicated},{replicated},{replicated}}"}'), "3 shardings for a tuple"),
        (at_boundary("", '{mhlo.sharding = "{{replicated}}"}'), "1 sharding for a tuple that holds 2 values"),
        (at_boundary('{mhlo.sharding = "{devices=[4]<=[5]}"}'), "5"),
        (
            """sdy.mesh @m = <["a"=2]>
            func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
              %0 = stablehlo.tuple %a : tuple<tensor<4xf32>>
              %1 = stablehlo.custom_call @f(%0) {output_operand_aliases = [#stablehlo.output_operand_alias<
                output_tuple_indices = [], operand_index = 0, operand_tuple_indices = [0]>]}
                : (tuple<tensor<4xf32>>) -> tensor<4xf32>
              return %1 : tensor<4xf32>
            }
            """,
            "output_operand_aliases numbers operands some of which are tuples",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_line(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as caught:
        load_source(text)
    assert caught.value.diagnostic.location.startswith("-:")

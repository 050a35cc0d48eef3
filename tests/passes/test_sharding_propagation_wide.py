"""Upstream's pass on `linalg` ops by their maps, constants and several grids. `SHARDWRIGHT_FUZZ=N` takes N programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest

import shardwright.passes.sharding_propagation  # noqa: F401  (registers the pass)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.passes.registry import Pass, pass_named
from shardwright.rules.registry import forget_rule, rule
from tests.oracles import peers
from tests.passes.shard_programs import RULES, shard_program

_TRAVERSALS = ("forward", "backward", "forward-backward", "backward-forward")
_SPLIT = re.compile(r"#shard[.<]axisarray<?(\[.*?\]\]|\[\])>")


@pytest.fixture
def _interfaces() -> Iterator[None]:
    for name, text in RULES.items():
        rule(name, text)
    yield
    for name in RULES:
        forget_rule(name)


def _annotated(text: str, traversal: str = "backward-forward") -> str:
    declared = pass_named("sharding-propagation")
    assert isinstance(declared, Pass)
    module = load_module(text)
    declared.apply(module, {"traversal": traversal})
    return str(module.operation.get_asm(print_generic_op_form=True))


@pytest.mark.oracle
@pytest.mark.usefixtures("_interfaces")
@pytest.mark.parametrize("traversal", _TRAVERSALS)
def test_annotations_are_those_of_upstream(traversal: str, record_property: Callable[[str, object], None]) -> None:
    texts = [shard_program(seed) for seed in range(int(os.environ.get("SHARDWRIGHT_FUZZ", "100")))]
    answers = peers.ask("shard_propagation", [(text, traversal) for text in texts])
    assert all(answers)
    ours = [_annotated(before, traversal) for before, _ in answers]
    printed = peers.ask("shard_propagation", [(text, "") for text in ours])
    for text, (_, theirs), (_, mine) in zip(texts, answers, printed, strict=True):
        assert mine == theirs, text
    record_property("summary", f"{len(texts)} programs of linalg, tosa and constants annotated alike, {traversal}")


_GENERIC = """"builtin.module"() ({
  "shard.grid"() <{shape = array<i64: 2, 2>, sym_name = "g"}> : () -> ()
  "shard.grid"() <{shape = array<i64: 4>, sym_name = "h"}> : () -> ()
  "func.func"() <{function_type = (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>):
    %s = "shard.sharding"() <{grid = @g, operandSegmentSizes = array<i32: 0, 0>,
        split_axes = #shard.axisarray<[[0], [1]]>}> : () -> !shard.sharding
    %t = "shard.sharding"() <{grid = @h, operandSegmentSizes = array<i32: 0, 0>,
        split_axes = #shard.axisarray<[[], [0]]>}> : () -> !shard.sharding
    %x = "shard.shard"(%a, %s) <{annotate_for_users}> : (tensor<8x8xf32>, !shard.sharding) -> tensor<8x8xf32>
    %y = BODY : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "func.return"(%y) : (tensor<8x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_an_op_of_an_unknown_dialect_is_understood_by_its_maps() -> None:
    """Its properties are not among the attributes that MLIR lists. The result's rows are the operand's columns."""
    body = """"linalg.generic"(%x, %b) <{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>],
        operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%p: f32, %q: f32):
      "linalg.yield"(%p) : (f32) -> ()
    })"""
    text = _annotated(_GENERIC.replace("BODY", body))
    assert [split.strip("<>") for split in _SPLIT.findall(text)] == ["[[0], [1]]", "[[], [0]]"] + ["[[1], [0]]"] * 2


def test_an_op_of_which_nothing_is_known_stays_as_it_is() -> None:
    text = _GENERIC.replace("BODY", '"my.op"(%x, %b)')
    assert _annotated(text) == str(load_module(text).operation.get_asm(print_generic_op_form=True))


def test_annotations_on_two_grids_that_both_have_to_be_are_not_followed() -> None:
    other = '"shard.shard"(%b, %t) <{annotate_for_users}> : (tensor<8x8xf32>, !shard.sharding) -> tensor<8x8xf32>\n'
    text = _GENERIC.replace("BODY", '"stablehlo.add"(%x, %z)').replace("    %y =", f"    %z = {other}    %y =")
    assert _annotated(text) == str(load_module(text).operation.get_asm(print_generic_op_form=True))


def test_numbers_that_are_no_tensors_have_no_loops() -> None:
    number = '%n = "arith.constant"() {value = 4 : index} : () -> index\n'
    text = _GENERIC.replace("BODY", '"my.op"(%x, %b)').replace("    %y =", f"    {number}    %y =")
    assert _annotated(text) == str(load_module(text).operation.get_asm(print_generic_op_form=True))


def test_several_blocks_are_refused() -> None:
    text = """func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  "cf.br"()[^bb1] : () -> ()
^bb1:
  return %a : tensor<8xf32>
}"""
    with pytest.raises(ShardingError) as caught:
        _annotated(text)
    assert caught.value.diagnostic.location
    assert caught.value.diagnostic.remedy

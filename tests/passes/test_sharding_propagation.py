"""Annotating every operand and result, beside upstream's pass of the same name. `SHARDWRIGHT_FUZZ=N` takes N programs."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest

import shardwright.passes.sharding_propagation  # noqa: F401  (registers the pass)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.conversion import as_generic
from shardwright.notation.module_notations import module_notation
from shardwright.passes.registry import Pass, pass_named
from shardwright.rules.registry import forget_rule, rule
from tests.oracles import peers

_TRAVERSALS = ("forward", "backward", "forward-backward", "backward-forward")
_T = "tensor<8x8xf32>"


def _annotated(text: str, traversal: str = "backward-forward") -> str:
    declared = pass_named("sharding-propagation")
    assert isinstance(declared, Pass)
    module = load_module(as_generic(text, "-"))
    declared.apply(module, {"traversal": traversal})
    notation = module_notation("shard")
    return notation.spell(module_text(module))


def _lines(text: str, of: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if of in line]


_DOT = """shard.grid @g(shape = 2x4)
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %a1 = shard.shard %a to %s annotate_for_users : tensor<8x16xf32>
  %0 = stablehlo.tanh %a1 : tensor<8x16xf32>
  %1 = stablehlo.dot %0, %b : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}"""


def test_annotations_go_forward_through_a_matrix_product() -> None:
    text = _annotated(_DOT)
    assert _lines(text, "shard.sharding") == [
        "%0 = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding",
        "%3 = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding",
        "%5 = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding",
        "%7 = shard.sharding @g split_axes = [[1]] : !shard.sharding",
        "%10 = shard.sharding @g split_axes = [[0]] : !shard.sharding",
    ]
    assert _lines(text, "shard.shard ")[-1] == "%11 = shard.shard %9 to %10 : tensor<8x4xf32>"


def test_backward_alone_does_not_reach_later_ops() -> None:
    assert len(_lines(_annotated(_DOT, "backward"), "shard.sharding")) == 2


def test_an_annotated_result_is_spread_to_constants() -> None:
    text = _annotated("""shard.grid @g(shape = 4)
func.func @f() -> tensor<8xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %0 = stablehlo.negate %c : tensor<8xf32>
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %1 = shard.shard %0 to %s : tensor<8xf32>
  return %1 : tensor<8xf32>
}""")
    assert "shard.shard %cst to" in text


def test_a_reshape_passes_axes_that_its_major_loop_can_hold() -> None:
    program = """shard.grid @g(shape = {shape})
func.func @f(%a: tensor<32xf32>) -> tensor<8x4xf32> {{
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %a1 = shard.shard %a to %s annotate_for_users : tensor<32xf32>
  %0 = stablehlo.reshape %a1 : (tensor<32xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}"""
    fits, spills = (_lines(_annotated(program.format(shape=shape)), "shard.sharding") for shape in ("4", "3"))
    assert fits[-1].endswith("split_axes = [[0]] : !shard.sharding")
    assert spills[-1].endswith("split_axes = [[]] : !shard.sharding")


def test_a_sharding_from_nowhere_is_refused() -> None:
    text = """func.func @f(%a: tensor<8xf32>, %s: !shard.sharding) -> tensor<8xf32> {
  %a1 = "shard.shard"(%a, %s) : (tensor<8xf32>, !shard.sharding) -> tensor<8xf32>
  %0 = stablehlo.negate %a1 : tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    with pytest.raises(ShardingError, match="the sharding of an annotation is not known") as caught:
        _annotated(text)
    assert caught.value.diagnostic.op == "shard.shard"


def test_a_sharding_without_axes_is_refused() -> None:
    text = """func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %s = "shard.sharding"() {grid = @g} : () -> !shard.sharding
  %a1 = "shard.shard"(%a, %s) : (tensor<8xf32>, !shard.sharding) -> tensor<8xf32>
  %0 = stablehlo.negate %a1 : tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    declared = pass_named("sharding-propagation")
    assert isinstance(declared, Pass)
    with pytest.raises(ShardingError, match=r"a malformed shard\.sharding"):
        declared.apply(load_module(text), declared.defaults())


# Upstream


@pytest.fixture
def _interfaces() -> Iterator[None]:
    lines = {"tosa.tanh": "i j -> i j", "tosa.add": "i j, i j -> i j", "linalg.matmul": "i k, k j, i j -> i j"}
    for name, text in lines.items():
        rule(name, text)
    yield
    for name in lines:
        forget_rule(name)


def _split(rng: random.Random) -> str:
    dims: list[list[int]] = [[], []]
    for axis in rng.sample(range(3), 3):
        if rng.random() < 0.5:
            dims[rng.randrange(2)].append(axis)
    return str(dims)


def _program(seed: int) -> str:
    rng = random.Random(seed)
    lines: list[str] = []
    values = ["%a", "%b", "%c"]

    def shard(value: str, tail: str) -> str:
        number = len(lines)
        lines.append(f"%s{number} = shard.sharding @g split_axes = {_split(rng)} : !shard.sharding")
        lines.append(f"%x{number} = shard.shard {value} to %s{number}{tail} : {_T}")
        return f"%x{number}"

    for _ in range(rng.randint(2, 6)):
        op = rng.choice(("tanh", "add", "matmul"))
        read = [rng.choice(values[-4:]) for _ in range(1 if op == "tanh" else 2)]
        read = [shard(value, " annotate_for_users") if rng.random() < 0.2 else value for value in read]
        made = f"%v{len(lines)}"
        if op == "matmul":
            lines.append(f"{made} = linalg.matmul ins({', '.join(read)} : {_T}, {_T}) outs(%c : {_T}) -> {_T}")
        else:
            lines.append(f"{made} = tosa.{op} {', '.join(read)} : ({', '.join([_T] * len(read))}) -> {_T}")
        values.append(shard(made, "") if rng.random() < 0.2 else made)
    head = f"shard.grid @g(shape = 2x2x2)\nfunc.func @f(%a: {_T}, %b: {_T}, %c: {_T}) -> {_T} {{"
    return "\n".join([head, *lines, f"return {values[-1]} : {_T}\n}}"])


@pytest.mark.oracle
@pytest.mark.usefixtures("_interfaces")
@pytest.mark.parametrize("traversal", _TRAVERSALS)
def test_annotations_are_those_of_upstream(traversal: str, record_property: Callable[[str, object], None]) -> None:
    texts = [_program(seed) for seed in range(int(os.environ.get("SHARDWRIGHT_FUZZ", "60")))]
    answers = peers.ask("shard_propagation", [(text, traversal) for text in texts])
    assert all(answers)
    declared = pass_named("sharding-propagation")
    assert isinstance(declared, Pass)
    ours = []
    for before, _ in answers:
        module = load_module(before)
        declared.apply(module, {"traversal": traversal})
        text = str(module.operation.get_asm(print_generic_op_form=True))
        ours.append(text)
    printed = peers.ask("shard_propagation", [(text, "") for text in ours])
    for text, (_, theirs), (_, mine) in zip(texts, answers, printed, strict=True):
        assert mine == theirs, text
    record_property("summary", f"{len(texts)} programs annotated as upstream does, {traversal}")

"""Rules that users give: by a line, by a function, and by the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright import load
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import Session
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.propagation import propagate
from shardwright.rules.registry import forget_rule, rule, rule_for
from shardwright.rules.rule import ShardingRule, identity_rule

_NAMES = ("my.op", "@my_kernel", "@mhlo.tan", "stablehlo.tanh")
_MATRIX = TensorType((4, 8), "f32")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in _NAMES:
        forget_rule(name)


def _op(name: str = "my.op", **attributes: str) -> Signature:
    return Signature(name, tuple(sorted(attributes.items())), (_MATRIX,), (_MATRIX,))


def test_a_rule_holds_from_when_it_is_given_until_it_is_forgotten() -> None:
    assert rule_for(_op()) is None
    rule("my.op", "i j -> i j")
    assert rule_for(_op()) == ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), custom=True)
    forget_rule("my.op")
    assert rule_for(_op()) is None


def test_a_function_gives_text_a_rule_or_none() -> None:
    @rule("my.op")
    def by_attribute(signature: Signature) -> ShardingRule | str | None:
        answers: dict[str, ShardingRule | str] = {"text": "i j -> i j", "rule": identity_rule((4, 8))}
        return answers.get(signature.get("how", ""))

    expected = ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), custom=True)
    assert by_attribute(_op(how='"text"')) == "i j -> i j"
    assert rule_for(_op(how='"text"')) == expected
    assert rule_for(_op(how='"rule"')) == expected
    assert rule_for(_op(how='"none"')) is None


def test_the_program_comes_before_users_and_these_before_us() -> None:
    tanh = Signature("stablehlo.tanh", (), (_MATRIX,), (_MATRIX,))
    rule("stablehlo.tanh", "i j -> i j", need_replication={"i"})
    given = rule_for(tanh)
    assert given is not None
    assert given.need_replication == {0}
    attribute = ("sdy.sharding_rule", "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8}, custom>")
    taken = rule_for(replace(tanh, attributes=(attribute,)))
    assert taken is not None
    assert taken.need_replication == frozenset()


@pytest.mark.parametrize(
    "made",
    [
        ShardingRule((4,), (((0,),),), (((0,),),)),
        ShardingRule((4,), (((0,), (1,)),), (((0,), (1,)),)),
        ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), frozenset({7})),
        ShardingRule((4, 8, 2), (((0,), (1,)),), (((0,), (1,)),)),
        ShardingRule((4, 8), (((0,), (0,)),), (((0,), (1,)),)),
        ShardingRule((4, 8), (((), (1,)),), (((0,), (1,)),)),
        ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), frozenset({0})),
        ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), frozenset(), frozenset({0}), frozenset({0})),
        17,
        "i -> i",
    ],
)
def test_a_rule_that_does_not_fit_its_op_is_refused(made: ShardingRule) -> None:
    rule("my.op")(lambda signature: made)
    with pytest.raises(ShardingError, match="does not fit the op") as caught:
        rule_for(_op())
    assert caught.value.diagnostic.op == "my.op"


def test_a_function_that_fails_is_a_diagnostic_of_the_op() -> None:
    @rule("my.op")
    def divides(signature: Signature) -> str:
        return "i j -> i j" * (1 // len(signature.attributes))

    with pytest.raises(ShardingError, match="the function that gives the op's rule failed") as caught:
        rule_for(_op())
    assert caught.value.diagnostic.op == "my.op"
    assert caught.value.diagnostic.cause == "ZeroDivisionError: integer division or modulo by zero"


def test_a_diagnostic_of_a_function_is_kept() -> None:
    rule("my.op")(lambda signature: "i j ->> i j")
    with pytest.raises(ShardingError, match="column 7"):
        rule_for(_op())


@pytest.mark.parametrize(
    "kinds", [{"reduction": False}, {"need_replication": "i"}, {"permutation": {"i"}}, {"blocked": ["i"]}]
)
def test_kinds_of_factors_need_a_text_that_names_them(kinds: dict[str, Any]) -> None:
    with pytest.raises(ShardingError, match="without a rule that has factors"):
        rule("my.op", **kinds)
    assert rule_for(_op()) is None


@pytest.mark.parametrize("name", ["", "my op", "@a b", None, 17])
def test_a_name_that_no_op_can_have_is_refused(name: Any) -> None:
    with pytest.raises(ShardingError, match="is not the name of an op"):
        rule(name, "i -> i")


_PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                %b: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.custom_call @my_kernel(%a, %b) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}"""


def test_a_kernel_with_a_rule_is_propagated_through_and_split() -> None:
    rule("@my_kernel", "i k, k j -> i j")
    propagated = propagate(read(load_module(_PROGRAM)))
    b = propagated.shardings[propagated.main.block.arguments[1]]
    assert repr(b) == "[{y}, {}]"
    assert repr(propagated.main.result_shardings) == "[[{x}, {}]]"
    names = [op.name for op in materialize(propagated).graph.walk()]
    assert names == ["stablehlo.custom_call", "sdy.all_reduce", "func.return"]


def test_a_kernel_without_a_rule_is_computed_whole() -> None:
    names = [op.name for op in materialize(propagate(read(load_module(_PROGRAM)))).graph.walk()]
    assert names == ["sdy.all_gather", "stablehlo.custom_call", "func.return"]


def test_a_call_with_a_rule_is_computed_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "tan.mlir"
    file.write_text("""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.custom_call @mhlo.tan(%a) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}""")
    whole = load(file).shard().partition()
    rule("@mhlo.tan", "i j -> i j")
    parts = load(file).shard().partition()
    assert whole.traffic.total.static > 0
    assert parts.traffic.total.static == 0
    assert parts.verify().ok


def test_a_rule_given_in_one_session_is_heeded_in_all() -> None:
    graph = read(load_module(_PROGRAM))
    before = propagate(graph)
    with Session():
        rule("@my_kernel", "i k, k j -> i j")
    assert propagate(graph).main.result_shardings != before.main.result_shardings


def test_a_rule_that_does_not_fit_is_told_at_the_line_of_its_op() -> None:
    rule("@my_kernel", "i k, k j, j -> i j")
    with pytest.raises(ShardingError) as raised:
        propagate(read(load_module(_PROGRAM), "kernel.mlir"))
    line = next(number for number, line in enumerate(_PROGRAM.splitlines(), 1) if "my_kernel" in line)
    assert raised.value.diagnostic.location.startswith(f"kernel.mlir:{line}")
    assert "my_kernel" in raised.value.diagnostic.op

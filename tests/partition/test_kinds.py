"""A value that is declared partial by another kind than its op combines by is refused, in every notation."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError

_DOT = "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
_TYPE = ": (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>"
_SUM = "stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]"
_MAX = "stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1]"
_NEGATED = """%0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], unreduced={"y"}>]>} : tensor<8x16xf32>
  %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], unreduced=max{"y"}>]>} : tensor<8x16xf32>
  %2 = sdy.all_reduce max {"y"} %1 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>"""
_LOOP = """%i = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %0:2 = stablehlo.while(%k = %i, %s = %z) : tensor<i32>, tensor<8x8xf32>
  cond { %p = stablehlo.compare LT, %k, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.return %p : tensor<i1> }
  do { %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
       stablehlo.return %k, %d : tensor<i32>, tensor<8x8xf32> }
  %1 = sdy.sharding_constraint %0#1 <@mesh, [{"x"}, {}], unreduced=max{"y"}> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>"""


def _layout(rank: int, kind: str) -> str:
    return f'<@mesh, [{{"x"}}{", {}" * (rank - 1)}], unreduced={kind}{{"y"}}>'


def _program(body: str, results: str = "tensor<8x8xf32>") -> str:
    return f"""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                %b: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) -> {results} {{
  {body}
}}"""


def _stated_dot(kind: str) -> str:
    return f"{_DOT} {{sdy.sharding = #sdy.sharding_per_value<[{_layout(2, kind)}]>}} {_TYPE}"


def _reduced(op: str, kind: str) -> str:
    annotation = f"{{sdy.sharding = #sdy.sharding_per_value<[{_layout(1, kind)}]>}}"
    body = f"%c = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = {op} {annotation}"
    return _program(
        f"{body} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>\n  return %0 : tensor<8xf32>", "tensor<8xf32>"
    )


_RETURN = "\n  return %0 : tensor<8x8xf32>"
_CONSTRAINED = f"{_DOT} {_TYPE}\n  %1 = sdy.sharding_constraint %0 {_layout(2, 'max')} : tensor<8x8xf32>"
_MESH = """mesh.mesh @grid(shape = 2x4)
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %sa = mesh.sharding @grid split_axes = [[0], [1]] : !mesh.sharding
  %sb = mesh.sharding @grid split_axes = [[1]] : !mesh.sharding
  %sc = mesh.sharding @grid split_axes = [[0]] partial = max [1] : !mesh.sharding
  %1 = mesh.shard %a to %sa annotate_for_users : tensor<8x16xf32>
  %2 = mesh.shard %b to %sb annotate_for_users : tensor<16x8xf32>
  %0 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %3 = mesh.shard %0 to %sc : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}"""

_CASES = {
    "on the op": (_program(_stated_dot("max") + _RETURN), 4, "max", "sum"),
    "and reduced so": (
        _program(
            f'{_stated_dot("max")}\n  %1 = sdy.all_reduce max {{"y"}} %0 out_sharding=<@mesh, [{{"x"}}, {{}}]>'
            " : tensor<8x8xf32>\n  return %1 : tensor<8x8xf32>"
        ),
        4,
        "max",
        "sum",
    ),
    "and scattered so": (
        _program(
            f'{_stated_dot("min")}\n  %1 = sdy.reduce_scatter min [{{}}, {{"y"}}] %0 out_sharding=<@mesh, [{{"x"}}, {{"y"}}]>'
            " : tensor<8x8xf32>\n  return %1 : tensor<8x8xf32>"
        ),
        4,
        "min",
        "sum",
    ),
    "by a constraint": (_program(_CONSTRAINED + "\n  return %1 : tensor<8x8xf32>"), 4, "max", "sum"),
    "of a result": (
        _program(f"{_DOT} {_TYPE}{_RETURN}", f"(tensor<8x8xf32> {{sdy.sharding = #sdy.sharding{_layout(2, 'max')}}})"),
        4,
        "max",
        "sum",
    ),
    "of a sum": (_reduced(_SUM, "max"), 5, "max", "sum"),
    "of a maximum": (_reduced(_MAX, ""), 5, "sum", "max"),
    "an average": (_reduced(_SUM, "average"), 5, "average", "sum"),
    "round a loop": (_program(_LOOP), 9, "max", "sum"),
    "of a partial operand": (_program(_NEGATED, "tensor<8x16xf32>"), 5, "max", "sum"),
    "by upstream's mesh dialect": (_MESH, 8, "max", "sum"),
}


@pytest.mark.parametrize("name", _CASES)
def test_another_kind_than_the_op_combines_by_is_refused_at_its_line(name: str) -> None:
    text, line, stated, made = _CASES[name]
    with pytest.raises(
        ShardingError, match=f"declared partial by {stated}, and its contributions combine by {made}"
    ) as e:
        sw.load(text).shard().partition()
    assert e.value.diagnostic.location.startswith(f"-:{line}")
    assert e.value.diagnostic.remedy == f"declare it partial by {made}, or reduced"


@pytest.mark.parametrize(
    "text", [_program(_stated_dot("") + _RETURN), _reduced(_SUM, ""), _reduced(_MAX, "max")], ids=["dot", "sum", "max"]
)
def test_the_kind_that_the_op_combines_by_is_taken(text: str) -> None:
    sw.load(text).shard().partition()

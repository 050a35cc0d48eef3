"""Programs that mix collectives and plain ops, and results without a sharding beside a collective."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.program import Spmd

_GATHER = '%g = sdy.all_gather [{}, {"y"}] %a out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x16xf32>'
_DOT = "stablehlo.dot_general {0}, %b, contracting_dims = [1] x [0]"
_TYPES = " : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>"
_PARTIAL = ' {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], unreduced={"y"}>]>}'


def _spmd(body: str, results: str = "tensor<8x8xf32>") -> Spmd:
    text = f"""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                %b: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) -> {results} {{
  {body}
}}"""
    return sw.load(text).shard().partition()


_LOOP = f"""{_GATHER}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %s = %g) : tensor<i32>, tensor<8x16xf32>
  cond {{ %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.return %p : tensor<i1> }}
  do {{ %n = stablehlo.add %i, %one : tensor<i32>
       %d = stablehlo.add %s, %a : tensor<8x16xf32>
       stablehlo.return %n, %d : tensor<i32>, tensor<8x16xf32> }}
  return %0#1 : tensor<8x16xf32>"""

_MIXED = {
    "a product of what is gathered": (
        f"{_GATHER}\n  %0 = {_DOT.format('%g')}{_TYPES}\n  return %0 : tensor<8x8xf32>",
        "tensor<8x8xf32>",
    ),
    "a product beside a gather": (
        f"{_GATHER}\n  %0 = {_DOT.format('%a')}{_TYPES}\n  return %0, %g : tensor<8x8xf32>, tensor<8x16xf32>",
        "(tensor<8x8xf32>, tensor<8x16xf32>)",
    ),
    "an op that is computed whole": (
        f"{_GATHER}\n  %0 = stablehlo.reverse %a, dims = [1] : tensor<8x16xf32>\n"
        "  %1 = stablehlo.add %0, %g : tensor<8x16xf32>\n  return %1 : tensor<8x16xf32>",
        "tensor<8x16xf32>",
    ),
    "a loop": (_LOOP, "tensor<8x16xf32>"),
}


@pytest.mark.parametrize("name", _MIXED)
def test_collectives_beside_plain_ops_ask_for_layouts(name: str) -> None:
    spmd = _spmd(*_MIXED[name])
    kept = any(op.name == "sdy.all_gather" for op in spmd.explicit.walk())
    assert kept or any(note.op == "sdy.all_gather" for note in spmd.notes)
    assert spmd.verify().ok


def test_a_result_without_a_sharding_lies_as_the_collective_leaves_it() -> None:
    reduced = '%1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>'
    spmd = _spmd(f"%0 = {_DOT.format('%a')}{_PARTIAL}{_TYPES}\n  {reduced}\n  return %1 : tensor<8x8xf32>")
    assert repr(spmd.out_shardings) == "([{x}, {}],)"
    assert spmd.verify().ok


def test_a_program_that_is_explicit_but_for_one_op_is_refused_at_its_line() -> None:
    sharded = ' {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>}'
    with pytest.raises(ShardingError, match=r"stablehlo\.tanh is not local") as raised:
        _spmd(
            f"{_GATHER}\n  %0 = stablehlo.tanh %g{sharded} : tensor<8x16xf32>\n  return %0 : tensor<8x16xf32>",
            "tensor<8x16xf32>",
        )
    assert raised.value.diagnostic.location.startswith("-:5")


def test_a_collective_that_gives_each_device_something_else_is_refused_at_its_line() -> None:
    groups = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, scatter_dimension = 0 : i64"
    body = f"""%0 = "stablehlo.reduce_scatter"(%a) <{{{groups}}}> ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<8x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>"""
    with pytest.raises(ShardingError, match=r"stablehlo\.reduce_scatter cannot be partitioned") as raised:
        _spmd(body, "tensor<1x16xf32>")
    assert raised.value.diagnostic.location.startswith("-:4")

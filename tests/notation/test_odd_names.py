"""Names that need quotes: every stage and notation that has them can be read again, and the others refuse them."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.notation.names import quoted, symbol_text

_NAMES = ("a b", 'a"b', "a\nb", "é", "a\\b", "x:y", "1", "@", "a,b", "%p", "a=b", "x#1")


def _program(mesh: str = "mesh", axis: str = "x", function: str = "main") -> str:
    sharding = f"sdy.sharding = #sdy.sharding<{symbol_text(mesh)}, [{{}}, {{{quoted(axis)}}}]>"
    return f"""sdy.mesh {symbol_text(mesh)} = <[{quoted(axis)}=2]>
func.func {symbol_text(function)}(%a: tensor<4x8xf32> {{{sharding}}}) -> tensor<4x4xf32> {{
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1]
      : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}}
"""


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("what", ["mesh", "axis", "function"])
def test_every_stage_can_be_read_again(name: str, what: str) -> None:
    spmd = sw.load(_program(**{what: name})).plan().partition()
    assert spmd.traffic.kinds  # the sum over the axis is seen, whatever it is called
    for stage in ("explicit", "local"):
        sw.load(spmd.module(stage))


@pytest.mark.parametrize("to", ["sdy", "mhlo", "shard", "rfc"])
@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("what", ["mesh", "axis", "function"])
def test_every_notation_can_be_read_again_or_refuses_the_name(name: str, what: str, to: str) -> None:
    text = _program(**{what: name})
    try:
        written = sw.convert(text, to=to)
    except ShardingError as error:
        assert to in ("shard", "rfc")
        assert error.diagnostic.message == f"the name {name!r} cannot be carried over"
    else:
        assert (
            quoted(name) in sw.convert(written, to="sdy")
            or symbol_text(name) in sw.convert(written, to="sdy")
            or to == "mhlo"
        )


@pytest.mark.parametrize("name", _NAMES)
def test_manual_axes_can_be_read_again_at_every_stage(name: str) -> None:
    sharding = f"<@mesh, [{{}}, {{{quoted(name)}}}]>"
    plan = sw.load(
        f"""sdy.mesh @mesh = <[{quoted(name)}=2, "one"=1]>
func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %0 = sdy.manual_computation(%a) in_shardings=[{sharding}] out_shardings=[{sharding}]
      manual_axes={{"one", {quoted(name)}}} (%b: tensor<4x4xf32>) {{
    %1 = stablehlo.negate %b : tensor<4x4xf32>
    sdy.return %1 : tensor<4x4xf32>
  }} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}}
"""
    ).plan()
    assert f"manual_axes={{{quoted(name)}" in plan.module()
    sw.load(plan.module())
    assert "tensor<4x4xf32>" in plan.partition().module("local")


@pytest.mark.parametrize("what", ["mesh", "function"])
def test_symbols_without_a_name_are_refused(what: str) -> None:
    text = _program().replace("@mesh" if what == "mesh" else "@main", '@""')
    with pytest.raises(ShardingError, match="a symbol has an empty name"):
        sw.load(text)

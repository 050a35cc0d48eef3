"""Calls that make too many ops of a program, or go too deep, are refused at the call."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.ir import inlining, read

_TYPE = "(tensor<4xf32>) -> tensor<4xf32>"
_SHARDED = ' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'


def _calls(depth: int, twice: bool, sharding: str = "") -> str:
    functions = ['sdy.mesh @mesh = <["x"=2]>', _function("public @main", f"%r = call @f0(%a) : {_TYPE}")]
    for number in range(depth):
        body = f"%r = call @f{number + 1}(%a) : {_TYPE}"
        if twice:
            body = f"%0 = call @f{number + 1}(%a) : {_TYPE}\n  %r = call @f{number + 1}(%0) : {_TYPE}"
        functions.append(_function(f"private @f{number}", body, sharding))
    functions.append(_function(f"private @f{depth}", "%r = stablehlo.tanh %a : tensor<4xf32>", sharding))
    return "\n".join(functions)


def _function(name: str, body: str, sharding: str = "") -> str:
    return (
        f"func.func {name}(%a: tensor<4xf32>{sharding}) -> tensor<4xf32> {{\n  {body}\n  return %r : tensor<4xf32>\n}}"
    )


_FEW = 20_000
"""As good a limit as that of a million, which is reached in half a minute."""


@pytest.mark.parametrize("most", [_FEW, pytest.param(inlining.MOST_COPIED, marks=pytest.mark.long)])
@pytest.mark.parametrize("sharding", ["", _SHARDED])
def test_calls_that_double_at_every_level_are_refused(
    sharding: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (inlining, read):
        monkeypatch.setattr(module, "MOST_COPIED", most)
    with pytest.raises(ShardingError) as error:
        parse_source(_calls(40, twice=True, sharding=sharding), "f.mlir")
    told = error.value.diagnostic
    assert f"the calls of the program make more than {most} ops" in told.message
    assert (told.op, told.location[:7]) == ("func.call", "f.mlir:")


def test_deep_calls_are_read_and_too_deep_ones_refused() -> None:
    assert parse_source(_calls(98, twice=False), "f.mlir").graph.op_count == 2
    with pytest.raises(ShardingError) as error:
        parse_source(_calls(400, twice=False), "f.mlir")
    told = error.value.diagnostic
    assert (told.message, told.op) == ("calls are nested more than 100 deep", "func.call")
    assert told.location == "f.mlir:403"

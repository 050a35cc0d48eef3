"""Passes that read a module as a program take tuples apart, as the command does when it reads one."""

from __future__ import annotations

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step

_PAIR = "tuple<tensor<8x16xf32>, tensor<8xi32>>"
_PACKED = f"""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}, %b: tensor<8xi32>)
    -> (tensor<8x16xf32>, tensor<8xi32>) {{
  %t = stablehlo.tuple %a, %b : {_PAIR}
  %x = stablehlo.get_tuple_element %t[0] : ({_PAIR}) -> tensor<8x16xf32>
  %y = stablehlo.get_tuple_element %t[1] : ({_PAIR}) -> tensor<8xi32>
  %z = stablehlo.cosine %x : tensor<8x16xf32>
  return %z, %y : tensor<8x16xf32>, tensor<8xi32>
}}
"""
_PLAIN = _PACKED[: _PACKED.index("  %t")] + _PACKED[_PACKED.index("  %z") :].replace("%x", "%a").replace("%y", "%b")


def _after(passes: str, text: str) -> str:
    module = load_module(text)
    for step in parse_pipeline(f"builtin.module({passes})"):
        run_step(module, step)
    return module_text(module)


@pytest.mark.parametrize(
    "passes",
    [
        "sdy-propagation-pipeline",
        "sdy-aggressive-propagate",
        "func.func(sdy-populate-op-sharding-rules)",
        "sdy-propagation-pipeline,sdy-convert-global-to-local",
        "optimize-collectives",
    ],
)
def test_the_program_is_that_without_them(passes: str) -> None:
    made = _after(passes, _PACKED)
    assert made == _after(passes, _PLAIN)
    assert "tuple<" not in made


def test_passes_that_look_at_ops_alone_leave_them() -> None:
    assert _PAIR in _after("sdy-close-shardings", _PACKED)


def test_a_sharding_of_a_tuple_is_refused_at_its_line() -> None:
    sharding = '{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}'
    text = _PACKED.replace("stablehlo.get_tuple_element %t[0]", f"stablehlo.get_tuple_element %t[0] {sharding}")
    with pytest.raises(ShardingError, match="packs or unpacks values has") as caught:
        _after("sdy-aggressive-propagate", text)
    assert caught.value.diagnostic.location.startswith("-:5")

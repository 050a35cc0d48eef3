"""The passes of Shardy's local conversion, which our own stages make one: a script that names them runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step, steps_of

_EXAMPLES = Path(__file__).parents[2] / "examples"
_SCRIPT = (
    "builtin.module(inline,symbol-dce,sdy-propagation-pipeline,"
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true},sdy-pad-for-divisibility),"
    "sdy-resolve-permutation-factors{enable-halo-exchange=false},func.func(sdy-reshard-to-collectives),"
    "sdy-convert-global-to-local,sdy-drop-sharding-and-mesh)"
)
_SHORT = (
    "builtin.module(inline,symbol-dce,sdy-propagation-pipeline,sdy-convert-global-to-local,sdy-drop-sharding-and-mesh)"
)
_UNEVEN = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<10x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<f32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<10x8xf32>
  %1 = stablehlo.exponential %0 : tensor<10x8xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<10x8xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
"""


def _run(text: str, pipeline: str) -> str:
    module = load_module(text)
    for step in parse_pipeline(pipeline):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


def _ops(text: str) -> Counter[str]:
    return Counter(re.findall(r"stablehlo\.\w+", text))


@pytest.mark.parametrize("name", ["mlp", "gpt2", "uneven"])
def test_the_whole_script_makes_the_program_of_one_device(name: str) -> None:
    text = _UNEVEN if name == "uneven" else (_EXAMPLES / f"{name}.mlir").read_text()
    made = _run(text, _SCRIPT)
    assert "sdy." not in made.replace("sdy.mesh", "")  # which replica groups refer to
    assert _ops(made) == _ops(_run(text, _SHORT))


def test_arguments_may_be_taken_whole() -> None:
    whole = _SHORT.replace("sdy-convert-global-to-local", "sdy-convert-global-to-local{whole-arguments=true}")
    split, made = _run(_UNEVEN, _SHORT), _run(_UNEVEN, whole)
    assert "%arg0: tensor<10x2xf32>" in split
    assert "%arg0: tensor<10x8xf32>" in made
    assert "stablehlo.partition_id" in made
    assert _ops(made)["stablehlo.all_to_all"] == _ops(split)["stablehlo.all_to_all"] == 1


@pytest.mark.parametrize("name", ["sdy-pad-for-divisibility", "sdy-resolve-permutation-factors"])
def test_alone_each_makes_communication_explicit(name: str) -> None:
    propagated = "builtin.module(sdy-propagation-pipeline"
    alone = _run(_UNEVEN, f"{propagated},{'func.func(' + name + ')' if 'pad' in name else name})")
    assert alone == _run(_UNEVEN, f"{propagated},func.func(sdy-reshard-to-collectives))")
    assert "sdy.reshard" not in alone
    assert "tensor<12x8xf32>" in alone, "10 rows are padded to 12, and split in four"


_ONE_DEVICE = """sdy.mesh @mesh = <["x"=2]>
sdy.mesh @one = <[], device_ids=[1]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32>, tensor<4xf32>) {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<8x8xf32>
  %1:2 = stablehlo.custom_call @f(%0) {sdy.sharding = #sdy.sharding_per_value<[<@one, []>, <@mesh, [{}]>]>}
    : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4xf32>)
  return %1#0, %1#1 : tensor<8x8xf32>, tensor<4xf32>
}
"""
_RESOLVE = "sdy-resolve-single-device-sharding"


def test_what_one_device_computes_all_compute() -> None:
    text = _run(_ONE_DEVICE, f"builtin.module(func.func({_RESOLVE}))")
    assert "stablehlo.tanh %arg0 : tensor<8x8xf32>" in text
    assert "custom_call @f(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, [{}]>]>}" in text
    assert "tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4xf32>)" in _run(
        text, "builtin.module(sdy-convert-global-to-local,sdy-drop-sharding-and-mesh)"
    )


@pytest.mark.parametrize(
    "op",
    [
        "%0 = stablehlo.custom_call @f(%a) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}"
        " : (tensor<8xf32>) -> tensor<8xf32>",
        "stablehlo.custom_call @f(%a) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}"
        " : (tensor<8xf32>) -> ()",
    ],
)
def test_an_effect_on_one_device_is_refused(op: str) -> None:
    module = load_module(
        f"sdy.mesh @one = <[], device_ids=[3]>\nfunc.func @main(%a: tensor<8xf32>) {{\n  {op}\n  return\n}}"
    )
    before = module_text(module)
    (step,) = steps_of(_RESOLVE)
    with pytest.raises(ShardingError, match="is to run on device 3 alone, and has effects") as caught:
        run_step(module, step)
    assert (caught.value.diagnostic.location or "").startswith("-:3")
    assert module_text(module) == before

"""Dense complex constants, of which jaxlib hands out no attribute, through the passes that copy and merge constants."""

from __future__ import annotations

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step

TEXT = """\
func.func @main(%a: tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) {
  %0 = stablehlo.constant {a.b = 1} dense<(0.0, 1.0)> : tensor<2xcomplex<f32>> loc("f.py":3:4)
  %1 = stablehlo.add %0, %a : tensor<2xcomplex<f32>>
  %2 = stablehlo.add %0, %1 : tensor<2xcomplex<f32>>
  return %1, %2 : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
}
"""
CONSTANT = "sdy.constant {a.b = 1 : i64} dense<(0.000000e+00,1.000000e+00)>"


def after(pipeline: str) -> str:
    module = load_module(TEXT)
    for step in parse_pipeline(f"builtin.module({pipeline})"):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module, locations=True)


def test_a_complex_constant_is_split_with_its_attributes_and_its_place() -> None:
    text = after("sdy-constant-or-scalar-splitter")
    assert text.count(CONSTANT) == 2
    assert text.count("stablehlo.constant") == 0
    assert text.count('"f.py":3:4') == 1  # one location, of both


def test_equal_complex_constants_are_merged() -> None:
    assert after("sdy-constant-or-scalar-splitter,func.func(sdy-constant-or-scalar-merger)").count(CONSTANT) == 1

"""The passes over collectives by name: in text, out text, in sdy and in the form of the mesh RFC."""

from __future__ import annotations

import re

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.ir.context import load_module, module_text
from shardwright.optimize import optimizations
from shardwright.passes.pipeline import run_step, steps_of
from tests.optimize.cases import CASES

_TEXT = CASES["a sum of sums"].text


def _after(text: str, name: str, **options: bool) -> str:
    module = load_module(text)
    for step in steps_of(name, options):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


def test_a_pass_by_name_does_what_it_does() -> None:
    assert _after(_TEXT, "optimize-all-reduce-reassociate").count("sdy.all_reduce") == 1
    assert _after(_TEXT, "optimize-all-reduce-fold").count("sdy.all_reduce") == 2


@pytest.mark.parametrize("name", [f"optimize-{one.name}" for one in optimizations()])
def test_every_pass_is_there(name: str) -> None:
    assert "func.func" in _after(_TEXT, name)


def test_all_together() -> None:
    assert _after(_TEXT, "optimize-collectives").count("sdy.all_reduce") == 1
    exact = _after(_TEXT, "optimize-collectives", exact=True)
    _, bucket = exact.split("sdy.manual_computation")
    names = re.findall(r"stablehlo\.all_reduce|stablehlo\.concatenate|sdy\.return|sdy\.all_reduce", bucket)
    assert names == ["stablehlo.all_reduce", "stablehlo.all_reduce", "sdy.return"]
    assert "sdy.all_reduce" not in exact


def test_the_log_says_what_is_saved(capsys: pytest.CaptureFixture[str]) -> None:
    _after(_TEXT, "optimize-collectives", log=True)
    assert "all-reduce-reassociate: sdy.all_reduce: 1 op behind it may come before the reduction: 256 B and" in (
        capsys.readouterr().err
    )
    _after(_TEXT, "optimize-collectives")
    assert not capsys.readouterr().err


def test_what_is_not_explicit_yet_is_made_so() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
        -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
      %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }"""
    assert "sdy.all_to_all" in _after(text, "optimize-collectives")


def test_a_module_without_a_mesh_stays() -> None:
    text = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}"
    assert _after(text, "optimize-collectives") == module_text(load_module(text))

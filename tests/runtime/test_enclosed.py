"""Per-device modules within a manual computation: at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.ir.context import context, ir, load_module
from shardwright.mesh import Mesh
from shardwright.runtime import xla
from shardwright.runtime.enclosed import enclose
from tests.frontends.devices import eight_devices

eight_devices()

MESH = Mesh(x=4, y=2)
NUMBER = "%p = stablehlo.partition_id : tensor<ui32>\n  %0 = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>"
NOTHING_TAKEN = f"func.func @main() -> tensor<f32> {{\n  {NUMBER}\n  return %0 : tensor<f32>\n}}"
SCALARS = f"""
func.func @main(%x: tensor<f32>, %y: tensor<2x3xf32> {{tf.aliasing_output = 1 : i32}}) -> (tensor<f32>, tensor<2x3xf32>) {{
  {NUMBER}
  %1 = stablehlo.add %0, %x : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %3 = stablehlo.add %2, %y : tensor<2x3xf32>
  return %1, %3 : tensor<f32>, tensor<2x3xf32>
}}"""
TAKEN_NAMES = f"""
func.func private @program_of_a_device(%x: tensor<f32>) -> tensor<f32> {{
  %0 = stablehlo.add %x, %x : tensor<f32>
  return %0 : tensor<f32>
}}
func.func @main(%x: tensor<0x3xf32>) -> (tensor<0x3xf32>, tensor<f32>) {{
  {NUMBER}
  %1 = func.call @program_of_a_device(%0) : (tensor<f32>) -> tensor<f32>
  return %x, %1 : tensor<0x3xf32>, tensor<f32>
}}"""
NUMBERS = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        pytest.param(NOTHING_TAKEN, [], [NUMBERS], id="nothing is taken"),
        pytest.param(
            SCALARS,
            [NUMBERS, np.ones((8, 2, 3), np.float32)],
            [2 * NUMBERS, 1 + np.broadcast_to(2 * NUMBERS[:, None, None], (8, 2, 3))],
            id="scalars, and a donated argument",
        ),
        pytest.param(
            TAKEN_NAMES,
            [np.zeros((8, 0, 3), np.float32)],
            [np.zeros((8, 0, 3), np.float32), 2 * NUMBERS],
            id="names that are taken, and no elements",
        ),
    ],
)
def test_each_device_runs_its_program(
    text: str, inputs: list[np.ndarray], expected: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xla, "_SKIPPING", ())
    results = xla.compile_local(text + "\n", MESH).run([list(rows) for rows in inputs])
    for shards, of_each in zip(results, expected, strict=True):
        np.testing.assert_array_equal(np.stack(shards), of_each)


def test_what_is_said_of_arguments_and_results_stays_at_the_entry() -> None:
    module = load_module(SCALARS + "\n")
    with context():
        enclose(module, module.body.operations[0].operation, 8)
    assert module.operation.verify()
    text = str(module)
    entry = text[text.index("func.func public @main") :].split("\n", 1)[0]
    assert "tensor<16x3xf32> {sdy.sharding" in entry
    assert "tf.aliasing_output = 1" in entry
    assert text.count("tf.aliasing_output") == 1
    assert isinstance(module, ir.Module)

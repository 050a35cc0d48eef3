"""An op is erased only when nothing reads it."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module, module_text
from shardwright.ir.erasing import erase

_TEXT = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  return %a : tensor<4xf32>
}
"""


def test_what_is_read_is_not_erased() -> None:
    module = load_module(_TEXT)
    before = module_text(module)
    tanh = module.body.operations[0].regions[0].blocks[0].operations[0]
    with pytest.raises(RuntimeError, match=r"stablehlo\.tanh cannot be erased while stablehlo\.negate reads it"):
        erase(tanh.operation)
    assert module_text(module) == before


def test_readers_first_all_can_be_erased() -> None:
    module = load_module(_TEXT)
    block = module.body.operations[0].regions[0].blocks[0]
    for index in (1, 0):
        erase(block.operations[index].operation)
    assert [op.operation.name for op in block.operations] == ["func.return"]

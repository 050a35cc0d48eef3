"""XLA ends its process at names that are not ASCII; programs with such are run all the same."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module, module_text
from shardwright.notation.names import quoted, symbol_text
from shardwright.program import load
from shardwright.runtime.ascii_names import with_ascii_names

ALIKE = "_xe9"  # what the name `é` would become


def program(mesh: str, axis: str, is_manual: bool = False) -> str:
    """A product summed over both axes, of what a manual computation has negated, or an op."""
    there, names = symbol_text(mesh), f'{{{quoted(axis)}}}, {{"{ALIKE}"}}'
    lies = f"<{there}, [{names}]>"
    manual = f"""sdy.manual_computation(%a) in_shardings=[{lies}] out_shardings=[{lies}]
        manual_axes={{{quoted(axis)}, "{ALIKE}"}} (%b: tensor<2x4xf32>) {{
      %2 = stablehlo.negate %b : tensor<2x4xf32>
      sdy.return %2 : tensor<2x4xf32>
    }} : (tensor<4x8xf32>) -> tensor<4x8xf32>"""
    return f"""sdy.mesh {there} = <[{quoted(axis)}=2, "{ALIKE}"=2]>
    func.func @main(%a: tensor<4x8xf32> {{sdy.sharding = #sdy.sharding{lies}}}) -> tensor<f32> {{
      %0 = {manual if is_manual else "stablehlo.negate %a : tensor<4x8xf32>"}
      %1 = stablehlo.dot_general %0, %0, contracting_dims = [0, 1] x [0, 1]
          : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }}"""


@pytest.mark.parametrize(("mesh", "axis"), [("m", "é"), ("𝔁", "x"), ("é", "é")])
def test_meshes_and_axes_get_names_of_ascii_letters(mesh: str, axis: str) -> None:
    made = with_ascii_names(load_module(program(mesh, axis, is_manual=True)))
    assert made.operation.verify()
    text = module_text(made)
    assert text.isascii()
    assert "\\" not in text


def test_other_modules_are_left_as_they_are() -> None:
    module = load_module(program("a b", 'x"y'))
    assert with_ascii_names(module) is module


@pytest.mark.parametrize("is_manual", [False, True])
def test_a_program_on_such_a_mesh_is_verified(is_manual: bool) -> None:
    assert load(program("é", "é", is_manual)).plan().partition().verify().ok

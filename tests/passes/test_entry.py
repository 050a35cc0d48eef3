"""Passes for the program's entry find it in any module; the C++ ends its process without `@main`."""

from __future__ import annotations

import shardwright.passes.all  # noqa: F401 (registers the passes)
from tests.passes.differential import Job, ours

_FUNCTIONS = """
sdy.mesh @mesh = <["x"=4]>
func.func @first(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2, ?}]>}) -> tensor<8xf32> {
  %0 = call @called(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @called(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2, ?}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func @second(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2, ?}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func private @declared(tensor<8xf32>) -> tensor<8xf32>
"""


def test_without_main_functions_that_nobody_calls_are_entries() -> None:
    whole = ours(Job(_FUNCTIONS, "sdy-remove-sub-axes-in-input-output-shardings"))
    dimension = {
        name: whole.split(f"func.func @{name}(")[1].split("[")[1].split("]")[0] for name in ("first", "second")
    }
    assert dimension == {"first": "{?}", "second": "{?}"}
    assert '{"x":(1)2, ?}' in whole.split("func.func @called(")[1]


def test_functions_that_are_called_say_what_they_return_and_entries_do_not() -> None:
    text = ours(Job(_FUNCTIONS, "sdy-propagate-to-func-results"))
    assert text.count("-> (tensor<8xf32> {sdy.sharding") == 1
    assert "-> (tensor<8xf32> {sdy.sharding" in text.split("func.func @called(")[1].split("func.func")[0]

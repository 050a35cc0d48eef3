"""The program for one device says nothing about shardings and computes what the annotated one means."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation import modules
from shardwright.runtime.execute import execute_unsharded
from shardwright.runtime.unsharded import unsharded

MESH = 'sdy.mesh @mesh = <["x"=2]>'


def _unsharded(text: str) -> str:
    return module_text(modules.write(unsharded(modules.read(load_module(MESH + text))), shardings=False))


def test_annotations_and_collectives_change_nothing() -> None:
    text = _unsharded(
        """
        func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, mhlo.sharding = "{replicated}"},
                        %i: tensor<i1>) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
          %0 = sdy.sharding_constraint %a <@mesh, [{?}]> : tensor<4xf32>
          sdy.sharding_group %0 group_id = 0 : tensor<4xf32>
          %1 = sdy.constant dense<1.0> : tensor<4xf32>
          %2 = sdy.named_computation<"f">(%0) (%b: tensor<4xf32>) {
            %c = stablehlo.add %b, %b : tensor<4xf32>
            sdy.return %c : tensor<4xf32>
          } : (tensor<4xf32>) -> tensor<4xf32>
          %3 = "stablehlo.if"(%i) ({
            %d = sdy.reshard %2 <@mesh, [{"x"}]> : tensor<4xf32>
            stablehlo.return %d : tensor<4xf32>
          }, {
            stablehlo.return %1 : tensor<4xf32>
          }) : (tensor<i1>) -> tensor<4xf32>
          return %3 : tensor<4xf32>
        }"""
    )
    assert "sdy" not in text
    assert "sharding" not in text
    for chosen, expected in ((True, [0, 2, 4, 6]), (False, [1, 1, 1, 1])):
        (result,) = execute_unsharded(text, [np.arange(4, dtype=np.float32), np.array(chosen)], in_process=True)
        assert result.tolist() == expected


def test_a_manual_computation_has_no_meaning_on_one_device() -> None:
    with pytest.raises(ShardingError, match=r"manual computation[\s\S]*written for the devices"):
        _unsharded(
            """
            func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
              %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
                manual_axes={"x"} (%b: tensor<2xf32>) { sdy.return %b : tensor<2xf32> }
                : (tensor<4xf32>) -> tensor<4xf32>
              return %0 : tensor<4xf32>
            }"""
        )


def test_a_program_on_meshes_that_xla_cannot_bring_together_is_verified() -> None:
    """A check in XLA's `dedup_meshes` ends the process that compiles the program as it is given."""
    text = """sdy.mesh @m = <["x"=6]>
    sdy.mesh @n = <["u"=2, "v"=3]>
    func.func @main(%x: tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)3}, {}]>})
        -> (tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@n, [{"u"}, {}]>}) {
      %0 = stablehlo.tanh %x : tensor<12x12xf32>
      return %0 : tensor<12x12xf32>
    }"""
    sw.load(text).plan().partition().verify().require()

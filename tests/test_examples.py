"""The example programs, all the way: sharded, explicit, run on eight devices, and equal."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from shardwright.partition import check
from shardwright.program import load
from shardwright.rules.registry import forget_rule

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_an_op_of_ones_own_is_sharded_by_one_registration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The op is nobody's, so what is run has StableHLO's product in its place, in all that was made of it."""
    runpy.run_path(str(EXAMPLES / "own_op.py"), run_name="__main__")
    explicit = capsys.readouterr().out
    forget_rule("vendor.matmul")
    assert explicit.count('"vendor.matmul"') == 2
    assert "sdy.all_reduce" in explicit
    assert "all_gather" not in explicit
    stage = tmp_path / "explicit.mlir"
    stage.write_text(explicit.replace("vendor.matmul", "stablehlo.dot"))
    spmd = load(stage).plan().partition()
    assert spmd.mesh.size == 8
    spmd.verify().require()
    registered = (EXAMPLES / "own_op.py").read_text().partition("sw.sharding_interface(")[2].partition("\n)\n")[0]
    assert len(registered.splitlines()) < 6


@pytest.mark.parametrize("name", ["mlp", "gpt2", pytest.param("gpt8", marks=pytest.mark.long), "gpt32_scan", "decode"])
def test_the_sharded_example_computes_what_the_unsharded_does(name: str) -> None:
    spmd = load(EXAMPLES / f"{name}.mlir").plan().partition()
    check(spmd.explicit)
    spmd.verify().require()


@pytest.mark.parametrize("name", ["mlp", "decode"])
@pytest.mark.parametrize("stage", ["propagated", "explicit"])
def test_a_written_stage_is_continued_to_the_same_program(name: str, stage: str, tmp_path: Path) -> None:
    spmd = load(EXAMPLES / f"{name}.mlir").plan().partition()
    written = spmd.write(stage, tmp_path / "stage.mlir")
    again = load(written).plan().partition()
    assert again.traffic == spmd.traffic
    assert [op.name for op in again.local.walk()] == [op.name for op in spmd.local.walk()]
    assert again.in_shardings == spmd.in_shardings
    assert again.out_shardings == spmd.out_shardings


def test_a_stage_read_again_points_at_the_file_that_was_written_first(tmp_path: Path) -> None:
    first = tmp_path / "first.mlir"
    first.write_text(
        """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = stablehlo.cholesky %a : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
    )
    propagated = load(first).plan().write(tmp_path / "propagated.mlir")
    (note,) = load(propagated).plan().partition().notes
    assert note.location == f"{first}:3"

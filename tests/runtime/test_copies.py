"""Devices that are given the same compute the same bits, whatever else the machine does."""

from __future__ import annotations

from shardwright.runtime.execute import run_jobs
from tests.partition.compare import make_case

_FFT = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<960x960xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}]>})
    -> (tensor<960x960xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) {
  %0 = stablehlo.fft %a, type = FFT, length = [960] : (tensor<960x960xcomplex<f32>>) -> tensor<960x960xcomplex<f32>>
  return %0 : tensor<960x960xcomplex<f32>>
}
"""


def test_an_fft_of_rows_that_are_left_over_is_the_same_on_all_devices() -> None:
    """Two devices have the same 240 rows; XLA's threads, if it has them, take 30 each, of which 6 are left over."""
    case = make_case(_FFT, 0)
    assert "length = [960] : (tensor<240x960xcomplex<f32>>)" in case.local.module
    for execution in run_jobs([case.local] * 4):
        assert not execution.differences

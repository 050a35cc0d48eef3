"""`sdy-manual-axes-cleanup` on what random modules do not have."""

from __future__ import annotations

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.passes.pipeline import parse_pipeline, run_step
from tests.oracles.shardy import ShardyError, run_pipeline

_PASS = "builtin.module(sdy-manual-axes-cleanup)"
_BARE = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main() {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"y", "x"} () {
    %0 = stablehlo.constant dense<1.0> : tensor<2x8xf32>
    sdy.return
  } : () -> ()
  return
}
"""


@pytest.mark.oracle
def test_a_body_with_ops_of_which_nothing_tells_the_mesh_is_refused_as_in_the_cpp() -> None:
    message = "has manual_axes when there are no in/out shardings and the body is not empty"
    with pytest.raises(ShardingError, match=message) as caught:
        run_step(load_module(_BARE), *parse_pipeline(_PASS))
    assert caught.value.diagnostic.location == "-:4:3"
    assert caught.value.diagnostic.remedy
    with pytest.raises(ShardyError, match=f"4:3: op {message}"):
        run_pipeline(_BARE, _PASS)


@pytest.mark.parametrize(
    "text", [_BARE.replace('"y", "x"', ""), "\n".join(_BARE.split("\n")[:4] + _BARE.split("\n")[5:])]
)
def test_without_manual_axes_or_without_ops_it_may_stand(text: str) -> None:
    run_step(load_module(text), *parse_pipeline(_PASS))

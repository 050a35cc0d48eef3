"""Every op of the StableHLO and chlo dialects has random instances that its rule is compared on, or a reason why not."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.rules.registry import registered_ops
from tests.oracles.shardy import POPULATE_RULES, run_batch
from tests.rules.corpus import MAKERS, instances
from tests.rules.corpus_more import BROADCASTING, WITHOUT_INSTANCES
from tests.rules.programs import ops_of
from tests.rules.test_shardy import COUNT

_TESTED = {name.partition("/")[0] for name in MAKERS}


def _ops(dialect: ModuleType) -> list[str]:
    classes = [value for value in vars(dialect).values() if inspect.isclass(value)]
    return sorted({op.OPERATION_NAME for op in classes if hasattr(op, "OPERATION_NAME")})


_ALL = _ops(_stablehlo_ops_gen) + _ops(_chlo_ops_gen)


def _reason(name: str) -> str | None:
    plain = name.partition(".")[2]
    return BROADCASTING if name.startswith("chlo.broadcast_") else WITHOUT_INSTANCES.get(plain)


@pytest.mark.parametrize("name", _ALL)
def test_an_op_is_compared_with_the_cpp_or_there_is_a_reason(name: str) -> None:
    assert (name in _TESTED) != (_reason(name) is not None)


def test_every_reason_is_of_an_op() -> None:
    assert set(WITHOUT_INSTANCES) <= {name.partition(".")[2] for name in _ALL}


def test_every_op_with_a_rule_has_instances_or_a_reason() -> None:
    ours = {name for name in registered_ops() if name.startswith(("stablehlo.", "chlo."))}
    assert {name for name in ours if name not in _TESTED and _reason(name) is None} == set()


@pytest.mark.parametrize("name", MAKERS)
def test_an_op_is_compared_on_thirty_instances(name: str) -> None:
    assert COUNT >= 30
    assert len(list(instances(name, COUNT))) == COUNT


_SHAPED = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %n: tensor<2xi32>, %s: tensor<2xi64>, %z: tensor<f32>) {
  %0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ij,jk->ik"} : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %1 = "stablehlo.unary_einsum"(%a) {einsum_config = "ij->i"} : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = "stablehlo.torch_index_select"(%a, %n) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<2x8xf32>
  %3 = stablehlo.rng %z, %z, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x8xf32>
  %4 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<4x8xf32>) -> tensor<i32>
  %5 = stablehlo.dynamic_reshape %a, %n : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<8x4xf32>
  %6 = chlo.broadcast_add %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<2xi32>) -> tensor<4x8xf32>
  %8 = stablehlo.partition_id : tensor<ui32>
  return
}"""


@pytest.mark.oracle
def test_the_cpp_has_no_rule_where_it_is_a_reason() -> None:
    (output,) = run_batch([(_SHAPED, POPULATE_RULES)])
    assert isinstance(output, str)
    assert "sdy.sharding_rule" not in output
    without = {op.name for op in ops_of(_SHAPED) if _reason(op.name) is not None}
    assert not without & set(registered_ops())

"""Every op of the StableHLO and chlo dialects has random instances that its rule is compared on, or a reason why not."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

import shardwright.rules.families  # noqa: F401  (registers the rules)
import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.context import is_registered
from shardwright.rules.registry import registered_ops
from tests.oracles.shardy import POPULATE_RULES, run_batch
from tests.rules.corpus import MAKERS, instances
from tests.rules.programs import ops_of
from tests.rules.test_shardy import COUNT

_DYNAMIC = "result shapes are known when it runs only; propagation needs static shapes and the C++ has no rule"
_EDGE = "data flows through it along edges, not by a rule (tests/propagation)"
_SOURCE = "it has no operands to be split with, and no rule here or in the C++"
_OUTSIDE = "it talks to the host or orders effects; no rule here or in the C++"
_BROADCASTING = "chlo's implicit broadcasts are made explicit before sharding; no rule here or in the C++"
_OLD = "no longer produced by any frontend; no rule here or in the C++"
_TUPLE = "tuples are refused"

_REASONS = {
    "case": _EDGE,
    "while": _EDGE,
    "optimization_barrier": _EDGE,
    "if": "as in the C++ neither a rule nor an edge; its branches are sharded on their own",
    "return": "it ends a region",
    "composite": "read as a call of its decomposition",
    "constant": _SOURCE,
    "iota": _SOURCE,
    "create_token": _SOURCE,
    "partition_id": _SOURCE,
    "replica_id": _SOURCE,
    "rng": "its operands are scalars and a shape: nothing to be split with",
    "after_all": _OUTSIDE,
    "infeed": _OUTSIDE,
    "outfeed": _OUTSIDE,
    "recv": _OUTSIDE,
    "send": _OUTSIDE,
    "async_start": _OUTSIDE,
    "async_done": _OUTSIDE,
    "tuple": _TUPLE,
    "get_tuple_element": _TUPLE,
    "get_dimension_size": "a scalar that says how large a dimension is; no rule here or in the C++",
    "set_dimension_size": _DYNAMIC,
    "dynamic_broadcast_in_dim": _DYNAMIC,
    "dynamic_conv": _DYNAMIC,
    "dynamic_gather": _DYNAMIC,
    "dynamic_iota": _DYNAMIC,
    "dynamic_pad": _DYNAMIC,
    "dynamic_reshape": _DYNAMIC,
    "real_dynamic_slice": _DYNAMIC,
    "einsum": _OLD,
    "unary_einsum": _OLD,
    "torch_index_select": _OLD,
    "uniform_quantize": "a rule like any pointwise op's; jaxlib reads no module with quantized types",
    "uniform_dequantize": "a rule like any pointwise op's; jaxlib reads no module with quantized types",
    "ragged_dot": "how long its groups are is data; no rule here or in the C++",
    "scan": "its body is a region; no rule here or in the C++",
    "constant_like": "a rule like any pointwise op's; the C++ has none to compare it with",
    "_asin_acos_kernel": "chlo keeps it to itself; a rule like any pointwise op's",
    "cross-replica-sum": "all_reduce by its old name, with its rule",
}

_NEWER = {"collective_reduce": "jaxlib 0.11 has it; as in the C++ no rule"}
_REASONS |= {op: reason for op, reason in _NEWER.items() if is_registered(f"stablehlo.{op}")}

_TESTED = {name.partition("/")[0] for name in MAKERS}


def _ops(dialect: ModuleType) -> list[str]:
    classes = [value for value in vars(dialect).values() if inspect.isclass(value)]
    return sorted({op.OPERATION_NAME for op in classes if hasattr(op, "OPERATION_NAME")})


_ALL = _ops(_stablehlo_ops_gen) + _ops(_chlo_ops_gen)


def _reason(name: str) -> str | None:
    plain = name.partition(".")[2]
    return _BROADCASTING if name.startswith("chlo.broadcast_") else _REASONS.get(plain)


@pytest.mark.parametrize("name", _ALL)
def test_an_op_is_compared_with_the_cpp_or_there_is_a_reason(name: str) -> None:
    assert (name in _TESTED) != (_reason(name) is not None)


def test_every_reason_is_of_an_op() -> None:
    assert set(_REASONS) <= {name.partition(".")[2] for name in _ALL}


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
    assert not {op.name for op in ops_of(_SHAPED)} & set(registered_ops())

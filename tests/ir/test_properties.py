"""Properties of ops that MLIR does not know: jaxlib's bindings do not list them."""

from __future__ import annotations

from shardwright.ir.context import load_module
from shardwright.ir.graph import Op
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate

_UNKNOWN = """
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0:2 = "my.op"(%a) <{k = 3 : i64, s = "x}> {", t = {a = [1 : i32]}}> {d = 1 : i64} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, f32)
  "my.plain"(%0#0) {e} : (tensor<4x4xf32>) -> ()
  "my.block"(%0#0) <{k = 1 : i64}> ({
  ^bb0(%b: f32):
    "my.end"(%b) <{k = 2 : i64}> : (f32) -> ()
  }) : (tensor<4x4xf32>) -> ()
  return %0#0 : tensor<4x4xf32>
}"""

_GENERIC = """
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "linalg.generic"(%a, %b) <{indexing_maps = [#all, #row], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: f32, %y: f32):
    "linalg.yield"(%x) : (f32) -> ()
  }) : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def _ops(text: str) -> dict[str, Op]:
    return {op.name: op for op in read(load_module(text)).walk()}


def test_properties_are_attributes_of_the_signature() -> None:
    ops = _ops(_UNKNOWN)
    assert dict(ops["my.op"].signature.attributes) == {
        "d": "1 : i64",
        "k": "3 : i64",
        "s": '"x}> {"',
        "t": "{a = [1 : i32]}",
    }
    assert dict(ops["my.plain"].signature.attributes) == {"e": "unit"}
    assert dict(ops["my.block"].signature.attributes) == {"k": "1 : i64"}
    assert dict(ops["my.end"].signature.attributes) == {"k": "2 : i64"}


def test_they_are_written_and_read_again() -> None:
    again = _ops(str(write(read(load_module(_UNKNOWN)))))
    assert {name: op.signature for name, op in again.items()} == {
        name: op.signature for name, op in _ops(_UNKNOWN).items()
    }


def test_a_generic_op_as_mlir_prints_it_has_the_rule_of_its_maps() -> None:
    graph = propagate(read(load_module(_GENERIC)))
    assert repr(graph.main.result_shardings) == "[[{x}]]"

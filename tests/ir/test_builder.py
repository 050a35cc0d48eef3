"""What is appended to graphs."""

from __future__ import annotations

from shardwright.ir.builder import Builder
from shardwright.ir.context import load_module
from shardwright.notation.modules import read

TEXT = """func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}"""


def test_ops_that_are_written_alike_share_their_signature() -> None:
    graph = read(load_module(TEXT))
    builder = Builder(graph, [])
    for value in graph.main.block.arguments:
        builder.broadcast(value, (8, 4), (0,))
    one, other = builder.ops
    assert one.signature is other.signature
    assert one.operands != other.operands


def test_a_type_of_another_shape_is_one_object() -> None:
    type = read(load_module(TEXT)).types[0]
    assert type.with_shape((4,)) is type.with_shape((4,))
    assert type.with_shape(type.dims) is type

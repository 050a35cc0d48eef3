"""Modules of other dialects that come as bytecode: held against the same rules as text, each refusal a diagnostic."""

from __future__ import annotations

import io
import re

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.conversion import as_generic, open_module

RFC = """mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 4])
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mesh_cluster = @mesh0} {
  %0 = mesh.annotate %arg0 {sharding = #mesh.shard<[[0], [1]]>, required = true, as_result = true} : tensor<8x16xf32> -> tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
"""
SHARD = """shard.grid @g(shape = 2x4)
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  %2 = shard.shard %1 to %s annotate_for_users : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
"""
ENTRY = re.compile(r"(\w+) = ((?:#[\w.]+<[^<>]*>|array<[^<>]*>|\[[^\[\]]*\]|@\w+|[^,{}<>\[\]]+)(?: : \w+)?)")


def bytecode(generic: str, name: str = "given.mlir") -> bytes:
    file = io.BytesIO()
    load_module(generic, name).operation.write_bytecode(file)
    return file.getvalue()


def generic(text: str) -> str:
    spelt = as_generic(text, "given.mlir")
    assert isinstance(spelt, str)
    return spelt


def located(text: str) -> str:
    """The text with the location of each op, as a compiler that has read a file prints it."""
    return module_text(load_module(text), locations=True).replace('loc("-":', 'loc("given.mlir":')


@pytest.mark.parametrize("text", [RFC, SHARD], ids=["rfc", "shard"])
def test_bytecode_is_read_as_the_text_is(text: str) -> None:
    read = open_module(bytecode(generic(text)), "given.mlirbc")
    assert module_text(read.module) == module_text(open_module(text).module)
    assert read.notation == open_module(text).notation


def test_bytecode_with_annotations_of_no_cluster_is_of_the_rfc() -> None:
    text = """func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mesh.annotate %a {required = true, sharding = [[0]]} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
    for content in (text, bytecode(generic(text))):
        with pytest.raises(ShardingError, match="names no cluster"):
            open_module(content)


def test_bytecode_with_shardings_of_no_grid_is_of_the_dialect() -> None:
    text = """func.func @f(%a: tensor<8xf32>, %s: !shard.sharding) -> tensor<8xf32> {
  %0 = shard.shard %a to %s : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
    for content in (text, bytecode(generic(text))):
        with pytest.raises(ShardingError, match="the sharding is not known where the module is read"):
            open_module(content)


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        (RFC, ("[[0], [1]]", "[[0], [7]]"), "7"),
        (RFC, ("[[0], [1]]", "[[0], [0]]"), "0"),
        (RFC, ("sharding = [[0], [1]]", "other = 3 : i64"), "sharding"),
        (RFC, ("rank = 2", "other = 2"), "rank"),
        (SHARD, ("shape = array<i64: 2, 4>", "other = 2 : i64"), "shape"),
        (SHARD, ("[[0], [1]]", "[[0], [5]]"), "5"),
        (SHARD, ("[[0], [1]]", "[[0], [0]]"), "0"),
    ],
)
def test_what_the_text_may_not_say_bytecode_may_not_say(text: str, change: tuple[str, str], words: str) -> None:
    spelt = generic(text)
    assert change[0] in spelt, spelt
    with pytest.raises(ShardingError) as error:
        open_module(bytecode(located(spelt.replace(*change))), "given.mlirbc")
    assert words in str(error.value)
    assert re.match(r"given\.mlir(bc)?(:\d+|$)", error.value.diagnostic.location)


@pytest.mark.parametrize("text", [RFC, SHARD], ids=["rfc", "shard"])
def test_an_attribute_that_is_missing_or_of_another_kind_is_a_diagnostic(text: str) -> None:
    spelt = generic(text)
    refused = 0
    for match in ENTRY.finditer(spelt):
        for change in (
            f"gone = {match[2]}",
            f"{match[1]} = 3.5 : f32",
            f'{match[1]} = "text"',
            f"{match[1]} = [@a, 1]",
        ):
            changed = spelt[: match.start()] + change + spelt[match.end() :]
            try:
                data = bytecode(changed)
            except ShardingError:
                continue  # an op that MLIR itself knows
            try:
                open_module(data, "given.mlirbc")
            except ShardingError as error:
                refused += 1
                assert error.diagnostic.location, error
    assert refused >= 8

"""Reading a module into a graph and writing it back."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.ir.opaque import dense_array
from shardwright.memo import Session
from shardwright.notation.modules import read, write

EXAMPLES = Path(__file__).parents[2] / "examples"


def graph_of(text: str) -> Graph:
    return read(load_module(text), "program.mlir")


@pytest.mark.parametrize("name", ["mlp", "gpt2", "gpt8", "decode", "gpt32_scan"])
def test_a_written_example_verifies_and_reads_back_the_same(name: str) -> None:
    graph = graph_of((EXAMPLES / f"{name}.mlir").read_text())
    module = write(graph)
    assert module.operation.verify()
    text = module_text(module)
    assert module_text(write(graph_of(text))) == text


def test_calls_are_inlined_and_keep_the_place_of_the_call() -> None:
    graph = graph_of(
        """
        func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0:2 = call @both(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("model.py":7:1)
          return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
        }
        func.func private @both(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0 = stablehlo.negate %x : tensor<4xf32> loc("negation")
          return %0, %x : tensor<4xf32>, tensor<4xf32>
        }
        """
    )
    negate, terminator = graph.main.block.ops
    assert negate.name == "stablehlo.negate"
    assert terminator.operands == (negate.results[0], graph.main.block.arguments[0])
    assert str(graph.locations[negate.location]) == "model.py:7"


def test_equal_ops_share_one_signature() -> None:
    graph = graph_of(
        """
        func.func @main(%a: tensor<4x8xf32>) -> tensor<4xf32> {
          %c = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]
               : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
          %1 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]
               : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
          %2 = stablehlo.add %0, %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }
        """
    )
    _, first, second, _, _ = graph.main.block.ops
    assert first.signature is second.signature
    assert first.signature.bodies[0].reduction == "sum"


def test_a_large_constant_survives_without_its_text_in_the_signature() -> None:
    values = ", ".join(map(str, range(100)))
    graph = graph_of(
        f"func.func @main() -> tensor<100xi32> {{ %0 = stablehlo.constant dense<[{values}]> : tensor<100xi32>\n"
        "return %0 : tensor<100xi32> }"
    )
    constant = graph.main.block.ops[0].signature
    assert (constant.text("value") or "").startswith("#opaque<")
    assert f"[{values}]" in module_text(write(graph))


def test_large_constants_outlive_the_session_that_read_them_and_leave_nothing_behind() -> None:
    rows = [", ".join(str(row + number) for number in range(100)) for row in range(20)]
    text = "func.func @main() -> tensor<100xi32> {\n"
    text += "".join(f"%{n} = stablehlo.constant dense<[{row}]> : tensor<100xi32>\n" for n, row in enumerate(rows))
    text += "return %3 : tensor<100xi32> }"
    with Session(limit=4) as session:
        graph = graph_of(text)
        assert all(len(table) <= 4 for table in session.tables.values())
        signatures = {op.signature for op in graph.main.block.ops[:-1]}
        assert len(signatures) == 20
        assert signatures == {op.signature for op in graph_of(text).main.block.ops[:-1]}  # the same text once more
    with Session():
        written = module_text(write(graph))
        assert all(f"dense<[{row}]>" in written for row in rows)
        constant = graph.main.block.ops[5].signature.text("value")
        assert pickle.loads(pickle.dumps(constant)) == constant
        assert dense_array(constant or "").tolist() == list(range(5, 105))


def test_argument_names_come_from_locations_and_are_unique() -> None:
    graph = graph_of(
        """
        func.func @main(%a: tensor<f32> loc("params['w'][0]"), %b: tensor<f32> loc("x"), %c: tensor<f32> loc("x"),
                        %d: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
        """
    )
    assert graph.main.argument_names[:3] == ["params/w/0", "x#1", "x#2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }", "static shape"),
        ("func.func @f() { return } func.func @g() { return }", "no function @main"),
        ("func.func @main() { call @main() : () -> () return }", "calls itself"),
        ('sdy.mesh @a = <["x"=2]> sdy.mesh @b = <["x"=4]> func.func @main() { return }', "different size"),
        ("func.func @main() { call @gone() : () -> () return } func.func private @gone()", "not defined"),
    ],
)
def test_what_the_graph_cannot_hold_is_refused(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        graph_of(text)


def test_a_parse_error_says_where() -> None:
    with pytest.raises(ShardingError) as error:
        load_module("func.func @main() {\n  %0 = stablehlo.nothing\n}", "bad.mlir")
    assert error.value.diagnostic.location.startswith("bad.mlir:2:")


def test_nesting_that_would_overflow_the_parser_is_refused() -> None:
    deep = "func.func @main(%p: tensor<i32>) {\n" + '"stablehlo.case"(%p) ({\n' * 3000 + "}) : () -> ()\n" * 3000 + "}"
    with pytest.raises(ShardingError, match="deep"):
        load_module(deep)
    with pytest.raises(ShardingError, match="deep"):
        load_module(deep.replace("\n", " "))


def test_wide_modules_are_not_mistaken_for_deep_ones() -> None:
    dims = "\n".join(f"%{i} = stablehlo.constant dense<[[{i}, 1]]> : tensor<1x2xi32>" for i in range(2000))
    load_module(f"func.func @main() {{\n{dims}\nreturn }}")
    load_module(f"func.func @main() {{ {dims.replace(chr(10), ' ')} return }}")


def test_complex_constants_are_kept() -> None:
    graph = graph_of(
        """
        func.func @main() -> (tensor<2xcomplex<f32>>, tensor<3xcomplex<f32>>) {
          %0 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -4.5)]> : tensor<2xcomplex<f32>>
          %1 = stablehlo.constant dense<(1.0, 0.0)> : tensor<3xcomplex<f32>>
          return %0, %1 : tensor<2xcomplex<f32>>, tensor<3xcomplex<f32>>
        }
        """
    )
    text = module_text(write(graph))
    assert "(1.000000e+00,2.000000e+00), (3.000000e+00,-4.500000e+00)" in text
    assert module_text(write(graph_of(text))) == text


def test_what_an_op_without_results_says_of_its_sharding_is_kept() -> None:
    text = """
        sdy.mesh @max = <[], device_ids=[1]>
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          stablehlo.custom_call @log(%a) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@max, []>]>}
              : (tensor<4xf32>) -> ()
          return %a : tensor<4xf32>
        }
        """
    graph = graph_of(text)
    written = write(graph)
    assert written.operation.verify()
    assert (
        "custom_call @log(%arg0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@max, []>]>}"
        in str(written)
    )
    assert "sdy.sharding =" not in str(write(graph, shardings=False))


def test_what_a_mesh_says_beside_its_axes_is_kept() -> None:
    text = """
        sdy.mesh @m = <["a"=2]> {note = 3 : i32, stablehlo.mesh = {axes = [{name = "a", size = 2 : i64}]}}
        sdy.mesh @n = <["b"=2]>
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          return %a : tensor<4xf32>
        }
        """
    graph = graph_of(text)
    attributes = {"note": "3 : i32", "stablehlo.mesh": '{axes = [{name = "a", size = 2 : i64}]}'}
    assert graph.mesh_attributes == {"m": attributes}
    assert graph.skeleton().mesh_attributes == {"m": attributes}
    for shardings in (True, False):
        written = write(graph, shardings=shardings)
        assert written.operation.verify()
        assert graph_of(module_text(written)).mesh_attributes == {"m": attributes}


@pytest.mark.parametrize("name", ["mlp", "decode"])
def test_places_are_told_as_locations_are_and_those_that_are_the_same_are_so(name: str) -> None:
    text = (EXAMPLES / f"{name}.mlir").read_text()
    bare = re.sub(r"^#loc.*\n| loc\(#loc\d*\)", "", text, flags=re.MULTILINE)
    for one in (text, bare):
        graph = graph_of(one)
        table, numbers = graph.locations, [op.location for op in graph.walk()]
        assert [table.place(number) for number in numbers] == [str(table[number]) for number in numbers]
        handles = list(map(table.handle, numbers))
        for number, handle in zip(numbers[1:], handles[1:], strict=True):
            assert table.are_same(number, numbers[0]) == (handle == handles[0])

"""`tosa` and `linalg` in custom syntax: read by way of torch-mlir, refused clearly where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.notation import foreign
from shardwright.notation.conversion import convert_module
from shardwright.notation.foreign import CHOSEN, spelled_generically
from tests.oracles.peers import PYTHON

TOSA = """shard.grid @g(shape = 2x4)
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %a1 = shard.shard %a to %s : tensor<8x8xf32>
  %0 = tosa.tanh %a1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = tosa.add %0, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.negate %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""
TOSA_GENERIC = TOSA.replace("tosa.tanh %a1", '"tosa.tanh"(%a1)').replace("tosa.add %0, %b", '"tosa.add"(%0, %b)')
LINALG = """#rows = affine_map<(d0, d1, d2) -> (d0, d2)>
#columns = affine_map<(d0, d1, d2) -> (d2, d1)>
#result = affine_map<(d0, d1, d2) -> (d0, d1)>
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %b: tensor<16x4xf32>,
                %init: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #result],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<8x16xf32>, tensor<16x4xf32>) outs(%init : tensor<8x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.addf %z, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""

with_torch_mlir = pytest.mark.skipif(not PYTHON.exists(), reason=f"no torch-mlir at {PYTHON}: run `make oracles`")


@pytest.fixture
def torch_mlir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, str(PYTHON))


@pytest.mark.oracle
@with_torch_mlir
@pytest.mark.usefixtures("torch_mlir")
def test_ops_of_tosa_are_read_as_they_are_in_generic_form() -> None:
    assert convert_module(TOSA, "sdy") == convert_module(TOSA_GENERIC, "sdy")
    assert convert_module(TOSA, "shard") == convert_module(TOSA_GENERIC, "shard")
    text = sw.load(TOSA).plan().partition().module(to="shard")
    assert "-> tensor<4x2xf32>" in text
    assert "shard.grid @g(shape = 2x4)" in text


@pytest.mark.oracle
@with_torch_mlir
@pytest.mark.usefixtures("torch_mlir")
def test_what_is_said_of_them_stands_at_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(TOSA)
    program = sw.load(path)
    lines = {op.name: str(program.graph.locations[op.location]) for op in program.graph.main.block.ops}
    assert lines["tosa.tanh"] == f"{path}:5"
    assert lines["stablehlo.negate"] == f"{path}:7"
    assert program.graph.main.argument_names == ["a", "b"]


@pytest.mark.oracle
@with_torch_mlir
@pytest.mark.usefixtures("torch_mlir")
def test_loops_of_linalg_are_split_beside_annotations_of_sdy() -> None:
    spmd = sw.load(LINALG).plan().partition()
    assert not spmd.notes
    (op,) = [op for op in spmd.local.walk() if op.name == "linalg.generic"]
    assert [str(type) for type in op.signature.results] == ["tensor<4x4xf32>"]


@pytest.mark.oracle
@with_torch_mlir
@pytest.mark.usefixtures("torch_mlir")
@pytest.mark.parametrize(
    ("wrong", "message", "location"),
    [
        (TOSA.replace("tosa.tanh %a1 :", "tosa.tanh %a1, :"), "expected SSA operand", "-:5"),
        (TOSA.replace("tosa.tanh", "tosa.nothing"), "tosa.nothing", "-:5"),
    ],
)
def test_what_torch_mlir_refuses_is_refused_at_its_line(wrong: str, message: str, location: str) -> None:
    with pytest.raises(ShardingError) as refused:
        convert_module(wrong, "sdy")
    told = refused.value.diagnostic
    assert message in told.message
    assert told.location.startswith(location)
    assert told.remedy


def test_an_op_may_stand_behind_a_brace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "/nowhere/python")
    with pytest.raises(ShardingError, match=r"the custom syntax of tosa\.abs cannot be read"):
        spelled_generically(
            "func.func @f(%a: tensor<4xf32>) { %0 = tosa.abs %a : (tensor<4xf32>) -> tensor<4xf32>\nreturn }"
        )


def test_without_torch_mlir_the_first_op_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    monkeypatch.setattr(foreign, "find_spec", lambda _: None)
    with pytest.raises(ShardingError) as refused:
        sw.load(TOSA)
    told = refused.value.diagnostic
    assert told.message == "the custom syntax of tosa.tanh cannot be read"
    assert (told.op, told.location) == ("tosa.tanh", "-:5")
    assert 'pip install "shardwright[mlir]"' in told.remedy
    assert "generic form" in told.remedy


@pytest.mark.parametrize(
    ("python", "why"), [("/nowhere/python", "FileNotFoundError"), (sys.executable, "No module named 'torch_mlir'")]
)
def test_a_python_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, python: str, why: str) -> None:
    monkeypatch.setenv(CHOSEN, python)
    with pytest.raises(ShardingError) as refused:
        spelled_generically(TOSA, "a.mlir")
    told = refused.value.diagnostic
    assert (told.op, told.location) == ("tosa.tanh", "a.mlir:5")
    assert python in told.cause
    assert why in told.cause
    assert CHOSEN in told.remedy


@pytest.mark.parametrize(
    "text",
    [
        TOSA_GENERIC,
        "func.func @main() { return }\n// %0 = tosa.tanh %a\n",
        'func.func @f() attributes {note = "tosa.tanh is one"} { return }\n',
        'func.func @f() attributes {note = "{ tosa.tanh is one"} { return }\n',
        "func.func @tosa.tanh() { return }\n",
    ],
)
def test_a_text_without_such_ops_asks_nobody(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(CHOSEN, "/nowhere/python")
    assert spelled_generically(text) == text

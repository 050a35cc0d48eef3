"""Ops registered by their loops, and by methods of their own: for that op alone, and until it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.notation.modules import read
from shardwright.propagation import propagate
from shardwright.rules.loops import indexing_maps, iterator_types
from shardwright.rules.registry import rule_for
from tests.rules.corpus import MAKERS, instances, program
from tests.rules.test_loops import in_order, is_told

MESH = sw.Mesh(x=2, y=2)
MAPS = ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"]
TYPES = ["parallel", "parallel", "reduction_sum"]
OP = '"my.matmul"(%a, %b) : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>'
NAMES = ("my.matmul", "my.op", "stablehlo.add", "stablehlo.tanh", "stablehlo.dot")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in NAMES:
        sw.forget_rule(name)


def test_loops_that_are_registered_are_the_rule_that_they_came_from() -> None:
    """A rule gives the interface, the interface the rule: of every op whose loops tell all of it."""
    told: set[str] = set()
    for name in MAKERS:
        for op in read(load_module(program(list(instances(name, 3))))).main.block.ops:
            rule = rule_for(op.signature)
            if rule is not None and op.name == name and is_told(op.signature, rule):
                sw.sharding_interface(
                    "my.op",
                    indexing_maps=indexing_maps(rule),
                    loop_iterator_types=iterator_types(op.signature, rule),
                )
                signature = Signature("my.op", (), op.signature.operands, op.signature.results)
                assert rule_for(signature) == replace(in_order(rule), custom=True), op.signature
                told.add(name)
    assert len(told) > len(MAKERS) // 2


def test_a_product_of_ones_own() -> None:
    sw.sharding_interface("my.matmul", indexing_maps=MAPS, loop_iterator_types=TYPES)
    interface = sw.interface(OP)
    assert interface.loop_iterator_types == tuple(TYPES)
    assert interface.indexing_maps[0] == "(d0, d1, d2) -> (d0, d2)"
    sw.rule("my.matmul", "i k, k j -> i j")
    again = sw.interface(OP)
    assert (again.indexing_maps, again.rule) == (interface.indexing_maps, interface.rule)


def test_loops_may_depend_on_the_op_and_their_types_may_be_left_out() -> None:
    def maps(signature: Signature) -> list[str]:
        loops = ", ".join(f"d{n}" for n in range(signature.operands[0].rank))
        return [f"affine_map<({loops}) -> ({loops})>", f"({loops}) -> ({loops})"]

    sw.sharding_interface("my.op", indexing_maps=maps)
    for shape in ("8", "8x4", "8x4x2"):
        interface = sw.interface(f'"my.op"(%a) : (tensor<{shape}xf32>) -> tensor<{shape}xf32>')
        assert interface.loop_iterator_types == ("parallel",) * (shape.count("x") + 1)


def test_the_types_alone_of_an_op_that_has_a_rule() -> None:
    sw.sharding_interface("stablehlo.tanh", loop_iterator_types=["parallel", "invalid"])
    tanh, cosine = (sw.interface(f"stablehlo.{name} %a : tensor<8x4xf32>") for name in ("tanh", "cosine"))
    assert tanh.loop_iterator_types == ("parallel", "invalid")
    assert tanh.indexing_maps == cosine.indexing_maps
    assert cosine.loop_iterator_types == ("parallel", "parallel")
    sw.forget_rule("stablehlo.tanh")
    assert sw.interface("stablehlo.tanh %a : tensor<8x4xf32>").loop_iterator_types == ("parallel", "parallel")


PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}, %b: tensor<16x32xf32>)
    -> tensor<8x32xf32> {
  %0 = "my.matmul"(%a, %b) : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.tanh %0 : tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}"""


def completed() -> Graph:
    return propagate(read(load_module(PROGRAM)), strategy="rfc")


def layouts(graph: Graph) -> list[str]:
    return [f"{op.name.partition('.')[2]} {graph.shardings[op.results[0]]!r}" for op in graph.main.block.ops[:-1]]


def test_an_option_of_its_own_is_asked_for_by_the_completion_and_of_this_op_alone() -> None:
    """It splits what is summed as well, along an axis of which nothing is said."""
    heard: list[Sequence[sw.TensorSharding | None]] = []

    def option(interface: Any, annotations: Sequence[sw.TensorSharding | None]) -> list[list[Any]]:
        heard.append(annotations)
        rows, columns, _ = interface.sharding_option(annotations)  # as it is without
        return [rows, columns, [MESH.axis("y")]]

    sw.sharding_interface("my.matmul", indexing_maps=MAPS, loop_iterator_types=TYPES, sharding_option=option)
    graph = completed()
    assert layouts(graph)[-2:] == ["matmul [{x}, {}] partial=sum{y}", "tanh [{x}, {}]"]
    assert repr(heard[0][0]) == "[{x}, {}]"
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{x}, {}]", "[{y}, {}]"]
    sw.sharding_interface("my.matmul", indexing_maps=MAPS, loop_iterator_types=TYPES)
    assert layouts(completed()) == ["matmul [{x}, {}]", "tanh [{x}, {}]"]


def test_annotations_of_its_own_say_how_its_tensors_lie() -> None:
    """The right operand is read whole, whatever its loops are split by."""

    def annotations(interface: Any, option: Any, mesh: sw.Mesh) -> list[sw.TensorSharding]:
        left, right, result = interface.sharding_annotations(option, mesh)
        return [left, right.with_axes(((), ())), result]

    sw.sharding_interface("my.matmul", indexing_maps=MAPS, sharding_annotations=annotations)
    interface = sw.interface(OP)
    lies = interface.sharding_annotations([["x"], ["y"]], MESH)
    assert [repr(one) for one in lies] == ["[{x}, {}]", "[{}, {}]", "[{x}, {y}]"]
    assert [repr(one) for one in interface.plain.sharding_annotations([["x"], ["y"]], MESH)][1] == "[{}, {y}]"
    assert layouts(completed()) == ["matmul [{x}, {}]", "tanh [{x}, {}]"]


def test_what_methods_of_ones_own_decided_is_said_to_be_theirs() -> None:
    def annotations(interface: Any, option: Any, mesh: sw.Mesh) -> list[sw.TensorSharding]:
        left, right, result = interface.sharding_annotations(option, mesh)
        return [left, right.with_axes(((), (mesh.axis("y"),))), result]

    sw.sharding_interface("my.matmul", indexing_maps=MAPS, sharding_annotations=annotations)
    assert "y on dimension 1: from sharding_interface of my.matmul" in str(sw.load(PROGRAM).plan("rfc").explain("b"))
    sw.sharding_interface("my.matmul", indexing_maps=MAPS, sharding_option=lambda *_: [[], [], [MESH.axis("y")]])
    assert "y on dimension 0: from sharding_interface of my.matmul" in str(sw.load(PROGRAM).plan("rfc").explain("b"))
    sw.sharding_interface("my.matmul", indexing_maps=MAPS)
    assert "sharding_interface" not in str(sw.load(PROGRAM).plan("rfc").explain("result0"))


def test_what_is_communicated_around_it_can_be_said_otherwise() -> None:
    def materialize(interface: Any, annotations: Any, option: Any) -> Any:
        whole = [None if one is None else one.with_axes(((),) * one.rank) for one in annotations]
        return interface.materialize([*annotations[:2], whole[2]], option)

    sw.sharding_interface("stablehlo.add", materialize=materialize)
    split = sw.TensorSharding.of(MESH, [["x"], []])
    add = sw.interface("stablehlo.add %a, %b : tensor<8x4xf32>")
    subtract = sw.interface("stablehlo.subtract %a, %b : tensor<8x4xf32>")
    assert str(subtract.materialize([split, split, split], [["x"]])) == "nothing is sent"
    assert str(add.materialize([split, split, split], [["x"]])) == "result 0: all_gather"
    sw.forget_rule("stablehlo.add")
    again = sw.interface("stablehlo.add %a, %b : tensor<8x4xf32>")
    assert str(again.materialize([split, split, split], [["x"]])) == "nothing is sent"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing is said of 'my.matmul'"),
        ({"loop_iterator_types": ["parallel", "serial"]}, "'serial' is no type of a loop of 'my.matmul'"),
    ],
)
def test_what_is_no_interface_is_refused_at_once(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ShardingError, match=message) as refused:
        sw.sharding_interface("my.matmul", **given)
    assert refused.value.diagnostic.remedy


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"indexing_maps": MAPS[:2]}, "its loops are"),
        ({"indexing_maps": ["(i) -> (i)"] * 3}, "its loops are"),
        ({"indexing_maps": [*MAPS[:2], "(i, j, k) -> (i, i)"]}, "its loops are"),
        ({"indexing_maps": lambda signature: signature.nothing}, "AttributeError"),
        ({"indexing_maps": lambda _: "(i) -> (i)"}, "are no texts"),
        ({"indexing_maps": MAPS, "loop_iterator_types": lambda _: ["what"]}, ""),
        ({"loop_iterator_types": TYPES}, "without indexing_maps"),
    ],
)
def test_what_does_not_fit_is_refused_where_the_op_is_used(given: dict[str, Any], cause: str) -> None:
    sw.sharding_interface("my.matmul", **given)
    with pytest.raises(ShardingError) as refused:
        sw.interface(OP)
    assert refused.value.diagnostic.op == "my.matmul" or "'what'" in refused.value.diagnostic.message
    assert cause in (refused.value.diagnostic.cause or "")
    assert refused.value.diagnostic.remedy


def test_a_method_that_fails_or_gives_what_is_none_is_told_at_the_op() -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("z")

    answers: list[tuple[Any, str]] = [
        (fails, "a method that was given for the op failed"),
        (lambda *_: 3, "the sharding_option that was given for the op gives 3"),
        (lambda *_: [["x"]], "the sharding_option that was given for the op gives"),
        (lambda *_: [[]] * 4, "the sharding_option that was given for the op gives"),
        (lambda *_: [[MESH.axis("x")], [MESH.axis("x")]], "the sharding_option that was given for the op gives"),
        (lambda *_: [[sw.Mesh(z=2).axis("z")]], "the sharding_option that was given for the op names the axis 'z'"),
    ]
    for method, message in answers:
        sw.sharding_interface("my.matmul", indexing_maps=MAPS, sharding_option=method)
        with pytest.raises(ShardingError) as refused:
            completed()
        told = refused.value.diagnostic
        assert told.message.startswith(message)
        assert (told.op, told.location) == ("my.matmul", "-:4")
    sw.sharding_interface("my.matmul", indexing_maps=MAPS, sharding_annotations=lambda *_: [])
    with pytest.raises(ShardingError, match=r"the sharding_annotations that was given for the op gives \[\]"):
        completed()
    sw.sharding_interface("my.matmul", indexing_maps=MAPS, materialize=lambda *_: None)
    with pytest.raises(ShardingError, match="the materialize that was given for the op gives None"):
        sw.interface(OP).materialize([None, None, sw.TensorSharding.of(MESH, [["x"], []])])

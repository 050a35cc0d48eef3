"""The five transformations of documents 002 and 003, in their dialect: text before, text after, run and equal.

Document 003 names four passes and gives their forms, `add(all-reduce(x), all-reduce(y))` and the like; document 002
shows the fifth on a listing of its own, the 2-D weight-stationary MLP.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.cost.hardware import Hardware
from shardwright.ir.context import load_module, module_text
from shardwright.memo import Session
from shardwright.notation.conversion import convert_module
from shardwright.notation.module_notations import module_notation
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.passes.pipeline import run_step, steps_of
from tests.notation.snippets_slides import SLIDES
from tests.optimize.cases import CASES
from tests.optimize.explicit import NO_LATENCY, Better, better, names, run_all

_X = "tensor<8x4xf32, #mesh.shard<[[], [], [0]]>>"
_WHOLE = "tensor<8x4xf32>"
_ROWS = "tensor<8x4xf32, #mesh.shard<[[0]]>>"
_REDUCE = '{mesh_axis = [0], reduction = "sum"}'
_SCATTER = '{mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64}'


def _function(arguments: tuple[str, ...], result: str, body: str, sizes: str = "[2, 4]") -> str:
    """A module of the RFC as it is printed."""
    taken = ", ".join(f"%arg{number}: {type}" for number, type in enumerate(arguments))
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())
    cluster = f"mesh.cluster @mesh0(rank = {len(sizes.split(','))}, dim_sizes = {sizes})"
    attributes = "attributes {mesh_cluster = @mesh0}"
    return f"module {{\n  {cluster}\n  func.func @main({taken}) -> {result} {attributes} {{\n{lines}\n  }}\n}}\n"


@dataclass(frozen=True)
class Transformation:
    """A pass of the documents: its name with us, a program in its form, and what becomes of that."""

    name: str
    before: str
    after: str


TRANSFORMATIONS = {
    "AllReduce Folder Pass": Transformation(
        "all-reduce-fold",
        _function(
            ("tensor<8x4xf32, #mesh.shard<[[], [], [0, 1]]>>",),
            _WHOLE,
            f"""
            %0 = mesh.all_reduce %arg0 {{mesh_axis = [1], reduction = "sum"}} : tensor<8x4xf32, #mesh.shard<[[], [], [0, 1]]>> -> {_X}
            %1 = mesh.all_reduce %0 {_REDUCE} : {_X} -> {_WHOLE}
            return %1 : {_WHOLE}
            """,
        ),
        _function(
            ("tensor<8x4xf32, #mesh.shard<[[], [], [0, 1]]>>",),
            _WHOLE,
            f"""
            %0 = mesh.all_reduce %arg0 {{mesh_axis = [0, 1], reduction = "sum"}} : tensor<8x4xf32, #mesh.shard<[[], [], [0, 1]]>> -> {_WHOLE}
            return %0 : {_WHOLE}
            """,
        ),
    ),
    "AllReduce Reassociate Pass": Transformation(
        "all-reduce-reassociate",
        _function(
            (_X, _X),
            _WHOLE,
            f"""
            %0 = mesh.all_reduce %arg0 {_REDUCE} : {_X} -> {_WHOLE}
            %1 = mesh.all_reduce %arg1 {_REDUCE} : {_X} -> {_WHOLE}
            %2 = stablehlo.add %0, %1 : {_WHOLE}
            return %2 : {_WHOLE}
            """,
        ),
        _function(
            (_X, _X),
            _WHOLE,
            f"""
            %0 = stablehlo.add %arg0, %arg1 : {_X}
            %1 = mesh.all_reduce %0 {_REDUCE} : {_X} -> {_WHOLE}
            return %1 : {_WHOLE}
            """,
        ),
    ),
    "ReduceScatter Reassociate Pass": Transformation(
        "reduce-scatter-reassociate",
        _function(
            (_X, _X),
            _ROWS,
            f"""
            %0 = mesh.reduce_scatter %arg0 {_SCATTER} : {_X} -> {_ROWS}
            %1 = mesh.reduce_scatter %arg1 {_SCATTER} : {_X} -> {_ROWS}
            %2 = stablehlo.add %0, %1 : {_ROWS}
            return %2 : {_ROWS}
            """,
        ),
        _function(
            (_X, _X),
            _ROWS,
            f"""
            %0 = stablehlo.add %arg0, %arg1 : {_X}
            %1 = mesh.reduce_scatter %0 {_SCATTER} : {_X} -> {_ROWS}
            return %1 : {_ROWS}
            """,
        ),
    ),
    "AllGather Move Down Pass": Transformation(
        "all-gather-move-down",
        _function(
            (_ROWS,),
            _WHOLE,
            f"""
            %0 = mesh.all_gather %arg0 {{mesh_axis = [[0]]}} : {_ROWS} -> {_WHOLE}
            %1 = stablehlo.tanh %0 : {_WHOLE}
            return %1 : {_WHOLE}
            """,
        ),
        _function(
            (_ROWS,),
            _WHOLE,
            f"""
            %0 = stablehlo.tanh %arg0 : {_ROWS}
            %1 = mesh.all_gather %0 {{mesh_axis = [[0]]}} : {_ROWS} -> {_WHOLE}
            return %1 : {_WHOLE}
            """,
        ),
    ),
}


def _made(text: str, name: str, hardware: Hardware | None = None) -> str:
    """What `shardwright-opt` makes of a module of the RFC by one pass."""
    rfc = module_notation("rfc")
    module = load_module(rfc.generic(text, "-"))
    with Session(hardware=hardware):
        for step in steps_of(f"optimize-{name}"):
            run_step(module, step)
    return rfc.spell(module_text(module))


@pytest.mark.parametrize("name", ["bucket-collectives", "collective-matmul", "collectives"])
def test_what_the_rfc_cannot_express_is_not_made_in_its_form(name: str) -> None:
    before = convert_module(CASES["two sums sent as one"].text, "rfc")
    with Session(hardware=None):
        assert "all_reduce" in _made(before, name)


def _better(text: str, *passes: str, hardware: Hardware | None = None) -> Better:
    graph = materialize(read(load_module(convert_module(text, "sdy")))).graph
    return better(graph, *passes, hardware=hardware)


@pytest.mark.parametrize("title", TRANSFORMATIONS)
def test_a_pass_of_document_003_turns_its_form_into_the_other(title: str) -> None:
    one = TRANSFORMATIONS[title]
    assert convert_module(one.before, "rfc") == one.before
    assert _made(one.before, one.name) == one.after


def test_programs_of_document_003_compute_the_same() -> None:
    run_all((title, _better(one.before, one.name)) for title, one in TRANSFORMATIONS.items())


def _slide(origin: str) -> str:
    return next(one.module for one in SLIDES if one.origin == origin)


MATERIALIZED = _slide("slides, 2-D weight stationary, materialized")
OPTIMIZED = _slide("slides, CCL optimization")


def test_the_slides_have_the_all_reduce_decomposed_and_the_all_gather_moved_down() -> None:
    """The slides write the axes of the scattered dimension in the order 0, 1, 2, though axis 0 comes last: to read that
    takes a permute, and nothing else is different."""
    made = _better(MATERIALIZED, "all-reduce-decompose", "flatten-collectives", hardware=NO_LATENCY)
    theirs = materialize(read(load_module(convert_module(OPTIMIZED, "sdy")))).graph
    assert names(made.after) == [name for name in names(theirs) if name != "collective_permute"]
    run_all([("slides", made), ("slides, optimized", Better(theirs, made.after, ()))])


def test_the_text_of_the_slides_after_it() -> None:
    text = _made(MATERIALIZED, "all-reduce-decompose", NO_LATENCY)
    split = "#mesh.shard<[[], [], [1, 2, 0]]>>"
    for line in (
        '%2 = mesh.reduce_scatter %1 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64}',
        f"%5 = stablehlo.maximum %2, %4 {{sharding = [[], [], [1, 2, 0]]}} : tensor<2x4x32xf32, {split}",
        f"%6 = mesh.all_gather %5 {{mesh_axis = [[], [], [0]]}} : tensor<2x4x32xf32, {split}",
    ):
        assert line in text, text


def test_on_a_machine_that_starts_collectives_the_listing_is_too_small_to_gain() -> None:
    assert _made(MATERIALIZED, "all-reduce-decompose") == _made(MATERIALIZED, "dead-collectives")

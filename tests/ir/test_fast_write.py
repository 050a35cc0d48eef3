"""A graph written by its forms of op is, to the byte, what MLIR prints of the whole module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import pytest

from shardwright import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.fast.write import write_text
from shardwright.ir.graph import Graph
from shardwright.ir.names import ARGUMENT, NameScope, wished
from shardwright.notation import modules
from shardwright.partition import enclose, localize, materialize
from shardwright.propagation import propagate
from tests.ir.test_fast_read import LAYERS
from tests.models.test_jax_features import ZOO
from tests.propagation.programs import random_program

EXAMPLES = Path(__file__).parents[2] / "examples"


def graph_of(text: str) -> Graph:
    """Read by forms where that can be done: then equal locations have one number."""
    read = modules.read_large(text + " " * modules.LARGE)
    return modules.read(load_module(text)) if read is None else read[0]


def written(graph: Graph, locations: bool = False, shardings: bool = True) -> bool:
    """Whether the graph could be written by its forms. If so it is as MLIR prints it."""
    text = write_text(graph, modules.PRINTERS, shardings=shardings, locations=locations)
    assert text is None or text == module_text(modules.write(graph, shardings=shardings), locations)
    return text is not None


@pytest.mark.parametrize("name", ["mlp", "gpt2", "decode", "gpt8", "gpt32_scan"])
def test_every_stage_of_the_examples_is_written_as_mlir_prints_it(name: str) -> None:
    graph = propagate(graph_of((EXAMPLES / f"{name}.mlir").read_text()))
    explicit = materialize(graph).graph
    for stage in (graph, enclose(explicit), localize(explicit)):
        assert written(stage)
        assert written(stage, locations=True) or name in ("decode", "gpt32_scan")  # few ops of a form


def test_a_program_without_shardings_is_written_as_mlir_prints_it() -> None:
    graph = graph_of((EXAMPLES / "gpt8.mlir").read_text())
    bare = localize(materialize(propagate(graph)).graph)
    assert written(bare, shardings=False)
    written(graph, shardings=False)  # constraints without a sharding are not valid


@pytest.mark.parametrize("locations", [False, True])
def test_loops_and_bodies_are_written_as_mlir_prints_them(locations: bool) -> None:
    assert written(graph_of(LAYERS), locations)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_written_as_mlir_prints_them(seed: int) -> None:
    graph = graph_of(random_program(seed))
    assert written(graph)
    written(graph, locations=True)


@pytest.mark.parametrize("name", ["cumsum", "sorting", "remat", "dropout"])
def test_what_jax_lowers_is_written_as_mlir_prints_it(name: str) -> None:
    function, arguments, _ = ZOO[name]
    graph = graph_of(jax.jit(function).lower(*arguments).as_text(debug_info=True))
    assert written(graph)
    written(graph, locations=True)


def test_a_large_graph_is_written_by_its_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of((EXAMPLES / "gpt8.mlir").read_text())
    whole = module_text(modules.write(graph), locations=True)
    monkeypatch.setattr(modules, "write", None)
    assert modules.text_of(graph, locations=True) == whole


def test_a_sharding_that_cannot_be_written_is_said() -> None:
    graph = graph_of(LAYERS)

    def refuse(_: object) -> str:
        raise ShardingError("no such mesh")

    with pytest.raises(ShardingError, match="no such mesh"):
        write_text(graph, replace(modules.PRINTERS, mesh=refuse))


def test_names_are_given_as_mlir_gives_them() -> None:
    scope = NameScope()
    wishes = [ARGUMENT, "c", "", "c", "cst", "cst", "", ARGUMENT]
    assert [scope.name(wish) for wish in wishes] == ["%arg0", "%c", "%0", "%c_0", "%cst", "%cst_1", "%1", "%arg1"]
    assert [scope.inner().name(wish) for wish in ("", "cst", ARGUMENT, "x")] == ["%2", "%cst_2", "%arg2", "%x"]
    assert [wished(name) for name in ("12", "cst_7", "arg3", "iterArg", "c")] == ["", "cst", ARGUMENT, "iterArg", "c"]

"""Annotated module text → the jobs of its unsharded and its per-device program, and their comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read, write
from shardwright.partition import check, enclose, localize, materialize
from shardwright.partition.padding import with_stated_boundary
from shardwright.partition.recognize import recognize
from shardwright.propagation import DEFAULT_STRATEGY, propagate
from shardwright.runtime.execute import Execution, Job
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.unsharded import unsharded
from shardwright.sharding import TensorSharding

__all__ = ["Case", "assert_equal", "make_case"]


@dataclass(frozen=True)
class Case:
    """An annotated module and the two jobs that must agree."""

    text: str
    unsharded: Job
    local: Job


def make_explicit(graph: Graph) -> Graph:
    """The explicit program of a propagated one."""
    return materialize(graph).graph


def make_case(
    text: str, seed: int, explicit: Callable[[Graph], Graph] = make_explicit, strategy: str = DEFAULT_STRATEGY
) -> Case:
    """Take `text` through all stages, each checked, the explicit one made by `explicit`, written and read again."""
    graph = read(load_module(text))
    made = explicit(with_stated_boundary(propagate(graph, strategy=strategy), graph))
    check(made)
    module = write(enclose(made))
    assert module.operation.verify()
    again = recognize(read(load_module(module_text(module))))
    check(again)
    local = write(localize(again), shardings=False)
    assert local.operation.verify()
    types = [graph.types[value] for value in graph.main.block.arguments]
    inputs = tuple(make_inputs(types, graph.main.argument_names, graph.main.argument_attributes, seed=seed))
    returned = made.main.block.terminator.operands
    mesh = next(mesh for mesh in graph.meshes.values() if mesh.axes)
    return Case(
        text,
        Job(module_text(write(unsharded(graph), shardings=False)), inputs),
        Job(
            module_text(local),
            inputs,
            mesh,
            tuple(_sharding(made, value) for value in made.main.block.arguments),
            tuple(_sharding(made, value) for value in returned),
            tuple(made.types[value] for value in returned),
        ),
    )


def _sharding(graph: Graph, value: int) -> TensorSharding:
    sharding = graph.shardings[value]
    assert sharding is not None
    return sharding


def assert_equal(name: str, case: Case, unsharded: Execution | ShardingError, local: Execution | ShardingError) -> None:
    """Both ran, all copies of a shard agree, and so do the results; a NaN must be where the reference has one."""
    assert isinstance(unsharded, Execution), f"{unsharded}\n{case.text}"
    assert isinstance(local, Execution), f"{local}\n{case.text}\n{case.local.module}"
    assert not local.differences, f"{local.differences}\n{case.text}\n{case.local.module}"
    for number, (reference, actual) in enumerate(zip(unsharded.outputs, local.outputs, strict=True)):
        wide = np.complex128 if reference.dtype.kind == "c" else np.float64
        exact = reference.dtype.kind in "iub"
        expected = reference.astype(wide)
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(finite.max()) if finite.size else 1.0
        tolerance = 0.0 if exact else 2e-5 * max(scale, 1.0)
        close = np.allclose(expected, actual.astype(wide), rtol=0 if exact else 2e-5, atol=tolerance, equal_nan=True)
        assert close, f"{name}: result {number}\n{reference}\n{actual}\n{case.text}\n{case.local.module}"

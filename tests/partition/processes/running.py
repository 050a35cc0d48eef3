"""From instances to modules, lowered, run on virtual devices, and compared device by device."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation.modules import read, write
from shardwright.notation.shard.grids import grids
from shardwright.partition.processes import lower, stacked
from shardwright.runtime.execute import Execution, Job, try_jobs
from shardwright.sharding import TensorSharding
from shardwright.stage import Stage
from tests.partition.processes import collectives, queries  # noqa: F401  (register makers)
from tests.partition.processes.definitions import Held, Shape
from tests.partition.processes.instances import MAKERS, Instance, Maker


def lowered(text: str) -> Graph:
    """A per-device module, lowered."""
    module = load_module(text, "program.mlir")
    graph = read(module, "program.mlir")
    assert graph.stage is Stage.LOCAL
    return lower(graph, grids(module))


@dataclass(frozen=True)
class Run:
    """A module and what its results must be on each device; `names` tells what each result is of."""

    text: str
    job: Job
    expected: tuple[Held, ...]
    names: tuple[str, ...]


def make_run(text: str, shape: Shape, operands: Sequence[Held], expected: Sequence[Held], names: Sequence[str]) -> Run:
    graph = stacked(lowered(text))
    module = write(graph, shardings=False)
    assert module.operation.verify()
    mesh = Mesh([(f"axis_{axis}", size) for axis, size in enumerate(shape)])
    inputs = tuple(np.stack([held[device] for device in sorted(held)]) for held in operands)
    types = [graph.types[value] for value in graph.main.block.terminator.operands]
    outs = tuple(type.with_shape((mesh.size, *type.dims[1:])) for type in types)
    job = Job(
        module_text(module),
        inputs,
        mesh,
        tuple(_one_each(mesh, array.ndim) for array in inputs),
        tuple(_one_each(mesh, type.rank) for type in outs),
        outs,
    )
    return Run(text, job, tuple(expected), tuple(names))


def _one_each(mesh: Mesh, rank: int) -> TensorSharding:
    """One row of the first dimension a device."""
    every = tuple(mesh.axis(name) for name, _ in mesh.axes)
    return TensorSharding.of(mesh, [every, *[()] * (rank - 1)])


def program(shape: Shape, instances: Sequence[Instance]) -> str:
    """One module that computes all instances."""
    arguments, lines, values, types = [], [], [], []
    for number, instance in enumerate(instances):
        arguments += [f"%a{number}_{place}: {text}" for place, (text, _) in enumerate(instance.operands)]
        lines += [line.replace("{n}", str(number)) for line in instance.lines]
        values += [name.replace("{n}", str(number)) for name, _, _ in instance.results]
        types += [text for _, text, _ in instance.results]
    body = "\n    ".join(lines)
    sizes = ", ".join(map(str, shape))
    return (
        f'module {{\n  "shard.grid"() {{sym_name = "g", shape = array<i64: {sizes}>}} : () -> ()\n'
        f"  func.func @main({', '.join(arguments)}) -> ({', '.join(types)}) attributes {{mesh_cluster = @g}} {{\n"
        f"    {body}\n    return {', '.join(values)} : {', '.join(types)}\n  }}\n}}"
    )


def random_run(name: str, shape: Shape, count: int, rng: random.Random) -> Run:
    """A module of `count` random instances of an op."""
    instances = [MAKERS[name](Maker(rng, shape)) for _ in range(count)]
    operands = [held for instance in instances for _, held in instance.operands]
    results = [(name, held) for instance in instances for name, _, held in instance.results]
    names = [line for instance in instances for line in [" ; ".join(instance.lines)] * len(instance.results)]
    return make_run(program(shape, instances), shape, operands, [held for _, held in results], names)


def run_all(runs: Sequence[Run]) -> list[Execution | ShardingError]:
    return try_jobs([run.job for run in runs])


def assert_as_defined(run: Run, outcome: Execution | ShardingError) -> int:
    """Every result on every device is the one expected, bit by bit; how many there were.

    Averages may differ in the last bit: XLA multiplies by the reciprocal of the size of a group.
    """
    assert isinstance(outcome, Execution), f"{outcome}\n{run.text}"
    assert len(outcome.outputs) == len(run.expected)
    for name, expected, output in zip(run.names, run.expected, outcome.outputs, strict=True):
        for device, array in expected.items():
            got: Any = output[device]
            assert got.dtype == array.dtype
            assert got.shape == array.shape
            assert _same(got, array, "average" in name), f"{name}\ndevice {device}: {got}\nexpected {array}\n{run.text}"
    return len(run.expected)


def _same(got: Any, expected: Any, rounded: bool) -> bool:
    if rounded and expected.dtype.kind == "f":
        return bool(np.allclose(got, expected, rtol=4 * float(np.finfo(expected.dtype).eps), atol=0))
    return bool(got.tobytes() == expected.tobytes())

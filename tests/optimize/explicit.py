"""Explicit programs as text, made better by passes, and run: before, after, and for one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shardwright.cost.hardware import Hardware
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.memo import Session
from shardwright.notation.modules import read, write
from shardwright.optimize import Improvement, optimize
from shardwright.partition import check, enclose, localize, materialize
from shardwright.partition.recognize import recognize
from shardwright.runtime.execute import Execution, Job, try_jobs
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.unsharded import unsharded
from shardwright.sharding import TensorSharding
from tests.partition.compare import Case, assert_equal

__all__ = ["NO_LATENCY", "Better", "better", "function", "names", "run_all", "text"]

NO_LATENCY = Hardware("no latency", bytes_per_second=1e11, start_seconds=1e-15, multiply_adds_per_second=2e14)
"""On which all that counts is what is sent and computed, as the documents have it, whose tensors are small."""

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>'


def function(arguments: Sequence[str], result: str, body: str, mesh: str = MESH) -> str:
    """A module: arguments and result as `tensor<8x4xf32> [{"x"}, {}]`, a body in which `«…»` stands for a layout."""
    taken = ", ".join(f"%{name}: {_typed(rest)}" for name, _, rest in (one.partition(": ") for one in arguments))
    lines = "\n".join(f"  {_layouts(line.strip())}" for line in body.strip().splitlines())
    return f"{mesh}\nfunc.func @main({taken}) -> ({_typed(result)}) {{\n{lines}\n}}\n"


def _typed(text: str) -> str:
    type, _, layout = text.partition(" ")
    return f"{type} {{sdy.sharding = #sdy.sharding<@mesh, {layout}>}}"


def _layouts(line: str) -> str:
    if "«" not in line:
        return line
    before, _, rest = line.partition("«")
    layout, _, after = rest.partition("»")
    if "sdy." in before:
        return f"{before}out_sharding=<@mesh, {layout}>{after}"
    return f"{before}{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {layout}>]>}}{after}"


@dataclass(frozen=True)
class Better:
    """A program before and after, and what was changed."""

    before: Graph
    after: Graph
    improvements: tuple[Improvement, ...]


def better(
    source: str | Graph, *passes: str, exact: bool = False, hardware: Hardware | None = None, changes: bool = True
) -> Better:
    """Take an explicit program through passes, all where none are named; it is checked, written and read again."""
    before = materialize(read(load_module(source))).graph if isinstance(source, str) else source
    with Session(hardware=hardware):
        made = optimize(before, passes or None, exact=exact)
        again = optimize(made.graph, passes or None, exact=exact)
    assert bool(made.improvements) == changes, [*map(str, made.improvements)]
    assert not again.improvements, [*map(str, again.improvements)]
    return Better(before, _written(made.graph), made.improvements)


def _written(graph: Graph) -> Graph:
    check(graph)
    module = write(enclose(graph))
    assert module.operation.verify()
    again = recognize(read(load_module(module_text(module))))
    check(again)
    return again


def names(graph: Graph) -> list[str]:
    """The names of the ops of a program without their dialects, constants and what returns left out."""
    left_out = ("stablehlo.constant", "func.return", "stablehlo.return")
    return [op.name.partition(".")[2] for op in graph.walk() if op.name not in left_out]


def text(graph: Graph) -> str:
    """A program as text."""
    return module_text(write(enclose(graph)))


def run_all(cases: Iterable[tuple[str, Better]], *, bits: bool = False, seed: int = 0) -> None:
    """Run programs before and after on virtual devices: both give what the program for one device gives.

    With `bits`, what comes after has the same bits as before.
    """
    cases = list(cases)
    jobs = [job for _, one in cases for job in _jobs(one, seed)]
    done = try_jobs(jobs, timeout=600)
    for number, (name, one) in enumerate(cases):
        alone, before, after = done[3 * number : 3 * number + 3]
        for made, graph, job in ((before, one.before, jobs[3 * number + 1]), (after, one.after, jobs[3 * number + 2])):
            assert_equal(name, Case(text(graph), jobs[3 * number], job), alone, made)
        if bits:
            _assert_same_bits(name, before, after)


def _assert_same_bits(name: str, before: Execution | ShardingError, after: Execution | ShardingError) -> None:
    assert isinstance(before, Execution)
    assert isinstance(after, Execution)
    for one, other in zip(before.outputs, after.outputs, strict=True):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"), f"{name}: {one} is not {other}"


def _jobs(one: Better, seed: int) -> tuple[Job, Job, Job]:
    graph = one.before
    types = [graph.types[value] for value in graph.main.block.arguments]
    inputs = tuple(make_inputs(types, graph.main.argument_names, graph.main.argument_attributes, seed=seed))
    alone = Job(module_text(write(unsharded(graph), shardings=False)), inputs)
    return alone, _local(one.before, inputs), _local(one.after, inputs)


def _local(graph: Graph, inputs: tuple[np.ndarray, ...]) -> Job:
    returned = graph.main.block.terminator.operands
    module = write(localize(graph), shardings=False)
    assert module.operation.verify()
    return Job(
        module_text(module),
        inputs,
        graph.mesh,
        tuple(_sharding(graph, value) for value in graph.main.block.arguments),
        tuple(_sharding(graph, value) for value in returned),
        tuple(graph.types[value] for value in returned),
    )


def _sharding(graph: Graph, value: int) -> TensorSharding:
    sharding = graph.shardings[value]
    assert sharding is not None
    return sharding

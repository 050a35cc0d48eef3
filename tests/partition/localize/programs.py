"""Small explicit programs, run on eight virtual devices and compared with the program for one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.partition.localize import localize
from shardwright.runtime.compare import compare
from shardwright.runtime.execute import Job, try_jobs
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.unsharded import unsharded
from shardwright.sharding import TensorSharding, replicated

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>'


def expand(text: str) -> str:
    """`ARG([{"x"}])` on arguments and `SH([{"x"}]; [{}])` in the attributes of ops become shardings on @mesh."""
    text = re.sub(r"ARG\((.*?)\)ARG", lambda m: f"{{sdy.sharding = #sdy.sharding<@mesh, {m[1]}>}}", text)

    def per_value(match: re.Match[str]) -> str:
        parts = ", ".join(f"<@mesh, {part.strip()}>" for part in match[1].split(";"))
        return f"sdy.sharding = #sdy.sharding_per_value<[{parts}]>"

    return re.sub(r"SH\((.*?)\)SH", per_value, text)


@dataclass
class Case:
    """A program in explicit form. `text` is the function (with `MESH` in front unless it has its own mesh)."""

    name: str
    text: str
    inputs: dict[str, Any] = field(default_factory=dict)

    def graph(self) -> Graph:
        text = expand(self.text)
        if "sdy.mesh @" not in text:
            text = MESH + "\n" + text
        graph = modules.read(load_module(text, self.name))
        fill(graph)
        return graph


def fill(graph: Graph) -> None:
    """Give replicated shardings to all values without one; arguments of loops lie as the results."""
    mesh = graph.mesh
    for op in graph.walk():
        if op.name == "stablehlo.while":
            for block in op.regions:
                for argument, result in zip(block.arguments, op.results, strict=True):
                    graph.shardings[argument] = graph.shardings[result]
    manual = {
        value
        for op in graph.walk()
        if op.name == "sdy.manual_computation"
        for block in op.regions
        for value in (*block.arguments, *(result for inner in block.ops for result in inner.results))
    }
    for value, sharding in enumerate(graph.shardings):
        if sharding is None and graph.types[value].is_tensor and value not in manual:
            graph.shardings[value] = replicated(mesh, graph.types[value].rank)


def layouts(graph: Graph) -> tuple[tuple[TensorSharding, ...], tuple[TensorSharding, ...]]:
    """Shardings of arguments and results."""
    block = graph.main.block

    def of(values: Sequence[int]) -> tuple[TensorSharding, ...]:
        shardings = tuple(graph.shardings[value] for value in values)
        assert all(sharding is not None for sharding in shardings)
        return shardings  # type: ignore[return-value]

    return of(block.arguments), of(block.terminator.operands)


def jobs_of(case: Case, local: Graph | None = None) -> tuple[Job, Job]:
    """The program for one device and the per-device program (or `local` in its place), on the same inputs."""
    graph = case.graph()
    types = [graph.types[value] for value in graph.main.block.arguments]
    inputs = make_inputs(types, graph.main.argument_names, graph.main.argument_attributes, given=case.inputs)
    reference = module_text(modules.write(unsharded(graph), shardings=False))
    written = modules.write(local if local is not None else localize(graph), shardings=False)
    assert written.operation.verify(), case.name
    ins, outs = layouts(graph)
    out_types = tuple(graph.types[value] for value in graph.main.block.terminator.operands)
    mesh: Mesh = graph.mesh
    return (
        Job(reference, tuple(inputs)),
        Job(module_text(written), tuple(inputs), mesh, ins, outs, out_types),
    )


def problems(cases: Sequence[Case], locals: Sequence[Graph | None] | None = None) -> dict[str, str]:
    """Case → what differs, or that it did not run; empty where everything is the same. One subprocess for all."""
    by_case: dict[str, str] = {}
    runs: list[tuple[Case, tuple[Job, Job]]] = []
    for case, local in zip(cases, locals or [None] * len(cases), strict=True):
        try:
            runs.append((case, jobs_of(case, local)))
        except ShardingError as error:
            by_case[case.name] = f"failed: {error}"
    results = try_jobs([job for _, pair in runs for job in pair], timeout=300)
    for number, (case, _) in enumerate(runs):
        reference, actual = results[2 * number], results[2 * number + 1]
        if isinstance(reference, ShardingError) or isinstance(actual, ShardingError):
            by_case[case.name] = f"failed: {reference if isinstance(reference, ShardingError) else actual}"
            continue
        names = [f"result{i}" for i in range(len(reference.outputs))]
        wrong = [f"{d.name} {d.problem}" for d in compare(reference.outputs, actual.outputs, names) if not d.ok]
        wrong += [f"copies differ: {d}" for d in actual.differences]
        if wrong:
            by_case[case.name] = "; ".join(wrong)
    return by_case

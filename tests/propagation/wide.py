"""One wide random program, or its text, through our propagation and the C++ Shardy's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph, Op
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from shardwright.rules.registry import beyond_shardy, rule_of
from shardwright.rules.rule import ShardingRule
from shardwright.rules.text import ATTRIBUTE, format_rule
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS, differences_of

__all__ = ["AS_CALLED", "INLINED", "Outcome", "compared", "compared_as_called", "is_annotated_at_calls"]

_CALLS = (
    "sdy-export-named-computations,",
    "sdy-unflatten-call-graph{dedup-functions-fully=false},",
    "sdy-insert-func-call-reshards,",
)


def _without_calls(pipeline: str) -> str:
    for part in _CALLS:
        pipeline = pipeline.replace(part, "")
    return pipeline


AS_CALLED = _without_calls(UP_TO_RESHARDS)
"""The pipeline for modules with calls, which stay named computations, and without others of these."""

INLINED = AS_CALLED.replace("on-named-computations=true", "on-named-computations=false")
"""The pipeline for modules without calls. As it is, it would put two edges on a named computation and die of them; and
calls, which it makes of named computations, keep alive what nobody uses."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What differs of one program, or is wrong with our output, and how the C++ died of it if it did."""

    differences: tuple[str, ...] = ()
    died: str = ""


def compared(texts: Sequence[str]) -> list[Outcome]:
    """Each program's differences, calls read first as we read them."""
    graphs = [read(load_module(text)) for text in texts]
    outputs = run_batch([(str(write(_with_rules(graph))), INLINED) for graph in graphs])
    return [_outcome(graph, output) for graph, output in zip(graphs, outputs, strict=True)]


def compared_as_called(texts: Sequence[str]) -> list[Outcome]:
    """Each program's differences, the C++ reading the calls itself."""
    outputs = run_batch([(text, AS_CALLED) for text in texts])
    return [_outcome(read(load_module(text)), output) for text, output in zip(texts, outputs, strict=True)]


def is_annotated_at_calls(text: str) -> bool:
    """Whether a program has calls, each with something said of it, no computations beside, and ops of the C++ only."""
    if "named_computation" in text or any(f'"{name}"' in text for name in beyond_shardy()):
        return False
    annotated = set(re.findall(r"func\.func private @(\w+)\(.*sdy\.sharding", text))
    calls = re.findall(r"func\.call @(\w+)\((.*)", text)
    return bool(calls) and all(name in annotated or "sdy.sharding" in rest for name, rest in calls)


def _outcome(graph: Graph, output: str | ShardyFailure) -> Outcome:
    ours = propagate(graph)
    if isinstance(output, ShardyFailure):
        return Outcome(tuple(_faults(ours)), output.message)
    try:
        theirs = read(load_module(output))
    except ShardingError as error:
        return Outcome(tuple(_faults(ours)), f"its output is not valid: {error.diagnostic.message}")
    return Outcome(tuple(differences_of(ours, theirs)))


def _faults(graph: Graph) -> list[str]:
    """Why a graph is no valid module."""
    try:
        load_module(str(write(graph)))
    except ShardingError as error:
        return [f"our output: {error}"]
    return []


def _with_rules(graph: Graph) -> Graph:
    """The program with the rules of ops that the C++ has none for written into it."""
    ops = [op for op in graph.walk() if op.name in beyond_shardy()]
    if not ops:
        return graph
    makers = {value: op for op in graph.walk() for value in op.results}
    rules = {id(op): rule for op in ops if (rule := rule_of(op, makers.get)) is not None}
    made = graph.skeleton()
    made.types, made.shardings = graph.types, graph.shardings
    made.main.block = type(graph.main.block)(graph.main.block.arguments, list(_rewritten(graph.main.block.ops, rules)))
    return made


def _rewritten(ops: Sequence[Op], rules: dict[int, ShardingRule]) -> Iterator[Op]:
    for op in ops:
        regions = tuple(type(block)(block.arguments, list(_rewritten(block.ops, rules))) for block in op.regions)
        rule = rules.get(id(op))
        given: dict[str, Any] = {} if rule is None else {ATTRIBUTE: format_rule(rule)}
        signature = op.signature.replace(**given)
        yield Op(signature, op.operands, op.results, regions, op.location)

"""What the next best way to split an op is said to take, beside the program that is split so."""

from __future__ import annotations

import pytest

from shardwright.ir.graph import Graph, Op
from shardwright.memo import Session
from shardwright.partition.decide import decider
from shardwright.partition.decisions import Computed, Decisions
from shardwright.partition.op_split import Given
from shardwright.partition.search.best import search
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.reasons import Reason, reasons_for
from shardwright.partition.search.total import times_run, total_seconds
from shardwright.partition.ways import Way
from tests.partition.search.programs import SCALED, ready, small_program


def _ways(graph: Graph, decisions: Decisions) -> dict[Op, dict[object, Way]]:
    """The ways of every op that has several, by how its tensors lie."""
    nodes = choice_graph(graph, decisions, times_run(graph)).nodes
    return {node.op: {(way.operands, way.results): way for way in node.ways} for node in nodes if node.op and node.ways}


def _check(graph: Graph) -> int:
    """Split each op that stands alone in the next best way, all others as they are; how many that were."""
    decide, times = decider(graph), times_run(graph)
    decisions, _ = search(graph)
    ways, decided = _ways(graph, decisions), dict(zip(graph.walk(), decisions.ops, strict=True))
    now: dict[Op, Way] = {}
    for op, of_op in ways.items():
        decision = decided[op]
        assert isinstance(decision, Computed)
        now[op] = of_op[decision.operands, decision.results]
    seconds = total_seconds(graph, decide(Given(now)), times, SCALED)
    checked = 0
    for reason in reasons_for(graph, decisions):
        (op, *others) = [op for op in now if _is_of(graph, op, now[op], reason)]
        if others or not _stands_alone(graph, op):
            continue
        other = ways[op][reason.next_operands, reason.next_results]
        then = total_seconds(graph, decide(Given({**now, op: other})), times, SCALED)
        assert then - seconds == pytest.approx(reason.seconds_more, rel=1e-6, abs=1e-13)
        checked += 1
    return checked


def _is_of(graph: Graph, op: Op, way: Way, reason: Reason) -> bool:
    place = op.signature.label, str(graph.locations[op.location]), way.operands, way.results
    return place == (reason.op, reason.location, reason.operands, reason.results)


def _stands_alone(graph: Graph, op: Op) -> bool:
    """Whether nobody else reads what an op reads, and only one what it makes."""
    read = [value for other in graph.walk() for value in other.operands]
    return all(read.count(value) == 1 for value in (*op.operands, *op.results))


def test_the_next_best_takes_what_is_said() -> None:
    with Session(hardware=SCALED):
        assert sum(_check(ready(small_program(seed))) for seed in range(12)) >= 12

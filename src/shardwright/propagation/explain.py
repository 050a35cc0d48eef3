"""Explaining a value: its sharding, how each axis came, and where axes stopped."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.propagation.explanation import Explanation
from shardwright.propagation.history import History
from shardwright.propagation.reasons import Recording
from shardwright.propagation.stops import stops_at
from shardwright.propagation.trace import chains_to
from shardwright.sharding import TensorSharding

__all__ = ["explain"]


def explain(recording: Recording, graph: Graph, value: int) -> Explanation:
    """Why a value is sharded as it is.

    Arguments:
        recording: What `propagate` recorded.
        graph: The graph it made, or the one it was given: both call a value by the same number.
        value: The value's number, or `~n` for result `n` of `main` (see `find_value`).

    Raises:
        ShardingError: the record is empty, or of another program.
    """
    if not recording.ops:
        raise ShardingError("the recording is empty", remedy="give it to propagate(graph, record=…) first")
    results = len(graph.main.result_names)
    if not -results <= value < len(recording.working.types):
        raise ShardingError(
            f"there is no value {value} in this program",
            cause=f"values go up to {len(recording.working.types) - 1}, results of main are -1 to {-results}",
            remedy="ask find_value for the number",
        )
    history = History(recording, graph)
    place = value if value < 0 else recording.working.holder_of(value)
    name, location = _name(history, graph, value)
    return Explanation(
        name,
        location,
        _sharding(history, value, place),
        tuple(chains_to(history, place, recording.end_of_propagation)),
        tuple(stops_at(history, place)),
    )


def _sharding(history: History, value: int, place: int) -> TensorSharding | None:
    record = history.record
    if value < 0:
        return record.result_shardings[~value] if record.is_exported else history.at(value, len(record.events))
    return record.working.shardings[value if record.is_exported else place]


def _name(history: History, graph: Graph, value: int) -> tuple[str, str]:
    if value < 0:
        return f"result {graph.main.result_names[~value]}", ""
    if value in history.arguments:
        return f"argument {graph.main.argument_names[history.arguments[value]]}", ""
    op = history.makers.get(value)
    if op is None:
        return f"value {value}", ""
    number = f"#{op.results.index(value)}" if len(op.results) > 1 else ""
    found = graph.locations[op.location]
    named = f" {found.name!r}" if found.name and found.file else ""
    return f"{op.signature.label}{number}{named}", history.where(op)

"""Explaining a value: its sharding, how each axis came, and where axes stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.propagation.explain.chain import Chain
from shardwright.propagation.explain.explanation import Explanation, Explanations
from shardwright.propagation.explain.history import History
from shardwright.propagation.explain.stops import stops_at
from shardwright.propagation.explain.trails import chains_to, region_name
from shardwright.propagation.recording import Recording
from shardwright.propagation.rfc.derivation import Completion
from shardwright.propagation.rfc.trails import annotation_of, dropped_at, lineage_of
from shardwright.sharding import TensorSharding

__all__ = ["explain_values"]


def explain_values(history: History, values: Iterable[int]) -> Explanations:
    """Why some values are sharded as they are.

    Arguments:
        history: What `propagate` recorded, with the graph it made, or the one it was given: both call a value by the
            same number.
        values: The values' numbers, or `~n` for result `n` of `main` (see `find_value`).

    Raises:
        ShardingError: the record is empty, or of another program.
    """
    if not history.record.ops:
        raise ShardingError("the recording is empty", remedy="give it to propagate(graph, record=…) first")
    asked = list(values)
    for value in asked:
        _check(history.record, history.graph, value)
    return Explanations(_explain(history, value) for value in asked)


def _check(recording: Recording, graph: Graph, value: int) -> None:
    results = len(graph.main.result_names)
    if not -results <= value < len(recording.working.types):
        raise ShardingError(
            f"there is no value {value} in this program",
            cause=f"values go up to {len(recording.working.types) - 1}, results of main are -1 to {-results}",
            remedy="ask find_value for the number",
        )


def _explain(history: History, value: int) -> Explanation:
    record = history.record
    if record.completion is not None:
        return _explain_completed(history, record.completion, value)
    place = value if value < 0 else record.working.holder_of(value)
    name, location = _name(history, value)
    sharding = _sharding(history, value, place)
    return Explanation(
        name,
        location,
        sharding,
        _kept(sharding, chains_to(history, place, record.end_of_propagation)),
        tuple(stops_at(history, place)),
        _printed(history, value),
        history.own_annotation(place),
        tuple(history.graph.meshes.values()),
    )


def _explain_completed(history: History, completion: Completion, value: int) -> Explanation:
    """Why a value is sharded as the strategy `rfc` left it."""
    name, location = _name(history, value)
    sharding = _sharding(history, value, value)
    statement = completion.statements.get(value)
    return Explanation(
        name,
        location,
        sharding,
        () if statement is None else _kept(sharding, lineage_of(history, statement)),
        (),
        _printed(history, value),
        None if statement is None else annotation_of(history, statement),
        tuple(history.graph.meshes.values()),
        tuple(dropped_at(completion, value)),
        "no axis splits it" if statement is not None else "no axis splits it: nothing that the program says reaches it",
    )


def _kept(sharding: TensorSharding | None, chains: Iterable[Chain]) -> tuple[Chain, ...]:
    """The chains, with a note of whether their axes are still where they came."""
    return tuple(replace(chain, kept=_is_on(sharding, chain)) for chain in chains)


def _printed(history: History, value: int) -> str:
    return "" if value in history.arguments else history.printed.get(value, "")


def _sharding(history: History, value: int, place: int) -> TensorSharding | None:
    record = history.record
    if value < 0:
        return record.result_shardings[~value] if record.is_exported else history.at(value, len(record.events))
    return record.working.shardings[value if record.is_exported else place]


def _is_on(sharding: TensorSharding | None, chain: Chain) -> bool:
    """Whether the axis of a chain is still where it came."""
    return sharding is None or any(axis.overlaps(chain.axis) for axis in sharding.dims[chain.dim].axes)


def _name(history: History, value: int) -> tuple[str, str]:
    graph = history.graph
    if value < 0:
        return f"result {graph.main.result_names[~value]}", ""
    if value in history.arguments:
        return f"argument {graph.main.argument_names[history.arguments[value]]}", ""
    op = history.makers.get(value)
    if op is None:
        return _region_argument(history, value)
    number = f"#{op.results.index(value)}" if len(op.results) > 1 else ""
    location = graph.locations[op.location]
    named = f" {location.name!r}" if location.name and location.file else ""
    return f"{op.signature.label}{number}{named}", history.where(op)


def _region_argument(history: History, value: int) -> tuple[str, str]:
    op = history.owners.get(value)
    if op is None:
        return f"value {value}", ""  # of an op that import took out
    number, region = next((number, region) for number, region in enumerate(op.regions) if value in region.arguments)
    argument = f"argument {region.arguments.index(value)} of {region_name(op, number)}"
    return f"{argument}, {op.signature.label}", history.where(op)

"""What is told of how a program was partitioned: nothing that a user asked for is dropped in silence.

One list, each entry with its op, its place, what happened and what it costs: shardings that do not divide their tensors
and are cut, ops that are computed whole along a dimension that was to be split, collectives whose result nobody reads,
and what was to be on some of the devices alone.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.price import step_cost
from shardwright.ir.graph import Graph, Op
from shardwright.ir.locations import LocationTable
from shardwright.ir.ops import COLLECTIVES
from shardwright.ir.rewrite.patterns import Pattern, apply_patterns
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.types import TensorType
from shardwright.partition.boundary import alone
from shardwright.partition.decisions import Computed, Decisions, PassedOn, Reshard
from shardwright.partition.emit import step_of
from shardwright.partition.localize.uneven import leaves
from shardwright.partition.note import Note, at_place
from shardwright.partition.op_notes import returned_notes
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, local_bytes

__all__ = [
    "alone_notes",
    "boundary_notes",
    "cut_notes",
    "decision_notes",
    "remove_unread",
    "unread_notes",
]

_LISTED = 8
"""Devices that a note names."""

_RECENT = 8
"""How many places are remembered at which ops stood that were told of alike: a layer has hardly more."""

_recent = partial(deque[tuple[int, list[Note]]], maxlen=_RECENT)

_REQUESTS = frozenset({"sdy.reshard", "sdy.sharding_constraint"})


# --- shardings that do not divide


def boundary_notes(annotated: Graph, explicit: Graph) -> Iterator[Note]:
    """The shardings that users gave arguments and results, and that are not those of the program that came of it."""
    main, made = annotated.main, explicit.main
    arguments = zip(main.argument_names, main.block.arguments, made.block.arguments, strict=True)
    for number, (name, value, kept) in enumerate(arguments):
        where = annotated.argument_location(number)
        asked = annotated.shardings[value]
        yield from _changed_note(f"argument {name!r}", where, asked, explicit.shardings[kept], annotated.types[value])
    where = str(annotated.locations[main.block.terminator.location])
    returned = main.block.terminator.operands
    results = zip(main.result_names, main.result_shardings, made.result_shardings, returned, strict=True)
    for name, asked, layout, value in results:
        yield from _changed_note(f"result {name!r}", where, asked, layout, annotated.types[value])


def cut_notes(graph: Graph) -> Iterator[Note]:
    """The shardings of values that are cut, as they do not divide their tensors.

    A value whose op reads one that is cut along the same axes has it from there.
    """
    for op in graph.walk():
        if op.name != "sdy.sharding_group" and not facts_of(op.name).constant and not _is_result(graph, op):
            yield from _cut_by(graph, op)


def _is_result(graph: Graph, op: Op) -> bool:
    """Whether an op makes an uneven result of the program."""
    operands, results = ([graph.shardings[value] for value in values] for values in (op.operands, op.results))
    return leaves(op.signature, operands, results)


def _cut_by(graph: Graph, op: Op) -> Iterator[Note]:
    read = (_lost_axes(graph.shardings[value], graph.types[value]) for value in op.operands)
    known = set[str]() if op.name in _REQUESTS else set[str]().union(*read)
    for number, value in enumerate(op.results):
        sharding, type = graph.shardings[value], graph.types[value]
        if sharding is not None and not _lost_axes(sharding, type) <= known:
            what = f"result {number}" if len(op.results) > 1 else "its result"
            where = str(graph.locations[op.location])
            yield _note(what, op.signature.label, where, sharding, sharding.evenly_dividing(type.dims), type)


def _lost_axes(sharding: TensorSharding | None, type: TensorType) -> set[str]:
    """The names of axes that split a tensor less than its sharding says."""
    if sharding is None or not sharding.mesh.axes or not type.is_tensor or sharding.divides(type.dims):
        return set()
    kept = sharding.evenly_dividing(type.dims)
    pairs = zip(sharding.axes, kept.axes, strict=True)
    return {axis.name for had, has in pairs for axis in had if axis not in has}


def _changed_note(
    what: str, where: str, asked: TensorSharding | None, kept: TensorSharding | None, type: TensorType
) -> Iterator[Note]:
    if asked is None or kept is None or not asked.mesh.axes or not type.is_tensor:
        return
    # an axis of size 1 splits nothing: that it is left out changes nothing either
    split = [[tuple([axis for axis in axes if axis.size > 1]) for axes in one.axes] for one in (asked, kept)]
    if any(has[: len(had)] != had for had, has in zip(*split, strict=True)):
        yield _note(what, "func.func", where, asked, kept, type)


def _note(what: str, op: str, where: str, asked: TensorSharding, kept: TensorSharding, type: TensorType) -> Note:
    uneven = [
        f"{axes_size(had)} shards of dimension {dim} ({size})"
        for dim, (size, had, has) in enumerate(zip(type.dims, asked.axes, kept.axes, strict=True))
        if size % axes_size(had) and had != has
    ]
    plain = [one.with_axes(one.axes) for one in (kept, asked)]
    held = math.prod(kept.local_shape(type.dims)) - math.prod(asked.local_shape(type.dims))
    why = f"{', '.join(uneven)} would be no smaller" if held <= 0 else f"{', '.join(uneven)} would not be of one size"
    why = why if uneven else "whole axes split what goes in and out"
    element = type.bytes // max(1, type.elements)
    message = f"{what} lies as {plain[0]!r}, not as {plain[1]!r}: {why}"
    remedy = f"give it the sharding {plain[0]!r}, or dimensions that its shards divide"
    return Note(op, where, message, max(0, held) * element, "held", remedy=remedy)


# --- ops


def decision_notes(graph: Graph, decisions: Decisions, resizes: Mapping[Op, str]) -> Iterator[Note]:
    """What is told of ops, in order. Of one that cuts padding off it is told for the op that `resizes` names, which
    cannot be computed on padded dimensions; of others that pad and cut only what they send, since nobody wrote them.
    """
    placed = _Placed(graph.locations)
    for op, decision in zip(graph.walk(), decisions.ops, strict=True):
        if isinstance(decision, PassedOn) and op in resizes:
            yield from at_place(returned_notes(graph, op, decision.before), graph.locations.place(op.location))
        if not isinstance(decision, Computed) or not decision.notes:
            continue
        for note in placed.notes(decision.notes, op.location):
            reader = resizes.get(op)
            if reader is None:
                yield note
            elif op.name == "stablehlo.slice":
                yield _own_size_note(note, op, reader, _is_moved(decision))
            elif note.measure == "sent":
                yield note


class _Placed:
    """Notes with their places: ops that are told of alike at one place, as of each layer, have the same ones."""

    def __init__(self, locations: LocationTable) -> None:
        """None yet; places are in this table."""
        self._locations = locations
        self._known: defaultdict[int, deque[tuple[int, list[Note]]]] = defaultdict(_recent)

    def notes(self, notes: tuple[Note, ...], location: int) -> list[Note]:
        """The notes of an op at a location."""
        recent = self._known[id(notes)]
        for other, known in recent:
            if self._locations.are_same(location, other):
                return known
        placed = at_place(notes, self._locations.place(location))
        recent.appendleft((location, placed))
        return placed


def _is_moved(decision: Computed) -> bool:
    """Whether what an op reads is brought there and nothing of it is gathered."""
    steps = [step for made in decision.before if isinstance(made, Reshard) for step in made.steps]
    return bool(steps) and not any(isinstance(step, AllGather) for step in steps)


def _own_size_note(note: Note, op: Op, reader: str, is_moved: bool) -> Note:
    """What is told of a slice that cuts padding off, in the name of its reader if that is what needs the own size;
    whether other dimensions are split by as much there is told as well.
    """
    sizes = zip(op.signature.results[0].dims, op.signature.operands[0].dims, strict=True)
    cut = [(dim, size, had) for dim, (size, had) in enumerate(sizes) if size != had]
    why = "no local form of this op on uneven shards" if reader else "it is read in its own size there"
    dims = ", ".join(f"{dim} ({size})" for dim, size, _ in cut)
    done = "split along another dimension than" if is_moved else "gathered along dimension"
    return replace(
        note,
        op=reader or note.op,
        message=f"an operand is {done} {dims}: {why}",
        remedy=" and ".join(f"make dimension {dim} {had} long" for dim, _, had in cut),
        is_fallback=bool(reader) and not is_moved,
    )


# --- collectives that nobody reads


def remove_unread(graph: Graph) -> Iterator[Note]:
    """Take the collectives out of an explicit graph whose results nobody reads, and tell of each."""
    if _unread_collectives(graph):
        with Rewriter(graph, graph.main.block) as rewriter:
            apply_patterns(rewriter, [Pattern(COLLECTIVES, _erased_if_unread)])
        for change in rewriter.changes:
            yield _unread(graph, change.op)


def _erased_if_unread(op: Op, rewriter: Rewriter) -> bool:
    if rewriter.uses.is_read(op):
        return False
    rewriter.erase(op, "nobody reads it")
    return True


def _unread(graph: Graph, op: Op) -> Note:
    before, after = graph.shardings[op.operands[0]], graph.shardings[op.results[0]]
    assert before is not None
    assert after is not None
    type = op.signature.operands[0]
    held = local_bytes(type.dims, type.bytes // max(1, type.elements), before)
    cost = step_cost(step_of(op.signature, before, after), before, held, combined_by_hand(type.dtype))
    message = f"it is left out: nobody reads the value as {after!r}"
    where, spared = str(graph.locations[op.location]), round(cost.bytes_sent)
    return Note(op.signature.label, where, message, spared, "spared", remedy="take it out", is_fallback=False)


def unread_notes(graph: Graph) -> Iterator[Note]:
    """The collectives of a program that came with them, and stays as it is, whose results nobody reads."""
    for op in _unread_collectives(graph):
        yield replace(_unread(graph, op), message="nobody reads its result", measure="sent")


def _unread_collectives(graph: Graph) -> list[Op]:
    ops = graph.walk()
    collectives = {op.results[0]: op for op in ops if op.signature.name in COLLECTIVES}
    unread = set(collectives).difference(itertools.chain.from_iterable([op.operands for op in ops]))
    return [op for value, op in collectives.items() if value in unread]


# --- some of the devices


def alone_notes(graph: Graph) -> Iterator[Note]:
    """What is to be on one device alone, or on those of a sub-mesh."""
    for one in alone(graph):
        if len(one.devices) == 1:
            message = f"it is to be on device {one.devices[0]} alone, and is on all: each runs every op"
            remedy = "split it over the devices, or leave its sharding out"
        else:
            others = one.total - len(one.devices)
            message = f"it is to be on devices {_listed(one.devices)} alone, and the other {others} hold it as well: "
            message += "each runs every op"
            remedy = f"split it over all {one.total} devices: that takes them no longer, and less of each"
        yield Note(one.what, one.where, message, one.bytes, "held", remedy=remedy)


def _listed(devices: Sequence[int]) -> str:
    """`0, 1 and 2`; of many the first."""
    if len(devices) > _LISTED:
        return f"{', '.join(map(str, devices[:_LISTED]))} and {len(devices) - _LISTED} more"
    return f"{', '.join(map(str, devices[:-1]))} and {devices[-1]}"

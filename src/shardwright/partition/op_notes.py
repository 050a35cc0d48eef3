"""What is told of one op when it is decided on: what of it is gathered, moved or computed whole, why, and what would
avoid that.

What happened is told by the steps that were taken: `gathered` where an all_gather is one of them, `split along another
dimension` where an all_to_all led there.

All this is so wherever the op stands, and told without a place: that is told with the list of them (`notes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.price import step_cost
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.decisions import Layout, Reshard, Version
from shardwright.partition.factors import factor_axes, local_parts, project, within_bounds
from shardwright.partition.note import Note
from shardwright.partition.proposals import Source
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.values import Value
from shardwright.partition.ways import Choice
from shardwright.rules.custom_call import is_python_with_effects
from shardwright.rules.given import is_opaque
from shardwright.rules.registry import is_given
from shardwright.rules.rule import TensorMapping
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, Step, layouts_after, local_bytes

__all__ = [
    "ahead_notes",
    "extra_work",
    "gather_notes",
    "gathers",
    "is_unknown",
    "op_notes",
    "returned_notes",
]

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a tensor of an op does not stay split, what would avoid it, and whether that is for want of anything."""

    why: str
    remedy: str
    is_fallback: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """How an operand came to lie as its op reads it."""

    source: TensorSharding
    steps: tuple[Step, ...]

    def gathered(self) -> Dims:
        """The dimensions along which shards were gathered that the operand had before.

        Not those of parts that only a reduction left, and that were put together again.
        """
        dims: dict[int, None] = {}
        for step, after in zip(self.steps, layouts_after(self.source, self.steps), strict=True):
            if isinstance(step, AllGather):
                dims |= dict.fromkeys(_less_split(self.source, after))
        return tuple(sorted(dims))

    def sent(self, type: TensorType) -> int:
        """Bytes that each device sends on it."""
        element, before, total = type.bytes // max(1, type.elements), self.source, 0.0
        for step, after in zip(self.steps, layouts_after(self.source, self.steps), strict=True):
            held = local_bytes(type.dims, element, before)
            total += step_cost(step, before, held, combined_by_hand(type.dtype)).bytes_sent
            before = after
        return round(total)


def op_notes(
    op: Op,
    choice: Choice,
    operands: Sequence[Value],
    targets: Sequence[TensorSharding],
    before: tuple[Version, ...],
    work: int,
    is_chosen: bool,
) -> Iterator[Note]:
    """What is told of an op that is split so.

    Operands that are gathered, or split otherwise, along a dimension; or else the results that are computed whole along
    one and were to be split. An op of which nothing is known is told of in any case. The work that the op does beyond
    its share stands in the first note.

    Arguments:
        op: The op, which has no regions.
        choice: How it is split.
        operands: The values that it reads.
        targets: The sharding each result should have in the end.
        before: The versions that are made for it.
        work: Its `extra_work`.
        is_chosen: Whether it is split so for what the program gains, however cheap that is for the op by itself.
    """
    ways = dict(_ways(operands, choice.operands, before))
    made = list(_lost_notes(op, choice, operands, ways)) or list(_result_notes(op, choice, targets))
    if not made and is_unknown(op.signature):
        reason = _no_form(op.signature)
        made = [_note(op, f"it is computed whole on every device: {reason.why}", 0, reason)]
    made += _gathered_notes(op, choice, operands, ways, is_chosen)
    if work and not made:
        reason = _cheapest(is_chosen, "let its tensors lie alike")
        made = [_note(op, f"devices compute some of it several times: {reason.why}", 0, reason)]
    if made:
        first, *others = made
        yield replace(first, work=work) if work else first
        yield from others


def gathers(version: Version) -> bool:
    """Whether shards are gathered to make a version: else nothing is to be told of it."""
    return isinstance(version, Reshard) and any(isinstance(step, AllGather) for step in version.steps)


def gather_notes(
    op: Op, operands: Sequence[Value], layouts: Sequence[Layout], before: tuple[Version, ...]
) -> Iterator[Note]:
    """The operands that are gathered for an op that takes them as they are stated: a loop, a return."""
    for number, way in _ways(operands, layouts, before):
        dims, layout = way.gathered(), layouts[number]
        if dims:
            reason = _Reason(f"it is to lie as {layout!r} there", f"let it lie as {way.source!r} there", False)
            message = f"operand {number} is gathered along dimension {_listed(dims)}: {reason.why}"
            yield _note(op, message, way.sent(operands[number].type), reason)


def ahead_notes(graph: Graph, op: Op, ahead: tuple[Version, ...]) -> Iterator[Note]:
    """What is gathered in front of a loop, or of branches, since ops in them read it so."""
    why = "it is read so in every turn" if op.name == "stablehlo.while" else "it is read so more than once"
    for version in ahead:
        if isinstance(version, Reshard) and gathers(version):
            way = _Way(version.source, version.steps)
            reason = _Reason(why, f"let what reads it there take {way.source!r}", False)
            message = f"a value that it reads is gathered along dimension {_listed(way.gathered())}: {reason.why}"
            yield _note(op, message, way.sent(graph.types[version.value]), reason)


def returned_notes(graph: Graph, op: Op, before: tuple[Version, ...]) -> Iterator[Note]:
    """What is gathered for an uneven result, of a reshard that brings it where it is to lie."""
    layout, type = graph.shardings[op.results[0]], op.signature.results[0]
    for version in before:
        way = _Way(version.source, version.steps) if isinstance(version, Reshard) else None
        dims = way.gathered() if way else ()
        if way and dims:
            reason = _Reason(f"it is to lie as {layout!r}", f"let it lie as {way.source!r}", False)
            note = _note(op, f"a result is gathered along dimension {_listed(dims)}: {reason.why}", 0, reason)
            yield replace(note, op="func.return", bytes=way.sent(type))


def _ways(
    operands: Sequence[Value], layouts: Sequence[Layout], before: tuple[Version, ...]
) -> Iterator[tuple[int, _Way]]:
    """The operands that were brought to where they are read, each value and layout once, and how."""
    taken = [version for version in before if isinstance(version, Reshard)]
    known = set[tuple[int, Layout]]()
    for number, (value, layout) in enumerate(zip(operands, layouts, strict=True)):
        for version in taken:
            is_it = version.value == value.number and layout in layouts_after(version.source, version.steps)[-1:]
            if is_it and (value.number, layout) not in known:
                known.add((value.number, layout))
                yield number, _Way(version.source, version.steps)


# --- operands


def _lost_notes(op: Op, choice: Choice, operands: Sequence[Value], ways: Mapping[int, _Way]) -> Iterator[Note]:
    """The operands that were split along dimensions along which the op cannot be, or can be with an exchange alone."""
    for number in choice.gathered:
        source, read, way = operands[number].source[0], choice.operands[number], ways.get(number)
        lost = _lost(op.signature, number, source, read)
        gathered: Dims = ()
        if way:
            gathered = way.gathered()
        elif axes_size(read.used_axes) < axes_size(source.used_axes):
            gathered = lost  # for an op before this one
        sent = way.sent(operands[number].type) if way else 0
        together, moved = _divided(lost, gathered)
        if together:
            reason = _reason(op.signature, number, source, together)
            message = f"operand {number} is gathered along dimension {_listed(together)}: {reason.why}"
            yield _note(op, message, sent, reason)
        if moved and (way or together):
            reason = replace(_reason(op.signature, number, source, moved), is_fallback=False)
            message = f"operand {number} is split along another dimension than {_listed(moved)}: {reason.why}"
            yield _note(op, message, 0 if together else sent, reason)


def _gathered_notes(
    op: Op,
    choice: Choice,
    operands: Sequence[Value],
    ways: Mapping[int, _Way],
    is_chosen: bool,
) -> Iterator[Note]:
    """The operands that are gathered along dimensions along which the op could be split."""
    for number, way in ways.items():
        read = choice.operands[number]
        source = operands[number].source[0]
        lost = _lost(op.signature, number, source, read) if number in choice.gathered else ()
        _, dims = _divided(way.gathered(), lost)
        if dims:
            reason = _cheapest(is_chosen, f"let operand {number} lie as {read!r}, or the others so that it fits them")
            message = f"operand {number} is gathered along dimension {_listed(dims)}: {reason.why}"
            yield _note(op, message, 0 if lost else way.sent(operands[number].type), reason)


def _divided(dims: Dims, among: Dims) -> tuple[Dims, Dims]:
    """Those of some dimensions that are among others, and those that are not."""
    return tuple(dim for dim in dims if dim in among), tuple(dim for dim in dims if dim not in among)


# --- results


def _result_notes(op: Op, choice: Choice, targets: Sequence[TensorSharding]) -> Iterator[Note]:
    for number in choice.whole:
        target, made, type = targets[number], choice.results[number], op.signature.results[number]
        among = len(op.operands) + number
        dims = _lost(op.signature, among, target, made)
        if dims:
            held = math.prod(made.local_shape(type.dims)) - math.prod(target.local_shape(type.dims))
            reason = _reason(op.signature, among, target, dims)
            message = f"result {number} is computed whole along dimension {_listed(dims)}: {reason.why}"
            bytes = max(0, held) * (type.bytes // max(1, type.elements))
            yield _note(op, message, bytes, reason, "held")


def extra_work(
    signature: Signature, choice: Choice, sources: Sequence[Source], targets: Sequence[TensorSharding]
) -> int:
    """Multiply-adds of each device beyond its share, which the tensor tells that is split the most.

    Where it is split along what leaves each device as much to do, nobody has a share.
    """
    splits = splits_of(signature)
    if splits is None:
        return 0
    if splits.idle:
        axes = factor_axes(splits.rule, (*choice.operands, *choice.results))
        if any(axes[factor] for factor in splits.idle):
            return 0
    stated = [*[source[0] for source in sources if source], *targets]
    parts = max([sharding.shards for sharding in stated], default=1)
    return max(0, round(choice.own.multiply_adds - splits.iterations / parts))


# --- reasons


def _reason(signature: Signature, number: int, sharding: TensorSharding, dims: Dims) -> _Reason:
    """Why a tensor of an op, its operands counted before its results, does not stay split along these dimensions."""
    splits = splits_of(signature)
    if splits is None:
        return _no_form(signature)
    mapping = (*splits.rule.operands, *splits.rule.results)[number]
    remedy = _other_dims(signature, number, splits, mapping, dims)
    possible = within_bounds(splits, project(mapping, splits.rule.sizes, sharding.axes))
    factors = [factor for dim in dims for factor in mapping[dim]]
    if splits.exchanged and all(factor in splits.exchanged and possible[factor] for factor in factors):
        return _Reason("that costs less than what devices would exchange inside the op", remedy, False)
    return replace(_no_form(signature), remedy=remedy)


def _cheapest(is_chosen: bool, remedy: str) -> _Reason:
    why = "the program is faster so" if is_chosen else "as the tensors of the op lie, that is cheapest"
    return _Reason(why, remedy, False)


def _no_form(signature: Signature) -> _Reason:
    if is_python_with_effects(signature):
        return _Reason("one device calls Python with whole values", "", False)
    if splits_of(signature) is not None and is_given(signature):
        return _Reason("by the rule given for this op it is not computed in parts along it", "", True)
    if splits_of(signature) is None and signature.name == "stablehlo.custom_call":
        remedy = "give it a rule, by sw.rule or the attribute sdy.sharding_rule"
        return _Reason("no local form of this call is known", remedy, True)
    return _Reason("no local form of this op along it", "", True)


def _other_dims(signature: Signature, number: int, splits: Splits, mapping: TensorMapping, dims: Dims) -> str:
    """What would avoid that a tensor does not stay split along `dims`."""
    count = len(signature.operands)
    type = (*signature.operands, *signature.results)[number]
    name = f"operand {number}" if number < count else f"result {number - count}"
    local = splits.allowed - splits.exchanged
    free = [
        dim
        for dim, factors in enumerate(mapping)
        if dim not in dims and type.dims[dim] > 1 and any(factor in local for factor in factors[:1])
    ]
    if free:
        return f"split {name} along dimension {_listed(free, ' or ')} instead"
    return f"let {name} be whole: along no dimension of it parts of this op are computed"


def is_unknown(signature: Signature) -> bool:
    """Whether nothing tells what an op computes: it is computed whole, on every device."""
    return is_opaque(signature) and splits_of(signature) is None and not is_python_with_effects(signature)


def _lost(signature: Signature, number: int, had: TensorSharding, has: TensorSharding) -> Dims:
    """The dimensions of a tensor of an op, its operands counted before its results, that are split less than they were
    and along which the op cannot be split by as much, or can be with an exchange alone. Along others it is whole since
    that is faster.
    """
    dims, splits = _less_split(had, has), splits_of(signature)
    if splits is None:
        return dims
    mapping = (*splits.rule.operands, *splits.rule.results)[number]
    possible = local_parts(splits, mapping, had)
    return tuple(dim for dim in dims if axes_size(had.axes[dim]) > possible[dim])


def _less_split(had: TensorSharding, has: TensorSharding) -> Dims:
    """The dimensions that are split less than they were."""
    pairs = enumerate(zip(had.axes, has.axes, strict=True))
    return tuple(dim for dim, (one, other) in pairs if axes_size(other) < axes_size(one))


def _listed(dims: Sequence[int], between: str = ", ") -> str:
    return between.join(map(str, dims))


def _note(op: Op, message: str, bytes: int, reason: _Reason, measure: str = "sent") -> Note:
    return Note(
        op.signature.label,
        "",
        message,
        bytes,
        measure,
        remedy=reason.remedy,
        is_fallback=reason.is_fallback,
    )

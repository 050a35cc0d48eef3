"""What a per-device program communicates: every collective, its bytes, and how often it runs.

Bytes are those that one device sends, by the ring formulas of `cost.collectives`. An `all_reduce` of which every
device of a group keeps only a slice of its own is counted as the `reduce_scatter` that compilers make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from shardwright.analysis.groups import Devices, Groups, axes_between, replica_groups, source_target_pairs
from shardwright.analysis.loops import trip_count
from shardwright.analysis.scalars import Scalars
from shardwright.axes import Axes
from shardwright.cost.collectives import sent_bytes
from shardwright.ir.attributes import decode
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.locations import Location

__all__ = [
    "KINDS",
    "CollectiveUse",
    "KindTraffic",
    "TrafficSummary",
    "collective_use",
    "collectives",
    "device_count",
    "summarize",
]

KINDS = (
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
    "collective_broadcast",
    "collective_reduce",
)
"""The collectives, named as StableHLO names them."""

_KIND = {f"stablehlo.{kind}": kind for kind in KINDS}
_THROUGH = ("stablehlo.optimization_barrier",)


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """One collective of a per-device program.

    Attributes:
        kind: One of `KINDS`.
        axes: The mesh axes it runs along, or `None` where its groups list devices.
        along: The names of the mesh axes in which devices that talk differ, however they are listed.
        group_size: Devices that take part together.
        operand_bytes: Bytes of its operands on one device.
        result_bytes: Bytes of its results on one device.
        sent_bytes: Bytes that a device sends each time it runs.
        executed: How often it runs in one run of the program.
        trip_count_known: Whether the loops around it say how often they run; one that does not counts once.
        location: Where it comes from.
    """

    kind: str
    axes: Axes | None
    along: tuple[str, ...]
    group_size: int
    operand_bytes: int
    result_bytes: int
    sent_bytes: float
    executed: int
    trip_count_known: bool
    location: Location

    @property
    def total_bytes(self) -> float:
        """Bytes that a device sends in one run of the program."""
        return self.sent_bytes * self.executed

    @property
    def traffic(self) -> KindTraffic:
        """The same, to be added up with that of others."""
        return KindTraffic(1, self.executed, self.sent_bytes, self.total_bytes)


@dataclass(frozen=True, slots=True)
class KindTraffic:
    """All collectives of one kind: how many stand in the program and run, and the bytes a device sends by them."""

    static: int = 0
    executed: int = 0
    static_bytes: float = 0.0
    executed_bytes: float = 0.0

    def __add__(self, other: KindTraffic) -> KindTraffic:
        """Both together."""
        return KindTraffic(
            self.static + other.static,
            self.executed + other.executed,
            self.static_bytes + other.static_bytes,
            self.executed_bytes + other.executed_bytes,
        )


@dataclass(frozen=True, slots=True)
class TrafficSummary:
    """The traffic of a program.

    Attributes:
        kinds: Per kind that occurs, in the order of `KINDS`.
        trip_counts_known: Whether every loop around a collective says how often it runs.
    """

    kinds: Mapping[str, KindTraffic]
    trip_counts_known: bool

    @property
    def total(self) -> KindTraffic:
        """All kinds together."""
        return sum(self.kinds.values(), KindTraffic())


def summarize(uses: Iterable[CollectiveUse]) -> TrafficSummary:
    """Counts and bytes per kind."""
    kinds: dict[str, tuple[int, int, float, float]] = {}
    known = True
    for use in uses:
        static, executed, static_bytes, executed_bytes = kinds.get(use.kind, (0, 0, 0.0, 0.0))
        sent, times = use.sent_bytes, use.executed
        kinds[use.kind] = static + 1, executed + times, static_bytes + sent, executed_bytes + sent * times
        known = known and use.trip_count_known
    return TrafficSummary({kind: KindTraffic(*kinds[kind]) for kind in KINDS if kind in kinds}, known)


def collectives(graph: Graph) -> tuple[CollectiveUse, ...]:
    """Every collective that one run of a per-device program can execute, in program order.

    Of the branches of a `case` or `if`, those of the one that sends most. Inside a loop that runs n times, each counts
    n times (in its condition n + 1 times).

    Raises:
        ShardingError: replica groups over a mesh that the module does not have.
    """
    return tuple(_Counter(graph).block(graph.main.block, 1, True))


def device_count(graph: Graph) -> int:
    """How many devices a per-device program runs on: its `mhlo.num_partitions`, else the size of its mesh."""
    partitions = decode(graph.attributes.get("mhlo.num_partitions", "1 : i32"))
    return max([int(partitions), *(mesh.size for mesh in graph.meshes.values())])


def collective_use(op: Op, graph: Graph, devices: int) -> CollectiveUse | None:
    """What one op of a per-device program sends that runs once and whose result is used whole; `None` of others.

    Arguments:
        op: The op.
        graph: The program.
        devices: How many devices it runs on.

    Raises:
        ShardingError: replica groups over a mesh that the module does not have.
    """
    return _priced(_use_of(op, graph, devices)[0]) if op.name in _KIND else None


def _use_of(op: Op, graph: Graph, devices: int) -> tuple[CollectiveUse, Groups | None]:
    """A collective, not yet priced, and its groups where it has some."""
    kind = _KIND[op.name]
    operand = sum(type.bytes for type in op.signature.operands)
    result = sum(type.bytes for type in op.signature.results)
    location = graph.locations[op.location]
    if kind == "collective_permute":
        pairs = source_target_pairs(op.signature)
        moved, along = any(source != target for source, target in pairs), axes_between(pairs, graph.mesh)
        return CollectiveUse(kind, None, along, 2 if moved else 1, operand, result, 0.0, 1, True, location), None
    groups = replica_groups(op.signature, graph.meshes, devices)
    along = groups.along(graph.mesh)
    return CollectiveUse(kind, groups.axes, along, groups.size, operand, result, 0.0, 1, True, location), groups


class _Counter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.devices = device_count(graph)
        self.scalars = Scalars(graph, self.devices)
        self.readers: dict[int, list[Op]] = {}  # an op once for each operand
        for op in graph.walk():
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)

    def block(self, block: Block, times: int, known: bool) -> Iterator[CollectiveUse]:
        for op in block.ops:
            if op.name in _KIND:
                for use in self.collective(op):
                    yield replace(use, executed=times, trip_count_known=known)
            elif op.name == "stablehlo.while":
                yield from self.loop(op, times, known)
            elif op.name in ("stablehlo.case", "stablehlo.if"):
                branches = [tuple(self.block(region, times, known)) for region in op.regions]
                yield from max(branches, key=_sent, default=())
            else:
                for region in op.regions:
                    yield from self.block(region, times, known)

    def loop(self, op: Op, times: int, known: bool) -> Iterator[CollectiveUse]:
        count = trip_count(op, self.scalars)
        known = known and count is not None
        condition, body = op.regions
        yield from self.block(condition, times if count is None else times * (count + 1), known)
        yield from self.block(body, times if count is None else times * count, known)

    def collective(self, op: Op) -> Iterator[CollectiveUse]:
        use, groups = _use_of(op, self.graph, self.devices)
        pieces = self.pieces(op, groups) if groups is not None and use.kind == "all_reduce" else 1
        if pieces == 1:
            yield _priced(use)
        else:
            yield from _scattered(use, pieces)

    def pieces(self, op: Op, groups: Groups) -> int:
        """In how many different pieces the devices of a group keep the result; 1 where it is used whole."""
        if len(op.results) != 1:
            return 1
        users = self.users(op.results[0])
        if len(users) != 1 or users[0].name != "stablehlo.dynamic_slice":
            return 1
        (slicing,) = users
        offsets = self.offsets(slicing)
        counts = {_different(offsets, row) for row in groups.rows}
        parts = counts.pop() if len(counts) == 1 else 1
        fits = slicing.signature.results[0].bytes * parts <= slicing.signature.operands[0].bytes
        return parts if fits and groups.size % parts == 0 else 1

    def users(self, value: int) -> list[Op]:
        """The ops that read `value`, seen through an op that only hands it on."""
        users = self.readers.get(value, [])
        if len(users) == 1 and users[0].name in _THROUGH and len(users[0].results) == 1:
            return self.users(users[0].results[0])
        return users

    def offsets(self, op: Op) -> list[Devices]:
        """Those offsets of a slice that follow from the device's id; the same data is behind all others."""
        numbers = (self.scalars.per_device(value) for value in op.operands[1:])
        return [offset for offset in numbers if offset is not None]


def _different(offsets: list[Devices], members: Devices) -> int:
    return len(set(zip(*(offset[members].tolist() for offset in offsets), strict=True))) if offsets else 1


def _scattered(use: CollectiveUse, pieces: int) -> Iterator[CollectiveUse]:
    """An all_reduce kept in `pieces`: a reduce_scatter, and an all_reduce of a piece where groups are bigger."""
    part = use.operand_bytes // pieces
    axes = use.axes if pieces == use.group_size else None
    yield _priced(replace(use, kind="reduce_scatter", axes=axes, group_size=pieces, result_bytes=part))
    if pieces < use.group_size:
        size = use.group_size // pieces
        yield _priced(replace(use, axes=None, group_size=size, operand_bytes=part, result_bytes=part))


def _priced(use: CollectiveUse) -> CollectiveUse:
    return replace(use, sent_bytes=sent_bytes(use.kind, use.operand_bytes, use.result_bytes, use.group_size))


def _sent(uses: Iterable[CollectiveUse]) -> float:
    return sum(use.total_bytes for use in uses)

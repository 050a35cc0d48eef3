"""What programs come to that are partitioned again and again: what each piece of one takes is told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import chain, compress

from shardwright.analysis.alive import donated_arguments
from shardwright.analysis.peaks import Peaks
from shardwright.analysis.traffic import CollectiveUse, collective_use, collectives, device_count, summarize
from shardwright.cost.outcome import Outcome
from shardwright.cost.overlap import Work, overlapped_seconds
from shardwright.ir.graph import Block, Graph, Op
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import works_of
from shardwright.partition.again.pieces import Piece
from shardwright.partition.again.program import Again, Partitioned
from shardwright.partition.again.runs import Run

__all__ = ["Assessing"]


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """What a piece takes of a device.

    Attributes:
        works: What it does.
        buffers: The numbers of what it does to buffers; `None` where that needs what devices compute of their place.
        uses: What it sends.
        summed: The values that are sums over devices.
        sliced: The values of which something takes a slice.
    """

    works: tuple[Work, ...]
    buffers: tuple[int, ...] | None
    uses: tuple[CollectiveUse, ...]
    summed: tuple[int, ...]
    sliced: tuple[int, ...]


class Assessing:
    """Tells what programs come to that are made of the same pieces, on the hardware of the session."""

    def __init__(self, again: Again) -> None:
        """Nothing is told yet of what is partitioned so."""
        self.locals = again.locals
        self.explicit = ExplicitProgram(again.pieces.explicit)
        self.devices = device_count(self.locals.graph)
        self.donated = donated_arguments(again.graph)
        self._told: dict[Piece, _Told] = {}
        self._works: dict[tuple[int, ...], tuple[Op, tuple[Work, ...]]] = {}
        self._sent: dict[int, tuple[Op, CollectiveUse | None]] = {}
        self._sums: dict[Run, tuple[set[int], set[int]]] = {}
        self._told_first: dict[Run, list[_Told]] = {}
        self._peaks = Peaks()
        self._buffers: dict[Op, int | None] = {}

    def comes_to(self, graph: Graph, made: Partitioned) -> Outcome:
        """What a program comes to.

        Arguments:
            graph: The propagated program.
            made: The program, partitioned.
        """
        told = self._all_told(made.run)
        seconds = overlapped_seconds(chain.from_iterable([one.works for one in told]))
        sent = summarize(self._all_uses(made, told)).total
        types = self.locals.graph.types
        arguments = [(value, types[value].bytes) for value in made.arguments]
        pairs = zip(graph.main.block.arguments, made.arguments, strict=True)
        free = [number for value, number in pairs if value in self.donated]
        peak = self._peaks.peak(arguments, free, self._all_buffers(made, told), len(types))
        held = sum([size for _, size in arguments])
        return Outcome(seconds, round(sent.executed_bytes), sent.executed, held, peak)

    def _all_told(self, run: Run) -> list[_Told]:
        """What all pieces take; those of the first time are told together."""
        if run.first is None:
            known = self._told_first.get(run)
            if known is None:
                known = self._told_first[run] = [self._tell(piece) for piece in run.pieces]
            return known
        told = list(self._all_told(run.first))
        for place in run.places:
            told[place] = self._tell(run.pieces[place])
        return told

    def _tell(self, piece: Piece) -> _Told:
        known = self._told.get(piece)
        if known is None:
            known = self._told[piece] = self._new_told(piece)
        return known

    def _new_told(self, piece: Piece) -> _Told:
        works = tuple(chain.from_iterable(map(self._works_of, piece.explicit)))
        ops = list(chain.from_iterable(piece.local))
        uses = list(map(self._use_of, ops))
        buffers = None if any(map(self.locals.is_need, ops)) else self._buffers_of(ops)
        summed = tuple([op.results[0] for op in ops if op.signature.name == "stablehlo.all_reduce"])
        sliced = tuple([op.operands[0] for op in ops if op.signature.name == "stablehlo.dynamic_slice"])
        return _Told(works, buffers, tuple([use for use in uses if use is not None]), summed, sliced)

    def _use_of(self, op: Op) -> CollectiveUse | None:
        """What an op sends: the same for all of one signature, but for where they come from."""
        key = id(op.signature)
        if key not in self._sent:
            self._sent[key] = op, collective_use(op, self.locals.graph, self.devices)
        return self._sent[key][1]

    def _works_of(self, op: Op) -> tuple[Work, ...]:
        """What a device does for an op without regions: of all that lie alike the same, on other values."""
        shardings = self.explicit.graph.shardings
        key = id(op.signature), *[id(shardings[value]) for value in op.operands + op.results]
        known = self._works.get(key)
        if known is None:
            works = works_of(self.explicit, op)
            self._works[key] = op, works
            return works
        like, works = known
        return tuple(
            [
                work._replace(
                    reads=op.operands if work.reads == like.operands else op.results,
                    makes=op.results if work.makes == like.results else op.operands,
                )
                for work in works
            ]
        )

    def _buffers_of(self, ops: list[Op]) -> tuple[int, ...]:
        known = self._buffers
        for op in ops:
            if op not in known:
                known[op] = self._peaks.number(op)
        return tuple([one for op in ops if (one := known[op]) is not None])

    def _all_uses(self, made: Partitioned, told: list[_Told]) -> Iterable[CollectiveUse]:
        """What all ops of a program send. Of sums of which devices keep a slice each only the whole program tells."""
        kept = self._kept_in_slices(made.run, told)
        if not kept or not self._is_read_once(kept, made):
            return chain.from_iterable([one.uses for one in told])
        there = set[Hashable]()
        ops = [op for piece in made.pieces for op in self.locals.program(piece.local, there)]
        graph = self.locals.graph
        return collectives(replace(graph, main=replace(graph.main, block=Block(made.arguments, ops))))

    def _kept_in_slices(self, run: Run, told: list[_Told]) -> set[int]:
        """The sums of which something takes a slice; perhaps some of the first time that no more are there."""
        first = run.first or run
        if first not in self._sums:
            self._sums[first] = _sums(self._all_told(first))
        summed, sliced = self._sums[first]
        more_summed, more_sliced = _sums([told[place] for place in run.places])
        return (summed & sliced) | (summed & more_sliced) | (more_summed & (sliced | more_sliced))

    def _is_read_once(self, values: Collection[int], made: Partitioned) -> bool:
        """Whether one of these values has one reader only."""
        read = [value for piece in made.pieces for op in chain.from_iterable(piece.local) for value in op.operands]
        counts = Counter(compress(read, map(values.__contains__, read)))
        return any(counts[value] == 1 for value in values)

    def _all_buffers(self, made: Partitioned, told: list[_Told]) -> list[int]:
        """What all ops of a program do to buffers, in order."""
        parts = [one.buffers for one in told]
        if None in parts:
            there = set[Hashable]()
            for place, part in enumerate(parts):
                if part is None:
                    parts[place] = self._buffers_of(self.locals.program(made.pieces[place].local, there))
        return list(chain.from_iterable(filter(None, parts)))


def _sums(told: Iterable[_Told]) -> tuple[set[int], set[int]]:
    """The values that are sums over devices, and those of which something takes a slice."""
    summed, sliced = set[int](), set[int]()
    for one in told:
        summed.update(one.summed)
        sliced.update(one.sliced)
    return summed, sliced

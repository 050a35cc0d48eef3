"""A record of propagation: every change of a sharding, in order, and what made it.

    recording = Recording()
    propagated = propagate(graph, record=recording)
    (value,) = find_value(propagated, "params/w1")
    print(explain_values(History(recording, propagated), [value]))

Kept are the few numbers at hand when a change is made; what they mean is worked out when somebody asks. A *place* is a
value's number, or `~n` for result `n` of `main`, whose sharding is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.propagation.engine.worklist import Change, Changes, Key, Numbers, StepTable, Worklist
from shardwright.propagation.method import Phase
from shardwright.propagation.rfc.derivation import Completion, Dropped
from shardwright.propagation.working import CONSTRAINT, Working
from shardwright.sharding import TensorSharding

__all__ = ["Event", "Recording", "Rewritten", "RecordedStep", "When"]


@dataclass(frozen=True, slots=True)
class When:
    """At which user priority, and in which phase, something flowed."""

    priority: int
    phase: Phase


@dataclass(frozen=True, slots=True, eq=False)
class RecordedStep:
    """One step through an op that changed something.

    Attributes:
        number: Steps are counted from 0.
        when: The phase.
        op: The op's position in the program, or `~n` for the step between what `main` returns and its result `n`.
        places: What holds the shardings of its operands and results.
        table: What the op does.
        key: The numbers of those shardings before.
        changes: Which of them changed, and to what.
    """

    number: int
    when: When
    op: int
    places: tuple[int, ...]
    table: StepTable
    key: Key
    changes: Changes


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """A sharding changed by something else than a step.

    Attributes:
        place: The value, or `~n` for result `n` of `main`.
        before: Its sharding before.
        after: Its sharding after.
        why: What changed it: `annotation` (said by the program), `edge`, `constraint`, `group` (import steps),
            `priority` (its turn has come), `spread` (from an edge to its targets) or `boundary` (cut for callers).
        priority: The user priority whose turn has come.
    """

    place: int
    before: TensorSharding | None
    after: TensorSharding | None
    why: str
    priority: int = 0


Event = RecordedStep | Rewritten


class Recording:
    """What one propagation did; give a fresh one to `propagate(graph, record=…)`.

    Attributes:
        events: Every change, in order.
        working: The program as it was propagated, with its edges and groups.
        ops: Its ops when propagation began, in program order.
        tensors: For each op, the values that hold the shardings of its operands and results.
        tables: For each op, what it did in the last phase; `None` where nothing flows through it.
        steps: How many steps there were.
        buried: Ops that were found dead.
        constraints: Ops that are, or were, constraints.
        returned: What holds the shardings of the values that `main` returns.
        end_of_propagation: How many events there were before export.
        is_exported: Whether export steps followed.
        result_shardings: What these made of the shardings of the results of `main`.
        completion: What the mesh RFC's completion found, which has no events.
    """

    def __init__(self) -> None:
        """Make an empty record."""
        self.events: list[Event] = []
        self.working = Working.empty()
        self.ops: list[Op] = []
        self.tensors: Sequence[tuple[int, ...]] = ()
        self.tables: list[StepTable | None] = []
        self.steps = 0
        self.buried: frozenset[Op] = frozenset()
        self.constraints: frozenset[Op] = frozenset()
        self.returned: tuple[int, ...] = ()
        self.end_of_propagation = 0
        self.is_exported = False
        self.result_shardings: list[TensorSharding | None] = []
        self.completion: Completion | None = None
        self._worklist: Worklist | None = None
        self._results: list[int] = []
        self._initial: list[int] = []
        self._initial_results: list[int] = []
        self._seen: list[TensorSharding | None] = []
        self._when: When | None = None

    # Before and after

    def open(self, results: Sequence[TensorSharding | None]) -> None:
        """Begin, with the shardings that the program gives the results of `main`.

        Raises:
            ShardingError: the record holds another propagation already.
        """
        if self.events or self.ops:
            raise ShardingError("the recording holds another propagation already", remedy="give a fresh Recording()")
        for index, sharding in enumerate(results):
            if sharding is not None:
                self.events.append(Rewritten(~index, None, sharding, "annotation"))

    def note(self, working: Working, why: str) -> None:
        """Write down what an import step changed since the last one."""
        seen, now = self._seen, working.shardings
        seen += [None] * (len(now) - len(seen))
        for value, (before, after) in enumerate(zip(seen, now, strict=True)):
            if before is not after and before != after:
                self.events.append(Rewritten(value, before, after, why))
        self._seen = list(now)

    def exported(self, working: Working) -> None:
        """Write down which axes the export steps left, and that values tied by an edge have its sharding."""
        for value, (before, after) in enumerate(zip(self._seen, working.shardings, strict=True)):
            held = value in working.holder
            if _axes(before) != _axes(after):
                self.events.append(Rewritten(value, before, after, "spread" if held else "boundary"))
        self.is_exported = True

    def cut(self, index: int, before: TensorSharding | None, after: TensorSharding | None) -> None:
        """Write down what the boundary left of the sharding of a result of `main`."""
        self.result_shardings.append(after)
        if _axes(before) != _axes(after):
            self.events.append(Rewritten(~index, before, after, "boundary"))

    def completed(self, working: Working, results: Sequence[TensorSharding | None], completion: Completion) -> None:
        """Write down what the mesh RFC's completion found.

        Raises:
            ShardingError: the record holds another propagation already.
        """
        self.open(())
        self.working, self.ops, self.completion = working, working.block.walk(), completion
        self.result_shardings, self.is_exported = list(results), True

    # While propagating

    def begin(self, working: Working, worklist: Worklist, ops: list[Op], results: list[int]) -> None:
        """Propagation starts; `results` keeps the numbers of the shardings of the results."""
        self.working, self._worklist, self.ops, self._results = working, worklist, ops, results
        self._initial, self._initial_results = list(worklist.state), list(results)
        self.tensors = worklist.tensors
        self.constraints = frozenset(op for op in ops if op.name == CONSTRAINT)
        self.returned = tuple(working.holder_of(value) for value in working.block.terminator.operands)
        worklist.on_change = self._stepped

    def enter(self, when: When) -> None:
        """A phase starts."""
        self._when = when

    def put(self, place: int, number: int) -> None:
        """The sharding of a place is about to be replaced, as the turn of user priorities wants it."""
        before = self._results[~place] if place < 0 else self.final[place]
        shardings = self.sharding(before), self.sharding(number)
        self.events.append(Rewritten(place, *shardings, "priority", self.when.priority))

    def equalized(self, index: int, value: int, table: StepTable, key: Key, changes: Changes) -> None:
        """A result of `main` and what it returns are about to be made equal."""
        self._append(~index, (value, ~index), table, key, changes)

    def _stepped(self, op: int, table: StepTable, key: Key, changes: Changes) -> Change:
        self._append(op, self.tensors[op], table, key, changes)
        return op, table, key, changes

    def _append(self, op: int, places: tuple[int, ...], table: StepTable, key: Key, changes: Changes) -> None:
        assert self._when is not None, "phases come first"
        self.events.append(RecordedStep(self.steps, self._when, op, places, table, key, changes))
        self.steps += 1

    def end(self, buried: frozenset[Op]) -> None:
        """Propagation is over, what it found has been written into the working copy; `buried` ops were dead."""
        assert self._worklist is not None, "begin comes first"
        self.tables = list(self._worklist.tables)
        self.buried = buried
        self.end_of_propagation = len(self.events)
        self._seen = list(self.working.shardings)

    # Asked afterwards

    @property
    def dropped(self) -> list[Dropped]:
        """The hints that the mesh RFC's completion could not follow; other strategies drop none."""
        return [] if self.completion is None else self.completion.dropped

    def sharding(self, number: int) -> TensorSharding | None:
        """The sharding of a number."""
        return None if self._worklist is None else self._worklist.numbers.shardings[number]

    def initial_shardings(self) -> list[TensorSharding | None]:
        """For each value, its sharding after the import steps."""
        return [self.sharding(number) for number in self._initial]

    def initial_result(self, index: int) -> TensorSharding | None:
        """The sharding that the program gives a result of `main`."""
        return self.sharding(self._initial_results[index])

    def group_of(self, value: int) -> Sequence[int]:
        """The values that change with a value, itself included."""
        return [value] if self._worklist is None else self._worklist.groups.get(value, [value])

    def grouped_with(self, place: int) -> Iterator[int]:
        """What holds the shardings of values in a sharding group with one whose sharding `place` holds."""
        for group in self.working.groups:
            held = [self.working.holder_of(value) for value in group]
            if place in held:
                yield from held

    @property
    def numbers(self) -> Numbers:
        """The shardings by number."""
        assert self._worklist is not None, "begin comes first"
        return self._worklist.numbers

    @property
    def when(self) -> When:
        """The last phase."""
        assert self._when is not None, "phases come first"
        return self._when

    @property
    def final(self) -> list[int]:
        """For each value, the number of the sharding that propagation found."""
        return [] if self._worklist is None else self._worklist.state

    @property
    def final_results(self) -> list[int]:
        """For each result of `main`, the number of the sharding that propagation found."""
        return self._results


def _axes(sharding: TensorSharding | None) -> tuple[Axes, ...]:
    """The axes of every dimension; of none where nothing splits it."""
    return () if sharding is None or not sharding.used_axes else sharding.axes

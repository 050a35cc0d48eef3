"""From a working copy to the worklist's numbers, round by round, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.ir.locations import LocationTable
from shardwright.ir.ops import DATA_FLOW_OPS
from shardwright.propagation.effects import is_pure
from shardwright.propagation.engine import priorities
from shardwright.propagation.engine.op_classes import Classes, OfSignature
from shardwright.propagation.engine.op_kind import Kind
from shardwright.propagation.engine.replay import Round
from shardwright.propagation.engine.worklist import Numbers, StepTable, Worklist
from shardwright.propagation.method import Method, Phase
from shardwright.propagation.recording import Recording, When
from shardwright.propagation.working import EDGE, FUNCTION_EDGE, Working
from shardwright.rules.facts import Flow
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:  # what prices is loaded where something is priced
    from shardwright.propagation.engine.rivals import Rivals

__all__ = ["Propagator"]

_EDGES = frozenset({EDGE, FUNCTION_EDGE})


class Propagator:
    """Propagates through a working copy; `run` leaves the shardings found in it.

    Attributes:
        rivals: What chooses where shardings compete, if the first to come is not to win.
    """

    def __init__(
        self,
        working: Working,
        results: Sequence[TensorSharding | None],
        method: Method,
        locations: LocationTable,
        record: Recording | None = None,
    ) -> None:
        """Number the ops and values.

        Arguments:
            working: The program, import steps done, use lists in order.
            results: The shardings of `main`'s results.
            method: The phases to go through.
            locations: Where ops come from.
            record: What to write every change into, if anything.

        Raises:
            ShardingError: a rule that the program or a user gives does not fit its op.
        """
        working.uses.extend(len(working.types))  # some values came to be after the uses were found
        self.working = working
        self.locations = locations
        self.method = method
        self.record = record
        self.numbers = Numbers()
        self.ops = working.block.walk()
        self.positions = {op: number for number, op in enumerate(self.ops)}
        self.edges = {edge.op: edge for edge in working.edges.values()}
        self.producers = [-1] * len(working.types)
        for number, op in enumerate(self.ops):
            for value in op.results:
                self.producers[value] = number
        self.results = [self.numbers.number(sharding) for sharding in results]
        self.worklist = Worklist(
            self.numbers,
            [self.numbers.number(sharding) for sharding in working.shardings],
            self._tensors(),
            self._notify(),
            self._groups(),
        )
        self.worklist.on_dead = self._bury
        self.rivals: Rivals | None = None
        self._inward = [self.positions[op] for op, edge in self.edges.items() if edge.inward]
        self.classes = Classes(self.numbers, method)
        self._class_of = self._classify()
        self._buried: set[Op] = set()
        first = {phase.strategy: phase for phase in reversed(method.phases)}
        returned = {strategy: self._return_tables(phase) for strategy, phase in first.items()}
        self._returned = [returned[phase.strategy] for phase in method.phases]

    def run(self) -> None:
        """Propagate, priority by priority; dead ops are taken out of the program on the way."""
        if self.record is not None:
            self.record.begin(self.working, self.worklist, self.ops, self.results)
            self.record.enter(When(0, self.method.phases[0]))
        if self.rivals is not None:
            self.rivals.listen()
        later = self._hide_later_priorities() if self.method.user_priority else {}
        self._phases_of_one_priority(0)
        for priority in sorted(later):
            if self.record is not None:
                self.record.enter(When(priority, self.method.phases[0]))
            for place, original in later[priority]:
                self._show(place, original, priority)
            self._phases_of_one_priority(priority)
        shardings = self.numbers.shardings
        self.working.shardings[:] = [shardings[number] for number in self.worklist.state]
        if self.record is not None:
            self.record.end(frozenset(self._buried))
        if self._buried:
            _remove(self.working, self._buried)

    @property
    def result_shardings(self) -> list[TensorSharding | None]:
        """The shardings of `main`'s results."""
        return [self.numbers.shardings[number] for number in self.results]

    @property
    def rules(self) -> list[ShardingRule | None]:
        """The rule of each op through which anything flows, and that sees its tensors as they lie."""
        tables = [self.classes.rounds[-1][number] for number in self._class_of]
        return [None if table is None or table.before is not None else table.rule for table in tables]

    # Numbering

    def _groups(self) -> dict[int, Sequence[int]]:
        """Value in a sharding group → what holds the shardings of the group.

        An argument of a loop is told by its group but, as in Shardy, tells it nothing: its sharding is its edge's.
        """
        groups: dict[int, Sequence[int]] = {}
        for group in self.working.groups:
            held = tuple([self.working.holder_of(value) for value in group])
            groups.update(dict.fromkeys(group, held))
        return groups

    def _tensors(self) -> list[tuple[int, ...]]:
        tensors = [op.operands + op.results for op in self.ops]
        if not self.edges:
            return tensors
        for op, edge in self.edges.items():
            tensors[self.positions[op]] = (*edge.sources, edge.value)
        holders = list(range(len(self.working.types)))
        for value, held_by in self.working.holder.items():
            holders[value] = held_by
        return [tuple(map(holders.__getitem__, values)) for values in tensors]

    def _notify(self) -> list[list[int]]:
        """For each value, the ops to look at when it changes: the one that makes it, then its users, newest first."""
        positions, readers = self.positions, self.working.uses.readers
        notify = [
            [positions[op] for op in reversed(users)]
            if producer < 0
            else [producer, *[positions[op] for op in reversed(users)]]
            for producer, users in zip(self.producers, readers, strict=True)
        ]
        redirected = self._redirected()
        for value in {value for _, value in redirected}:
            notify[value] = self._notified(value, redirected)
        for edge in self.working.edges.values():
            first = [op for target in edge.targets for op in notify[target]]
            notify[edge.value] = first + notify[edge.value]
        return notify

    def _notified(self, value: int, redirected: dict[tuple[Op, int], list[int]]) -> list[int]:
        producer = self.producers[value]
        notified = [] if producer < 0 else [producer]
        for op in reversed(self.working.uses[value]):
            notified += redirected.get((op, value)) or [self.positions[op]]
        return notified

    def _redirected(self) -> dict[tuple[Op, int], list[int]]:
        """`(user, value)` → the edges that the use is a source of, the newest use first: that of the last operand.

        What a function returns flows into the results of all of its calls, in their order. An edge into a computation
        is not woken by its source, as in Shardy: it waits for the next phase.
        """
        redirected: dict[tuple[Op, int], dict[int, list[int]]] = {}
        for edge in self.working.edges.values():
            if edge.inward:
                continue
            for reader in edge.readers:
                of_operand = redirected.setdefault((reader, reader.operands[edge.index]), {})
                of_operand.setdefault(edge.index, []).append(self.positions[edge.op])
        orders = self.working.operand_orders
        return {
            use: [place for number in orders.get(use, sorted(edges, reverse=True)) for place in edges.get(number, ())]
            for use, edges in redirected.items()
        }

    # Kinds of ops

    def _classify(self) -> list[int]:
        """For each op, its class: ops of one class have the same step table in every round."""
        by_signature: dict[int, OfSignature] = {}  # by identity: readers give equal ops one signature
        uses = self.working.uses.readers
        classes = [0] * len(self.ops)
        for number, op in enumerate(self.ops):
            signature = op.signature
            if signature.name in _EDGES and op in self.edges:
                edge = self.edges[op]
                classes[number] = self.classes.of_edge(edge, self.working.types[edge.value])
                continue
            known = by_signature.get(id(signature))
            if known is None:
                known = by_signature[id(signature)] = self._classes_of(op)
            which = known.depends_on_uses and self._is_single_use(op)
            op_class = known.numbers[which]
            if op_class is None:
                op_class = self.classes.number(known, which)
            classes[number] = op_class
            results = op.results
            if results and not uses[results[0]] and not any(uses[value] for value in results) and is_pure(op):
                self.worklist.dead[number] = 1
        return classes

    def _is_single_use(self, op: Op) -> bool:
        uses, types = self.working.uses, self.working.types
        for value in op.operands:
            users = uses.readers[value]
            is_single = len(users) == 1 and (isinstance(users, list) or uses.count(value) == 1)
            if not is_single and types[value].shape != ():
                return False
        return True

    def _classes_of(self, op: Op) -> OfSignature:
        try:
            return self.classes.of_signature(op.signature)
        except ShardingError as error:
            raise error.replaced(location=str(self.locations[op.location])) from None

    # Rounds

    def _phases_of_one_priority(self, priority: int) -> None:
        for phase, tables, returned in zip(self.method.phases, self.classes.rounds, self._returned, strict=True):
            if self.record is not None:
                self.record.enter(When(priority, phase))
            self._start(tables)
            self._propagate_results(returned)
            self.worklist.sweep()
            self._propagate_results(returned)

    def _start(self, tables: list[StepTable | None]) -> None:
        """Put the tables of a round in place; ops whose table is new are due, and so are dead ops."""
        worklist = self.worklist
        new = list(map(tables.__getitem__, self._class_of))
        if self._buried:
            for op in self._buried:
                new[self.positions[op]] = None
        marks = int.from_bytes(_fresh(new, worklist.tables), "little") | int.from_bytes(worklist.dead, "little")
        due = worklist.due
        due[:] = (marks | int.from_bytes(due, "little")).to_bytes(len(due), "little")
        for number in self._inward:
            due[number] = 1
        worklist.tables = new

    def rounds(self) -> list[Round]:
        """What sweeps go by, of a program of which nothing is dead and that has no edges into computations."""
        rounds: list[Round] = []
        before: list[StepTable | None] = [None] * len(self.ops)
        for tables, returned in zip(self.classes.rounds, self._returned, strict=True):
            new = list(map(tables.__getitem__, self._class_of))
            fresh = _fresh(new, before)
            rounds.append(Round(new, [number for number, is_due in enumerate(fresh) if is_due], returned))
            before = new
        return rounds

    def _propagate_results(self, returned: Sequence[tuple[int, int, StepTable]]) -> None:
        """Keep the shardings of `main`'s results and of what it returns equal where they can be."""
        state, results = self.worklist.state, self.results
        for index, value, table in returned:
            key = (state[value], results[index])
            changes = table[key]
            if changes and self.record is not None:
                self.record.equalized(index, value, table, key, changes)
            for tensor, number in changes:
                if tensor == 0:
                    self.worklist.set(value, number)
                else:
                    results[index] = number

    def _return_tables(self, phase: Phase) -> list[tuple[int, int, StepTable]]:
        """Of each result that is a tensor and no scalar: its number, the value returned, and their step table."""
        returned: list[tuple[int, int, StepTable]] = []
        tables: dict[tuple[int, ...], StepTable | None] = {}
        for index, value in enumerate(self.working.block.terminator.operands):
            dims = self.working.types[value].dims
            if dims not in tables:
                tables[dims] = self.classes.table(Kind(Flow.PASS_THROUGH, identity_rule(dims)), phase)
            table = tables[dims]
            if table is not None:
                returned.append((index, self.working.holder_of(value), table))
        return returned

    # User priorities

    def _hide_later_priorities(self) -> dict[int, list[tuple[int, TensorSharding]]]:
        """Show priority 0 only; `priority → (place, original sharding)`, results placed before value 0."""
        hidden: dict[int, tuple[int, frozenset[int]]] = {}
        for number, sharding in enumerate(list(self.numbers.shardings)):
            if sharding is not None and any(dim.priority is not None for dim in sharding.dims):
                hidden[number] = (
                    self.numbers.number(priorities.at_first(sharding)),
                    priorities.later_priorities(sharding),
                )
        later: dict[int, list[tuple[int, TensorSharding]]] = {}
        if not hidden:
            return later
        count = len(self.results)
        for place, number in enumerate([*self.results, *self.worklist.state], -count):
            if number not in hidden or (place >= 0 and self.working.holder_of(place) != place):
                continue
            original = self.numbers.shardings[number]
            assert original is not None, "number 0 has no priorities"
            for priority in hidden[number][1]:
                later.setdefault(priority, []).append((place, original))
            self._put(place, hidden[number][0])
        return later

    def _show(self, place: int, original: TensorSharding, priority: int) -> None:
        number = self.results[place] if place < 0 else self.worklist.state[place]
        now = self.numbers.shardings[number]
        assert now is not None, "a sharding is never taken away"
        self._put(place, self.numbers.number(priorities.at_priority(now, original, priority)))

    def _put(self, place: int, number: int) -> None:
        if self.record is not None:
            self.record.put(place if place >= 0 else ~(place + len(self.results)), number)
        if place < 0:
            self.results[place] = number
            return
        self.worklist.state[place] = number
        self.worklist.mark(place)

    # Dead code

    def _bury(self, number: int, cursor: int) -> list[int]:
        """Take an op out of the use lists; the ops to look at again."""
        op = self.ops[number]
        again: list[int] = []
        for gone in op.walk():
            self._buried.add(gone)
            position = self.positions[gone]
            self._class_of[position] = 0
            self.worklist.tables[position] = None
            self.worklist.dead[position] = 0
            self.working.uses.remove(gone)
            for value in dict.fromkeys(gone.operands):
                again += self._lost_use(value)
        return again

    def _lost_use(self, value: int) -> list[int]:
        uses = self.working.uses
        if uses.count(value) == 1:
            self._became_single_use(next(iter(uses[value])))
        producer = self.producers[value]
        if producer < 0 or self.ops[producer] in self._buried or len(uses[value]) > 1:
            return []
        op = self.ops[producer]
        if not uses.is_read(op) and is_pure(op):
            self.worklist.dead[producer] = 1
        return [producer]

    def _became_single_use(self, op: Op) -> None:
        """An op may flow earlier once its operands have no other users."""
        if op.signature.name in DATA_FLOW_OPS or op.signature.name == EDGE or not self._is_single_use(op):
            return
        known = self._classes_of(op)
        if not known.depends_on_uses:
            return
        number, op_class = self.positions[op], self.classes.number(known, True)
        if self._class_of[number] == op_class:
            return
        self._class_of[number] = op_class
        self.worklist.tables[number] = self.classes.rounds[0][op_class]
        self.worklist.due[number] = 1


def _fresh(now: list[StepTable | None], before: list[StepTable | None]) -> bytes:
    """For each op, whether it has a table that is new."""
    return bytes([one is not None and one is not then for one, then in zip(now, before, strict=True)])


def _remove(working: Working, buried: set[Op]) -> None:
    for block in working.block.blocks():
        block.ops = [op for op in block.ops if op not in buried]

"""The choice of a whole program: the integer program of its choice graph, made exact where its optimum needs that.

At first redistributions take what a bound says, and values of several readers what their dearest reader does. What was
chosen by that is decided and priced as it will be written. Where it takes more than was thought, that is mended: plans
are made of the redistributions that it chose, or the value is told in full, by trees if it has few ends and else by the
integer program alone; and it is chosen again, until what was chosen takes what was thought: no choice takes less.

Of a large program what is alike is chosen alike at first. Where too much is left unproven so, it goes on from there
with each node by itself: much may be alike of which little is repeated, and be best chosen otherwise here and there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shardwright.cost.hardware import current_hardware
from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.partition.decide import Decide
from shardwright.partition.decisions import Computed, Decisions, Layout
from shardwright.partition.op_split import NOTHING_GIVEN, Given
from shardwright.partition.search.around import improved
from shardwright.partition.search.as_decided import Decided
from shardwright.partition.search.behind import reduced_behind
from shardwright.partition.search.build import outline
from shardwright.partition.search.chosen import Solution, solution_of
from shardwright.partition.search.decided import decided_ways
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.folded import Bounds, folded
from shardwright.partition.search.graph import ChoiceGraph, End
from shardwright.partition.search.held import NOTHING_HELD, Held, Most, held_by
from shardwright.partition.search.in_front import made_in_front
from shardwright.partition.search.lifted import lifted, settled
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.outline import Outline
from shardwright.partition.search.reduced import Budget, Reduced
from shardwright.partition.search.total import Total
from shardwright.partition.targets import Targets
from shardwright.sharding import TensorSharding

__all__ = ["Best", "choose"]

_CLOSE = 1e-5
"""How much more than the bound is none."""

_FAR = 0.01
"""How much more than the bound is too much for a choice of a folded graph."""

_POLISHED = 8
"""How often what was found is made better at most."""

_READ_OFF = 4
"""How often something is read off the messages of a graph that was folded at most."""

_ROUNDED = 1e-9
"""A difference, of seconds of all, that is rounding."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best choice found.

    Attributes:
        decisions: What is decided by it.
        seconds: What the program takes.
        bound: What it takes at least, however it is chosen.
        rounds: How often it was chosen.
        alike: What every choice takes at least in which ops are split alike that are alike, as those of layers are.
        held: What a device holds by it, about.
    """

    decisions: Decisions
    seconds: float
    bound: float
    rounds: int
    alike: float = 0.0
    held: Held = NOTHING_HELD

    @property
    def is_proven(self) -> bool:
        """Whether no choice takes less."""
        return self.seconds <= self.bound * (1 + _CLOSE)


def choose(
    decided: Decided,
    decide: Decide,
    first: Best,
    most_held: Most,
    budgets: Sequence[Budget],
    targets: Targets | None = None,
) -> Best:
    """The best choice for a propagated program, as far as it can be told.

    Arguments:
        decided: The program as it is decided by the first choice.
        decide: What decides it.
        first: The choice where each op is split as is cheapest for it by itself; what users are told of it need not
            be decided.
        most_held: Bytes that a device may hold of a tensor, or of each, where it does not already so.
        budgets: What bounds the time that it takes; of several each goes on from what the one before has found.
        targets: What the program asks for, if that is known.

    Raises:
        ShardingError: what `decide` does.
    """
    choosing = _Choosing(decided, decide, first, outline(decided, most_held, targets), budgets[0]).run()
    for budget in budgets[1:]:
        if not choosing.best.is_proven:
            choosing = choosing.harder(budget).run()
    return choosing.told()


class _Choosing:
    def __init__(
        self,
        decided: Decided,
        decide: Decide,
        first: Best,
        choices: Outline,
        budget: Budget,
    ) -> None:
        self.ops = decided.of
        self.decide = decide
        self.hardware = current_hardware()
        self.first = first.seconds
        self.choices = choices
        carrying = dict.fromkeys(map(choices.ops.__getitem__, choices.carried))
        self.carrying = {
            op: one.results for op in carrying if op is not None and isinstance(one := decided.of_op[op], Computed)
        }
        self.budget = budget
        self.folded = folded(self.choices, budget.whole, budget.nodes, budget.apart)
        self.distances = Distances(self.hardware, self.folded.graph)
        self.in_full: set[int] = set()  # of the folded graph
        self.short: set[int] = set()  # of it, those of which too little was thought
        first_nodes = map(self.choices.node, self.folded.first)
        ways = self.folded.of_first(decided_ways(first_nodes, decided.of_op))
        self.reduced = Reduced(self.folded.graph, ways, self.first, budget, self.folded.is_whole)
        self.close = budget.near if self.reduced.ways > budget.ways else max(_CLOSE, self.reduced.proven)
        self.bounds = None if self.folded.is_whole else Bounds(self.folded, self.reduced.messages)
        self.best = replace(first, bound=max(first.bound, self.folded.graph.least_alone()))
        self.ways: tuple[int, ...] = ()  # of the best, folded
        self.passed: list[Solution] = []  # what was chosen and not decided, since more became known of it
        self.given: Given | None = None  # what it was decided by
        self.found = decided  # how it is decided, whatever is told of it
        self.read_inside = self.choices.read_inside()

    def run(self) -> _Choosing:
        """Look for the best, and for what it takes at least; with nothing folded where too much is left unproven. Given
        is what looked last.
        """
        self.look()
        if self.bounds is None or self.choices.ways > self.budget.lifted:
            return self
        self.prove()
        if self.best.seconds <= self.best.bound * (1 + _FAR) or self.choices.ways > self.budget.unfolded:
            return self
        choosing = self.harder(replace(self.budget, whole=len(self.choices.kind_of)))
        choosing.look()
        return choosing

    def harder(self, budget: Budget) -> _Choosing:
        """The same within another budget, from what is found on: what alike takes at least was of other nodes alike."""
        first = replace(self.best, alike=0.0)
        choosing = _Choosing(self.found, self.decide, first, self.choices, budget)
        choosing.given = self.given
        return choosing

    def told(self) -> Best:
        """What was found, with what users are told of it."""
        best = replace(self.best, held=held_by(self.found))
        if self.given is not None and self.given.is_told:
            return best
        given = NOTHING_GIVEN if self.given is None else replace(self.given, is_told=True)
        return replace(best, decisions=self.decide(given))

    def look(self) -> None:
        """Choose, until no choice is better that is looked at."""
        for proves in (False, True) if self.first else ():
            if proves and not self.folded.is_whole:  # what is proven of it is told of choices that are alike only
                self.close = max(self.close, self.budget.near)
            last = self.best.rounds + self.budget.rounds
            before: Solution | None = None
            while self.best.rounds < last and not self.is_over:
                solution = self.solution(proves)
                if solution is None:
                    break
                # rounding goes elsewhere each time, as long as nothing is proven
                is_new = not proves and (before is None or solution.ways != before.ways)
                if not self.learns_from(solution, proves) and not is_new:
                    break
                before = solution
            for passed in self.passed if not proves else ():  # one may be as good as any: proofs take far longer
                solution = solution_of(self.reduced.graph, passed.ways, self.distances, self.best.bound)
                if not self.is_done and solution.seconds < self.best.seconds:  # it takes no less, however decided
                    self.learns_from(solution, in_full=False)
        for _ in range(_POLISHED if self.ways and not self.is_done else 0):
            ways = improved(self.reduced.graph, self.ways, self.distances, _ROUNDED * self.first)
            if ways == self.ways:
                break
            solution = solution_of(self.reduced.graph, ways, self.distances, self.best.bound)
            if not self.learns_from(solution) and ways != self.ways:
                break

    def prove(self) -> None:
        """Tell what choices take at least of which none need be alike, as if nothing had been folded; and, as long as
        that is not near, look whether what is read off it takes less than what is found.
        """
        messages = lifted(self.folded, self.reduced.messages, self.choices.graph)
        for _ in range(_READ_OFF):
            bound = settled(messages, self.distances, self.best.seconds, self.budget.near)
            self.best = replace(self.best, bound=max(self.best.bound, bound))
            if self.best.seconds <= self.best.bound * (1 + self.budget.near):
                return
            solution = self.unlike(messages)
            if solution.seconds >= self.best.seconds * (1 - _ROUNDED):
                return
            taken = self.tries(solution, is_told=False)
            if taken is None or not self.is_mended(solution, taken, in_full=False):
                return

    def unlike(self, messages: Messages) -> Solution:
        """What is read off the messages of all nodes, made better node by node."""
        graph, least = self.choices.graph, _ROUNDED * self.first
        ways = improved(graph, messages.chosen(), self.distances, least)
        solution = solution_of(graph, ways, self.distances, self.best.bound)
        return self.with_trees(graph, solution, [n for n, link in enumerate(self.folded.link_of) if link in self.short])

    @property
    def is_done(self) -> bool:
        """Whether no choice takes less than the best, or none that chooses alike what is folded; of many ways, whether
        none takes much less.
        """
        return self.best.seconds <= max(self.best.bound, self.best.alike) * (1 + self.close)

    @property
    def is_over(self) -> bool:
        """Whether nothing is chosen anew any more: that is done, or has taken what it may."""
        return self.is_done or (self.best.rounds > 0 and self.reduced.passes_left < 0)

    def learns_from(self, folded: Solution, in_full: bool = True) -> bool:
        """Decide what was chosen, keep it if it is the best by now, and tell whether more is known of what it takes."""
        known = self.with_trees(self.folded.graph, folded, self.short)
        solution, before = self.folded.unfolded(known), self.found
        taken = self.tries(solution, self.is_likely_last(known))
        if self.found is not before:
            self.ways = folded.ways
        if taken is None:
            return False
        thought = zip(known.links, folded.links, strict=True)  # when it was looked for
        short = {number for number, (now, then) in enumerate(thought) if now > then + _ROUNDED * self.first}
        tells = [self.tells(number, in_full) for number in sorted(short - self.in_full)]
        return self.is_mended(solution, taken, in_full) or any(tells)

    def tries(self, solution: Solution, is_told: bool) -> Mapping[int, float] | None:
        """Decide what was chosen, keep it if it is the best by now, and tell what values take by it; `None` where an op
        that was not to be chosen may not take what it gets.
        """
        self.best = replace(self.best, rounds=self.best.rounds + 1)
        given = self.chosen(solution, is_told)
        try:
            decisions = self.decide(given)
        except ShardingError:
            return None
        decided = Decided(self.ops, decisions)
        total = Total(decided, self.hardware)
        if total.seconds < self.best.seconds * (1 - _ROUNDED):
            self.best = replace(self.best, decisions=decisions, seconds=total.seconds)
            self.given, self.found = given, decided
        return total.of_values

    def solution(self, proves: bool) -> Solution | None:
        """What is chosen by what is known; `None` where nothing was found.

        As long as nothing is proven, what it brings from one layout to another is planned, and it is chosen again where
        that takes more than was thought, unless it is near enough all the same: to see that it need not be decided.
        """
        for _ in range(0 if proves else self.budget.rounds):
            near = self.bounded(self.reduced.read_off(self.distances))
            is_more = self.is_planned(near)
            if is_more:
                near = self.reduced.again(near, self.distances)
            if near.seconds <= max(self.best.bound, self.best.alike) * (1 + self.reduced.proven):
                return near
            if not is_more:
                break
            self.passed.append(near)
        solution = self.reduced.solve(self.distances, self.in_full, self.best.seconds, proves)
        return None if solution is None else self.bounded(solution)

    def bounded(self, folded: Solution) -> Solution:
        """What was chosen of the folded graph, with the bound of all choices, alike or not."""
        alike = max(self.best.alike, folded.bound)
        bound = folded.bound if self.bounds is None else self.bounds.least()
        self.best = replace(self.best, bound=max(self.best.bound, bound), alike=alike)
        return replace(folded, bound=bound)

    def is_planned(self, solution: Solution) -> bool:
        """Plan how values get from where they are made to where they are read, and tell whether any take more so."""
        graph, is_more = self.folded.graph, False
        for link in graph.links:
            first, *read = (graph.layout(end, solution.ways) for end in (link.maker, *link.readers))
            for layout in dict.fromkeys(read):
                is_more |= layout != first and self.distances.plan(link.type, first, layout)
        return is_more

    # --- what was chosen

    def is_likely_last(self, folded: Solution) -> bool:
        """Whether no choice takes less, if this one takes what is thought: what is told of it is made at once then."""
        return folded.seconds <= max(self.best.bound, self.best.alike) * (1 + self.close)

    def chosen(self, solution: Solution, is_told: bool) -> Given:
        """What was chosen of single ops."""
        of_kind = [kind.ways for kind in self.choices.kinds]
        chosen = zip(self.choices.ops, map(of_kind.__getitem__, self.choices.kind_of), solution.ways, strict=True)
        ways = {op: ways[number] for op, ways, number in chosen if ways and op is not None}
        made_of = self.made_of(solution)
        ahead = made_in_front(self.choices, self.read_inside, solution.ways, made_of)
        behind = reduced_behind(self.choices, solution.ways, made_of)
        return Given(ways, ahead, self.carried(solution), made_of, behind, is_told)

    def with_trees(self, graph: ChoiceGraph, solution: Solution, short: Iterable[int]) -> Solution:
        """What was chosen of a graph, with how those values are brought of which too little was thought."""
        links, arcs, more = list(solution.links), dict(solution.arcs), 0.0
        for number in short:
            link = graph.links[number]
            found = None if number in arcs else self.distances.tree(graph, link, solution.ways)
            if found is not None:
                arcs[number] = found.arcs
                more += link.times * max(found.seconds - links[number], 0.0)
                links[number] = max(found.seconds, links[number])
        return replace(solution, links=tuple(links), arcs=arcs, seconds=solution.seconds + more)

    def carried(self, solution: Solution) -> dict[Op, tuple[Layout, ...]]:
        """How the values lie that loops carry round, and that wait for each other."""
        layouts = {op: list(carried) for op, carried in self.carrying.items()}
        for number, carried in self.choices.carried.items():
            op, places = self.choices.ops[number], self.choices.kind(number).places
            if op is not None and places:
                place = places[-1]  # the first one reads what may have to become contributions
                layouts[op][carried] = place.layouts[place.of_way[solution.ways[number]]]
        return {op: tuple(carried) for op, carried in layouts.items()}

    def made_of(self, solution: Solution) -> dict[tuple[int, TensorSharding], TensorSharding]:
        """What versions are made of, of values that were told in full: a tree from the version that is made first."""
        found: dict[tuple[int, TensorSharding], TensorSharding] = {}
        for number, arcs in solution.arcs.items():
            link = self.choices.link(number)
            ahead = self.layouts(solution, [link.maker])
            known = set(ahead)
            for layout in ahead:  # which grows
                for before, after in arcs:
                    if before == layout and after not in known:
                        known.add(after)
                        ahead.append(after)
                        found[link.value, after] = before
        return found

    def layouts(self, solution: Solution, ends: Sequence[End]) -> list[TensorSharding]:
        """In which layouts a value was chosen to be at its ends."""
        return [self.choices.layout(end, solution.ways) for end in ends]

    # --- what it takes

    def is_mended(self, solution: Solution, taken: Mapping[int, float], in_full: bool) -> bool:
        """Know better what values take that take more than was thought, and tell whether any do.

        Those of which all is planned are told in full from then on, if they are to be.
        """
        mended = False
        for number, (value, thought) in enumerate(zip(self.choices.values, solution.links, strict=True)):
            if value in taken and taken[value] > thought + _ROUNDED * self.first:
                link = self.choices.link(number)
                layouts = dict.fromkeys(self.layouts(solution, [link.maker, *link.readers]))
                pairs = {*itertools.product(layouts, layouts), *solution.arcs.get(number, ())}
                planned = [self.distances.plan(link.type, *pair) for pair in sorted(pairs, key=repr)]
                if any(planned):
                    mended = True
                elif link.is_shared and self.folded.link_of[number] not in self.in_full:
                    mended |= self.tells(self.folded.link_of[number], in_full)
        return mended

    def tells(self, number: int, in_full: bool) -> bool:
        """Whether more is told of a link of the folded graph from now on: in full, one of few ends by messages, too, or
        where it is chosen only.
        """
        graph, link_of = self.folded.graph, self.folded.link_of
        values = [value for value, link in zip(self.choices.values, link_of, strict=True) if link == number]
        is_told = self.distances.tells(graph, graph.links[number], values) or in_full
        is_new = number not in self.short
        self.short.add(number)
        if is_told:
            self.in_full.add(number)
        return is_told or is_new

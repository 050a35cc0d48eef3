"""The cheapest chain of collectives from one sharding to another.

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(x=2, y=2, z=2)
    >>> source = TensorSharding.of(mesh, [["x"], ["y"], ["z"]])
    >>> target = TensorSharding.of(mesh, [["z"], ["y"], ["x"]])
    >>> [type(step).__name__ for step in plan((8, 8, 8), 4, source, target).steps]
    ['CollectivePermute']

Why it is done this way: see README.md beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.hardware import Hardware, Links, current_hardware
from shardwright.cost.nodes import spread_of
from shardwright.cost.price import Cost, Kinds, price, step_cost
from shardwright.cost.torus import Torus, most_links, torus_on
from shardwright.errors import ShardingError
from shardwright.memo import memoize
from shardwright.reshard.at_once import cut_or_gathered, gathered_by_all, is_gathered, reduction_in_place
from shardwright.reshard.atoms import Problem
from shardwright.reshard.bound import least_cost, least_over_links
from shardwright.reshard.chain import steps_along
from shardwright.reshard.edges import Edges
from shardwright.reshard.problem import Nodes, idle_axes, moves_all, pose
from shardwright.reshard.search import AGAIN, EXPANSIONS, ON_TORUS, edges_of, least_peak, search
from shardwright.reshard.written import joined, on_one_mesh, renaming, wide
from shardwright.sharding import TensorSharding, same_grid
from shardwright.steps import Step, local_bytes
from shardwright.words import counted

__all__ = ["ReshardPlan", "plan", "weigh"]

_NOTHING = 0.01
"""The part of a start that is no difference in time where links make a torus: small tensors keep what is simple."""

_MANY, _FOR_ALL = 4, 0.2
"""Of more atoms of a torus all looks are taken where this part of the time may be gained."""

_DIGITS = 6
"""How exactly searches are told what is known: in so many binary digits."""


@dataclass(frozen=True, slots=True)
class ReshardPlan:
    """A chain of steps and what it costs.

    Attributes:
        steps: In the order in which they are taken; none where source and target are the same layout.
        cost: What each device sends in all, and the collectives that are started for it.
        peak_bytes: The most that one device holds before, between or after the steps; a step may hold its input and
            its output at once.
    """

    steps: tuple[Step, ...]
    cost: Cost
    peak_bytes: int


def plan(
    shape: tuple[int, ...],
    element_bytes: int,
    source: TensorSharding,
    target: TensorSharding,
    hardware: Hardware | None = None,
    memory: int | None = None,
    dtype: str = "f32",
    named: bool = False,
) -> ReshardPlan:
    """The chain from `source` to `target` that is cheapest by `cost.price`.

    Arguments:
        shape: The whole tensor's, in elements.
        element_bytes: Bytes of one element.
        source: How the tensor lies; may be partial, with any kinds.
        target: How it shall lie; may stay partial along some of the source's partial axes. What is open, its
            priorities and its `replicated` axes do not matter.
        hardware: What the plan is to be cheap on; that of the session where it is not said.
        memory: The bytes that a device may hold of the tensor at most, before, between and after the steps.
        dtype: The type of an element, which tells the kinds of reduction that XLA has collectives for.
        named: Whether only steps are taken that ops of `sdy` are for (see `steps.is_in_sdy`), along axes as one side
            has them: what any notation with collectives can say that can say both sides.

    Returns:
        The plan; `step.apply` leads from `source.closed()` to `target.closed()`.

    Raises:
        ShardingError: a dimension does not split evenly, offsets or halos, meshes of different axes, or a target
            that is partial where the source is not; or no chain within `memory`.
    """
    by_hand = combined_by_hand(dtype).intersection(p.kind for p in source.partial)
    return _planned(shape, element_bytes, source, target, hardware or current_hardware(), memory, by_hand, named)


@memoize
def _planned(
    shape: tuple[int, ...],
    element_bytes: int,
    source: TensorSharding,
    target: TensorSharding,
    hardware: Hardware,
    memory: int | None,
    by_hand: Kinds,
    named: bool,
) -> ReshardPlan:
    source, target = source.closed(), target.closed()
    if source == target:
        held = local_bytes(shape, element_bytes, source)
        if memory is not None and held > memory:
            raise _too_little(source, target, memory, held)
        return ReshardPlan((), Cost(), held)
    _check(shape, source, target)
    start, end = on_one_mesh(wide(source), wide(target))
    middle = _cheapest(_ReshardQuestion(shape, element_bytes, start, end, hardware, memory, by_hand, named))
    steps = [*renaming(source, start), *middle.steps, *renaming(end, target)]
    if len(steps) == len(middle.steps):
        return middle
    return weigh(shape, element_bytes, source, joined(steps), by_hand, hardware.links)


@dataclass(frozen=True, slots=True)
class _ReshardQuestion:
    """What a plan is to do between shardings without axes of one device, and within what."""

    shape: tuple[int, ...]
    element_bytes: int
    source: TensorSharding
    target: TensorSharding
    hardware: Hardware
    memory: int | None
    by_hand: Kinds
    named: bool

    @property
    def torus(self) -> Torus | None:
        """The torus that joins devices, where one does."""
        return torus_on(self.source.mesh.size, self.hardware.links)

    @property
    def nodes(self) -> Nodes | None:
        """How devices stand together, where they do so in several nodes."""
        near = self.hardware.devices_near
        if near is None or self.source.mesh.size <= near:
            return None
        farther = price(Cost(bytes_between_nodes=1.0), self.hardware) / price(Cost(1.0), self.hardware)
        return Nodes(near, max(0, round(farther)))

    @property
    def at_once(self) -> ReshardPlan | None:
        """What to do where that is one step, devices having a link each."""
        if self.memory is not None:
            return None
        step = cut_or_gathered(self.source, self.target) or reduction_in_place(self.source, self.target, self.by_hand)
        return None if step is None else self.weighed([step])

    @property
    def gathered_by_all(self) -> ReshardPlan | None:
        """What to do where one dimension is gathered over links of a torus."""
        if self.memory is not None or self.named or self.torus is None:
            return None
        steps = gathered_by_all(self.shape, self.source, self.target, self.torus)
        return None if steps is None else self.weighed(steps)

    @property
    def has_more_axes(self) -> bool:
        """Whether there are axes that may help though nothing is to be done along them."""
        pairs = zip(self.source.axes, self.target.axes, strict=True)
        begins_alike = any(old[:1] == new[:1] != () for old, new in pairs) and moves_all(self.source.mesh)
        return begins_alike or bool(idle_axes(self.source, self.target))

    @property
    def is_cut(self) -> bool:
        """Whether a device holds less of what is complete in the end than at first."""
        before, after = (local_bytes(self.shape, self.element_bytes, end) for end in (self.source, self.target))
        return not self.source.partial and after < before

    def price(self, candidate: ReshardPlan) -> float:
        return price(candidate.cost, self.hardware)

    def less_than(self, candidate: ReshardPlan) -> float:
        """What takes less time, by as much as makes a difference where links make a torus."""
        return self.price(candidate) - _NOTHING * price(Cost(starts=1), self.hardware)

    def weighed(self, steps: Sequence[Step]) -> ReshardPlan:
        """The plan of steps."""
        return weigh(self.shape, self.element_bytes, self.source, steps, self.by_hand, self.hardware.links)


def _cheapest(question: _ReshardQuestion) -> ReshardPlan:
    """The best plan; atoms are cut further, and idle axes used, where that may be cheaper or is needed for memory."""
    if question.torus is not None:
        return _on_torus(question)
    known = question.at_once
    plans, least, asked = ([known], True, None) if known is not None else _searched(question)
    if not plans or not least:
        plans += _searched(question, plans, asked, fine=True)[0]
    bound = plans[0].cost.bytes_sent if least else 0.0
    if not plans or _is_shared(question, min(plans, key=question.price), bound):
        plans += _searched(question, plans, asked, fine=True, idle=True)[0]
    if not plans:
        raise _too_little(question.source, question.target, question.memory or 0, _least_memory(question))
    return min(plans, key=question.price)


def _on_torus(question: _ReshardQuestion) -> ReshardPlan:
    """The best plan over all links of devices."""
    if question.nodes is not None:  # what is sent between nodes takes longer than all else
        return question.weighed(_cheapest(replace(question, hardware=question.hardware.with_a_link())).steps)
    plain, together = question.at_once, question.gathered_by_all
    if together is not None:
        return together if plain is None else _better(question, plain, [together])
    found = [plain] if plain is not None else _searched(question)[0]
    if not found:
        return question.weighed(_cheapest(replace(question, hardware=question.hardware.with_a_link())).steps)
    best = min(found, key=question.price)
    if plain is not None and _least(question) < question.less_than(best):
        best = _better(question, best, _searched(question, found)[0])
    # what devices share, others gather in the end: not what is gathered anyhow, or cut there and moved away
    starts = 0 if is_gathered(question.source, question.target) or question.is_cut else 2
    least = _least(question, starts, idle=True) if question.has_more_axes else math.inf
    if least < question.less_than(best):
        best = _better(question, best, _searched(question, [best], fine=True, idle=True, least=least)[0])
    return best


def _better(question: _ReshardQuestion, best: ReshardPlan, others: Sequence[ReshardPlan]) -> ReshardPlan:
    """The plan that takes least, or the first of all where that makes no difference."""
    other = min([best, *others], key=question.price)
    return other if question.price(other) < question.less_than(best) else best


def _least(question: _ReshardQuestion, starts: int = 0, idle: bool = False) -> float:
    """What no plan takes less than that goes over all links of a torus, in so many collectives at least, where idle
    devices help or not.
    """
    ends = question.shape, question.element_bytes, question.source, question.target
    least, torus = least_cost(*ends), question.torus
    assert torus is not None, "asked where links make one"
    over = max(least.bytes_sent / most_links(torus), least_over_links(*ends, torus, idle))
    return price(Cost(over, max(starts, least.starts, over > 0)), question.hardware)


def _is_shared(question: _ReshardQuestion, best: ReshardPlan, bound: float) -> bool:
    """Whether there are idle axes, and a plan may be cheaper in which devices along them share the work.

    Without idle axes no chain sends less than `bound`. Sharing among w divides the bytes of a reduction by w, and those
    of nothing else; gathering along the idle axes in the end sends (1 − 1/w) of the target. Devices of a node share
    what comes from others too.
    """
    target = local_bytes(question.shape, question.element_bytes, question.target)
    sent = (target + min(bound, target)) / 2
    if not question.source.partial:
        sent = max(sent, bound)
    idle = idle_axes(question.source, question.target)
    if not idle:
        return False
    near = spread_of(idle, question.source.mesh, question.hardware.devices_near).together
    far = min(sent, best.cost.bytes_between_nodes / near)
    return price(Cost(sent, starts=2, bytes_between_nodes=far), question.hardware) < question.price(best)


def _searched(
    question: _ReshardQuestion,
    known: Sequence[ReshardPlan] = (),
    asked: Problem | None = None,
    fine: bool = False,
    idle: bool = False,
    least: float = 0.0,
) -> tuple[list[ReshardPlan], bool, Problem]:
    """The plans worth comparing, each of fewer collectives than the one before; whether the first sends the least; and
    the problem that was searched.

    Where plans are known, only such are looked for as take less, and none where that was asked. Collectives are not
    saved at the cost of memory, of which the price says nothing: such plans hold no more than the larger of source and
    target. Where no plan takes less than `least`, many atoms of a torus are looked at the longer the more that leaves.
    """
    ends = question.shape, question.source, question.target
    frame = pose(*ends, fine, idle, question.by_hand, question.named, question.nodes, question.torus)
    if known and frame.problem == asked:
        return [], False, frame.problem
    held = local_bytes(question.shape, question.element_bytes, question.source)
    edges = edges_of(frame.problem)
    local = edges.local
    units = local(frame.problem.source)
    larger = max(units, local(frame.problem.target))
    most_held = None if question.memory is None else question.memory * units // max(1, held)
    to_beat = question.less_than if edges.over else question.price
    plans, best = list[ReshardPlan](), min(map(to_beat, known), default=math.inf)
    byte = held / units / edges.unit
    unit = price(Cost(byte, bytes_between_nodes=frame.is_far * byte), question.hardware)
    looked = ON_TORUS if edges.over else AGAIN if known and not idle else EXPANSIONS
    if edges.over:  # or all are gathered at once, over all links
        if len(frame.problem.sizes) > _MANY and known:
            looked = math.ceil(ON_TORUS * min(1.0, (1 - least / best) / _FOR_ALL))
        most_held = larger if most_held is None else most_held
    is_alone = not idle or is_gathered(question.source, question.target) or question.is_cut
    fewest = 1 if is_alone else 2
    first = chain = search(frame.problem, most_held, None, _most_sent(question, best, fewest, unit), looked)
    starts = 0 if chain is None else chain.starts
    while chain is not None or starts > 1:
        if chain is not None:
            steps = steps_along(frame, chain.nodes, question.target)
            plans.append(question.weighed(steps))
            best, starts = min(best, question.price(plans[-1])), min(starts, chain.starts)
        starts -= 1
        chain = search(frame.problem, larger, starts, _most_sent(question, best, starts, unit), looked)
    return plans, first is not None and first.least, frame.problem


def _most_sent(question: _ReshardQuestion, best: float, starts: int, unit: float) -> int | None:
    """What may be sent where so many collectives are to take less than the best known plan, in units of such seconds.

    Rounded up, so that one search serves plans of many sizes.
    """
    if best == math.inf or not unit:
        return None
    most = max(0, math.floor((best - price(Cost(starts=starts), question.hardware)) / unit))
    spare = max(0, most.bit_length() - _DIGITS)
    return (most >> spare) + bool(spare) << spare


def _least_memory(question: _ReshardQuestion) -> int:
    """The least that a device must be able to hold, in bytes."""
    held = local_bytes(question.shape, question.element_bytes, question.source)
    least: list[int] = []
    for fine, idle in ((False, False), (True, False), (True, True)):
        problem = pose(question.shape, question.source, question.target, fine, idle).problem
        least.append(held * least_peak(problem) // Edges(problem).local(problem.source))
    return min(least)


def _too_little(source: TensorSharding, target: TensorSharding, memory: int, least: int) -> ShardingError:
    return ShardingError(
        f"{source!r} cannot become {target!r} in {counted(memory, 'byte')} per device",
        cause=f"a device must hold {counted(least, 'byte')} of the tensor at once",
        remedy="allow as much, or split the tensor over more devices on both sides",
    )


def _check(shape: Sequence[int], source: TensorSharding, target: TensorSharding) -> None:
    """Refuse what no chain of steps can do."""
    if not same_grid(source.mesh, target.mesh) or (source.mesh.is_maximal and source.mesh != target.mesh):
        raise ShardingError(
            f"cannot reshard from {source.mesh!r} to {target.mesh!r}",
            cause="the meshes have different axes",
            remedy="use one mesh; only the order of its devices may differ",
        )
    for sharding in (source, target):
        sharding.check(shape)
        if sharding.offsets is not None or sharding.halos is not None:
            raise ShardingError(
                f"cannot reshard {sharding!r} with offsets or halos",
                remedy="bring the tensor to even shards at the boundary first",
            )
        if not sharding.divides(shape):
            raise ShardingError(
                f"{sharding!r} does not split {'x'.join(map(str, shape))} evenly",
                remedy="pad the tensor at its global shape first",
            )


def weigh(
    shape: Sequence[int],
    element_bytes: int,
    source: TensorSharding,
    steps: Sequence[Step],
    by_hand: Kinds,
    links: Links | None,
) -> ReshardPlan:
    """The plan of `steps`, its cost added up step by step, on what they are sent over."""
    layout, held = source, local_bytes(shape, element_bytes, source)
    cost, peak = Cost(), held
    for step in steps:
        cost += step_cost(step, layout, held, by_hand, links)
        layout = step.apply(layout)
        held = local_bytes(shape, element_bytes, layout)
        peak = max(peak, held)
    return ReshardPlan(tuple(steps), cost, peak)

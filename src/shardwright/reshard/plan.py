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

from shardwright.axes import overlaps_any
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.hardware import Hardware, Links, current_hardware
from shardwright.cost.nodes import spread_of
from shardwright.cost.price import Cost, Kinds, price, step_cost
from shardwright.cost.torus import Torus, most_links, torus_on
from shardwright.errors import ShardingError
from shardwright.memo import memoize
from shardwright.reshard.atoms import Problem
from shardwright.reshard.bound import least_cost
from shardwright.reshard.chain import steps_along
from shardwright.reshard.edges import Edges
from shardwright.reshard.problem import Nodes, idle_axes, pose
from shardwright.reshard.search import AGAIN, EXPANSIONS, ON_TORUS, edges_of, least_peak, search
from shardwright.reshard.written import joined, on_one_mesh, renaming, wide
from shardwright.sharding import TensorSharding, same_grid
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    Step,
    local_bytes,
)
from shardwright.words import counted

__all__ = ["ReshardPlan", "plan", "weigh"]

_WORTH = 0.99
"""What part of the time is less, of a plan that goes over more links: prices are wrong by more than a hundredth."""

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

    def price(self, candidate: ReshardPlan) -> float:
        return price(candidate.cost, self.hardware)

    def weighed(self, steps: Sequence[Step]) -> ReshardPlan:
        """The plan of steps."""
        return weigh(self.shape, self.element_bytes, self.source, steps, self.by_hand, self.hardware.links)


def _cheapest(question: _ReshardQuestion) -> ReshardPlan:
    """The best plan; atoms are cut further, and idle axes used, where that may be cheaper or is needed for memory."""
    if question.torus is not None:
        return _on_torus(question)
    known = _cut_or_gathered(question) or _reduction_in_place(question)
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
    """The best plan over all links of devices. One reduction, or gathers along the axes that leave, stay what they
    are where a device has one link, unless another plan takes a hundredth less.
    """
    plain = _cut_or_gathered(question) or _reduction_in_place(question)
    found = [plain] if plain is not None else [] if question.nodes is not None else _searched(question)[0]
    if question.nodes is not None or not found:  # what is sent between nodes takes longer than all else
        return question.weighed(_cheapest(replace(question, hardware=question.hardware.with_a_link())).steps)
    least, best = _least(question), min(found, key=question.price)
    if plain is not None and least < _WORTH * question.price(best):
        best = min([best, *_searched(question, found)[0]], key=question.price)
    if not _is_gathered(question):  # what devices share, others gather in the end
        least = max(least, _least(question, starts=2))
    if idle_axes(question.source, question.target) and least < _WORTH * question.price(best):
        best = min([best, *_searched(question, [best], fine=True, idle=True)[0]], key=question.price)
    return best if plain is None or question.price(best) < _WORTH * question.price(plain) else plain


def _is_gathered(question: _ReshardQuestion) -> bool:
    """Whether nothing is to be done but to cut some dimensions and gather others, so that one collective may be enough
    whoever takes part.
    """
    pairs = list(zip(question.source.axes, question.target.axes, strict=True))
    is_plain = all(old[: len(new)] == new or new[: len(old)] == old for old, new in pairs)
    used, gained = question.source.used_axes, [axis for old, new in pairs for axis in new[len(old) :]]
    return not question.source.partial and is_plain and not any(overlaps_any(axis, used) for axis in gained)


def _least(question: _ReshardQuestion, starts: int = 0) -> float:
    """What no plan takes less than that goes over all links of a torus, in so many collectives at least."""
    least = least_cost(question.shape, question.element_bytes, question.source, question.target)
    links = 1 if question.torus is None else most_links(question.torus)
    beside = least.bytes_sent * (1 - 1 / links)
    return price(least._replace(starts=max(starts, least.starts), bytes_beside=beside), question.hardware)


def _reduction_in_place(question: _ReshardQuestion) -> ReshardPlan | None:
    """The plan for a tensor of which all contributions are combined and nothing else becomes otherwise.

    That is what the search finds: reduce_scatters and all_gathers would send as much and be more collectives.
    """
    source, target, kinds = question.source, question.target, {p.kind for p in question.source.partial}
    if source.axes != target.axes or target.partial or source.mesh != target.mesh or question.memory is not None:
        return None
    if len(kinds) != 1 or kinds & question.by_hand:
        return None
    step = AllReduce(source.mesh.in_order(source.partial_axes), *kinds)
    return question.weighed([step])


def _cut_or_gathered(question: _ReshardQuestion) -> ReshardPlan | None:
    """The plan for a tensor that is split further, or less far, in each dimension as far as it was or is to be alike.

    That is what the search finds: nothing is sent for the one; for the other what each device lacks, and each dimension
    is gathered by itself. Three of them may be gathered by fewer collectives that send more.
    """
    source, target = question.source, question.target
    is_plain = not (source.partial or target.partial) and source.mesh == target.mesh and question.memory is None
    if not is_plain or source == target:
        return None
    pairs = list(zip(source.axes, target.axes, strict=True))
    step: Step | None = None
    if all(new[: len(old)] == old for old, new in pairs):
        step = AllSlice(tuple([new[len(old) :] for old, new in pairs]))
    elif sum([old != new for old, new in pairs]) <= 2 and all(old[: len(new)] == new for old, new in pairs):
        step = AllGather(tuple([old[len(new) :] for old, new in pairs]))
    return None if step is None else question.weighed([step])


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
) -> tuple[list[ReshardPlan], bool, Problem]:
    """The plans worth comparing, each of fewer collectives than the one before; whether the first sends the least; and
    the problem that was searched.

    Where plans are known, only such are looked for as take less, and none where that was asked. Collectives are not
    saved at the cost of memory, of which the price says nothing: such plans hold no more than the larger of source and
    target.
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
    plans, best = list[ReshardPlan](), min(map(question.price, known), default=math.inf)
    byte = held / units / edges.unit
    unit = price(Cost(byte, bytes_between_nodes=frame.is_far * byte), question.hardware)
    looked = ON_TORUS if edges.over else AGAIN if known and not idle else EXPANSIONS
    if edges.over:  # or all are gathered at once, over all links
        best, most_held = _WORTH * best, larger if most_held is None else most_held
    fewest = 2 if idle and not _is_gathered(question) else 1
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

"""What communication and computation cost: amounts, which follow from what is done, and their price on a hardware.

Every choice of the compiler asks here: which chain of steps redistributes a tensor, how an op is split, when a partial
sum is reduced. Starts are counted as they are written: an all_gather along two dimensions is two of StableHLO's. Two
permutes are started as one where they go opposite ways along the links: a link sends both ways at once. Products take
what the roofline says. Other ops also take what they move through memory, some hundred times as long as their
arithmetic, by which all devices might as well compute them alike.

    >>> from shardwright.cost.hardware import BYTES
    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(x=2, y=4)
    >>> gather = AllGather(((mesh.axis("x"),), (mesh.axis("y"),)))
    >>> step_cost(gather, TensorSharding.of(mesh, [["x"], ["y"]]), local_bytes=128)[:2]
    (896.0, 2)
    >>> price(Cost(bytes_sent=896, starts=1), BYTES)
    896.0009765625
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import singledispatch
from typing import NamedTuple

from shardwright.axes import Axes, AxisRef, axes_size, clashing_axes, common_prefix, subtract_axes
from shardwright.cost.collectives import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    collective_permute_bytes,
    reduce_scatter_bytes,
)
from shardwright.cost.hardware import Hardware, Links
from shardwright.cost.nodes import far_first, spread_of
from shardwright.cost.torus import hand_on, paths_of, torus_on
from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import (
    MOVING,
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Send,
    ShardedToUnreduced,
    Step,
    ToUnreduced,
)

__all__ = ["Cost", "price", "step_cost", "talking_axes", "work_cost"]


_KINDS = {step: name for name, step in MOVING.items()} | {Send: "collective_permute"}
"""The collectives that take steps."""

Kinds = frozenset[str]
"""Kinds of reduction."""

NATIVE: Kinds = frozenset()
"""None that devices combine by hand."""


class Cost(NamedTuple):
    """What each device does, whatever it takes. A tuple, because thousands are made to be added up and compared.

    Attributes:
        bytes_sent: Bytes that it sends.
        starts: Collectives of the per-device program that it takes part in, one after the other.
        multiply_adds: Iterations of the loops of ops.
        bytes_copied: Bytes that are laid out anew for collectives and products, where nothing else does: see
            `cost.copies`.
        bytes_moved: Bytes that ops other than products read from memory and write to it, as far as compilers do not
            fuse them.
        adds_waited: As many multiply-adds as take the time that products take beyond theirs: see `cost.roofline`.
        bytes_between_nodes: Of the bytes that it sends those that go over the network between nodes: see `cost.nodes`.
        bytes_beside: Of the bytes that it sends those that go over other links than the busiest, at the same time; less
            than none where more goes over that one than a device sends: see `cost.torus`.
    """

    bytes_sent: float = 0.0
    starts: int = 0
    multiply_adds: float = 0.0
    bytes_copied: float = 0.0
    bytes_moved: float = 0.0
    adds_waited: float = 0.0
    bytes_between_nodes: float = 0.0
    bytes_beside: float = 0.0

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]  # amounts are added, not tuples joined
        """Both, one after the other."""
        (sent, starts, work, copied, moved, waited, far, beside) = self
        (more_sent, more_starts, more_work, more_copied, more_moved, more_waited, more_far, more_beside) = other
        return Cost(
            sent + more_sent,
            starts + more_starts,
            work + more_work,
            copied + more_copied,
            moved + more_moved,
            waited + more_waited,
            far + more_far,
            beside + more_beside,
        )


def price(cost: Cost, hardware: Hardware) -> float:
    """The seconds that `cost` takes on `hardware`, nothing of it at the same time: what choices are made by."""
    return hardware.seconds(*cost)


def work_cost(iterations: int, split: Iterable[Iterable[AxisRef]]) -> Cost:
    """The work left on a device of an op of so many iterations, whose loops are split along axes each."""
    return Cost(multiply_adds=iterations / math.prod(map(axes_size, split)))


def step_cost(
    step: Step | Send,
    before: TensorSharding,
    local_bytes: float,
    by_hand: Kinds = NATIVE,
    links: Links | None = None,
) -> Cost:
    """What each device does in a step.

    Arguments:
        step: What is done.
        before: How the tensor lies before it.
        local_bytes: What each device holds of it then.
        by_hand: The kinds of reduction that no collective of XLA does on its elements: see `cost.collectives`.
        links: Over what it is sent, where that is to be told.
    """
    cost = _sent(step, before, local_bytes, by_hand)
    if links is None or not cost.bytes_sent:
        return cost
    near, part = links.devices_near, 0.0
    if near is not None and before.mesh.size > near:
        part = spread_of(talking_axes(step, before), before.mesh, near).part_of(_KINDS[type(step)])
    beside = (1 - part) * _beside(step, before, cost.bytes_sent, links)
    return cost._replace(bytes_between_nodes=part * cost.bytes_sent, bytes_beside=beside) if part or beside else cost


def _beside(step: Step | Send, before: TensorSharding, sent: float, links: Links) -> float:
    """What of the bytes that a device sends in a step goes over other links than the busiest: of a torus."""
    mesh, kind = before.mesh, _KINDS[type(step)]
    torus = torus_on(mesh.size, links)
    if torus is None:
        return 0.0
    if isinstance(step, Send):
        return sent * (1 - hand_on(step.axes, mesh, torus, step.is_opposite))
    if not isinstance(step, AllGather | ReduceScatter):
        return sent * (1 - paths_of(talking_axes(step, before), mesh, torus).part_of(kind))
    groups = [step.axes[dim] for dim in far_first(step.axes, mesh) if axes_size(step.axes[dim]) > 1]
    held, beside = sent / (math.prod(map(axes_size, groups)) - 1), 0.0
    for axes in groups:  # one after the other, of more and more: scatters the other way round
        gathered = held * axes_size(axes)
        beside += (gathered - held) * (1 - paths_of(axes, mesh, torus).of_gather)
        held = gathered
    return beside


def talking_axes(step: Step | Send, before: TensorSharding) -> Axes:
    """The axes along which devices talk in a step; all, where the devices are in another order after it."""
    if isinstance(step, AllToAll):
        return tuple([axis for axes, _, _ in step.moves for axis in axes])
    if isinstance(step, CollectivePermute):
        if step.target.mesh != before.mesh:
            return tuple([before.mesh.axis(name) for name in before.mesh.sizes])
        return _moved_axes(before, step.target)
    if isinstance(step, AllReduce | Send):
        return step.axes
    if isinstance(step, AllGather | ReduceScatter):
        return tuple(itertools.chain(*step.axes))
    return ()


def _moved_axes(before: TensorSharding, after: TensorSharding) -> Axes:
    """The axes along which devices hand on what they hold where a tensor comes to lie otherwise: those of dimensions
    that are split otherwise, from where that begins.
    """
    moved: list[AxisRef] = []
    for old, new in zip(before.axes, after.axes, strict=True):
        same = common_prefix(old, new)
        moved += [*subtract_axes(old, same), *subtract_axes(new, same)]
    torn = clashing_axes(moved)
    apart: list[AxisRef] = [before.mesh.axis(name) for name in sorted(torn)]
    for axis in moved:
        if axis.name not in torn:
            apart += subtract_axes((axis,), apart)  # no part twice
    return tuple(apart)


@singledispatch
def _sent(step: Step | Send, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """What each device sends and starts in a step."""
    raise TypeError(f"no price of {step!r}")


@_sent.register
def _(
    step: AllSlice | ToUnreduced | ShardedToUnreduced,
    before: TensorSharding,
    local_bytes: float,
    by_hand: Kinds,
) -> Cost:
    """Each device keeps a part of what it holds, or takes the neutral element instead or around it: nothing is sent."""
    return Cost()


@_sent.register
def _(step: AllGather, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """One collective for every dimension that is gathered."""
    devices = math.prod(map(axes_size, step.axes))
    return Cost(all_gather_bytes(local_bytes * devices, devices), _split_dims(step.axes))


@_sent.register
def _(step: AllToAll, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    devices = math.prod(axes_size(axes) for axes, _, _ in step.moves)
    return Cost(all_to_all_bytes(local_bytes, devices), int(devices > 1))


@_sent.register
def _(step: CollectivePermute, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """All it holds, in as many collectives as parts; or nothing where every device already holds what it shall."""
    if same_placement(before, step.target):
        return Cost()
    return Cost(collective_permute_bytes(local_bytes), step.parts(before))


@_sent.register
def _(step: Send, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """One start for what goes both ways at once. All bytes count, as all of a ring's do, which could use both as well.

    Source: Austin et al., "How to Scale Your Model": links of a torus are bidirectional, of so many bytes either way.
    """
    return Cost(collective_permute_bytes(local_bytes), int(not step.is_opposite))


@_sent.register
def _(step: AllReduce, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """One collective; where devices combine by hand, it gathers all contributions."""
    devices = axes_size(step.axes)
    if step.kind in by_hand:
        return Cost(all_gather_bytes(local_bytes * devices, devices), int(devices > 1))
    return Cost(all_reduce_bytes(local_bytes, devices), int(devices > 1))


@_sent.register
def _(step: ReduceScatter, before: TensorSharding, local_bytes: float, by_hand: Kinds) -> Cost:
    """One collective for every dimension that is scattered over."""
    sent = reduce_scatter_bytes(local_bytes, math.prod(map(axes_size, step.axes)))
    return Cost(sent, _split_dims(step.axes))


def _split_dims(lists: tuple[Axes, ...]) -> int:
    return sum(axes_size(axes) > 1 for axes in lists)

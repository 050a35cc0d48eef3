"""A greedy chain in the manner of Shardy's collective insertion: slice, permute or exchange, gather the rest."""

from __future__ import annotations

from shardwright.axes import Axes, axes_size, decompose
from shardwright.cost.price import step_cost
from shardwright.errors import ShardingError
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllSlice, AllToAll, CollectivePermute, Step, local_bytes


class _Chain:
    def __init__(self, shape: tuple[int, ...], source: TensorSharding) -> None:
        self.shape, self.layout = shape, source
        self.sent, self.collectives = 0.0, 0

    def take(self, step: Step) -> None:
        after = step.apply(self.layout)
        if not after.divides(self.shape):
            raise ShardingError("does not divide")
        sent = step_cost(step, self.layout, local_bytes(self.shape, 1, self.layout)).bytes_sent
        self.sent, self.collectives = self.sent + sent, self.collectives + (sent > 0)
        self.layout = after


def greedy(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> tuple[float, int]:
    """Bytes sent (of one-byte elements) and the number of collectives.

    Raises:
        ShardingError: sub-axes that cannot co-exist.
    """
    parts = decompose([*source.axes, *target.axes])
    goal = [tuple(part for axis in axes for part in parts[axis]) for axes in target.axes]
    chain = _Chain(shape, source)
    _slice(chain, parts, goal)
    if [axes_size(axes) for axes in chain.layout.axes] == [axes_size(axes) for axes in goal]:
        if chain.layout != target:
            chain.take(CollectivePermute(target))
        return chain.sent, chain.collectives
    while _exchange(chain, parts, goal):
        pass
    have = _atoms(chain.layout, parts)
    keep = [_shared(left, right) for left, right in zip(have, goal, strict=True)]
    chain.take(AllGather(tuple(axes[n:] for axes, n in zip(have, keep, strict=True))))
    _slice(chain, parts, goal)
    if chain.layout != target:
        chain.take(AllGather(chain.layout.axes))
        chain.take(AllSlice(target.axes))
    assert chain.layout == target
    return chain.sent, chain.collectives


def _atoms(layout: TensorSharding, parts: dict) -> list[Axes]:
    finer = decompose([*layout.axes, *([part] for pieces in parts.values() for part in pieces)])
    return [tuple(part for axis in axes for part in finer[axis]) for axes in layout.axes]


def _shared(left: Axes, right: Axes) -> int:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length


def _slice(chain: _Chain, parts: dict, goal: list[Axes]) -> None:
    """Slice off what comes next in a dimension and is not in use."""
    have = _atoms(chain.layout, parts)
    used = {part for axes in have for part in axes}
    new: list[Axes] = []
    for left, right in zip(have, goal, strict=True):
        grown: Axes = ()
        for part in right[len(left) :] if _shared(left, right) == len(left) else ():
            if part in used:
                break
            grown += (part,)
        new.append(grown)
    chain.take(AllSlice(tuple(new)))


def _exchange(chain: _Chain, parts: dict, goal: list[Axes]) -> bool:
    """Move the last axis of one dimension to where it comes next."""
    have = _atoms(chain.layout, parts)
    for source, axes in enumerate(have):
        for target, goal_axes in enumerate(goal):
            ready = _shared(have[target], goal_axes) == len(have[target]) < len(goal_axes)
            if source != target and axes and ready and axes[-1] == goal_axes[len(have[target])]:
                chain.take(AllToAll((((axes[-1],), source, target),)))
                return True
    return False

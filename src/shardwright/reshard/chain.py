"""The steps that a chain of nodes stands for: neighbours of one kind are one collective, where that can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from shardwright.axes import merge_axes
from shardwright.reshard.atoms import EXCHANGE, GATHER, REDUCE, SCATTER, SLICE, Node
from shardwright.reshard.problem import Frame
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, ReduceScatter, Step

__all__ = ["steps_along"]


def steps_along(frame: Frame, nodes: Sequence[Node], target: TensorSharding) -> list[Step]:
    """The steps that lead from the source of a problem through `nodes` to `target`."""
    steps: list[Step] = []
    before = Node("", frame.problem.source, frame.problem.partial)
    for after in _collectives(frame, before, nodes):
        steps.append(_step(frame, before, after, target))
        before = after
    return steps


def _collectives(frame: Frame, before: Node, nodes: Sequence[Node]) -> Iterator[Node]:
    """The last node of every run that is one collective."""

    def key(node: Node) -> str | int:
        nonlocal before
        gone = set(before.partial).difference(node.partial)
        before = node
        if node.kind == SCATTER and not frame.problem.lines:
            return SCATTER + frame.kinds[gone.pop()]
        return node.kind if node.kind == SLICE or (node.kind == GATHER and not frame.problem.lines) else id(node)

    for _, run in groupby(nodes, key):
        *_, last = run
        yield last


def _step(frame: Frame, before: Node, after: Node, target: TensorSharding) -> Step:
    """The step that leads from one node to the next."""
    old, new = frame.axes(before.layout), frame.axes(after.layout)
    pairs = tuple(zip(old, new, strict=True))
    appended = tuple(merge_axes(late[len(early) :]) for early, late in pairs)
    reduced = [atom for atom in before.partial if atom not in after.partial]
    kind = frame.kinds[reduced[0]] if reduced else ""
    if after.kind == SLICE:
        return AllSlice(appended)
    if after.kind == GATHER:
        return AllGather(tuple(merge_axes(early[len(late) :]) for early, late in pairs))
    if after.kind == SCATTER:
        return ReduceScatter(appended, kind)
    if after.kind == REDUCE:
        return AllReduce(target.mesh.in_order(frame.atoms[atom] for atom in reduced), kind)
    if after.kind == EXCHANGE:
        return AllToAll.between(old, new)
    return CollectivePermute(target.with_axes(new, frame.partial).closed())

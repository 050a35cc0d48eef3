"""What a per-device program holds beside its arguments and results, computed in as few kernels as compilers make of it.

Compilers set the buffers of arguments and results aside, and order the rest by themselves: what is held in passing is
that of which one program of a plan asks more than another. So these are compared by it. It is counted as in
`analysis.memory`, but that values of which compilers make a part of what reads them take no buffer (`analysis.fusion`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from shardwright.analysis.alive import Alive, donated_arguments
from shardwright.analysis.fusion import fusion_of
from shardwright.ir.graph import Block, Graph, Op

__all__ = ["allocated_bytes", "boundary_bytes", "temporary_bytes"]


def allocated_bytes(graph: Graph) -> int:
    """What a compiler is to be expected to set aside: arguments, results, and what is held beside them at most."""
    return boundary_bytes(graph) + temporary_bytes(graph)


def boundary_bytes(graph: Graph) -> int:
    """What arguments and results take; a donated argument makes room for a result of its size."""
    main, types = graph.main.block, graph.types
    donated = Counter([types[value].bytes for value in donated_arguments(graph)])
    results = Counter([types[value].bytes for value in main.terminator.operands])
    arguments = sum([types[value].bytes for value in main.arguments])
    return arguments + sum((results - donated).elements())


def temporary_bytes(graph: Graph) -> int:
    """The most bytes of a per-device program that are alive at once, those of arguments and results left out."""
    main, donated = graph.main.block, donated_arguments(graph)
    fusion = fusion_of(main)
    alive = Alive(main, donated, graph.types, fusion)
    for number, op in enumerate(main.ops):
        alive.take(op, number)
    outside = {alive.root.get(value, value) for value in main.terminator.operands}.union(main.arguments)
    return _most(main, Alive(main, donated, graph.types, fusion), outside)


def _most(block: Block, alive: Alive, outside: Collection[int]) -> int:
    """The most bytes alive in a block beside the buffers `outside`."""
    kept = {value: size for value, size in alive.size.items() if value in outside}
    beside = sum(kept.values())

    def release(number: int) -> None:
        nonlocal beside
        ending = [one for one in alive.dying.get(number, ()) if one in kept]
        alive.release(number)
        beside -= sum([kept.pop(one) for one in dict.fromkeys(ending) if one not in alive.size])

    most = alive.bytes - beside
    release(-1)
    for number, op in enumerate(block.ops):
        carried = alive.take(op, number)
        for value in op.results:
            if value in outside and alive.root[value] == value:
                kept[value] = alive.size[value]
                beside += kept[value]
        most = max(most, alive.bytes - beside + _within(op, carried, alive))
        release(number)
    return most


def _within(op: Op, carried: int, around: Alive) -> int:
    """What the regions of an op hold beside its results, which count already."""
    inner = [_most(region, around.inside(op, region, fusion_of(region)), ()) for region in op.regions]
    return max([0, *[bytes - carried for bytes in inner]])

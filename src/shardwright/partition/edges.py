"""What the edges of an op cost: bringing operands to the shardings that it needs, results to those they should have.

That takes plans; what an edge costs at least is told without one.
"""

from __future__ import annotations

from shardwright.cost.copies import copied_bytes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import most_links, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.proposals import Shardings, Source
from shardwright.reshard.bound import least_cost
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = [
    "NOTHING",
    "copies_of",
    "edge_bound",
    "edge_cost",
    "leads_to",
    "least_of",
    "read_costs",
    "usable",
    "write_costs",
]

NOTHING = Cost()
"""What costs nothing."""


def read_costs(
    types: tuple[TensorType, ...], sources: tuple[Source, ...], needed: Shardings, hardware: Hardware
) -> tuple[tuple[Cost | None, ...], ...]:
    """What bringing each operand to the sharding needed costs from each version of it."""
    return tuple(
        [
            tuple([edge_cost(type, v, target, hardware) if leads_to(v, target) else None for v in source])
            for type, source, target in zip(types, sources, needed, strict=True)
        ]
    )


def write_costs(
    types: tuple[TensorType, ...], made: Shardings, targets: Shardings, hardware: Hardware
) -> tuple[Cost, ...]:
    """What bringing each result to its target costs."""
    edges = zip(types, made, targets, strict=True)
    return tuple([edge_cost(type, result, target, hardware) for type, result, target in edges])


def least_of(versions: tuple[Cost | None, ...], hardware: Hardware) -> Cost:
    """What the cheapest version costs; nothing where there is none."""
    if NOTHING in versions:
        return NOTHING
    reachable = [cost for cost in versions if cost is not None]
    return min(reachable, key=lambda cost: price(cost, hardware)) if reachable else NOTHING


def edge_cost(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> Cost:
    """What bringing a tensor from one sharding to another costs."""
    if source == target or not type.elements:
        return NOTHING
    element_bytes, end = type.bytes // type.elements, _reached(source, target)
    found = plan(type.dims, element_bytes, source, end, hardware, dtype=type.dtype)
    return found.cost + copies_of(type, source, found.steps)


@memoize
def copies_of(type: TensorType, source: TensorSharding, steps: tuple[Step, ...]) -> Cost:
    """What a chain of steps makes each device lay out anew."""
    layout, element_bytes, copied = source, type.bytes // max(1, type.elements), 0
    for step in steps:
        copied += copied_bytes(step, layout, type.dims, element_bytes)
        layout = step.apply(layout)
    return Cost(bytes_copied=copied) if copied else NOTHING


def edge_bound(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> Cost:
    """What bringing a tensor from one sharding to another costs at least."""
    if source == target or not type.elements:
        return NOTHING
    least = least_cost(type.dims, type.bytes // type.elements, source, _reached(source, target))
    torus = torus_on(source.mesh.size, hardware.links)
    return least if torus is None else least._replace(bytes_beside=least.bytes_sent * (1 - 1 / most_links(torus)))


def _reached(source: TensorSharding, target: TensorSharding) -> TensorSharding:
    """What a plan leads to: if the target is partial and the source is not so, contributions are made of that, which
    sends nothing.
    """
    return target if leads_to(source, target) else target.with_axes(target.axes)


def usable(source: Source, target: TensorSharding) -> Source:
    """The versions from which `target` can be reached: where it is partial, they must be."""
    return tuple(version for version in source if leads_to(version, target)) if target.partial else source


def leads_to(version: TensorSharding, target: TensorSharding) -> bool:
    """Whether a plan leads from a version to `target`: it makes no contributions."""
    return not target.partial or set(target.partial) <= set(version.partial)

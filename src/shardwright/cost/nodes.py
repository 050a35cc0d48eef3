"""Which devices stand in one node, and what of a collective goes over the network between nodes.

Devices of a node are joined by links of their own, those of others are reached by a network, which is slower. Of what
each device of a group sends in a collective, whose devices stand in `m` nodes, `g` in each, `n` in all:

    all_gather, reduce_scatter, all_reduce   (m − 1)/(n − 1)     each node must get, or give, each byte once
    all_to_all                               g·(m − 1)/(n − 1)   what is for devices of other nodes
    collective_permute                       all, where any goes to another node

So in a gather of `V` bytes each device sends `V·(m − 1)/(m·g)` over the network, the rest of `V·(n − 1)/n` over links.

Source: rings that enter each node once by each of its devices, as NCCL builds them; the hierarchical collectives of Cho
et al., "BlueConnect" (2019).

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(data=16, model=4)
    >>> spread = spread_of((mesh.axis("data"),), mesh, 8)
    >>> spread, spread.of_gather, spread.of_exchange
    (Spread(nodes=8, together=2), 0.4666666666666667, 0.9333333333333333)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes
from shardwright.memo import memoize
from shardwright.mesh import Mesh

__all__ = ["Spread", "far_first", "is_in_order", "is_within_nodes", "spread_of", "spread_of_devices"]


class Spread(NamedTuple):
    """Where the devices stand that talk to one another.

    Attributes:
        nodes: In how many nodes.
        together: How many in each.
    """

    nodes: int
    together: int

    def part_of(self, kind: str) -> float:
        """Which part of what a device sends goes over the network in the StableHLO collective `kind`."""
        match kind:
            case "all_to_all":
                return self.of_exchange
            case "collective_permute" | "collective_broadcast" | "collective_reduce":
                return float(self.nodes > 1)  # whoever sends to another node sends all of it
        return self.of_gather

    @property
    def of_gather(self) -> float:
        """Which part of what a device sends goes over the network where all get all, or sums of all."""
        return (self.nodes - 1) / max(1, self.nodes * self.together - 1)

    @property
    def of_exchange(self) -> float:
        """And where each gets a part of its own from each."""
        return self.together * self.of_gather


@memoize
def spread_of(axes: Axes, mesh: Mesh, node_devices: int | None) -> Spread:
    """Where devices stand that differ along `axes` alone, of nodes of so many devices whose ids are in a row; of one
    node where nodes are not told apart. Of several axes that nodes cut unevenly, in as many as there may be.
    """
    digits = [mesh.digit(axis) for axis in axes if axis.size > 1]
    count = math.prod([size for _, size in digits])
    if node_devices is None or mesh.size <= node_devices:
        return Spread(1, count)
    if mesh.device_ids is None:
        reached = 1 + sum([(size - 1) * stride for stride, size in digits]) // node_devices
        every = math.prod([_nodes_along(stride, size, node_devices) for stride, size in digits])
        across = min(count, every, reached)
        return Spread(across, count // across)
    positions = np.zeros(1, dtype=np.intp)
    for stride, size in digits:
        positions = (positions[:, None] + stride * np.arange(size)).ravel()
    across = np.unique(np.array(mesh.device_ids)[positions] // node_devices).size
    return Spread(across, max(1, count // across))


def spread_of_devices(devices: Iterable[int], node_devices: int | None) -> Spread:
    """Where devices of these ids stand; where they are not as many in each node, as in the mean."""
    ids = list(devices)
    nodes = 1 if node_devices is None else len({device // node_devices for device in ids})
    return Spread(max(1, nodes), max(1, len(ids) // max(1, nodes)))


def far_first(lists: Sequence[Axes], mesh: Mesh) -> list[int]:
    """Dimensions in the order in which they are gathered, and scattered the other way round: by how far devices along
    their axes are apart in the order of the mesh, the farthest first.
    """
    return sorted(range(len(lists)), key=lambda dim: -min([mesh.digit(axis)[0] for axis in lists[dim]], default=0))


def _nodes_along(stride: int, size: int, node_devices: int) -> int:
    """In how many nodes devices stand that are so many, so far apart, the first of them first in its node."""
    return size if stride >= node_devices else 1 + (size - 1) * stride // node_devices


def _is_even(stride: int, size: int, node_devices: int) -> bool:
    """Whether as many devices that are so far apart stand in each node, from wherever one begins."""
    if stride % node_devices == 0:
        return True
    inside, rest = divmod(node_devices, stride)
    return not rest and (inside % size == 0 or size % inside == 0)


@memoize
def is_in_order(mesh: Mesh, node_devices: int) -> bool:
    """Whether nodes cut every axis evenly: devices along several stand in as many nodes as the product of each says."""
    axes = [mesh.digit(mesh.axis(name)) for name, size in mesh.axes if size > 1]
    return mesh.device_ids is None and all(_is_even(stride, size, node_devices) for stride, size in axes)


@memoize
def is_within_nodes(axes: Axes, mesh: Mesh, node_devices: int) -> bool:
    """Whether devices that differ along `axes` alone are of one node, each of so many devices whose ids are in a row.

    >>> mesh = Mesh(x=2, y=8)
    >>> is_within_nodes((mesh.axis("y"),), mesh, 8), is_within_nodes((mesh.axis("x"),), mesh, 8)
    (True, False)
    """
    digits = [mesh.digit(axis) for axis in axes]
    if mesh.device_ids is None:  # devices in a row are cut by blocks of `stride * size` of them, which nodes must hold
        return mesh.size <= node_devices or all(node_devices % (stride * size) == 0 for stride, size in digits)
    positions = np.arange(mesh.size)
    first = positions.copy()
    for stride, size in digits:
        first -= positions // stride % size * stride
    nodes = np.array(mesh.device_ids) // node_devices
    return bool((nodes == nodes[first]).all())

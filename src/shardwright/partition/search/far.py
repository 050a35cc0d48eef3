"""How much longer it takes at least, where devices stand in several nodes, to bring a value to another layout."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shardwright.axes import Axes, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.nodes import Spread, is_in_order, spread_of
from shardwright.cost.price import Cost, price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.lying import Lying, are_even, lying_of
from shardwright.sharding import Partial

__all__ = ["Far", "far_between"]


def far_between(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Far | None:
    """What is known of nodes between each of some layouts and each of others; `None` where all devices are in one, or
    nothing is known: where nodes cut a mesh unevenly, or parts are uneven.
    """
    mesh, near = sources[0].mesh, hardware.devices_near
    if near is None or mesh.size <= near or not is_in_order(mesh, near):
        return None
    if not are_even(lying_of(sources), lying_of(targets)):
        return None
    lacking, nodes = _of_nodes(sources, targets, near)
    byte = price(Cost(bytes_between_nodes=1.0), hardware)
    return Far(byte, near, mesh, float(type.bytes), type.bytes / nodes / near, lacking)


@dataclass(frozen=True, slots=True)
class Far:
    """How much longer than in one node it takes at least to bring a tensor from each of some layouts to each of others.

    Of nodes is true what is of devices: each must receive what it lacks of what its devices need, and of contributions
    of `n` nodes an element is sent `n − 1` times until it is whole; by all of its devices alike.

    Attributes:
        byte: How much longer a byte takes to another node.
        near: How many devices a node has.
        mesh: The mesh.
        bytes: Those of the tensor.
        needed: Bytes that a device of a node needs of those that the node does, each in equal parts, by layout.
        lacking: Which part of them the node lacks, by both layouts.
    """

    byte: float
    near: int
    mesh: Mesh
    bytes: float
    needed: Seconds
    lacking: Seconds

    def between(self, before: Lying, after: Lying) -> Seconds:
        """From each layout to each, where contributions are along axes of those before."""
        longer = np.zeros(self.lacking.shape)
        for (one, made), (other, along) in itertools.product(enumerate(before.sums), enumerate(after.sums)):
            rows, columns = np.flatnonzero(before.sum_of == one), np.flatnonzero(after.sum_of == other)
            if set(along) == set(made):
                longer[rows[:, None], columns] = self.moved(along, rows, columns)
            elif set(along) < set(made):
                longer[rows[:, None], columns] = self.summed(made, along, rows, columns)
        return longer

    def moved(self, along: tuple[Partial, ...], rows: Numbers, columns: Numbers) -> Seconds:
        """Of what is complete, or stays contributions along some axes, of which devices of a node have one each, from
        some of the layouts to some of the others.
        """
        return self.byte * self.spread(along).together * self._far(rows, columns)

    def spread(self, partial: tuple[Partial, ...]) -> Spread:
        """Where contributions along some axes are."""
        return spread_of(tuple([p.axis for p in partial]), self.mesh, self.near)

    def summed(self, made: tuple[Partial, ...], along: tuple[Partial, ...], rows: Numbers, columns: Numbers) -> Seconds:
        """Of contributions along some axes, of which those along others stay, from some of the layouts to some of the
        others.
        """
        contributions, staying = self.spread(made).nodes, self.spread(along).nodes
        far = self._far(rows, columns)
        if contributions > staying:
            more = self.bytes * staying * (contributions // staying - 2) / self.mesh.size
            far = np.maximum(far, self.needed[None, columns] + more)
        return self.byte * self.spread(along).together * far

    def _far(self, rows: Numbers, columns: Numbers) -> Seconds:
        return self.lacking[rows[:, None], columns] * self.needed[columns]


@memoize
def _of_nodes(sources: Shardings, targets: Shardings, near: int) -> tuple[Seconds, Seconds]:
    """Which part of what it needs in a target a node lacks at least whose devices have what they do in a source, and
    into how many parts targets are split between nodes.
    """
    before, after, mesh = lying_of(sources), lying_of(targets), sources[0].mesh

    def nodes(axes: Axes) -> int:
        return spread_of(axes, mesh, near).nodes

    shared = np.array(
        [[1 / nodes(subtract_axes(one, common_prefix(one, other))) for other in after.axes] for one in before.axes]
    ).reshape(len(before.axes), len(after.axes))
    lacking: Seconds = 1 - shared[before.numbers[:, None], after.numbers[None]].prod(axis=2)
    needs: Seconds = np.array([nodes(axes) for axes in after.axes], dtype=float)[after.numbers].prod(axis=1)
    return lacking, needs

"""How much longer it takes at least, where devices are not all as near to one another, to bring a value elsewhere."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes, axes_size, common_prefix, primes_of, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.nodes import is_in_order, spread_of
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import Torus, is_on_grid, lines_of, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.growing import Growing, growing
from shardwright.partition.search.lying import lying_of
from shardwright.sharding import Partial

__all__ = ["Across", "across_torus", "between_nodes"]


def between_nodes(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Across | None:
    """What is known of nodes between each of some layouts and each of others; `None` where all devices are in one, or
    nothing is known: where nodes cut a mesh unevenly, or parts are uneven.
    """
    mesh, near = sources[0].mesh, hardware.devices_near
    if near is None or mesh.size <= near or not is_in_order(mesh, near) or not _is_even(sources, targets):
        return None
    byte = price(Cost(bytes_between_nodes=1.0), hardware)
    return _across(type, sources, targets, _Cut(mesh, near), byte)


def across_torus(
    type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware
) -> list[Across | Growing]:
    """What is known of all cuts of a torus into parts of as many places each along a dimension, and of what is done one
    after the other; nothing where it is not one, or cuts axes unevenly.
    """
    mesh = sources[0].mesh
    torus = torus_on(mesh.size, hardware.links)
    if torus is None or mesh.size > (hardware.devices_near or mesh.size) or not _is_even(sources, targets):
        return []
    if not is_on_grid(mesh, torus):
        return []
    found, link = list[Across | Growing](), price(Cost(1.0), hardware)
    for dim, length in enumerate(torus.lengths):
        for places in range(1, length):
            if length % places == 0 and _is_even_cut(mesh, torus, dim, places):
                byte = link * places / (1 + (torus.closes and length > 2))
                devices = mesh.size * places // length
                found.append(_across(type, sources, targets, _Cut(mesh, devices, torus, dim, places), byte))
    more = growing(type, sources, targets, hardware, torus)
    return found if more is None else [*found, more]


@memoize
def _is_even_cut(mesh: Mesh, torus: Torus, dim: int, places: int) -> bool:
    """Whether as many devices along each part of an axis are in each of such parts of a dimension."""
    atoms = itertools.chain(*[primes_of(mesh.axis(name)) for name, _ in mesh.axes])
    lines = itertools.chain(*[lines_of((atom,), mesh, torus) for atom in atoms])
    return all(line.is_cut_evenly(places) for line in lines if line.dim == dim)


class _Cut(NamedTuple):
    """Devices on several sides, as many on each: nodes, or parts of a dimension of a torus.

    Attributes:
        mesh: All devices.
        devices: How many are on each side.
        torus: The torus, where it is one that is cut.
        dim: Its dimension.
        places: How many places of that each part has.
    """

    mesh: Mesh
    devices: int
    torus: Torus | None = None
    dim: int = 0
    places: int = 1

    def sides(self, axes: Axes) -> int:
        """On how many sides devices are that differ along `axes` alone."""
        if self.torus is None:
            return spread_of(axes, self.mesh, self.devices).nodes
        lines = itertools.chain(*[lines_of((axis,), self.mesh, self.torus) for axis in axes])
        return math.prod([line.sides(self.places) for line in lines if line.dim == self.dim])


@dataclass(frozen=True, slots=True)
class Across:
    """How long it takes at least to get a tensor across a cut, from each of some layouts to each of others.

    Of sides of a cut is true what is of devices: each must receive what it lacks of what its devices need, and of
    contributions of `n` sides an element is sent `n − 1` times until it is whole; by all of its devices alike.

    Attributes:
        byte: How long, or how much longer than elsewhere, a byte of each device takes across.
        cut: The cut.
        bytes: Those of the tensor.
        needed: Bytes that a device of a side needs of those that the side does, each in equal parts, by layout.
        lacking: Which part of them the side lacks, by both layouts.
    """

    byte: float
    cut: _Cut
    bytes: float
    needed: Seconds
    lacking: Seconds

    def moved(self, along: tuple[Partial, ...]) -> Seconds:
        """Of what is complete, or stays contributions along some axes, of which devices of a side have one each."""
        return self.byte * self._together(along) * self.lacking * self.needed

    def _together(self, partial: tuple[Partial, ...]) -> int:
        """Of how many contributions along some axes the devices of a side have one each."""
        axes = tuple([p.axis for p in partial])
        return axes_size(axes) // self.cut.sides(axes)

    def summed(self, made: tuple[Partial, ...], along: tuple[Partial, ...]) -> Seconds:
        """Of contributions along some axes, of which those along others stay."""
        contributions, staying = (self.cut.sides(tuple([p.axis for p in some])) for some in (made, along))
        across = self.lacking * self.needed
        if contributions > staying:
            more = self.bytes * staying * (contributions // staying - 2) / self.cut.mesh.size
            across = np.maximum(across, self.needed[None] + more)
        return self.byte * self._together(along) * across


def _across(type: TensorType, sources: Shardings, targets: Shardings, cut: _Cut, byte: float) -> Across:
    lacking, needs = _of_sides(sources, targets, cut)
    return Across(byte, cut, float(type.bytes), type.bytes / needs / cut.devices, lacking)


@memoize
def _of_sides(sources: Shardings, targets: Shardings, cut: _Cut) -> tuple[Seconds, Seconds]:
    """Which part of what it needs in a target a side lacks at least whose devices have what they do in a source, and
    into how many parts targets are split between sides.
    """
    before, after = lying_of(sources), lying_of(targets)
    shared = np.array(
        [[1 / cut.sides(subtract_axes(one, common_prefix(one, other))) for other in after.axes] for one in before.axes]
    ).reshape(len(before.axes), len(after.axes))
    lacking: Seconds = 1 - shared[before.numbers[:, None], after.numbers[None]].prod(axis=2)
    needs: Seconds = np.array([cut.sides(axes) for axes in after.axes], dtype=float)[after.numbers].prod(axis=1)
    return lacking, needs


def _is_even(sources: Shardings, targets: Shardings) -> bool:
    """Whether all layouts are of one mesh, and of even parts."""
    mesh, is_even = sources[0].mesh, lying_of(sources).is_even and lying_of(targets).is_even
    return is_even and all(layout.mesh == mesh for layout in (*sources, *targets))

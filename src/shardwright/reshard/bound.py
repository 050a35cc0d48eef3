"""What no plan goes below, told from shapes and shardings without a search.

>>> from shardwright.mesh import Mesh
>>> mesh = Mesh(x=4, y=2)
>>> source = TensorSharding.of(mesh, [["y"], []], partial=["x"])
>>> least_cost((16, 16), 4, source, TensorSharding.of(mesh, [[], []]))[:2]
(1280.0, 2)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import axes_size
from shardwright.cost.price import Cost
from shardwright.cost.rates import bits_of
from shardwright.cost.torus import Torus
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes

__all__ = ["least_cost", "least_of_sums", "least_over_links"]


def least_cost(shape: tuple[int, ...], element_bytes: int, source: TensorSharding, target: TensorSharding) -> Cost:
    """The least that a device sends, and starts, to bring a tensor from `source` to `target`; nothing where unknown.

    What a device comes to hold more than it does it must receive, in a gather. An element with `n` contributions is
    sent `n − 1` times until it is whole, in a reduction, and once for each further device that needs it; and what
    devices receive others send, all of them alike.

    Arguments:
        shape: The whole tensor's, in elements.
        element_bytes: Bytes of one element.
        source: How the tensor lies.
        target: How it shall lie; partial along axes of the source's partial ones at most.
    """
    held, needed = local_bytes(shape, element_bytes, source), local_bytes(shape, element_bytes, target)
    if not source.partial:
        return Cost(float(max(0, needed - held)), int(needed > held))
    staying = axes_size(target.partial_axes)
    contributions = axes_size(source.partial_axes) // staying
    sent, starts = float(max(0, needed - held)), int(needed > held)
    if contributions > 1:
        total = math.prod(shape) * element_bytes * staying
        sent = max(sent, needed + total * (contributions - 2) / source.mesh.size)
        starts += 1
    return Cost(sent, starts)


def least_over_links(
    shape: tuple[int, ...],
    element_bytes: int,
    source: TensorSharding,
    target: TensorSharding,
    torus: Torus,
    idle: bool,
) -> float:
    """The bytes that go over the busiest link of a device at least, where what neither side uses helps, or not: see
    `cost.rates`; nothing where unknown.
    """
    bits, mesh = bits_of(source.mesh, torus), source.mesh
    used, needed, made, staying = source.used_axes, target.used_axes, source.partial_axes, target.partial_axes
    if bits is None or not bits.rates.is_bounded or mesh != target.mesh or staying:
        return 0.0
    if not bits.tells((*used, *needed, *made)):
        return 0.0
    places = [bits.behind(*pair) for pair in zip(source.axes, target.axes, strict=True)]
    at_hand = None if idle else bits.of((*used, *needed, *made))
    whole = float(math.prod(shape) * element_bytes)
    return bits.rates.least(bits.of(used), bits.of(needed), bits.of(made), places, whole, at_hand)


def least_of_sums(
    held: NDArray[np.float64],
    needed: NDArray[np.float64],
    contributions: NDArray[np.intp] | int,
    whole: NDArray[np.floating] | float,
    devices: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`least_cost` of parts of a sum in many layouts: bytes sent, and starts.

    Arguments:
        held: What a device holds in the layouts that they are in, in bytes.
        needed: And in those that they shall be in.
        contributions: How many of them each element of what is made is of, by both layouts.
        whole: All bytes of that: a tensor's, as often as it stays partial in the latter.
        devices: How many there are.
    """
    sent, starts = np.maximum(0.0, needed - held), np.where(needed > held, 1.0, 0.0)
    is_sum, summed = contributions > 1, needed + whole * (contributions - 2) / devices
    return np.where(is_sum, np.maximum(sent, summed), sent), starts + is_sum

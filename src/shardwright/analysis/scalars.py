"""Scalars that each device can compute before the program runs: loop bounds, and the offsets of its slices.

They follow from constants and the device's own id. Everything else, what depends on data, is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwright.analysis.groups import Devices
from shardwright.ir.graph import Graph, Op
from shardwright.ir.opaque import dense_array
from shardwright.mesh import MOST_LISTED

__all__ = ["Scalars"]

_BINARY: dict[str, Callable[[Devices, Devices], Any]] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.minimum": np.minimum,
    "stablehlo.maximum": np.maximum,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
    "stablehlo.shift_right_logical": np.right_shift,
    "stablehlo.shift_left": np.left_shift,
}
_DIVISION: dict[str, Callable[[Devices, Devices], Any]] = {
    "stablehlo.divide": np.floor_divide,
    "stablehlo.remainder": np.remainder,
}
_COMPARE: dict[str, Callable[[Devices, Devices], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_SAME = frozenset(
    {"stablehlo.convert", "stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.optimization_barrier"}
)


class Scalars:
    """The integers that a per-device program computes from constants and device ids alone."""

    def __init__(self, graph: Graph, devices: int) -> None:
        """Prepare for a graph that runs on `devices` devices."""
        self._graph = graph
        self._devices = devices
        self._origin: dict[int, tuple[Op, int]] = {}
        self._carried: dict[int, tuple[Op, int, int]] = {}
        self._known: dict[int, Devices | None] = {}
        for op in graph.walk():
            for number, value in enumerate(op.results):
                self._origin[value] = (op, number)
            if op.name == "stablehlo.while":
                self._enter(op)

    def _enter(self, loop: Op) -> None:
        for region, block in enumerate(loop.regions):
            for number, value in enumerate(block.arguments):
                self._carried[value] = (loop, region, number)

    def origin(self, value: int) -> Op | None:
        """The op that computes `value`, seen through changes of element type and shape; `None` for an argument."""
        while value in self._origin:
            op, number = self._origin[value]
            if op.name not in _SAME or number >= len(op.operands):
                return op
            value = op.operands[number]
        return None

    def argument(self, value: int, loop: Op) -> int | None:
        """The number of the carried value of `loop` that `value` is inside it; `None` for anything else."""
        while value not in self._carried:
            if value not in self._origin or self._origin[value][0].name not in _SAME:
                return None
            op, number = self._origin[value]
            value = op.operands[number]
        carrier, _, number = self._carried[value]
        return number if carrier is loop else None

    def constant(self, value: int) -> int | None:
        """The integer that `value` is on every device, or `None`."""
        numbers = self.per_device(value)
        if numbers is None or not len(numbers) or (numbers != numbers[0]).any():
            return None
        return int(numbers[0])

    def per_device(self, value: int) -> Devices | None:
        """The integer that `value`, of one element, is on each device, or `None` for what depends on data.

        Of too many devices nothing is known.
        """
        if self._devices > MOST_LISTED:
            return None
        if value not in self._known:
            self._known[value] = None  # what leads back to itself is unknown
            if self._graph.types[value].elements == 1:
                self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: int) -> Devices | None:
        if value in self._carried:
            return self._unchanged(*self._carried[value])
        if value not in self._origin:
            return None
        op, number = self._origin[value]
        if op.name in _SAME:
            return self.per_device(op.operands[number])
        if op.name in ("stablehlo.partition_id", "stablehlo.replica_id"):
            return np.arange(self._devices)
        if op.name == "stablehlo.constant":
            return self._everywhere(op)
        if op.name in ("stablehlo.dynamic_slice", "stablehlo.gather"):
            return self._looked_up(op)
        operands = [self.per_device(operand) for operand in op.operands]
        known = [operand for operand in operands if operand is not None]
        return _apply(op, known) if known and len(known) == len(operands) else None

    def _everywhere(self, op: Op) -> Devices | None:
        array = _integers(op)
        return None if array is None else np.full(self._devices, array[0])

    def _looked_up(self, op: Op) -> Devices | None:
        """An element of a constant table of one dimension, at an index known per device."""
        source = self.origin(op.operands[0])
        index = self.per_device(op.operands[1])
        if source is None or source.name != "stablehlo.constant" or index is None or len(op.operands) != 2:
            return None
        table = _integers(source)
        if table is None or source.signature.results[0].elements != max(source.signature.results[0].dims, default=0):
            return None
        return np.asarray(table[np.clip(index, 0, len(table) - 1)])

    def _unchanged(self, loop: Op, region: int, number: int) -> Devices | None:
        """A carried value that the loop's body hands on is what it was before the loop."""
        body = loop.regions[1]
        if self.argument(body.terminator.operands[number], loop) != number:
            return None
        return self.per_device(loop.operands[number])


def _integers(op: Op) -> Devices | None:
    """The elements of an integer constant, in order."""
    text = op.signature.text("value")
    if text is None or not op.signature.results[0].dtype.lstrip("su").startswith("i"):
        return None
    return np.asarray(dense_array(text), dtype=np.int64).reshape(-1)


def _apply(op: Op, operands: Sequence[Devices]) -> Devices | None:
    if op.name in _BINARY:
        return np.asarray(_BINARY[op.name](*operands))
    if op.name in _DIVISION:
        fits = (operands[1] > 0).all() and (operands[0] >= 0).all()
        return np.asarray(_DIVISION[op.name](*operands)) if fits else None
    if op.name == "stablehlo.negate":
        return -operands[0]
    if op.name == "stablehlo.compare":
        return np.asarray(_COMPARE[op.signature.get("comparison_direction")](*operands)).astype(np.int64)
    if op.name == "stablehlo.select":
        return np.where(operands[0] != 0, operands[1], operands[2])
    if op.name == "stablehlo.clamp":
        return np.clip(operands[1], operands[0], operands[2])
    return None

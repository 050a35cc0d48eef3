"""What ops of the `shard` dialect must obey, as functions that the tables of forms put together.

Messages are those of MLIR's verifier where it has one.

Source: the verifiers of MLIR's `shard` dialect (ShardOps.cpp) and the traits that its ops declare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn

from shardwright.errors import ShardingError
from shardwright.notation.forms.form import OpText, Symbols
from shardwright.notation.forms.kinds import DYNAMIC

__all__ = [
    "Check",
    "Tensor",
    "all_of",
    "axes_in_grid",
    "axes_of",
    "dimension",
    "grid_of",
    "group_size",
    "index_results",
    "refuse",
    "shape_of",
    "tensor",
    "tensor_at",
]

Check = Callable[[OpText, Symbols], None]

_TENSOR = re.compile(r"(tensor|memref)\s*<\s*((?:(?:[0-9]{1,18}|\?)\s*x\s*)*)(\*\s*x\s*)?(.*)>", re.DOTALL)


class Tensor(NamedTuple):
    """A tensor or memref type: sizes, `DYNAMIC` where unknown, and the element type."""

    shape: tuple[int, ...]
    element: str


@lru_cache(maxsize=4096)
def tensor(text: str) -> Tensor | None:
    """The parts of a ranked tensor or memref type; nothing for any other type."""
    match = _TENSOR.fullmatch(text)
    if match is None or match[3]:
        return None
    sizes = tuple(DYNAMIC if size == "?" else int(size) for size in re.findall(r"[0-9]+|\?", match[2]))
    return Tensor(sizes, _element(match[4]))


def _element(text: str) -> str:
    """What stands before the first comma outside of brackets: without an encoding or layout."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            return text[:at].strip()
    return text.strip()


def all_of(*checks: Check) -> Check:
    """One check after the other."""

    def verify(op: OpText, symbols: Symbols) -> None:
        for check in checks:
            check(op, symbols)

    return verify


def refuse(op: OpText, message: str, cause: str = "", remedy: str = "") -> NoReturn:
    """Raise for an op, at its position."""
    raise ShardingError(message, op=op.form.name, location=op.position, cause=cause, remedy=remedy)


def grid_of(op: OpText, symbols: Symbols) -> OpText:
    """The op that defines the grid.

    Raises:
        ShardingError: there is none.
    """
    name = op.attributes["grid"]
    if name not in symbols:
        refuse(
            op,
            f'Undefined required grid symbol "{name}".',
            cause=f"grids in this module: {', '.join(f'@{known}' for known in symbols) or 'none'}",
            remedy=f"define it: shard.grid @{name}(shape = …)",
        )
    return symbols[name]


def shape_of(grid: OpText) -> tuple[int, ...]:
    """Sizes of a grid's axes, `DYNAMIC` where unknown; of a `mesh.cluster` also, whose sizes may be left out."""
    if "shape" in grid.attributes:
        return tuple(grid.attributes["shape"])
    sizes = [size if size > 0 else DYNAMIC for size in grid.attributes.get("dim_sizes") or ()]
    return (*sizes, *([DYNAMIC] * min((grid.attributes.get("rank") or 0) - len(sizes), 64)))


def axes_of(op: OpText, symbols: Symbols, name: str = "grid_axes") -> None:
    """The axes in attribute `name` are different axes of the grid."""
    grid = grid_of(op, symbols)
    axes = op.attributes[name]
    if len(set(axes)) != len(axes):
        refuse(
            op,
            "Grid axes contains duplicate elements.",
            cause=f"{list(axes)} has an axis twice",
            remedy="name each axis once",
        )
    axes_in_grid(op, grid, axes)


def axes_in_grid(op: OpText, grid: OpText, axes: Sequence[int]) -> None:
    """Each of the axes is one of the grid."""
    rank = len(shape_of(grid))
    for axis in axes:
        if not 0 <= axis < rank:
            name = grid.attributes["sym_name"]
            refuse(
                op,
                f'0-based grid axis index {axis} is out of bounds. The referenced grid "{name}" is of rank {rank}.',
                cause=f"@{name} is defined at {grid.position}",
                remedy=f"use 0 to {rank - 1}",
            )


def group_size(grid: OpText, axes: Sequence[int]) -> int:
    """Devices in a group over the axes, or `DYNAMIC`."""
    sizes = [shape_of(grid)[axis] for axis in axes]
    return DYNAMIC if DYNAMIC in sizes else math.prod(sizes)


def tensor_at(op: OpText, what: str, type_: str, least: int = 0) -> Tensor:
    """The ranked tensor that operand or result `what` must be, of at least `least` dimensions."""
    ranked = tensor(type_)
    if ranked is None or len(ranked.shape) < least:
        expected = "ranked tensor" if not least else "ranked tensor of at least one dimension"
        refuse(
            op,
            f"'{op.form.name}' op {what} must be {expected}, but got '{type_}'",
            cause="its dimensions say what is communicated",
            remedy="give a tensor type with known rank" if not least else "give a tensor with dimensions",
        )
    return ranked


def dimension(op: OpText, axis: int, rank: int, what: str) -> None:
    """`axis` is a dimension of a tensor of `rank`."""
    if not 0 <= axis < rank:
        refuse(
            op,
            f"{what} axis {axis} is out of bounds [0, {rank}).",
            cause=f"the tensor has {rank} dimensions, counted from 0",
            remedy=f"use 0 to {rank - 1}",
        )


def index_results(op: OpText, expected: int) -> None:
    """There are `expected` results, all of type `index`."""
    if len(op.result_types) != expected:
        refuse(
            op,
            f"Unexpected number of results {len(op.result_types)}. Expected {expected}.",
            cause="there is one for each axis asked for",
            remedy=f"give {expected} types: {', '.join(['index'] * min(expected, 8))}",
        )
    for number, type_ in enumerate(op.result_types):
        if type_ != "index":
            refuse(
                op,
                f"'{op.form.name}' op result #{number} must be index, but got '{type_}'",
                cause="positions and sizes are of type index",
                remedy="write index",
            )

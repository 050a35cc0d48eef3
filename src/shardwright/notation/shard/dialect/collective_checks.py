"""What the collectives of the `shard` dialect must obey: shapes, element types, devices named within a group.

Source: the verifiers of MLIR's `shard` dialect (ShardOps.cpp) and the traits that its collectives declare.
"""

from __future__ import annotations

from shardwright.notation.forms.form import OpText, Symbols
from shardwright.notation.forms.kinds import DYNAMIC
from shardwright.notation.shard.dialect.checks import (
    Check,
    Tensor,
    axes_of,
    dimension,
    grid_of,
    group_size,
    refuse,
    shape_of,
    tensor_at,
)

__all__ = [
    "axes_known",
    "in_group",
    "same_element",
    "same_rank",
    "same_shape",
    "tensors",
    "verify_all_to_all",
    "verify_gather",
    "verify_scatter",
    "verify_shift",
]


def tensors(least: int) -> Check:
    """Operand and result are ranked tensors of at least `least` dimensions."""

    def verify(op: OpText, symbols: Symbols) -> None:
        del symbols
        tensor_at(op, "operand #0", op.operand_types[0], least)
        tensor_at(op, "result #0", op.result_types[0], least)

    return verify


def _both(op: OpText) -> tuple[Tensor, Tensor]:
    return tensor_at(op, "operand #0", op.operand_types[0]), tensor_at(op, "result #0", op.result_types[0])


def same_element(op: OpText, symbols: Symbols) -> None:
    """The element type is kept."""
    del symbols
    source, target = _both(op)
    if source.element != target.element:
        refuse(
            op,
            f"'{op.form.name}' op requires the same element type for all operands and results",
            cause=f"got {source.element} and {target.element}",
            remedy="convert the tensor before or after",
        )


def same_rank(op: OpText, symbols: Symbols) -> None:
    """The number of dimensions is kept."""
    del symbols
    source, target = _both(op)
    if len(source.shape) != len(target.shape):
        refuse(
            op,
            f"'{op.form.name}' op operands and results don't have matching ranks",
            cause=f"got {len(source.shape)} and {len(target.shape)} dimensions",
            remedy="reshape the tensor before or after",
        )


def same_shape(op: OpText, symbols: Symbols) -> None:
    """The shape is kept; an unknown size may stand for any."""
    del symbols
    source, target = (side.shape for side in _both(op))
    pairs = zip(source, target, strict=False)
    if len(source) != len(target) or any(a != b and DYNAMIC not in (a, b) for a, b in pairs):
        refuse(
            op,
            f"'{op.form.name}' op requires the same shape for all operands and results",
            cause=f"got {op.operand_types[0]} and {op.result_types[0]}",
            remedy="give the result the shape of the operand",
        )


def axes_known(op: OpText, symbols: Symbols) -> None:
    """`grid_axes` are different axes of the grid."""
    axes_of(op, symbols)


def in_group(name: str) -> Check:
    """Attribute `name` has an index for each axis of the group, within its size."""

    def verify(op: OpText, symbols: Symbols) -> None:
        device = op.attributes[name]
        if device is None:
            return
        axes = op.attributes["grid_axes"]
        if len(device) != len(axes):
            refuse(
                op,
                f'In-group device "{name}" has unexpected multi-index size {len(device)}. Expected {len(axes)}.',
                cause=f"the group runs over grid axes {list(axes)}",
                remedy="give one index for each of them",
            )
        shape = shape_of(grid_of(op, symbols))
        for at, (index, axis) in enumerate(zip(device, axes, strict=True)):
            if index != DYNAMIC and (index < 0 or (shape[axis] != DYNAMIC and index >= shape[axis])):
                last = shape[axis] - 1 if shape[axis] != DYNAMIC else "?"
                refuse(
                    op,
                    f'Out of bounds coordinate {at} for in-group device "{name}". Got {index}, but expected value in '
                    f"the range [0, {last}].",
                    cause=f"grid axis {axis} has {shape[axis] if shape[axis] != DYNAMIC else '?'} devices",
                    remedy="name a device of the group",
                )

    return verify


def _size(op: OpText, result: Tensor, axis: int, expected: int) -> None:
    """Dimension `axis` of the result has the expected size; an unknown one may stand for any."""
    got = result.shape[axis]
    if got not in (DYNAMIC, expected):
        spelt = "dynamic" if expected == DYNAMIC else expected
        refuse(
            op,
            f"Dimension size mismatch for result axis {axis}. Expected {spelt}, but got {got}.",
            cause=f"it follows from {op.operand_types[0]} and the size of the group",
            remedy=f"write {'?' if expected == DYNAMIC else expected} there",
        )


def _times(a: int, b: int) -> int:
    return DYNAMIC if DYNAMIC in (a, b) else a * b


def _over(a: int, b: int) -> int:
    return DYNAMIC if DYNAMIC in (a, b) else a // b


def _group(op: OpText, symbols: Symbols) -> int:
    return group_size(grid_of(op, symbols), op.attributes["grid_axes"])


def verify_gather(op: OpText, symbols: Symbols) -> None:
    """The result is as large as the group's tensors together along `gather_axis`."""
    source, target = _both(op)
    gathered = op.attributes["gather_axis"]
    dimension(op, gathered, len(target.shape), "Gather")
    size = _group(op, symbols)
    for axis, length in enumerate(source.shape):
        _size(op, target, axis, _times(length, size) if axis == gathered else length)


def verify_scatter(name: str, title: str) -> Check:
    """The result has the group's share along the dimension in attribute `name`, which must divide."""

    def verify(op: OpText, symbols: Symbols) -> None:
        source, target = _both(op)
        scattered = op.attributes[name]
        dimension(op, scattered, len(source.shape), title)
        size = _group(op, symbols)
        for axis, length in enumerate(source.shape):
            if axis != scattered:
                _size(op, target, axis, length)
        length = source.shape[scattered]
        if DYNAMIC not in (length, size) and length % size:
            refuse(
                op,
                f"Operand dimension size {length} is not divisible by collective device group size {size} for tensor "
                f"axis {scattered}.",
                cause="every device gets a slice of the same size",
                remedy=f"pad the dimension to {-(-length // size) * size}",
            )
        _size(op, target, scattered, _over(length, size))

    return verify


def verify_all_to_all(op: OpText, symbols: Symbols) -> None:
    """What the result gains along `concat_axis` it loses along `split_axis`."""
    source, target = _both(op)
    split, concat = op.attributes["split_axis"], op.attributes["concat_axis"]
    dimension(op, split, len(source.shape), "Split")
    dimension(op, concat, len(source.shape), "Concat")
    size = _group(op, symbols)
    expected = list(source.shape)
    if split != concat:
        expected[concat] = _times(source.shape[concat], size)
        uneven = DYNAMIC not in (source.shape[split], size) and source.shape[split] % size
        expected[split] = DYNAMIC if uneven else _over(source.shape[split], size)
    for axis in dict.fromkeys((*(a for a in range(len(expected)) if a not in (split, concat)), concat, split)):
        _size(op, target, axis, expected[axis])


def verify_shift(op: OpText, symbols: Symbols) -> None:
    """The axis shifted along is one of the group's."""
    del symbols
    axis, axes = op.attributes["shift_axis"], op.attributes["grid_axes"]
    if axis not in axes:
        refuse(
            op,
            f"Invalid shift axis {axis}. It must be one of the grouping grid axes.",
            cause=f"the group runs over grid axes {list(axes)}",
            remedy="shift along one of them, or add the axis to grid_axes",
        )

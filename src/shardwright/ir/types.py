"""Types of values, as plain Python."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.memo import Hashed, memoize, once

__all__ = ["TensorType", "bit_width", "static_type"]

_TENSOR = re.compile(r"^tensor<((?:\d+x)*)([a-zA-Z!][^,]*)>$")


@dataclass(frozen=True, eq=False)
class TensorType(Hashed):
    """A ranked tensor of static shape, or, with `shape` `None`, any other type kept as its text (`!stablehlo.token`).

    Attributes:
        shape: Sizes in elements, or `None` for a type that is not a tensor.
        dtype: MLIR's element type (`f32`, `i1`, `ui8`, `complex<f32>`), or the whole text of a non-tensor.
    """

    shape: tuple[int, ...] | None
    dtype: str

    @classmethod
    def parse(cls, text: str) -> TensorType:
        """From MLIR's text; what is not a plain static tensor is kept as text."""
        return _parse(text)

    @property
    def is_tensor(self) -> bool:
        """Whether this is a tensor of static shape."""
        return self.shape is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether this is a tensor of which not every size is known; only passes over modules meet any."""
        return self.shape is None and self.dtype.startswith("tensor<")

    @once
    def dims(self) -> tuple[int, ...]:
        """The shape; empty for what is not a tensor."""
        return self.shape or ()

    @once
    def rank(self) -> int:
        """Number of dimensions; 0 for what is not a tensor."""
        return len(self.dims)

    @once
    def elements(self) -> int:
        """Number of elements (1 for a scalar, 0 for what is not a tensor)."""
        return math.prod(self.shape) if self.shape is not None else 0

    @once
    def bytes(self) -> int:
        """Size in bytes, sub-byte elements counted as one byte each (as XLA lays them out)."""
        return self.elements * max(1, bit_width(self.dtype) // 8)

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type at another shape."""
        return self if shape == self.shape else _of_shape(self.dtype, shape)

    def __str__(self) -> str:
        """MLIR's text."""
        if self.shape is None:
            return self.dtype
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.dtype}>"


@memoize
def _of_shape(dtype: str, shape: tuple[int, ...]) -> TensorType:
    return TensorType(shape, dtype)


@memoize
def _parse(text: str) -> TensorType:
    match = _TENSOR.match(text)
    if match is None:
        return TensorType(None, text)
    sizes = match.group(1)
    return TensorType(tuple(int(size) for size in sizes.split("x")[:-1]) if sizes else (), match.group(2))


@memoize
def bit_width(dtype: str) -> int:
    """Bits of one element: `f32` → 32, `complex<f32>` → 64, `i1` → 1; 0 where the type has no size."""
    inner = re.match(r"complex<(.*)>$", dtype)
    if inner:
        return 2 * bit_width(inner.group(1))
    match = re.match(r"(?:f|bf|i|ui|si|tf)(\d+)", dtype)
    return int(match.group(1)) if match else 0


def static_type(handle: object) -> TensorType:
    """The type of a value from MLIR's own.

    Raises:
        ShardingError: it is a tensor whose shape is not known, or no single tensor.
    """
    text = str(handle)
    type = TensorType.parse(text)
    if not type.is_tensor and text.startswith(("tensor<", "tuple<", "memref<")):
        raise ShardingError(
            f"type {text} is not a tensor of static shape",
            cause="dynamic and bounded shapes, tensor encodings and tuples are not supported",
            remedy="pass its values one by one"
            if text.startswith("tuple<")
            else "lower the program with concrete shapes",
        )
    return type

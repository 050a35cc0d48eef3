"""Convolutions whose windows are of one element, as XLA would take them for products of another order.

XLA's simplifier makes a product of such a convolution, and reads its rows as those of the result, once image and result
have one layout in memory, features last (`SimplifyConvToDot` of its `AlgebraicSimplifier`, which XLA:CPU runs). It does
not ask whether batch and spatial dimensions stand in one order in both: where they do not, rows change places. A
convolution comes to be like this when an image is padded beforehand. So it is written in the order of the image, and
its result transposed.

Source: `xla/hlo/transforms/simplifiers/algebraic_simplifier.cc`.
"""

from __future__ import annotations

import re

from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.convolution import convolution_windows, dimension_letters

__all__ = ["append_in_order", "is_out_of_order"]

_RESULT = re.compile(r"->\[[^\]]*\]")


def is_out_of_order(signature: Signature) -> bool:
    """Whether an op is such a convolution: its result has batch and spatial dimensions in another order."""
    if signature.name != "stablehlo.convolution":
        return False
    image, _, out = dimension_letters(signature.text("dimension_numbers") or "")
    if [letter for letter in image if letter != "f"] == [letter for letter in out if letter != "f"]:
        return False
    return all(windows.size == 1 for windows in convolution_windows(signature))


def append_in_order(ctx: Builder, signature: Signature, image: int, kernel: int) -> tuple[int, ...]:
    """Append the convolution with its result in the order of the image, and that transposed."""
    numbers = signature.text("dimension_numbers") or ""
    letters, _, out = dimension_letters(numbers)
    (result,) = signature.results
    type = TensorType(tuple(result.dims[out.index(letter)] for letter in letters), result.dtype)
    ordered = signature.replace(
        dimension_numbers=_RESULT.sub(f"->[{', '.join(letters)}]", numbers),
        results=(type,),
    )
    (value,) = ctx.append(ordered, (image, kernel))
    permutation = i64_array([letters.index(letter) for letter in out])
    return (ctx.emit("transpose", (value,), result, {"permutation": permutation}),)

"""Convolutions whose windows take the kernel the other way round, as XLA would compile them wrongly.

Where a kernel has more positions than the image, XLA's simplifier lets the two change places (`SwapConvOperands` of its
`AlgebraicSimplifier`, which XLA:CPU runs). It leaves a dimension as it is in which each position of the kernel meets
one row of the image, in order, as it writes groups: windows of `n` rows, `n - 1` apart, on rows `n` apart. It supposes
the image to have `n` rows there. Where it has not, the window is not that of the new kernel, and a check of XLA ends
the process: "Window dimensions do not match RHS shape". The gradient of a kernel whose image keeps few rows on each
device is such a convolution. Windows that are reversed XLA takes for no groups, so the kernel is reversed as well.

Where one window is all of an image, from one feature to one, XLA adds up products, of the kernel as it is: it loses
that the window is reversed, and the result is another. A device that fetches the rows of its one window has such a
convolution. Its window goes forwards, over a kernel that is reversed.

Source: `xla/hlo/transforms/simplifiers/algebraic_simplifier.cc`.
"""

from __future__ import annotations

from math import prod

from shardwright.ir.attributes import bools, i64_array
from shardwright.ir.signature import Signature
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.unit_windows import append_in_order, is_out_of_order
from shardwright.rules.convolution import convolution_dims, convolution_windows
from shardwright.rules.sliding import Sliding

__all__ = ["append_convolution"]


def append_convolution(ctx: Local, signature: Signature, image: int, kernel: int) -> tuple[int, ...]:
    """Append the convolution of one device; where XLA would fail at it, with windows and kernel turned round."""
    if is_out_of_order(signature):
        return append_in_order(ctx, signature, image, kernel)
    if _fails(signature):
        return _turned(ctx, signature, image, kernel, is_reversed=True)
    if _loses_reversals(signature):
        return _turned(ctx, signature, image, kernel, is_reversed=False)
    return ctx.append(signature, (image, kernel))


def _turned(ctx: Local, signature: Signature, image: int, kernel: int, is_reversed: bool) -> tuple[int, ...]:
    """The convolution with all windows reversed, or none, and the kernel so along those that it changes."""
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    changed = [
        rhs for (_, rhs, _), reverse in zip(spatial, _reversals(signature), strict=True) if reverse != is_reversed
    ]
    turned = ctx.emit("reverse", (kernel,), ctx.type(kernel), {"dimensions": i64_array(changed)})
    return ctx.append(signature.replace(window_reversal=bools([is_reversed] * len(spatial))), (image, turned))


def _loses_reversals(signature: Signature) -> bool:
    """Whether one window is all of the image, reversed along some dimension, from one feature to one."""
    if not any(_reversals(signature)):
        return False
    image, spatial = signature.operands[0].dims, convolution_dims(signature.text("dimension_numbers") or "").spatial
    windows, kernel = convolution_windows(signature), signature.operands[1]
    is_whole = all(one == Sliding(image[lhs], 1, 0, 0, 1, 1) for one, (lhs, _, _) in zip(windows, spatial, strict=True))
    return is_whole and kernel.elements == prod(one.size for one in windows)


def _fails(signature: Signature) -> bool:
    """Whether XLA exchanges image and kernel and takes a dimension for groups that holds none."""
    if signature.get("feature_group_count", 1) > 1 or signature.get("batch_group_count", 1) > 1:
        return False
    image, spatial = signature.operands[0].dims, convolution_dims(signature.text("dimension_numbers") or "").spatial
    rows = [image[lhs] for lhs, _, _ in spatial]
    dims = list(zip(convolution_windows(signature), rows, _reversals(signature), strict=True))
    exchanged = [(windows, rows) for windows, rows, reverse in dims if reverse or not _is_kept(windows, rows)]
    is_exchanged = prod(windows.size for windows, _ in exchanged) > prod(_size(*one) for one in exchanged)
    is_taken = any(not reverse and _is_like_groups(windows) and windows.size != rows for windows, rows, reverse in dims)
    return is_exchanged and is_taken


def _reversals(signature: Signature) -> tuple[bool, ...]:
    windows = convolution_windows(signature)
    return signature.get("window_reversal") or (False,) * len(windows)


def _is_kept(windows: Sliding, rows: int) -> bool:
    """Whether XLA leaves a dimension as it is: groups, as it thinks, or one window of all rows."""
    is_whole = windows == Sliding(rows, 1, 0, 0, 1, 1)
    return is_whole or _is_like_groups(windows)


def _is_like_groups(windows: Sliding) -> bool:
    return windows == Sliding(windows.size, windows.size - 1, 0, 0, base=windows.size, within=1)


def _size(windows: Sliding, rows: int) -> int:
    """Positions along a dimension of the image, as XLA counts them: one row that every window meets costs nothing."""
    is_met_once = windows == Sliding(windows.size, 1, windows.size - 1, windows.size - 1, windows.base, 1)
    return windows.size if rows == 1 and is_met_once else rows

"""Convolutions: batch, features and groups are split apart; along spatial dimensions devices fetch what windows share.

Outside of the operand there are zeros, so a device pads nothing along a split spatial dimension: it fetches them, too.
The kernel has its windows whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardwright.axes import Axes, axes_size, is_prefix, merge_axes, truncate_by_divisor
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array, i64_tensor, integer
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_partial
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.partition.localize.sliding import Slid, fetch_all, sends_all, slides
from shardwright.rules.convolution import convolution_dims, convolution_windows
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


def _shared(signature: Signature) -> tuple[tuple[int, int], ...]:
    """Spatial dimensions of the image and of the result that can be split alike."""
    image, out = signature.operands[0].dims, signature.results[0].dims
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    return tuple((dim, result) for dim, _, result in spatial if image[dim] and out[result])


def _along_windows(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors of spatial dimensions along which the result is split as the image is."""
    pairs = [(rule.operands[0][dim][0], rule.results[0][out]) for dim, out in _shared(signature)]
    return frozenset(factor for factor, factors in pairs if factors == (factor,))


def _apart(signature: Signature, rule: ShardingRule, splittable: frozenset[int]) -> frozenset[int]:
    """Batch and features, in groups or not, and what windows slide along; not what is within them."""
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    batch = frozenset(rule.operands[0][dims.lhs_batch]) & frozenset(rule.results[0][dims.out_batch])
    features = batch.union(rule.operands[0][dims.lhs_feature], rule.results[0][dims.out_feature])
    return splittable & (features | _along_windows(signature, rule))


@memoize
def _plan(signature: Signature, sharding: TensorSharding) -> tuple[Slid, ...]:
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    pairs = zip(spatial, convolution_windows(signature), strict=True)
    dims = ((dim, out, windows) for (dim, _, out), windows in pairs)
    return slides(signature.operands[0], signature.results[0], sharding, dims)


@exchanges("stablehlo.convolution", factors=_along_windows)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    image, sharding = signature.operands[0], operands[0]
    return sends_all(local_type(image, sharding), sharding, _plan(signature, sharding))


@localizer("stablehlo.convolution", covered=_apart)
def _convolution(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """With groups split apart each device has its share of them; split input features leave a partial sum."""
    image, kernel, out = dimension_letters(signature.text("dimension_numbers") or "")
    _require_whole_windows(signature, source, target[0])
    kernel_in, kernel_out = _axes(source[1], kernel, "i"), _axes(source[1], kernel, "o")
    if kernel_out != _axes(target[0], out, "f"):
        raise ShardingError(f"a convolution of features split as {source[1]!r} gives no {target[0]!r}")
    require_partial("a convolution", kernel_in, "sum", target[0])
    features = _split(signature, "feature_group_count", _axes(source[0], image, "f"), kernel_in, kernel_out)
    batch = _split(signature, "batch_group_count", _axes(source[0], image, "b"), _axes(target[0], out, "b"), kernel_out)
    if features is None:
        raise _unfit(signature, "feature_group_count", f"features split as {source[0]!r} and {source[1]!r}")
    if batch is None:
        raise _unfit(signature, "batch_group_count", f"a batch split as {source[0]!r} and {target[0]!r}")
    slid = _plan(signature, source[0])
    values = (fetch_all(ctx, operands[0], source[0], slid), operands[1])
    local = local_signature(signature, source, target).replace(
        operands=tuple(map(ctx.type, values)),
        feature_group_count=features,
        batch_group_count=batch,
    )
    return ctx.append(_padded(local, slid) if slid else local, values)


def _padded(signature: Signature, slid: Sequence[Slid]) -> Signature:
    """A convolution with what is left to it of padding and dilation, along dimensions of which a window is fetched."""
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    numbers = {dim: number for number, (dim, _, _) in enumerate(spatial)}
    windows = convolution_windows(signature)
    padding, bases = [(one.low, one.high) for one in windows], [one.base for one in windows]
    for one in slid:
        padding[numbers[one.dim]], bases[numbers[one.dim]] = (one.low, one.high), one.base
    return signature.replace(padding=i64_tensor(padding), lhs_dilation=i64_array(bases))


def _split(signature: Signature, name: str, grouped: Axes, inner: Axes, outputs: Axes) -> str | None:
    """How many groups each device has, as an attribute; `None` where the dimensions that hold them do not fit.

    Arguments:
        signature: The convolution.
        name: The attribute that counts them.
        grouped: The axes of the dimension of the lhs that holds the groups, and in each group the `inner` dimension.
        inner: The axes of that.
        outputs: The axes of the output features, which lie in the same groups.
    """
    groups: int = signature.get(name, 1)
    apart = truncate_by_divisor(grouped, groups)
    if axes_size(apart) == groups:  # each device is within one group, and may have a part of it
        fits = merge_axes((*apart, *inner)) == grouped and is_prefix(apart, outputs)
    else:
        fits = apart == grouped == outputs and not inner
    return integer(groups // axes_size(apart)) if fits else None


def _unfit(signature: Signature, name: str, operands: str) -> ShardingError:
    groups: int = signature.get(name, 1)
    return ShardingError(
        f"a convolution{f' of {groups} groups' if groups > 1 else ''} cannot be computed in parts of {operands}",
        remedy="split both alike, groups evenly, or gather them before the op",
    )


def dimension_letters(text: str) -> tuple[list[str], list[str], list[str]]:
    """`#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>` as its three lists."""
    parts = re.findall(r"\[([^\]]*)\]", text)
    first, second, third = ([letter.strip() for letter in part.split(",")] for part in parts[:3])
    return first, second, third


def _axes(sharding: TensorSharding, letters: list[str], letter: str) -> Axes:
    return wide(sharding.axes[letters.index(letter)])


def _require_whole_windows(signature: Signature, source: Shardings, target: TensorSharding) -> None:
    """Check that the image and the result are split alike along spatial dimensions, and the kernel not at all."""
    image, kernel = source
    shared = _shared(signature)
    for dim, window, out in convolution_dims(signature.text("dimension_numbers") or "").spatial:
        alike = wide(image.axes[dim]) == wide(target.axes[out])
        together = (dim, out) in shared or not is_split(image.axes[dim])
        if is_split(kernel.axes[window]) or not alike or not together:
            raise ShardingError(
                f"a convolution cannot be computed in parts of spatial dimensions split as {image!r} and {kernel!r}, "
                f"to give {target!r}",
                remedy="split those of the image and the result alike, and gather those of the kernel",
            )

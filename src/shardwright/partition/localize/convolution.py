"""Convolutions: batch, features and groups are split apart; along spatial dimensions devices fetch what windows share.

Outside of the operand there are zeros, so a device pads nothing along a split spatial dimension: it fetches them, too.
They are multiplied, as StableHLO has it: where an infinite element of a kernel meets them, the sum is NaN. XLA:CPU
leaves them out of convolutions of f64 and of most dilated images, and gives the sum of what is left.

Either windows are shared out, and the kernel is whole along the dimension, or a kernel of more elements than there are
windows, as in the gradient of a kernel: then each device has a part of it and what that meets of the image. The few
windows of such a kernel can be shared out as well: each device cuts what its own take of what is there for
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from shardwright.axes import Axes, AxisRef, axes_size, is_prefix, merge_axes, truncate_by_divisor
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array, i64_tensor, integer
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_partial
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.partition.localize.shifts import edged, resized
from shardwright.partition.localize.sliding import Slid, fetch_all, sends_all, slides
from shardwright.partition.localize.window_reversals import append_convolution
from shardwright.rules.convolution import convolution_dims, convolution_windows, dimension_letters
from shardwright.rules.registry import known_rule
from shardwright.rules.rule import ShardingRule, factors_in
from shardwright.rules.sliding import Sliding
from shardwright.sharding import TensorSharding

__all__ = ["few_windows"]

_Left: TypeAlias = dict[int, tuple[int, int, int]]
"""By dimension of the image the padding in front and behind, and the dilation, that are left to a convolution."""


@dataclass(frozen=True, slots=True)
class _Spatial:
    """A spatial dimension: its numbers in the image, the kernel and the result, and how windows slide along it.

    Attributes:
        image: Number of the image's dimension.
        kernel: Of the kernel's.
        out: Of the result's.
        windows: The windows.
        count: How many there are.
        reversed: Whether they take the kernel from its end.
        empty: Whether there is nothing to slide along, or nothing that does.
    """

    image: int
    kernel: int
    out: int
    windows: Sliding
    count: int
    reversed: bool
    empty: bool

    @property
    def is_cut(self) -> bool:
        """Whether the part of a whole image that some of the windows take is one of its padded rows."""
        return not self.empty and self.count > 1 and self.windows.base == 1


@memoize
def _spatial(signature: Signature) -> tuple[_Spatial, ...]:
    triples = convolution_dims(signature.text("dimension_numbers") or "").spatial
    image, out = signature.operands[0].dims, signature.results[0].dims
    reversal = signature.get("window_reversal") or (False,) * len(triples)
    return tuple(
        _Spatial(*triple, windows, out[triple[2]], reverse, not (image[triple[0]] and windows.size and out[triple[2]]))
        for triple, windows, reverse in zip(triples, convolution_windows(signature), reversal, strict=True)
    )


def _windowed(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors of spatial dimensions along which the image and the result are split alike, or it and the kernel."""
    factors: set[int] = set()
    for one in _spatial(signature):
        major, *_ = rule.operands[0][one.image]
        along = rule.results[0][one.out] == (major,)
        within = rule.operands[1][one.kernel] == (major,) and not one.reversed
        if (along or within) and not one.empty:
            factors.add(major)
    return frozenset(factors)


def few_windows(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors of windows alone, along which the image is whole: those that are fewer than elements of a kernel."""
    held = factors_in((*rule.operands[0], *rule.operands[1]))
    dims = [rule.results[0][one.out] for one in _spatial(signature) if one.is_cut]
    return frozenset(factor for factor, *minor in dims if not minor and factor not in held)


def _with_few_windows(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """The rule with the sizes of `few_windows`, which shardings do not propagate along: nothing else has them."""
    sizes, out = list(rule.sizes), signature.results[0].dims
    alone = few_windows(signature, rule)
    for size, factors in zip(out, rule.results[0], strict=True):
        if alone.issuperset(factors):
            sizes[factors[0]] = size
    return replace(rule, sizes=tuple(sizes))


def _apart(signature: Signature, rule: ShardingRule, splittable: frozenset[int]) -> frozenset[int]:
    """Batch and features, in groups or not, what windows slide along, and large kernels."""
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    batch = frozenset(rule.operands[0][dims.lhs_batch]) & frozenset(rule.results[0][dims.out_batch])
    features = batch.union(rule.operands[0][dims.lhs_feature], rule.results[0][dims.out_feature])
    return splittable & (features | _windowed(signature, rule) | few_windows(signature, rule))


@memoize
def _plan(signature: Signature, image: TensorSharding, kernel: TensorSharding) -> tuple[Slid, ...]:
    dims = [
        (one.image, one.windows.size, one.windows.turned(one.count))
        if is_split(kernel.axes[one.kernel])
        else (one.image, one.count, one.windows)
        for one in _spatial(signature)
    ]
    return slides(signature.operands[0], image, dims)


@exchanges("stablehlo.convolution", factors=_windowed)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    image = operands[0]
    return sends_all(local_type(signature.operands[0], image), image, _plan(signature, *operands))


@localizer("stablehlo.convolution", covered=_apart, in_parts=_with_few_windows)
def _convolution(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """With groups split apart each device has its share; split input features and large kernels leave a partial sum."""
    image, kernel, out = dimension_letters(signature.text("dimension_numbers") or "")
    summed = _split_kernel(signature, source, target[0])
    kernel_in, kernel_out = _axes(source[1], kernel, "i"), _axes(source[1], kernel, "o")
    if kernel_out != _axes(target[0], out, "f"):
        raise ShardingError(f"a convolution of features split as {source[1]!r} gives no {target[0]!r}")
    require_partial("a convolution", (*kernel_in, *summed), "sum", target[0])
    features = _split(signature, "feature_group_count", _axes(source[0], image, "f"), kernel_in, kernel_out)
    batch = _split(signature, "batch_group_count", _axes(source[0], image, "b"), _axes(target[0], out, "b"), kernel_out)
    if features is None:
        raise _unfit(signature, "feature_group_count", f"features split as {source[0]!r} and {source[1]!r}")
    if batch is None:
        raise _unfit(signature, "batch_group_count", f"a batch split as {source[0]!r} and {target[0]!r}")
    slid = _plan(signature, *source)
    fetched = fetch_all(ctx, operands[0], source[0], slid)
    left = {one.dim: (one.low, one.high, one.base) for one in slid}
    values = (_cut(ctx, signature, fetched, source, target[0], left), operands[1])
    local = local_signature(signature, source, target).replace(
        operands=tuple(map(ctx.type, values)),
        feature_group_count=features,
        batch_group_count=batch,
    )
    return append_convolution(ctx, _padded(local, left) if left else local, *values)


def _cut(ctx: Local, signature: Signature, image: int, source: Shardings, target: TensorSharding, left: _Left) -> int:
    """Of an image that lies alike for all windows, what this device's take, where these are split along a dimension.

    Arguments:
        ctx: Where to write.
        signature: The convolution.
        image: The image, along split dimensions what was fetched.
        source: How image and kernel lie.
        target: How the result shall lie.
        left: What is left to the convolution along dimensions that were fetched; nothing is along those cut.
    """
    for one in _spatial(signature):
        axes, within = target.axes[one.out], source[1].axes[one.kernel]
        if not is_split(axes) or (is_split(source[0].axes[one.image]) and not is_split(within)):
            continue
        count, windows = one.count // axes_size(axes), one.windows
        low, high, _ = left.get(one.image, (windows.low, windows.high, 1))
        left[one.image] = (0, 0, 1)
        image = edged(ctx, image, one.image, low, high)
        type = ctx.type(image)
        start, zero = ctx.offset(axes, count * windows.stride, target.mesh), ctx.constant(0, TensorType((), "i32"))
        size = (count - 1) * windows.stride + replace(windows, size=windows.size // axes_size(within)).reach
        starts = [start if dim == one.image else zero for dim in range(type.rank)]
        image = ctx.dynamic_slice(image, starts, resized(type, one.image, size).dims)
    return image


def _padded(signature: Signature, left: _Left) -> Signature:
    """A convolution with what is left to it along some dimensions of the image."""
    padding, bases = [], []
    for one in _spatial(signature):
        low, high, base = left.get(one.image, (one.windows.low, one.windows.high, one.windows.base))
        padding.append((low, high))
        bases.append(base)
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


def _axes(sharding: TensorSharding, letters: list[str], letter: str) -> Axes:
    return wide(sharding.axes[letters.index(letter)])


def _split_kernel(signature: Signature, source: Shardings, target: TensorSharding) -> Axes:
    """The axes that split spatial dimensions of the kernel, where all are split so that parts can be computed.

    Raises:
        ShardingError: they are not.
    """
    image, kernel = source
    summed: list[AxisRef] = []
    rule = known_rule(signature)
    assert rule is not None, "of a convolution"
    few = few_windows(signature, rule)
    for one in _spatial(signature):
        axes = wide(image.axes[one.image])
        within = wide(kernel.axes[one.kernel])
        along = wide(target.axes[one.out])
        summed += within
        is_cut = not along or few.issuperset(rule.results[0][one.out])
        together = is_cut and within == axes and not one.reversed if within else along == axes or (is_cut and not axes)
        if not together or (one.empty and axes):
            raise ShardingError(
                f"a convolution cannot be computed in parts of spatial dimensions split as {image!r} and {kernel!r}, "
                f"to give {target!r}",
                remedy="split those of the image as the result's or the kernel's, or gather them before the op",
            )
    return tuple(summed)

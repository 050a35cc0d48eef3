"""Convolutions: batch, features and groups may be split, windows may not slide across shards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardwright.axes import Axes, axes_size, is_prefix, merge_axes, truncate_by_divisor
from shardwright.errors import ShardingError
from shardwright.ir.attributes import integer
from shardwright.ir.signature import Signature
from shardwright.partition.localize.checks import is_split, require_partial
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, localizer, rebuild
from shardwright.rules.convolution import convolution_dims
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


def _outside_windows(signature: Signature, rule: ShardingRule, splittable: frozenset[int]) -> frozenset[int]:
    """Windows reach into neighbouring shards; batch and features, in groups or not, do not."""
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    batch = frozenset(rule.operands[0][dims.lhs_batch]) & frozenset(rule.results[0][dims.out_batch])
    return splittable & batch.union(rule.operands[0][dims.lhs_feature], rule.results[0][dims.out_feature])


@localizer("stablehlo.convolution", covered=_outside_windows)
def _convolution(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """With groups split apart each device has its share of them; split input features leave a partial sum."""
    image, kernel, out = dimension_letters(signature.text("dimension_numbers") or "")
    for letters, sharding in ((image, source[0]), (kernel, source[1]), (out, target[0])):
        _require_whole_windows(letters, sharding)
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
    local = signature.replace(feature_group_count=features, batch_group_count=batch)
    return rebuild(ctx, local, operands, source, target)


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


def _require_whole_windows(letters: list[str], sharding: TensorSharding) -> None:
    for letter, axes in zip(letters, sharding.axes, strict=True):
        if letter.isdigit() and is_split(axes):
            raise ShardingError(
                f"a convolution needs its spatial dimensions whole, but has {sharding!r}",
                remedy="gather the dimension before the op",
            )

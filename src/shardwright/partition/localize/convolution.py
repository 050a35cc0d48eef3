"""Convolutions: batch, features and groups may be split, windows may not slide across shards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardwright.axes import Axes, axes_size
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
    """Windows reach into neighbouring shards. With feature or batch groups only a plain batch stays split: the group
    counts are attributes of the whole.
    """
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    if signature.get("batch_group_count", 1) > 1:
        return frozenset()
    batch = frozenset(rule.operands[0][dims.lhs_batch]) & frozenset(rule.results[0][dims.out_batch])
    if signature.get("feature_group_count", 1) > 1:
        return splittable & batch
    inputs, outputs = rule.operands[0][dims.lhs_feature], rule.results[0][dims.out_feature]
    return splittable & (batch | set(inputs) | set(outputs))


@localizer("stablehlo.convolution", covered=_outside_windows)
def _convolution(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """With groups split apart each device has its share of them; split input features leave a partial sum."""
    image, kernel, out = dimension_letters(signature.text("dimension_numbers") or "")
    for letters, sharding in ((image, source[0]), (kernel, source[1]), (out, target[0])):
        _require_whole_windows(letters, sharding)
    batch, features = _axes(source[0], image, "b"), _axes(source[0], image, "f")
    kernel_in, kernel_out = _axes(source[1], kernel, "i"), _axes(source[1], kernel, "o")
    groups = signature.get("feature_group_count", 1), signature.get("batch_group_count", 1)
    if groups[0] > 1:
        fits = features == kernel_out and not kernel_in
        signature = _share(signature, "feature_group_count", features, fits)
    elif groups[1] > 1:
        fits = batch == kernel_out and features == kernel_in
        signature = _share(signature, "batch_group_count", batch, fits)
    elif features != kernel_in:
        raise ShardingError(f"a convolution needs its features split alike: {source[0]!r} and {source[1]!r}")
    else:
        require_partial("a convolution", features, "sum", target[0])
    if groups[1] == 1 and batch != _axes(target[0], out, "b"):
        raise ShardingError(f"a convolution of a batch split as {source[0]!r} gives no {target[0]!r}")
    if kernel_out != _axes(target[0], out, "f"):
        raise ShardingError(f"a convolution of features split as {source[1]!r} gives no {target[0]!r}")
    return rebuild(ctx, signature, operands, source, target)


def _share(signature: Signature, name: str, axes: Axes, fits: bool) -> Signature:
    groups: int = signature.get(name)
    parts = axes_size(axes)
    if not fits or groups % parts:
        raise ShardingError(
            f"a convolution of {groups} groups cannot be split into {parts} parts as its operands lie",
            remedy="split the groups evenly, input and output features alike, or gather them",
        )
    pairs = ((key, integer(groups // parts) if key == name else text) for key, text in signature.attributes)
    return Signature(signature.name, tuple(pairs), signature.operands, signature.results)


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

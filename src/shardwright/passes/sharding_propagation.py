"""Upstream MLIR's `sharding-propagation`: `shard.shard` annotations for every operand and result.

Every op is visited once for each direction. Annotations of its results, and those of its operands that are for users,
have to be; the others may be. Of all choices among the latter, the first is taken that lets the op's loops be split
without any reshard, else without one of what has to be, else any. What follows for the other tensors is written down.

Loops are the factors of the op's sharding rule: `linalg` and `tosa` ops have such an interface upstream, here
StableHLO, ops that describe themselves by `indexing_maps`, constants, and all others with a rule. Ops without one, and
those with tensor programs inside, stay as they are.

Source: MLIR's `shard` dialect, passes `-sharding-propagation`, and its ShardingInterface.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.context import ir
from shardwright.ir.ops import INDEXING_MAPS
from shardwright.ir.signature import Signature
from shardwright.passes.module_graph import FunctionPart, read_module_graph
from shardwright.passes.module_ops import error_at
from shardwright.passes.registry import Option, Options, register
from shardwright.passes.shard_annotations import GridSharding, ShardAnnotations, grid_shapes
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.rules.traits import facts_of

__all__: list[str] = []

_TRAVERSALS = {
    "forward": (False,),
    "backward": (True,),
    "forward-backward": (False, True),
    "backward-forward": (True, False),
}
_DESCRIPTION = (INDEXING_MAPS, "iterator_types", "operandSegmentSizes")
_MOST_CHOICES = 4096
"""Combinations of annotations that may be, above which only all of them and none are looked at."""


@register(
    "sharding-propagation",
    "Completes the `shard.shard` annotations of every function, op by op.",
    options=(Option("traversal", "backward-forward", "The order in which ops are visited.", tuple(_TRAVERSALS)),),
    on="func.func",
)
def sharding_propagation(module: ir.Module, options: Options) -> None:
    """Annotate all operands and results that follow from annotations.

    Raises:
        ShardingError: a function of several blocks, or an annotation whose sharding cannot be traced.
    """
    shapes = grid_shapes(module)
    for part in read_module_graph(module).parts:
        annotations = ShardAnnotations(part.handle)
        top = _ops_of(part)
        for backward in _TRAVERSALS[options["traversal"]]:
            for handle, rule in reversed(top) if backward else top:
                _visit(handle, rule, annotations, shapes)


def _ops_of(part: FunctionPart) -> list[tuple[Any, ShardingRule]]:
    """The ops of a function itself that have loops."""
    blocks = part.handle.regions[0].blocks
    if len(blocks) > 1:
        raise error_at(part.handle, "only one block is supported", remedy="write control flow with regions")
    return [
        (handle, rule)
        for handle, op in part.ops
        if handle.parent == part.handle
        and op.results
        and (rule := _loops_of(_described(handle, op.signature))) is not None
    ]


def _described(handle: Any, signature: Signature) -> Signature:
    """The signature with what describes its loops: MLIR does not list properties of ops that it does not know."""
    unseen = [name for name in _DESCRIPTION if name in handle.attributes and signature.text(name) is None]
    attributes: dict[str, Any] = {name: str(handle.attributes[name]) for name in unseen}
    return signature.replace(**attributes) if attributes else signature


def _loops_of(signature: Signature) -> ShardingRule | None:
    if signature.name.startswith(("shard.", "mesh.", "sdy.")):
        return None
    facts = facts_of(signature.name)
    if facts.constant or facts.literal or signature.name == "tensor.empty":
        return _free(signature) if signature.results[0].is_tensor else None
    rule = rule_for(signature)
    if rule is None or rule.custom or signature.text(INDEXING_MAPS) is None:
        return rule
    return replace(rule, need_replication=frozenset(), permutation=frozenset())  # the interface splits any loop


def _free(signature: Signature) -> ShardingRule:
    """Every dimension of what an op without operands makes is a loop."""
    shape = signature.results[0].dims
    return ShardingRule(shape, (), (tuple((dim,) for dim in range(len(shape))),))


def _visit(
    handle: Any, rule: ShardingRule, annotations: ShardAnnotations, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    operands = [annotations.of_use(value) for value in handle.operands]
    results = [annotations.of_result(value) for value in handle.results]
    chosen: list[GridSharding] = []
    least = 3
    for choice in _choices(results, operands):
        grids = {split.grid for split in choice if split is not None}
        if len(grids) > 1:
            continue
        (grid,) = grids
        loops = _LoopAxes(rule, shapes.get(grid, ()))
        if not loops.follow(choice):
            continue
        needed = [GridSharding.of(grid, loops.axes_of(mapping)) for mapping in rule.operands + rule.results]
        kind = annotations.reshards(handle, needed)
        if kind < least:
            chosen, least = needed, kind
        if kind == 0:
            break
    if chosen:
        annotations.write(handle, chosen)


def _choices(
    results: Sequence[tuple[bool, GridSharding] | None], operands: Sequence[tuple[bool, GridSharding] | None]
) -> Iterator[list[GridSharding | None]]:
    """What may be said of an op's operands and results together, in order of preference; never nothing at all."""
    every = [*results, *operands]
    optional = [index for index, entry in enumerate(every) if entry is not None and not entry[0]]
    fixed = [entry[1] if entry is not None and entry[0] else None for entry in every]
    few = 2 ** len(optional) <= _MOST_CHOICES
    kept = (
        product((True, False), repeat=len(optional))
        if few
        else iter([(True,) * len(optional), (False,) * len(optional)])
    )
    for flags in kept:
        splits = list(fixed)
        for index, keep in zip(optional, flags, strict=True):
            entry = every[index]
            splits[index] = entry[1] if entry is not None and keep else None
        if any(split is not None for split in splits):
            yield splits[len(results) :] + splits[: len(results)]


class _LoopAxes:
    """The grid axes that the loops of one op are split along."""

    def __init__(self, rule: ShardingRule, shape: tuple[int, ...]) -> None:
        """No loop is split yet; `shape` is that of the grid, empty where it is not known."""
        self.rule = rule
        self.shape = shape
        self.axes: dict[int, tuple[int, ...]] = {}

    def follow(self, splits: Sequence[GridSharding | None]) -> bool:
        """Split the loops as is said of results, then of operands; whether nothing said contradicts itself."""
        count = len(self.rule.operands)
        mappings = self.rule.operands + self.rule.results
        for index in (*range(count, len(mappings)), *range(count)):
            split = splits[index]
            if split is None:
                continue
            for factors, axes in zip(mappings[index], split.axes, strict=False):
                if not all(self._fill(factor, part) for factor, part in self._dealt(factors, axes)):
                    return False
        return True

    def axes_of(self, mapping: TensorMapping) -> tuple[tuple[int, ...], ...]:
        """How a tensor of the op is split then."""
        dims = []
        for factors in mapping:
            axes: tuple[int, ...] = ()
            for factor in factors:
                mine = self.axes.get(factor, ())
                axes += mine
                if self._ways(mine) != self.rule.sizes[factor]:
                    break
            dims.append(axes)
        return tuple(dims)

    def _fill(self, factor: int, axes: tuple[int, ...]) -> bool:
        """Let a loop have its axes, if it has no others and no other loop has one of them."""
        if self.axes.get(factor) and axes != self.axes[factor]:
            return False
        if any(set(axes) & set(taken) for other, taken in self.axes.items() if other != factor):
            return False
        if not self.axes.get(factor):
            self.axes[factor] = axes
        return True

    def _dealt(self, factors: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """The axes of a dimension by its loops, major first; nothing where a loop that must stay whole is reached."""
        parts: list[tuple[int, tuple[int, ...]]] = []
        rest = list(axes)
        for factor in factors:
            taken = tuple(rest) if len(factors) == 1 else self._fitting(rest, self.rule.sizes[factor])
            if taken and factor in self.rule.need_replication | self.rule.permutation:
                return []
            parts.append((factor, taken))
            rest = rest[len(taken) :]
            if self._ways(taken) != self.rule.sizes[factor]:
                break
        return [] if rest else parts

    def _fitting(self, axes: Sequence[int], size: int) -> tuple[int, ...]:
        """The first axes that divide a loop of this size."""
        count = 0
        while count < len(axes) and self._ways(axes[: count + 1]) and size % self._ways(axes[: count + 1]) == 0:
            count += 1
        return tuple(axes[:count])

    def _ways(self, axes: Sequence[int]) -> int:
        """The number of parts; 0 where it is not known."""
        known = all(0 <= axis < len(self.shape) for axis in axes)
        return math.prod(self.shape[axis] for axis in axes) if known else 0

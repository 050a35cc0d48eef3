"""An op's sharding option: the axes that each of its loops is split along.

Loops are the factors of the op's rule, those of result dimensions in order, then the others (reductions). Axes are
taken from what is said about results, then about operands; what is required comes before what is a hint.

Source: the mesh RFC on LLVM's forum, `ShardingInterface::getShardingOption`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.graph import Op
from shardwright.mesh import Axes, AxisRef, Mesh, overlaps_any, truncate_by_divisor
from shardwright.propagation.projection import project
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["OPTION", "Option", "Said", "loops", "option_of", "preset", "shaped"]

OPTION = "shardwright.option"
"""The attribute by which a program presets an op's option: axes, by position or name, for each loop."""

Option = dict[int, Axes]
"""Factor → its axes; a factor that is missing is free."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sharding that is said of one tensor of an op.

    Attributes:
        tensor: The tensor, operands counted first.
        sharding: The sharding.
        required: Whether it must be so; else it is a hint.
        where: What says so, for diagnostics.
    """

    tensor: int
    sharding: TensorSharding
    required: bool
    where: str


def loops(rule: ShardingRule) -> list[int]:
    """The factors in the order of the op's loops."""
    parallel = [factor for tensor in rule.results for dim in tensor for factor in dim]
    return list(dict.fromkeys([*parallel, *range(len(rule.sizes))]))


def preset(op: Op, rule: ShardingRule, mesh: Mesh, location: str) -> Option | None:
    """The option that the program gives an op, if it gives one.

    Raises:
        ShardingError: it is malformed, or names axes that the mesh does not have.
    """
    text = op.signature.text(OPTION)
    if text is None:
        return None
    said = decode(text)
    order = loops(rule)
    if not isinstance(said, tuple) or len(said) > len(order) or not all(isinstance(axes, tuple) for axes in said):
        raise ShardingError(
            f"{OPTION} = {text[:200]} is not an option of this op",
            op=op.signature.label,
            location=location,
            cause=f"it has {len(order)} loops",
            remedy="give a list of axes for each loop, result dimensions first: [[0], [], [1]]",
        )
    option: Option = dict.fromkeys(order, ())
    for factor, axes in zip(order, said, strict=False):
        option[factor] = tuple(_axis(mesh, axis, op, location) for axis in axes)
    used = [axis for axes in option.values() for axis in axes]
    if len(set(used)) < len(used):
        raise ShardingError(
            f"{OPTION} = {text[:200]} uses an axis twice",
            op=op.signature.label,
            location=location,
            remedy="split one loop along an axis",
        )
    return option


def _axis(mesh: Mesh, axis: object, op: Op, location: str) -> AxisRef:
    names = [name for name, _ in mesh.axes]
    if isinstance(axis, int) and 0 <= axis < len(names):
        return mesh.axis(names[axis])
    if isinstance(axis, str) and axis in names:
        return mesh.axis(axis)
    raise ShardingError(
        f"{OPTION} names the axis {axis!r}",
        op=op.signature.label,
        location=location,
        cause=f"the mesh has the axes {', '.join(names)}",
        remedy="name an axis of the mesh, or give its position",
    )


def option_of(rule: ShardingRule, said: Sequence[Said], label: str, location: str) -> Option:
    """The option that follows from what is said about an op's tensors.

    Raises:
        ShardingError: two required annotations want different axes for one loop, or one axis for two.
    """
    option: Option = {}
    owners: dict[int, Said] = {}
    for tensor in [*(one for one in said if one.required), *(one for one in said if not one.required)]:
        for factor, axes in _wanted(rule, tensor):
            if factor in rule.need_replication or rule.sizes[factor] == 1:
                continue
            rival = _rival(option, factor, axes)
            if rival is None:
                option[factor] = axes if tensor.required else truncate_by_divisor(axes, rule.sizes[factor])
                owners[factor] = tensor
            elif tensor.required and owners[rival].required and (axes or rival == factor):
                raise _conflict(label, location, owners[rival], tensor)
    return option


def _wanted(rule: ShardingRule, said: Said) -> Iterable[tuple[int, Axes]]:
    """The axes that one tensor's sharding asks for, by factor; hints leave the factors free that they do not split."""
    mappings = rule.operands + rule.results
    projection = project(mappings[said.tensor], said.sharding, rule.sizes)
    for factor, one in projection.factors.items():
        if one.axes or (said.required and not one.overflow):
            yield factor, one.axes
    reductions = sorted(rule.reduction)
    if said.sharding.partial and reductions and said.tensor >= len(rule.operands):
        yield reductions[0], said.sharding.partial_axes


def _rival(option: Option, factor: int, axes: Axes) -> int | None:
    """The factor that has other axes already, or has these."""
    if factor in option:
        return factor if option[factor] != axes else None
    for other, taken in option.items():
        if any(overlaps_any(axis, taken) for axis in axes):
            return other
    return None


def _conflict(label: str, location: str, one: Said, other: Said) -> ShardingError:
    return ShardingError(
        f"required annotations contradict each other: {one.where} {one.sharding!r} and {other.where} "
        f"{other.sharding!r}",
        op=label,
        location=location,
        cause="they split one loop of the op in two ways, or two loops by one axis",
        remedy="require one of them, and make the other a hint by leaving its dimensions open",
    )


def shaped(rule: ShardingRule, mapping: TensorMapping, option: Option, mesh: Mesh) -> TensorSharding:
    """The sharding of a tensor of an op that is split as `option` says."""
    dims = []
    for factors in mapping:
        axes: list[AxisRef] = []
        for factor in factors:
            mine = option.get(factor, ())
            axes += mine
            if _ways(mine) != rule.sizes[factor]:
                break
        dims.append(DimSharding(tuple(axes)))
    return TensorSharding(mesh, tuple(dims)).closed()


def _ways(axes: Axes) -> int:
    ways = 1
    for axis in axes:
        ways *= axis.size
    return ways

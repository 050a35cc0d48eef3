"""An op's sharding option: the axes that each of its loops is split along, and how a program presets it.

Loops are those of `rules.loops`. An option
that is not preset follows from what is said about the tensors of the op: see `statements`.

Source: the mesh RFC on LLVM's forum, ShardingInterface.
"""

from __future__ import annotations

from collections.abc import Callable

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.graph import Op
from shardwright.mesh import Mesh
from shardwright.rules.loops import loops
from shardwright.rules.rule import ShardingRule

__all__ = ["OPTION", "Option", "option_text", "preset"]

OPTION = "shardwright.option"
"""The attribute by which a program presets an op's option: axes, by position or name, for each loop."""

Option = dict[int, Axes]
"""Factor → its axes; a factor that is missing is free."""


def preset(op: Op, rule: ShardingRule, mesh: Mesh, location: str) -> Option | None:
    """The option that the program gives an op, if it gives one.

    Raises:
        ShardingError: it is malformed, or names axes that the mesh does not have.
    """
    text = op.signature.text(OPTION)
    if text is None:
        return None
    lists = decode(text)
    order = loops(rule)
    if not isinstance(lists, tuple) or len(lists) > len(order) or not all(isinstance(axes, tuple) for axes in lists):
        raise ShardingError(
            f"{OPTION} = {text[:200]} is not an option of this op",
            op=op.signature.label,
            location=location,
            cause=f"it has {len(order)} loops",
            remedy="give a list of axes for each loop, result dimensions first: [[0], [], [1]]",
        )
    option: Option = dict.fromkeys(order, ())
    for factor, axes in zip(order, lists, strict=False):
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


def option_text(axes_of: Callable[[int], Axes], rule: ShardingRule, mesh: Mesh) -> str | None:
    """An option as a program gives it, axes by position: `[[], [], [0]]`.

    Arguments:
        axes_of: The axes of a factor.
        rule: The op's rule.
        mesh: The mesh of the function, whose axes are counted.

    Returns:
        The text, without the empty lists at its end; `None` where no loop is split, or one along a part of an axis.
    """
    lists = [axes_of(factor) for factor in loops(rule)]
    while lists and not lists[-1]:
        lists.pop()
    if not lists or any(not mesh.is_full(axis) for axes in lists for axis in axes):
        return None
    places = {name: place for place, (name, _) in enumerate(mesh.axes)}
    return str([[places[axis.name] for axis in axes] for axes in lists])


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

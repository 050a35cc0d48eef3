"""Other orders of the axes of a mesh over its devices, and what each would come to.

Devices whose ids are in a row stand in one node, so of a mesh what is first goes from node to node, and what is last
stays within one; on a torus, what is last lies along its last dimension, and on several lines what is larger than that.
Which axes those are is for whoever makes the mesh to say; here all orders are tried. What one comes to is what the
partitioner makes of it, none is guessed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.cost.outcome import Outcome
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.modules import located_text
from shardwright.program.program import Plan, load
from shardwright.stage import TRIED_EFFORT
from shardwright.words import counted

__all__ = ["Order", "Ordered", "axis_orders", "in_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the axes of a mesh.

    Attributes:
        axes: Their names, what goes farthest first.
        mesh: The mesh, its axes named as they were, over devices in that order.
        plan: The plan on it, of the program as text; a JAX function is sharded anew, on devices in that order.
        outcome: What that comes to.
    """

    axes: tuple[str, ...]
    mesh: Mesh
    plan: Plan
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Ordered:
    """What was tried of a plan.

    Attributes:
        outcome: What the plan itself comes to.
        orders: All orders, those that take least time first.
    """

    outcome: Outcome
    orders: tuple[Order, ...]

    def summary(self, top: int | None = None) -> dict[str, Any]:
        """The plan as it is and the best orders, or all, as JSON values, seconds and bytes of each device."""
        return {
            "now": asdict(self.outcome),
            "tried": len(self.orders),
            "orders": [
                {"axes": list(one.axes), "device_ids": _ids(one.mesh), **asdict(one.outcome)}
                for one in self.orders[:top]
            ],
        }


def in_order(mesh: Mesh, axes: tuple[str, ...]) -> Mesh:
    """A mesh over devices so that of its axes, these, the first goes farthest.

    >>> in_order(Mesh(x=2, y=2), ("y", "x"))
    Mesh(x=2, y=2, device_ids=[0, 2, 1, 3])
    """
    names, sizes = [name for name, _ in mesh.axes], dict(mesh.axes)
    grid = np.arange(mesh.size).reshape([sizes[name] for name in axes])
    return Mesh(mesh.axes, device_ids=grid.transpose([axes.index(name) for name in names]).ravel().tolist())


def axis_orders(plan: Plan, watch: Callable[[str], None] | None = None) -> Ordered:
    """Try all orders of the axes of a mesh, on the hardware of the session, each op split by itself.

    Arguments:
        plan: The plan, which is on one mesh.
        watch: Hears how far it is.

    Raises:
        ShardingError: all devices are of one node; a program on meshes of several kinds; or the plan itself cannot be
            partitioned.

    Example:
        with sw.Session(hardware=sw.hardware("h100")):
            best, *_ = sw.axis_orders(plan).orders
            spmd = best.plan.partition()
    """
    mesh, hardware = plan.mesh, current_hardware()
    if (hardware.devices_near is None or mesh.size <= hardware.devices_near) and hardware.torus_dimensions is None:
        raise ShardingError(
            f"the order of axes makes no difference to {counted(mesh.size, 'device')}",
            cause=f"all of them stand in one node of {hardware.name}, joined by a switch",
            remedy="name a hardware of smaller nodes or of a torus, in its data sheet under [network] or [torus], "
            "or a larger mesh",
        )
    if len({one.axes for one in plan.annotated.meshes.values() if one.axes}) > 1:
        raise ShardingError(
            "orders of axes are tried of programs on one mesh",
            cause=f"this one is on {counted(len(plan.annotated.meshes), 'mesh')}",
            remedy="state all shardings by the axes of one",
        )
    text, wide = located_text(plan.annotated), [name for name, size in mesh.axes if size > 1]
    rest = [name for name, size in mesh.axes if size == 1]
    every, found = list(itertools.permutations(wide)), list[Order]()
    for number, order in enumerate(every, 1):
        if watch is not None:
            watch(f"order {number} of {len(every)}")
        placed = in_order(mesh, (*order, *rest))
        other = replace(load(_on(text, placed)).plan(plan.strategy, plan.conservative), fit=plan.fit)
        found.append(Order(order, placed, other, other.partition(effort=TRIED_EFFORT).outcome))
    return Ordered(
        plan.partition(effort=TRIED_EFFORT).outcome, tuple(sorted(found, key=lambda one: one.outcome.seconds))
    )


_MESH = re.compile(r"(sdy\.mesh @[^\s=]+ = <\[[^\]]+\])(?:, device_ids=\[[^\]]*\])?>")


def _on(text: str, mesh: Mesh) -> str:
    """The text of a program on a mesh of the same axes over other devices."""
    ids = f", device_ids={list(mesh.device_ids)}" if mesh.device_ids is not None else ""
    return _MESH.sub(rf"\1{ids}>", text)


def _ids(mesh: Mesh) -> list[int]:
    return list(range(mesh.size)) if mesh.device_ids is None else list(mesh.device_ids)

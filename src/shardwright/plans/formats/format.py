"""What a format of plans of another framework is; `registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.saved import SavedPlan, Unsaid
from shardwright.words import counted

__all__ = ["Converted", "PlanFormat", "Reading", "other_mesh"]

_LISTED = 20
"""Entries that an error names."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a format is read for.

    Attributes:
        arguments: The type of each argument of the program by name.
        mesh: The mesh, where one is known.
        location: What diagnostics call what is read.
        options: What else the format has to be told, by name.
        modules: The type of each tensor that the modules of a model take and give, where the program was made of one.
    """

    arguments: Mapping[str, TensorType]
    mesh: Mesh | None
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)
    modules: Mapping[ModuleTensor, TensorType] = field(default_factory=dict)

    @property
    def known_mesh(self) -> Mesh:
        """The mesh.

        Raises:
            ShardingError: none is known.
        """
        if self.mesh is None:
            raise ShardingError(
                "the mesh is not known",
                location=self.location,
                cause="neither the format nor the program says it",
                remedy="give one: --mesh data=2,model=4, or program.apply(plan, sw.Mesh(data=2, model=4))",
            )
        return self.mesh


@dataclass(frozen=True, slots=True)
class Converted:
    """A plan in the format of another framework.

    Attributes:
        content: JSON values.
        unsaid: What the format cannot say, and is left out.
        notes: What else is to be told.
    """

    content: Any
    unsaid: tuple[Unsaid, ...] = ()
    notes: tuple[str, ...] = ()

    def check(self, format: str) -> None:
        """Whether all of the plan is said.

        Raises:
            ShardingError: naming what is not.
        """
        if not self.unsaid:
            return
        lines = [str(one) for one in self.unsaid[:_LISTED]]
        if len(self.unsaid) > _LISTED:
            lines.append(f"and {len(self.unsaid) - _LISTED} more: `.unsaid` lists all without strict")
        indent = "\n          "
        remedies = dict.fromkeys(one.remedy for one in self.unsaid[:_LISTED])
        raise ShardingError(
            f"{format} cannot say all of the plan: {counted(len(self.unsaid), 'entry')} would be left out",
            cause=indent.join(lines),
            remedy=indent.join([*remedies, "or do without strict"]),
        )


@dataclass(frozen=True, slots=True)
class PlanFormat:
    """A format of plans of another framework.

    Attributes:
        name: What `--to` calls it.
        title: What it is, in a few words.
        options: What it may be told, by name.
        looks_like: Whether JSON values are of this format.
        read: JSON values → a plan, for the arguments of a program. Raises `ShardingError` for malformed values; what
            does not fit the program or cannot be said is in `SavedPlan.unread`.
        write: A plan → the format. Raises `ShardingError` for options that do not fit.
    """

    name: str
    title: str
    options: tuple[str, ...]
    looks_like: Callable[[Any], bool]
    read: Callable[[Any, Reading], SavedPlan]
    write: Callable[[SavedPlan, Mapping[str, Any]], Converted]


def other_mesh(name: str, mesh: Mesh) -> tuple[str, ...]:
    """A note of a mesh whose devices lie in another order, which a format cannot say."""
    return (
        () if mesh.device_ids is None else (f"{name} does not say the order of devices, {list(mesh.device_ids)[:16]}",)
    )

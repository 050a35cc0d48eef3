"""A plan in the format of another framework, which says less than a plan: it is read for a program and a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.plans.formats.format import Reading
from shardwright.plans.formats.registry import check_options, format_of
from shardwright.plans.saved import SavedPlan

__all__ = ["OtherPlan", "plan_for"]


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """What `load_plan` reads of another framework.

    Attributes:
        content: JSON values.
        location: What diagnostics call it.
        options: What the format has to be told, by name: the `axis` of a tp_plan, the `rules` of MaxText.
    """

    content: Any
    location: str = "the plan"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """What the format is called.

        Raises:
            ShardingError: it is none that is known.
        """
        return format_of(self.content, self.location).name

    def read(self, graph: Graph, mesh: Mesh | None, parts: Sequence[ModuleTensor] = ()) -> SavedPlan:
        """The plan for a program, of a model with these `parts`, on a mesh where one is known.

        Raises:
            ShardingError: malformed values, no mesh, or an option that the format does not take.
        """
        format = format_of(self.content, self.location)
        check_options(format, self.options)
        modules = {part: graph.types[part.value] for part in parts}
        return format.read(self.content, Reading(graph.arguments, mesh, self.location, self.options, modules))


def plan_for(
    plan: SavedPlan | OtherPlan, graph: Graph, mesh: Mesh | None, parts: Sequence[ModuleTensor] = ()
) -> SavedPlan:
    """A plan as ours: one of another framework is read for the program, on the mesh given or its own.

    Raises:
        ShardingError: what `OtherPlan.read` does.
    """
    if isinstance(plan, SavedPlan):
        return plan
    own = next((known for known in graph.meshes.values() if known.axes), None)
    return plan.read(graph, own if mesh is None else mesh, parts)

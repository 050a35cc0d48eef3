"""From global shapes to those of one device: what `partition.localize` does, as a pass.

As in the C++, shardings stay on the arguments and results of functions and on ops that are on a device what they were,
until `sdy-drop-sharding-and-mesh` takes them away. What is written anew has none: collectives, constants, and the ops
in `_WRITTEN_ANEW`.
"""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.partition import localize, with_whole_arguments
from shardwright.passes.dense_groups import with_dense_groups
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.explicit_form import Said, explicit_and_said
from shardwright.passes.mesh_runs import local_by_mesh
from shardwright.passes.registry import Option, Options, register

__all__: list[str] = []

_WRITTEN_ANEW = frozenset({"stablehlo.constant", "stablehlo.iota", "stablehlo.pad", "stablehlo.slice"})

_CHOSEN = "Accepted; collectives are those that cost least."
_RGV3 = Option("enable-rgv3", False, "Whether replica groups name axes of the mesh; else they list device ids.")
_WHOLE = Option("whole-arguments", False, "Each device takes whole arguments and slices its shards out of them.")


@register(
    "sdy-convert-global-to-local",
    "Writes the program of one device: local shapes, StableHLO collectives with replica groups.",
    options=(
        Option("combine-multi-dimension-reduce-scatter", False, _CHOSEN),
        _RGV3,
        Option("per-dim-all-gather", False, _CHOSEN),
        _WHOLE,
    ),
)
def convert_global_to_local(module: ir.Module, options: Options) -> None:
    """Localize every program of the module; one whose communication is not explicit yet is made so first."""

    def local(graph: Graph) -> Graph:
        explicit, said = explicit_and_said(graph)
        values: dict[int, int] = {}
        made = localize(with_whole_arguments(explicit) if options[_WHOLE.name] else explicit, values=values)
        _say(made, explicit, said, values)
        made.main.result_shardings = list(graph.main.result_shardings)
        return made if options[_RGV3.name] else with_dense_groups(made)

    rewrite_entries(module, local, several=local_by_mesh)


def _say(made: Graph, explicit: Graph, said: Said, values: Mapping[int, int]) -> None:
    """Say of arguments and ops of one device what is said of the values that they are shards of."""
    makers = {value: op.name for op in made.walk() for value in op.results}
    names = {value: op.name for op in explicit.walk() for value in op.results}
    for value, sharding in said.items():
        shard = values.get(value)
        if shard is not None and names.get(value) == makers.get(shard) not in _WRITTEN_ANEW:
            made.shardings[shard] = sharding

"""From global shapes to those of one device: what `partition.localize` does, as a pass."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.partition import localize, with_whole_arguments
from shardwright.passes.dense_groups import with_dense_groups
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.explicit_form import made_explicit
from shardwright.passes.registry import Option, Options, register

__all__: list[str] = []

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
        explicit = made_explicit(graph)
        made = localize(with_whole_arguments(explicit) if options[_WHOLE.name] else explicit)
        return made if options[_RGV3.name] else with_dense_groups(made)

    rewrite_entries(module, local, shardings=False)

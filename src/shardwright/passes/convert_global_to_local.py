"""From global shapes to those of one device: what `partition.localize` does, as a pass."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.partition import localize, materialize, with_whole_arguments
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.registry import Option, Options, register

__all__: list[str] = []

_CHOSEN = "Accepted; collectives are those that cost least."


@register(
    "sdy-convert-global-to-local",
    "Writes the program of one device: local shapes, StableHLO collectives with replica groups.",
    options=(
        Option("combine-multi-dimension-reduce-scatter", False, _CHOSEN),
        Option("enable-rgv3", False, "Accepted; replica groups are written out."),
        Option("per-dim-all-gather", False, _CHOSEN),
        Option("whole-arguments", False, "Each device takes whole arguments and slices its shards out of them."),
    ),
)
def convert_global_to_local(module: ir.Module, options: Options) -> None:
    """Localize every program of the module; one whose communication is not explicit yet is made so first."""
    rewrite_entries(module, _local_from_whole if options["whole-arguments"] else _local, shardings=False)


def _local(graph: Graph) -> Graph:
    return localize(materialize(graph).graph)


def _local_from_whole(graph: Graph) -> Graph:
    return localize(with_whole_arguments(materialize(graph).graph))

"""Communication that shardings imply, made explicit: what `sdy-insert-explicit-reshards` does.

By default, the reshards that a partitioner is not left to find (`minimal_reshards`), as in the C++. With
`enable-full-version`, all of it, by `partition.materialize`: how an op is split and how a tensor is resharded are
chosen together, by cost, so reshards are collectives at once and `sdy-reshard-to-collectives` finds nothing left to do
after it. Neither do the passes that pad what does not divide and move data between neighbours: dimensions are padded
before ops are split, and an op's split brings its moves with it.
"""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.partition import enclose
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.explicit_form import made_explicit
from shardwright.passes.mesh_runs import explicit_by_mesh
from shardwright.passes.minimal_reshards import insert_minimal_reshards
from shardwright.passes.registry import Option, Options, register

__all__: list[str] = []


@register(
    "sdy-insert-explicit-reshards",
    "Makes communication explicit: all of it in the full version, else what partitioners are not left to find.",
    options=(
        Option(
            "enable-full-version",
            False,
            "Whether to make all communication explicit; most of what shardings imply stays implied without it.",
        ),
    ),
    on="func.func",
)
def insert_explicit_reshards(module: ir.Module, options: Options) -> None:
    """Split every op and insert the collectives that this takes; or the few reshards of `minimal_reshards`."""
    if options["enable-full-version"]:
        rewrite_entries(module, _explicit, several=explicit_by_mesh)
    else:
        insert_minimal_reshards(module)


@register(
    "sdy-reshard-to-collectives",
    "Makes all communication explicit, reshards as the cheapest chain of collectives.",
    options=(Option("keep-redundant-reshards", False, "Accepted; a reshard that moves nothing is no op here."),),
    on="func.func",
)
def reshard_to_collectives(module: ir.Module, options: Options) -> None:
    """The same; a program that is explicit already is checked and stays."""
    rewrite_entries(module, _explicit, several=explicit_by_mesh)


@register(
    "sdy-pad-for-divisibility",
    "Makes all communication explicit, every dimension split along axes that divide it; nothing is padded.",
    on="func.func",
)
def pad_for_divisibility(module: ir.Module, options: Options) -> None:
    """The same: an explicit program has no dimension that its axes do not divide."""
    rewrite_entries(module, _explicit, several=explicit_by_mesh)


@register(
    "sdy-resolve-permutation-factors",
    "Makes all communication explicit, with the data that slices, pads and rotations need of neighbours.",
    options=(Option("enable-halo-exchange", True, "Accepted; data moves between neighbours where that costs least."),),
)
def resolve_permutation_factors(module: ir.Module, options: Options) -> None:
    """The same: such ops exchange what they need within a manual computation."""
    rewrite_entries(module, _explicit, several=explicit_by_mesh)


def _explicit(graph: Graph) -> Graph:
    return enclose(made_explicit(graph))

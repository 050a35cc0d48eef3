"""Every communication as a collective of the `sdy` dialect: what `partition.materialize` does, as passes.

How an op is split and how a tensor is resharded are chosen together, by cost, so reshards are collectives at once and
`sdy-reshard-to-collectives` finds nothing left to do after `sdy-insert-explicit-reshards`.
"""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.partition import materialize
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.registry import Option, Options, register

__all__: list[str] = []


@register(
    "sdy-insert-explicit-reshards",
    "Makes all communication explicit, if asked for the full version; else leaves it to the partitioner.",
    options=(
        Option(
            "enable-full-version",
            False,
            "Whether to make communication explicit; what shardings imply stays implied without it.",
        ),
    ),
    on="func.func",
)
def insert_explicit_reshards(module: ir.Module, options: Options) -> None:
    """Split every op and insert the collectives that this takes."""
    if options["enable-full-version"]:
        rewrite_entries(module, _explicit)


@register(
    "sdy-reshard-to-collectives",
    "Makes all communication explicit, reshards as the cheapest chain of collectives.",
    options=(Option("keep-redundant-reshards", False, "Accepted; a reshard that moves nothing is no op here."),),
    on="func.func",
)
def reshard_to_collectives(module: ir.Module, options: Options) -> None:
    """The same; a program that is explicit already is checked and stays."""
    rewrite_entries(module, _explicit)


def _explicit(graph: Graph) -> Graph:
    return materialize(graph).graph

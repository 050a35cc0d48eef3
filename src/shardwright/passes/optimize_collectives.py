"""Collectives made fewer, smaller and later: each pass of `optimize` by its name behind `optimize-`, and all together.

A program whose communication is not explicit yet is made so first, as by `sdy-reshard-to-collectives`. A module in the
form of the mesh RFC is read and written in that, which has no manual computations: no pass puts any in. Parts of a
program that are on meshes of different size become better by themselves, each as if a device had its memory alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shardwright.ir.context import ir, module_text
from shardwright.ir.graph import Graph
from shardwright.notation.module_notations import notation_of
from shardwright.optimize import optimizations, optimize
from shardwright.partition import enclose, materialize
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.mesh_runs import explicit_by_mesh
from shardwright.passes.registry import Apply, Option, Options, register

__all__: list[str] = []

_OPTIONS = (
    Option("exact", False, "Whether sums of floating-point numbers keep their order."),
    Option("memory", 0, "Bytes that a device may hold, for what is made earlier; 0: what the hardware has."),
    Option("log", False, "Whether to print to standard error what is changed, why, and what that saves."),
)


def _optimizing(names: Sequence[str] | None) -> Apply:
    def apply(module: ir.Module, options: Options) -> None:
        text = module_text(module)
        notation = notation_of(text)
        if notation.name != "sdy":
            notation.read(module, "-", text)

        def change(graph: Graph) -> Graph:
            made = optimize(
                materialize(graph).graph,
                names,
                exact=options["exact"],
                memory=options["memory"] or None,
                manual=notation.has_manual,
            )
            if options["log"]:
                print("".join(f"{improvement}\n" for improvement in made.improvements), end="", file=sys.stderr)
            return enclose(made.graph)

        rewrite_entries(module, change, several=explicit_by_mesh)
        if notation.name != "sdy":
            notation.write(module)

    return apply


for _one in optimizations():
    register(f"optimize-{_one.name}", _one.doc, options=_OPTIONS)(_optimizing([_one.name]))
register("optimize-collectives", "Makes collectives fewer, smaller and later: all these passes.", options=_OPTIONS)(
    _optimizing(None)
)

"""The command that tries other shardings of arguments."""

from __future__ import annotations

from typing import Any

import click

from shardwright.cli.given import Given, epilog, print_json, progress
from shardwright.cli.options import program_options
from shardwright.report.layout import console


@click.command(
    epilog=epilog(
        "shardwright tune examples/gpt2.mlir",
        "shardwright tune examples/gpt2.mlir params/blocks --hardware h100 --top 5",
        "shardwright tune mlp.mlir --mesh data=2,model=4 --arg x=data,- --json",
        "shardwright tune step.mlir --orders --hardware h100",
    ),
)
@program_options
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many of the best to print.")
@click.option("--orders", is_flag=True, help="Try other orders of the axes instead: which devices share nodes, links.")
def tune(file: str, arguments: tuple[str, ...], top: int, orders: bool, **options: Any) -> None:
    """Try other shardings of each ARGUMENT of FILE, one at a time, and print those with which it takes least time.

    ARGUMENT is the beginning of a name, such as a path; all arguments where none is given. Those that differ only in
    numbers, as layers do, are changed together. Every trial is propagated and partitioned, each op by itself, and goes
    on from those before it: that takes about a hundredth of a second for a program of a thousand ops, and a tenth where
    it has loops or dimensions that do not divide. Nothing is written.

    With --orders all orders of the axes of the mesh are tried. Devices in a row share a node of the hardware, so what
    is first in a mesh goes from node to node; on a torus, they lie along its last dimension. Whoever makes the mesh
    gives its order, and --json has the device ids.
    """
    from shardwright.program.ordering import axis_orders
    from shardwright.program.tuning import tune as tuned
    from shardwright.report.tuning import print_orders, print_tuning

    given = Given(file, **options)
    if orders and arguments:
        raise click.UsageError("--orders tries the mesh, not arguments: leave these out")
    with given.session(), progress() as clock:
        plan = given.shard(given.load(clock))
        if orders:
            summary = axis_orders(plan, clock.watch).summary(top)
        else:
            summary = tuned(plan, arguments or None, clock.watch).summary(top)
    if given.as_json:
        print_json(summary)
    else:
        (print_orders if orders else print_tuning)(console(), summary)

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
    ),
)
@program_options
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many of the best to print.")
def tune(file: str, arguments: tuple[str, ...], top: int, **options: Any) -> None:
    """Try other shardings of each ARGUMENT of FILE, one at a time, and print those with which it takes least time.

    ARGUMENT is the beginning of a name, such as a path; all arguments where none is given. Those that differ only in
    numbers, as layers do, are changed together. Every trial is propagated and partitioned, and goes on from those
    before it: that takes about a hundredth of a second for a program of a thousand ops, and a tenth where it has loops
    or dimensions that do not divide. Nothing is written.
    """
    from shardwright.program.tuning import tune as tuned
    from shardwright.report.tuning import print_tuning

    given = Given(file, **options)
    with given.session(), progress() as clock:
        summary = tuned(given.shard(given.load(clock)), arguments or None, clock.watch).summary(top)
    if given.as_json:
        print_json(summary)
    else:
        print_tuning(console(), summary)

"""The command that writes a partitioned program as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardwright.cli.given import Given, answer, epilog, progress
from shardwright.cli.options import partition_options, program_options
from shardwright.files import is_standard_output


@click.command(
    epilog=epilog(
        "shardwright export examples/gpt2.mlir",
        "shardwright export mlp.mlir --mesh data=2,model=4 --arg x=data,- -o mlp.sw --platform cuda",
    ),
)
@program_options
@partition_options
@click.option("-o", "--output", metavar="OUT", help="The file (default: NAME.sw here).")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="NAME",
    help="Refuse a program that cannot run there: cpu, cuda, rocm or tpu (repeatable).",
)
def export(file: str, output: str | None, platforms: tuple[str, ...], **options: Any) -> None:
    """Partition FILE and write it, with its plan, for another process: sw.load_exported(OUT).compile() runs it."""
    if output is not None and is_standard_output(output):
        raise click.UsageError("-o needs a file: standard output takes the summary")
    given = Given(file, **options)
    target = output if output is not None else f"{'program' if file == '-' else Path(file).stem}.sw"
    with given.session(), progress() as clock:
        spmd = given.partition(given.load(clock))
        summary = spmd.summary()  # before the file is there: what cannot be described is refused
        written = spmd.export(target, platforms=platforms)
    answer(given, {**summary, "written": {"program": str(written)}})

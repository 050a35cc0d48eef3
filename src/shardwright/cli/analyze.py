"""The command that says what a program comes to on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardwright.cli.given import Given, answer, epilog, progress
from shardwright.cli.options import partition_options, program_options
from shardwright.report.assessment import describe_assessment

if TYPE_CHECKING:
    from shardwright.program import PerDevice, Spmd

_TOLD_ELSEWHERE = ("tensors", "notes", "seconds")
"""What `partition` tells of a program, and is not asked for here."""


@click.command(
    epilog=epilog(
        "shardwright analyze examples/gpt2.mlir",
        "shardwright analyze mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model",
        "shardwright analyze examples/gpt2.mlir --hardware h100 --effort default --json",
    ),
)
@program_options
@partition_options
def analyze(file: str, **options: Any) -> None:
    """Say what FILE comes to on each device, which takes none: what is held when, which ops are computed several times
    over, what is sent along which axes and for which lines, and how long that takes by the price.

    FILE is a program of any stage: annotated, completed, explicit, or of one device; of the last it is not known what
    is computed several times.
    """
    given = Given(file, **options)
    with given.session(), progress() as clock:
        program = given.load(clock)
        if program.is_per_device:
            given.check_unsharded()
            found: PerDevice | Spmd = program.per_device()
        else:
            found = given.partition(program)
        summary = {**found.summary(), **describe_assessment(found.assessment)}
    answer(given, {name: part for name, part in summary.items() if name not in _TOLD_ELSEWHERE})

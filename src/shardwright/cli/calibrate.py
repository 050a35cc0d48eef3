"""The command that measures the devices at hand."""

from __future__ import annotations

import sys

import click

from shardwright.cli.given import examples, print_json


@click.command(
    epilog=examples(
        "shardwright calibrate -o here.toml",
        "shardwright calibrate --devices 8 -o cpus.toml",
        "shardwright calibrate --like h200 -o one_gpu.toml",
        "shardwright partition examples/gpt2.mlir --hardware cpus.toml -o local.mlir",
    ),
)
@click.option("--devices", type=click.IntRange(min=2), metavar="N", help="Measure N virtual CPU devices.")
@click.option("--name", help="What messages shall call them.")
@click.option(
    "--like",
    metavar="NAME|FILE",
    help="Take from this hardware how devices are joined, where jax has one alone: h200, …, or a TOML file.",
)
@click.option("-o", "output", metavar="FILE", help="Where to write the data sheet; else it is printed.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def calibrate(devices: int | None, name: str | None, like: str | None, output: str | None, as_json: bool) -> None:
    """Measure the devices that jax has, and write their data sheet, which --hardware takes.

    Products of several types, memory, and collectives of several kinds and sizes are timed on all of them at once: let
    them do nothing else. It takes a minute or more.
    """
    from shardwright.cost.hardware import sheet_of
    from shardwright.files import write_file
    from shardwright.runtime.calibrate import NOT_MEASURED, calibrated

    if like is not None and devices is not None:
        raise click.UsageError("No such option with --devices: --like (how several devices are joined is measured)")
    sheet = calibrated(devices, name=name, like=None if like is None else sheet_of(like))
    if like is not None and not any(figure.source.startswith(NOT_MEASURED) for figure in sheet.figures.values()):
        click.echo("note: nothing is taken from --like: how the devices that jax has are joined was measured", err=True)
    if output is not None:
        write_file(output, sheet.text().encode())
    if as_json:
        print_json({"hardware": sheet.summary()})
    elif output is None:
        sys.stdout.write(sheet.text())

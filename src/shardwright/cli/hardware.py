"""The command that says what hardware there is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from shardwright.cli.given import examples, print_json
from shardwright.report.layout import console

if TYPE_CHECKING:
    from shardwright.cost.hardware import Sheet


@click.command(
    epilog=examples(
        "shardwright hardware",
        "shardwright hardware h100 > mine.toml",
        "shardwright partition examples/gpt2.mlir --hardware mine.toml -o local.mlir",
        "shardwright hardware h100 --from collective_perf_table.txtpb --device sm_90_H100 > mine.toml",
    ),
)
@click.argument("choice", metavar="[NAME|FILE]", required=False)
@click.option(
    "--from",
    "files",
    metavar="FILE",
    multiple=True,
    help="Take figures from a file of XLA: a description of a GPU (GpuTargetConfigProto), or what collectives took "
    "(DeviceHloInstructionProfiles), both in text format. Others are those of NAME.",
)
@click.option("--device", metavar="NAME", help="Whose collectives, where a file tells of several devices.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def hardware(choice: str | None, files: tuple[str, ...], device: str | None, as_json: bool) -> None:
    """List the hardware there is, or print the data sheet of one: each figure with its source.

    What is printed is TOML. Changed and written to a FILE, it is a hardware of your own, which --hardware takes.
    """
    from shardwright.cost.hardware import DEFAULT, preset_names, sheet_of
    from shardwright.report.hardware import print_sheets

    if choice is not None or files:
        sheet = _sheet(choice, files, device)
        if as_json:
            print_json({"hardware": sheet.summary()})
        else:
            sys.stdout.write(sheet.text())
        return
    sheets = {name: sheet_of(name) for name in preset_names()}
    if as_json:
        print_json({"default": DEFAULT, "hardware": {name: sheet.summary() for name, sheet in sheets.items()}})
    else:
        print_sheets(console(), sheets, DEFAULT)


def _sheet(choice: str | None, files: tuple[str, ...], device: str | None) -> Sheet:
    """The data sheet of a name, with the figures of files."""
    from shardwright.cost.hardware import sheet_of
    from shardwright.cost.hardware.xla_files import completed, figures_from
    from shardwright.errors import ShardingError
    from shardwright.files import printable, read_file

    base = None if choice is None else sheet_of(choice)
    try:
        contents = [read_file(file).decode(errors="replace") for file in files]
    except ShardingError as error:
        raise error.replaced(remedy="give the path of a file that XLA writes or keeps") from None
    named = zip(contents, files, strict=True)
    parts = [figures_from(content, printable(file), device) for content, file in named]
    return completed(base, parts) if parts or base is None else base

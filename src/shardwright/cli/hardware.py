"""The command that says what hardware there is."""

from __future__ import annotations

import sys

import click

from shardwright.cli.given import examples, print_json
from shardwright.report.layout import console


@click.command(
    epilog=examples(
        "shardwright hardware",
        "shardwright hardware h100 > mine.toml",
        "shardwright partition examples/gpt2.mlir --hardware mine.toml -o local.mlir",
    ),
)
@click.argument("choice", metavar="[NAME|FILE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def hardware(choice: str | None, as_json: bool) -> None:
    """List the hardware there is, or print the data sheet of one: each figure with its source.

    What is printed is TOML. Changed and written to a FILE, it is a hardware of your own, which --hardware takes.
    """
    from shardwright.cost.hardware import DEFAULT, preset_names, sheet_of
    from shardwright.report.hardware import print_sheets

    if choice is not None:
        sheet = sheet_of(choice)
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

"""The commands of plans: writing one, and what differs between two."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from shardwright.cli.given import Given, answer, epilog, examples, print_json, progress
from shardwright.cli.options import partition_options, program_options
from shardwright.files import is_standard_output, write_file
from shardwright.plans.formats.homes import HOMES
from shardwright.report.layout import console

if TYPE_CHECKING:
    from shardwright.plans.saved import SavedPlan


@click.command(
    epilog=epilog(
        "shardwright plan examples/gpt2.mlir -o plan.toml",
        "shardwright plan examples/gpt2.mlir --hardware h100 --effort default -o h100.toml",
        "shardwright plan mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model",
        "shardwright run changed.mlir --plan plan.toml",
        "shardwright plan model.mlir --mesh tp=8 --plan tp_plan.json --to dtensor",
    ),
)
@program_options
@partition_options
@click.option(
    "--to",
    type=click.Choice(["toml", *HOMES]),
    default="toml",
    show_default=True,
    help="The format: toml, ours, says all of it; those of other frameworks, in JSON, how arguments lie.",
)
@click.option("-o", "--output", metavar="OUT", help="File of the plan (default: standard output).")
def plan(file: str, to: str, output: str | None, **options: Any) -> None:
    """Write the plan of FILE by itself, in TOML: the mesh, how each argument and result lies, how it was propagated and
    partitioned, and what it came to. Every command that takes a program takes it by --plan.

    With --to, write it as another framework does; what that cannot say is left out with a note, or refused with
    --strict. Those files are taken by --plan as well.
    """
    given = Given(file, **options)
    with given.session(), progress() as clock:
        spmd = given.partition(given.load(clock))
        text = _written(spmd.saved, to, given.strict)
    if output is not None and not is_standard_output(output):
        answer(given, {**spmd.summary(), "written": {"plan": str(write_file(output, text))}})
    elif given.as_json:
        answer(given, spmd.summary())
    else:
        sys.stdout.write(text)


def _written(saved: SavedPlan, to: str, strict: bool) -> str:
    """The text of a plan in a format; what that leaves out is told on standard error."""
    if to == "toml":
        from shardwright.plans.text import plan_text

        return plan_text(saved)
    from shardwright.plans.formats.registry import convert_plan

    made = convert_plan(saved, to, {}, strict=strict)
    for note in (*made.notes, *[f"left out: {one}; {one.remedy}" for one in made.unsaid]):
        print(f"note: {note}", file=sys.stderr)
    return json.dumps(made.content, indent=2, ensure_ascii=False) + "\n"


@click.command(
    epilog=examples("shardwright diff before.toml after.toml", "shardwright diff before.toml after.toml --json")
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def diff(before: str, after: str, as_json: bool) -> int:
    """Say what differs between the plans A and B: the mesh, which arguments and results lie otherwise or are in one of
    them alone, how they were propagated and partitioned, and what each came to.

    Exit status: 0 where they say the same, 1 where they do not.
    """
    from shardwright.plans.compare import compare_plans
    from shardwright.plans.load import load_saved
    from shardwright.report.plans import print_difference

    found = compare_plans(load_saved(before), load_saved(after))
    if as_json:
        print_json(found.summary())
    else:
        print_difference(console(), found.summary())
    return 0 if found.is_empty else 1

"""The command that says why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from shardwright.cli.given import Given, epilog, print_json, program_options, progress
from shardwright.report.layout import console
from shardwright.report.summary import Summary

if TYPE_CHECKING:
    from shardwright.propagation import Annotation, Explanation
    from shardwright.sharding import TensorSharding


@click.command(
    epilog=epilog(
        "shardwright explain examples/gpt2.mlir params/blocks/0/wq",
        "shardwright explain examples/gpt2.mlir examples/gpt.py:86",
        "shardwright explain examples/gpt2.mlir %100 --strategy basic",
        "shardwright explain mlp.mlir %3 --mesh data=2,model=4 --arg 0=data,- --arg 1=-,model",
    ),
)
@program_options
@click.argument("value", metavar="VALUE")
@click.option(
    "--all", "everything", is_flag=True, help="Every step, with its phase; long ways are cut short otherwise."
)
def explain(file: str, value: str, everything: bool, **options: Any) -> None:
    """Say which annotations of FILE the axes of VALUE came from, through which ops, and where axes stopped.

    VALUE is an argument or result by name, FILE:LINE for all that is made there, the name of a location, or a number
    as `shardwright propagate FILE` prints it. "result NAME" is the result where an argument has that name too.
    """
    from shardwright.report.explanation import print_explanations

    given = Given(file, **options)
    with given.propagation_session(), progress() as clock:
        explanations = given.shard(given.load(clock)).explain(value)
    if given.as_json:
        print_json({"values": [_described(explanation) for explanation in explanations]})
    else:
        print_explanations(console(), explanations, everything=everything)


def _described(explanation: Explanation) -> Summary:
    """An explanation as JSON; shardings and axes as text."""
    axis = explanation.axis_text
    chains = [
        {
            **asdict(chain),
            "axis": axis(chain.axis),
            "annotation": _annotation(chain.annotation),
            "links": [{**asdict(link), "axis": axis(link.axis)} for link in chain.links],
        }
        for chain in explanation.chains
    ]
    return {
        "name": explanation.name,
        "printed": explanation.printed,
        "location": explanation.location,
        "sharding": _text(explanation.sharding),
        "annotation": None if explanation.annotation is None else _annotation(explanation.annotation),
        "chains": chains,
        "dropped": list(explanation.dropped),
        "stops": [{**asdict(stop), "axis": axis(stop.axis)} for stop in explanation.stops],
    }


def _annotation(annotation: Annotation) -> Summary:
    return {**asdict(annotation), "sharding": _text(annotation.sharding)}


def _text(sharding: TensorSharding | None) -> str | None:
    return None if sharding is None else repr(sharding)

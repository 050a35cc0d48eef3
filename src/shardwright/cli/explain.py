"""The command that says why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from shardwright.cli.command import cli
from shardwright.cli.given import Given, epilog, print_json, program_options, progress
from shardwright.propagation import Explanation
from shardwright.report.explanation import print_explanations
from shardwright.report.layout import console
from shardwright.report.summary import Summary


@cli.command(
    short_help="Say why a value is sharded as it is.",
    epilog=epilog(
        "shardwright explain examples/gpt2.mlir params/blocks/0/wq",
        "shardwright explain examples/gpt2.mlir examples/gpt.py:86",
        "shardwright explain mlp.mlir %3 --mesh data=2,model=4 --arg 0=data,- --arg 1=-,model",
    ),
)
@program_options
@click.argument("value", metavar="VALUE")
def explain(file: str, value: str, **options: Any) -> None:
    """Say which annotations of FILE the axes of VALUE came from, through which ops, and where axes stopped.

    VALUE is an argument or result by name, FILE:LINE for all that is made there, the name of a location, or a number
    as `shardwright propagate FILE` prints it.
    """
    given = Given(file, **options)
    with progress() as clock:
        found = given.shard(given.load(clock)).explain(value)
    if given.as_json:
        print_json({"values": [_described(explanation) for explanation in found]})
    else:
        print_explanations(console(), found)


def _described(explanation: Explanation) -> Summary:
    """An explanation as JSON; shardings and axes as text."""
    chains = [
        {
            **asdict(chain),
            "axis": str(chain.axis),
            "annotation": {**asdict(chain.annotation), "sharding": repr(chain.annotation.sharding)},
            "links": [{**asdict(link), "axis": str(link.axis)} for link in chain.links],
        }
        for chain in explanation.chains
    ]
    return {
        "name": explanation.name,
        "location": explanation.location,
        "sharding": repr(explanation.sharding),
        "chains": chains,
        "stops": [{**asdict(stop), "axis": str(stop.axis)} for stop in explanation.stops],
    }

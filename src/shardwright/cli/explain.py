"""The command that says why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from shardwright.cli.given import Given, epilog, print_json, progress
from shardwright.cli.options import program_options
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
        "shardwright explain examples/gpt2.mlir --rule dot_general",
    ),
)
@program_options
@click.argument("value", metavar="[VALUE]", required=False)
@click.option(
    "--rule", metavar="OP", help="Instead of a value, the loops of the ops of this name, and their sharding rule."
)
@click.option(
    "--all", "everything", is_flag=True, help="Every step, with its phase; long ways are cut short otherwise."
)
def explain(file: str, value: str | None, rule: str | None, everything: bool, **options: Any) -> None:
    """Say which annotations of FILE the axes of VALUE came from, through which ops, and where axes stopped.

    VALUE is an argument or result by name, FILE:LINE for all that is made there, the name of a location, or a number
    as `shardwright propagate FILE` prints it. "result NAME" is the result where an argument has that name too.

    With --rule, say of the ops called OP what loops they have, as the mesh RFC's ShardingInterface does: the type of
    each, and the map from loops to the indices of every operand, then of every result.
    """
    from shardwright.report.explanation import print_explanations

    if (value is None) == (rule is None):
        raise click.UsageError("Give a VALUE, or an op by --rule.")
    given = Given(file, **options)
    if rule is not None:
        if unused := [*given.sharding_options(), *["--all"] * everything]:
            raise click.UsageError(f"No such option with --rule: {', '.join(unused)} (a rule does not depend on it)")
        _explain_rule(given, rule)
        return
    assert value is not None
    with given.propagation_session(), progress() as clock:
        explanations = given.shard(given.load(clock)).explain(value)
    if given.as_json:
        print_json({"values": [_described(explanation) for explanation in explanations]})
    else:
        print_explanations(console(), explanations, everything=everything)


def _explain_rule(given: Given, name: str) -> None:
    from shardwright.propagation.rfc.interface import interfaces
    from shardwright.report.interfaces import interface_summary, interfaces_page

    with progress() as clock:
        found = interfaces(given.load(clock).graph, name)
    if given.as_json:
        print_json({"ops": [interface_summary(one) for one in found]})
        return
    out = console()
    interfaces_page(found, out.width if out.is_terminal else None).print(out)


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

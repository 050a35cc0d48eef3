"""The options that several commands have: of the program, of how it is partitioned, of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from shardwright.propagation import DEFAULT_STRATEGY, STRATEGY_WORDS
from shardwright.stage import ARGUMENTS, DEFAULT_EFFORT, EFFORTS, OPTIMIZATIONS

__all__ = ["input_options", "partition_options", "program_options"]

F = TypeVar("F", bound=Callable[..., Any])


def program_options(command: F) -> F:
    """FILE and the options that every command has."""
    options = (
        click.argument("file", metavar="FILE"),
        click.option("--mesh", metavar="AXES", help="The devices, as data=2,model=4, major axis first."),
        click.option(
            "--arg",
            "args",
            multiple=True,
            metavar="NAME_OR_INDEX=SPEC",
            help="Sharding of an argument (repeatable). A path such as params means all below it.",
        ),
        click.option(
            "--plan",
            metavar="PLAN",
            help="How arguments and results lie, and how all is done that is not said: a file of `shardwright plan`.",
        ),
        click.option("--strict-plan", is_flag=True, help="Fail where an entry of the plan does not fit the program."),
        click.option(
            "--strategy",
            type=click.Choice(list(STRATEGY_WORDS)),
            default=DEFAULT_STRATEGY,
            show_default=True,
            metavar="NAME",
            help="How to propagate, by name (below).",
        ),
        click.option(
            "--conservative", is_flag=True, help="Let only whole axes flow, and none to where neighbours would send."
        ),
        click.option(
            "--devices", type=click.IntRange(min=1), metavar="N", help="Refuse a mesh of more than N devices."
        ),
        click.option(
            "--hardware",
            metavar="NAME|FILE",
            help="What communication is to be cheap on, where it is decided on: h100, …, or a TOML file; see "
            "`shardwright hardware`. [default: tpu_v5p]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def partition_options(command: F) -> F:
    """How programs are partitioned, for commands that do that."""
    options = (
        click.option(
            "--strict",
            is_flag=True,
            help="Fail where an op is computed whole or a tensor gathered for want of a local form, or a sharding cut.",
        ),
        click.option(
            "--arguments",
            type=click.Choice(list(ARGUMENTS)),
            default="split",
            show_default=True,
            help=f"What each device takes. {'; '.join(f'{name}: {words}' for name, words in ARGUMENTS.items())}.",
        ),
        click.option(
            "--effort",
            type=click.Choice(list(EFFORTS)),
            default=DEFAULT_EFFORT,
            show_default=True,
            help=f"How ops are split. {'; '.join(f'{name}: {words}' for name, words in EFFORTS.items())}.",
        ),
        click.option(
            "--optimize",
            type=click.Choice(list(OPTIMIZATIONS)),
            default="off",
            show_default=True,
            help="What becomes of collectives, also those of a program that came with them. "
            f"{'; '.join(f'{name}: {words}' for name, words in OPTIMIZATIONS.items())}.",
        ),
        click.option("--reasons", is_flag=True, help="Say of every op what the next best way to split it would take."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def input_options(command: F) -> F:
    """Where inputs come from, for commands that run programs."""
    options = (
        click.option("--inputs", metavar="F.npz", help="Inputs by argument name, as numpy.savez writes them."),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            metavar="N",
            help="Seed of the inputs that are drawn.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="Give up on what takes longer to compile and run.",
        ),
        click.option(
            "--rtol", type=float, metavar="R", help="Allow |a - b| <= atol + R|b| instead of what is measured."
        ),
        click.option("--atol", type=float, metavar="A", help="The absolute part of the same."),
    )
    for option in reversed(options):
        command = option(command)
    return command

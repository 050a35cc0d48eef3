"""What the commands have in common: the program they are given and how they answer (their options: cli/options.py).

Here and in the files of the commands, what a command runs is imported where it runs: a help text needs none of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from shardwright.cli.texts import epilog, examples, parse_shape
from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.files import is_standard_output, write_file
from shardwright.frontends.meshes import mesh_of
from shardwright.frontends.specs import parse_argument_option
from shardwright.propagation import DEFAULT_STRATEGY, PRICED_STRATEGIES
from shardwright.report.layout import console
from shardwright.report.summary import Summary
from shardwright.report.text import print_summary
from shardwright.stage import DEFAULT_EFFORT
from shardwright.words import counted

if TYPE_CHECKING:
    from shardwright.plans.other import OtherPlan
    from shardwright.plans.saved import SavedPlan
    from shardwright.program import Plan, Program, Spmd

__all__ = [
    "VIRTUAL_DEVICES",
    "Given",
    "answer",
    "check_devices",
    "deliver",
    "epilog",
    "examples",
    "parse_shape",
    "print_json",
    "progress",
]

VIRTUAL_DEVICES = 512
"""How many virtual devices `run` and `verify` start unasked: each is a thread, and collectives wait for all of them."""

_WORK = {
    "load": "reading the program",
    "propagate": "completing the shardings",
    "materialize": "making communication explicit",
    "optimize": "making collectives fewer, smaller and later",
    "localize": "writing the program of one device",
    "write": "writing the stages",
    "inputs": "drawing inputs",
    "verify": "running on virtual devices",
    "verify in processes": "running in several processes",
    "verify again": "results differ: measuring in 24 more runs what rounding does",
}


@dataclass(frozen=True)
class Given:
    """What every command is given: the program, its mesh and shardings, how to propagate, and how to answer; and how to
    partition, where it does.
    """

    file: str
    mesh: str | None
    args: tuple[str, ...]
    strategy: str
    conservative: bool
    devices: int | None
    as_json: bool
    strict: bool = False
    arguments: str = "split"
    hardware: str | None = None
    effort: str = DEFAULT_EFFORT
    optimize: str = "off"
    reasons: bool = False
    plan: str | None = None
    strict_plan: bool = False

    def session(self) -> AbstractContextManager[object]:
        """What everything is decided in: a session of the hardware asked for, or that of the plan, or the one that
        there is.

        Raises:
            ShardingError: no such hardware, a file that is no data sheet of one, or no plan.
        """
        saved = self.saved
        how = getattr(saved, "partitioning", None)
        name = self.hardware if self.hardware is not None or how is None else how.hardware or None
        if name is None:
            return nullcontext()
        from shardwright.cost.hardware import hardware
        from shardwright.memo import Session

        try:
            return Session(hardware=hardware(name))
        except ShardingError as error:
            if self.hardware is not None or saved is None:
                raise
            remedy = "say which it is: --hardware NAME, or the file of its data sheet"
            raise error.replaced(location=saved.location, remedy=remedy) from None

    def propagation_session(self) -> AbstractContextManager[object]:
        """The same, for a command that propagates and no more.

        Raises:
            UsageError: a hardware is given, and the strategy decides nothing by price.
            ShardingError: as of `session`.
        """
        saved = self.saved
        strategy = self.asked("strategy") or getattr(saved, "strategy", None) or self.strategy
        if self.hardware is not None and strategy not in PRICED_STRATEGIES:
            given = " or ".join(f"--strategy {name}" for name in PRICED_STRATEGIES)
            raise click.UsageError(
                f"No such option without {given}: --hardware (nothing else is decided by price here)"
            )
        return self.session()

    @cached_property
    def saved(self) -> SavedPlan | OtherPlan | None:
        """The plan that is given, if one is.

        Raises:
            UsageError: standard input.
            ShardingError: a file that cannot be read, or is no plan.
        """
        if self.plan is None:
            return None
        if self.plan == "-":
            raise click.UsageError("--plan takes a file (standard input is for FILE)")
        from shardwright.plans.load import load_plan

        return load_plan(self.plan)

    def asked(self, name: str) -> Any:
        """The value of an option that was given on the command line; `None` where it is a default."""
        source = click.get_current_context().get_parameter_source(name)
        return getattr(self, name) if source is ParameterSource.COMMANDLINE else None

    def load(self, clock: Clock) -> Program:
        """The program, read."""
        from shardwright.frontends.load import load_source
        from shardwright.program import Program

        with clock.stage("load"):
            return Program(load_source(self.file), clock=clock)

    def shard(self, program: Program, limit: int | None = None) -> Plan:
        """The program with all shardings, after a look at how many devices that takes."""
        from shardwright.frontends.annotate import program_mesh

        program.check_shardable()
        mesh = None if self.mesh is None else mesh_of(self.mesh)
        args, saved = self._arguments(), self.saved
        if saved is None:
            if self.strict_plan:
                raise click.UsageError("No such option without --plan: --strict-plan")
            check_devices(program_mesh(program.graph, mesh, program.name).size, self.devices, limit, program.name)
            return program.shard(mesh, args, self.strategy, self.conservative)
        from shardwright.plans.fit import mesh_for
        from shardwright.plans.other import plan_for

        plan = plan_for(saved, program.graph, mesh, program.source.parts)
        check_devices(mesh_for(plan, program.graph, mesh, program.name).size, self.devices, limit, program.name)
        how = {name: self.asked(name) for name in ("strategy", "conservative")}
        return program.apply(plan, mesh, args, strict=self.strict or self.strict_plan, **how)

    def partition(self, program: Program, limit: int | None = None, to: str = "sdy") -> Spmd:
        """The program of each device, after the same look; the explicit one such as a notation can express."""
        how = {name: self.asked(name) for name in ("arguments", "effort", "optimize")}
        return self.shard(program, limit).partition(strict=self.strict, reasons=self.reasons, to=to, **how)

    def check_unsharded(self) -> None:
        """For a program that is not sharded.

        Raises:
            ShardingError: it is said how to.
        """
        if given := self.sharding_options():
            raise ShardingError(
                "the program is written for one device already",
                location=self.file,
                cause="its grid and the parts that devices hold are what it says",
                remedy=f"leave out {' and '.join(given)}",
            )

    def sharding_options(self) -> list[str]:
        """The options given that say how to shard, propagate and partition."""
        given = {
            "--mesh": self.mesh is not None,
            "--arg": bool(self.args),
            "--strategy": self.strategy != DEFAULT_STRATEGY,
            "--conservative": self.conservative,
            "--arguments": self.arguments != "split",
            "--hardware": self.hardware is not None,
            "--effort": self.effort != DEFAULT_EFFORT,
            "--optimize": self.optimize != "off",
            "--reasons": self.reasons,
            "--plan": self.plan is not None,
            "--strict-plan": self.strict_plan,
        }
        return [option for option, is_given in given.items() if is_given]

    def _arguments(self) -> dict[str | int, str]:
        args: dict[str | int, str] = {}
        for text in self.args:
            name, spec = parse_argument_option(text)
            if name in args:
                raise ShardingError(
                    f"argument {name!r} is given two shardings",
                    cause=f"--arg {name}={args[name]} and --arg {text}",
                    remedy="keep one of them",
                )
            args[name] = spec
        return args


def check_devices(size: int, asked: int | None, limit: int | None, name: str) -> None:
    """Whether so many devices may be started.

    Raises:
        ShardingError: more than `asked` for, or more than `limit` where nothing was asked.
    """
    if asked is not None and size > asked:
        raise ShardingError(
            f"the mesh has {counted(size, 'device')}, {asked} were asked for",
            location=name,
            cause=f"--devices {asked}",
            remedy=f"ask for --devices {size}, or give a smaller mesh",
        )
    if asked is None and limit is not None and size > limit:
        raise ShardingError(
            f"the mesh has {counted(size, 'device')}, at most {limit} virtual ones are started unasked",
            location=name,
            cause="each is a thread of this machine, and collectives wait for all of them",
            remedy=f"ask for --devices {size}, or use `shardwright partition`, which needs no devices",
        )


def print_json(value: Summary) -> None:
    """An answer for machines, on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress() -> Iterator[Clock]:
    """A clock whose stages show on standard error while they run, with the time so far, where that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Clock()
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("starting", total=None)
        yield Clock(lambda stage: shown.update(task, description=_WORK.get(stage, stage)))


def deliver(given: Given, text: str, output: str | None, describe: Callable[[], Summary]) -> None:
    """The module to its file and the summary to standard output; without a file the module takes its place."""
    if output is not None and not is_standard_output(output):
        summary = describe()  # before the file is there: what cannot be described is refused
        answer(given, {**summary, "written": {"module": str(write_file(output, text))}})
    elif given.as_json:
        answer(given, describe())
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def answer(given: Given, summary: Summary) -> None:
    """A summary on standard output, as it was asked for."""
    if given.as_json:
        print_json(summary)
    else:
        print_summary(console(), summary)

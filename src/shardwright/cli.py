"""The command `shardwright`: options, printing, exit status, and nothing else.

Exit status: 0 when all went well, 1 for a diagnostic or a result that differs, 2 for wrong options, 130 when
interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from shardwright.errors import ShardingError
from shardwright.frontends.annotate import program_mesh
from shardwright.frontends.files import make_folder, write_file
from shardwright.frontends.load import load_source
from shardwright.frontends.specs import GRAMMAR, parse_argument_option, parse_mesh_option
from shardwright.program import STAGES, Clock, Plan, Program, Spmd
from shardwright.report.layout import console
from shardwright.report.summary import Summary, describe_plan, describe_spmd, describe_verification
from shardwright.report.text import print_summary
from shardwright.runtime.inputs import load_inputs

__all__ = ["cli", "main"]

F = TypeVar("F", bound=Callable[..., Any])

VIRTUAL_DEVICES = 512
"""How many virtual devices `run` and `verify` start unasked: each is a thread, and collectives wait for all of them."""

_WORK = {
    "load": "reading the program",
    "propagate": "completing the shardings",
    "materialize": "making communication explicit",
    "localize": "writing the program of one device",
    "write": "writing the stages",
    "inputs": "drawing inputs",
    "verify": "running on virtual devices",
}


class _ClosedPipe(Exception):
    """The reader of standard output is gone; under this name click leaves it to us."""


class _Commands(click.Group):
    """A group whose failures are diagnostics: no traceback reaches a user."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ClosedPipe from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit with its status."""
        kwargs["standalone_mode"] = False
        status = 0
        try:
            status = super().main(*args, **kwargs) or 0
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except ShardingError as error:
            status = _fail(str(error))
        except (click.Abort, KeyboardInterrupt):
            status = _fail("interrupted", 130)
        except (BrokenPipeError, _ClosedPipe):
            _forget_stdout()
            status = 141
        except OSError as error:
            status = _fail(f"error: cannot write the answer\n  why:    {error.strerror or error}")
            _forget_stdout()
        except Exception as error:
            if os.environ.get("SHARDWRIGHT_TRACEBACK"):
                raise
            status = _fail(
                f"error: {type(error).__name__}: {error}\n"
                "  why:    this is a mistake in shardwright, not in your program\n"
                "  change: please report it with what SHARDWRIGHT_TRACEBACK=1 shows"
            )
        sys.exit(status)


def _fail(message: str, status: int = 1) -> int:
    with suppress(OSError):
        print(message, file=sys.stderr)
    return status


def _forget_stdout() -> None:
    """Keep the interpreter from flushing into the closed pipe when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    try:
        return version("shardwright")
    except PackageNotFoundError:
        return "(not installed: run from its source)"


_HELP = """Shards tensor programs: completes shardings, makes communication explicit, runs and verifies.

FILE is StableHLO text, MLIR bytecode or a StableHLO portable artifact; - is standard input.

\b
Examples:
  shardwright run examples/gpt2.mlir
  shardwright run mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model
"""


@click.group(cls=_Commands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), package_name="shardwright", prog_name="shardwright")
def cli() -> None:
    """The command and its subcommands."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What every command is given: the program, its mesh and shardings, and how to answer."""

    file: str
    mesh: str | None
    args: tuple[str, ...]
    devices: int | None
    as_json: bool

    def load(self, clock: Clock) -> Program:
        with clock.stage("load"):
            return Program(load_source(self.file), clock=clock)

    def shard(self, program: Program, limit: int | None = None) -> Plan:
        """The program with all shardings, after a look at how many devices that takes."""
        mesh = None if self.mesh is None else parse_mesh_option(self.mesh)
        args = self._arguments()
        _check_devices(program_mesh(program.graph, mesh, program.name).size, self.devices, limit, program.name)
        return program.shard(mesh, args)

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


def _check_devices(size: int, asked: int | None, limit: int | None, name: str) -> None:
    if asked is not None and size > asked:
        raise ShardingError(
            f"the mesh has {size} devices, {asked} were asked for",
            location=name,
            cause=f"--devices {asked}",
            remedy=f"ask for --devices {size}, or give a smaller mesh",
        )
    if asked is None and limit is not None and size > limit:
        raise ShardingError(
            f"the mesh has {size} devices, at most {limit} virtual ones are started unasked",
            location=name,
            cause="each is a thread of this machine, and collectives wait for all of them",
            remedy=f"ask for --devices {size}, or use `shardwright partition`, which needs no devices",
        )


def _program_options(command: F) -> F:
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
            "--devices", type=click.IntRange(min=1), metavar="N", help="Refuse a mesh of more than N devices."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _input_options(command: F) -> F:
    """Where inputs come from, for commands that run programs."""
    options = (
        click.option("--inputs", metavar="F.npz", help="Inputs by argument name, as numpy.savez writes them."),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs that are drawn."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _epilog(*examples: str) -> str:
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\n{GRAMMAR}\n\n\b\nExamples:\n{lines}"


@cli.command(
    short_help="Shard, run on virtual devices, compare, summarize.",
    epilog=_epilog(
        "shardwright run examples/gpt2.mlir",
        "shardwright run mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model -o stages",
    ),
)
@_program_options
@_input_options
@click.option("-o", "--output", metavar="DIR", help="Folder of the stages (default: NAME.stages here).")
def run(file: str, inputs: str | None, seed: int, output: str | None, **options: Any) -> int:
    """Shard FILE, write every stage, run it on virtual devices and compare with the unsharded program."""
    given = _Given(file, **options)
    folder = Path(output) if output is not None else Path(f"{_stem(file)}.stages")
    with _progress() as clock:
        arrays = None if inputs is None else load_inputs(inputs)
        spmd = given.shard(given.load(clock), VIRTUAL_DEVICES).partition()
        spmd.inputs(arrays, seed=seed)  # inputs that do not fit are said before anything is written
        written = _write_stages(spmd, folder)
        verification = spmd.verify(arrays, seed=seed)
    summary = {**describe_spmd(spmd), **describe_verification(verification), "written": written}
    _answer(given, summary)
    return 0 if verification.ok else 1


@cli.command(
    short_help="Complete the sharding of every tensor.",
    epilog=_epilog(
        "shardwright propagate examples/gpt2.mlir -o full.mlir",
        "shardwright propagate mlp.mlir --mesh data=2,model=4 --arg 0=data,- --arg 1=-,model",
    ),
)
@_program_options
@click.option("-o", "--output", metavar="OUT", help="File of the module (default: standard output).")
def propagate(file: str, output: str | None, **options: Any) -> None:
    """Complete the sharding of every tensor of FILE and write the module."""
    given = _Given(file, **options)
    with _progress() as clock:
        plan = given.shard(given.load(clock))
        text = plan.module()
    _deliver(given, text, output, lambda: describe_plan(plan))


@cli.command(
    short_help="Write the program of one device.",
    epilog=_epilog(
        "shardwright partition examples/gpt2.mlir -o local.mlir",
        "shardwright partition mlp.mlir --mesh x=8 --arg 0=x,- --stage explicit",
    ),
)
@_program_options
@click.option(
    "--stage",
    type=click.Choice(STAGES[1:]),
    default="local",
    show_default=True,
    help="explicit: global shapes with all communication written; local: the program of one device.",
)
@click.option("-o", "--output", metavar="OUT", help="File of the module (default: standard output).")
def partition(file: str, stage: str, output: str | None, **options: Any) -> None:
    """Make every communication of FILE explicit and write the module of a stage."""
    given = _Given(file, **options)
    with _progress() as clock:
        spmd = given.shard(given.load(clock)).partition()
        text = spmd.module(stage)
    _deliver(given, text, output, lambda: describe_spmd(spmd))


@cli.command(
    short_help="Run sharded and unsharded, and compare.",
    epilog=_epilog(
        "shardwright verify examples/gpt2.mlir",
        "shardwright verify mlp.mlir --mesh x=8 --arg 0=x,- --inputs batch.npz",
    ),
)
@_program_options
@_input_options
def verify(file: str, inputs: str | None, seed: int, **options: Any) -> int:
    """Run FILE sharded on virtual devices and unsharded, and compare the results."""
    given = _Given(file, **options)
    with _progress() as clock:
        arrays = None if inputs is None else load_inputs(inputs)
        spmd = given.shard(given.load(clock), VIRTUAL_DEVICES).partition()
        verification = spmd.verify(arrays, seed=seed)
    plan = describe_plan(spmd.plan)
    _answer(given, {"program": plan["program"], "mesh": plan["mesh"], **describe_verification(verification)})
    return 0 if verification.ok else 1


@contextmanager
def _progress() -> Iterator[Clock]:
    """A clock whose stages show on standard error while they run, where that is a terminal."""
    errors: Console = console(stderr=True)
    if not errors.is_terminal:
        yield Clock()
        return
    with errors.status("starting") as status:
        yield Clock(lambda stage: status.update(_WORK.get(stage, stage)))


def _stem(file: str) -> str:
    return "program" if file == "-" else Path(file).stem


def _write_stages(spmd: Spmd, folder: Path) -> dict[str, str]:
    """Write every stage; all texts are made before the first is written."""
    with spmd.clock.stage("write"):
        texts = {stage: spmd.module(stage) for stage in STAGES}
        make_folder(folder)
        return {stage: str(write_file(folder / f"{stage}.mlir", text)) for stage, text in texts.items()}


def _deliver(given: _Given, text: str, output: str | None, describe: Callable[[], Summary]) -> None:
    """The module to its file and the summary to standard output; without a file the module takes its place."""
    if output is not None and output != "-":
        path = write_file(output, text)
        _answer(given, {**describe(), "written": {"module": str(path)}})
    elif given.as_json:
        _answer(given, describe())
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _answer(given: _Given, summary: Summary) -> None:
    if given.as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_summary(console(), summary)


def main() -> None:
    """The entry point of the `shardwright` command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without × shows ?
    cli.main(prog_name="shardwright")

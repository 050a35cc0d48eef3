"""The command `shardwright`: options, printing, exit status, and nothing else.

Exit status: 0 when all went well, 1 for a diagnostic or a result that differs, 2 for wrong options, 130 when
interrupted.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

import shardwright.notation.all  # noqa: F401  # makes the notations known
from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.annotate import program_mesh
from shardwright.frontends.files import make_folder, write_file
from shardwright.frontends.load import load_source
from shardwright.frontends.specs import GRAMMAR, parse_argument_option, parse_mesh_option
from shardwright.notation.registry import Shape, notations, parse_text, print_text
from shardwright.program import STAGES, Clock, Plan, Program, Spmd
from shardwright.report.layout import Page, console
from shardwright.report.show import describe_picture, picture, print_picture
from shardwright.report.summary import Summary, describe_plan, describe_spmd, describe_verification
from shardwright.report.svg import picture_svg
from shardwright.report.text import print_summary
from shardwright.runtime.inputs import load_inputs
from shardwright.sharding import TensorSharding

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
  shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 4x3 --mesh x=2
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
    return f"\b\n{GRAMMAR}\n\n{_examples(*examples)}"


def _examples(*examples: str) -> str:
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}"


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


def _sharding_options(command: F) -> F:
    """One sharding, in any notation, and the tensor and devices it is of."""
    known = ", ".join(entry.name for entry in notations())
    options = (
        click.option("--sharding", required=True, metavar="TEXT", help=f"The sharding, in any notation: {known}."),
        click.option("--shape", required=True, metavar="SHAPE", help='The tensor, as 8x16; "" is a scalar.'),
        click.option("--mesh", metavar="AXES", help="The devices, as x=2,y=4, for a text that does not say them."),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _sharding(text: str, shape: Shape, mesh: str | None) -> TensorSharding:
    return parse_text(text, shape=shape, mesh=None if mesh is None else parse_mesh_option(mesh))


def _shape(text: str) -> Shape:
    sizes = [size.strip() for size in text.split("x")] if text.strip() else []
    for size in sizes:
        if not re.fullmatch(r"\d{1,18}", size, re.ASCII):
            raise ShardingError(
                f"not a shape: {text!r}",
                cause=f"{size!r} is not a size" if size else "a size is missing",
                remedy='write it as 8x16, and "" for a scalar',
            )
    return tuple(map(int, sizes))


def _described(sharding: TensorSharding, shape: Shape) -> Summary:
    mesh = {"axes": sharding.mesh.sizes, "devices": sharding.mesh.size}
    return {"sharding": repr(sharding), "shape": list(shape), "mesh": mesh}


def _print_json(value: Summary) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@cli.command(
    short_help="Draw a sharding: the tiles and the devices.",
    epilog=_examples(
        """shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 4x3 --mesh x=2""",
        """shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 7x5 --mesh x=4,y=2 -o tiles.svg""",
    ),
)
@_sharding_options
@click.option("-o", "--output", metavar="OUT.svg", help="Write the picture as SVG (- is standard output).")
def show(sharding: str, shape: str, mesh: str | None, as_json: bool, output: str | None) -> None:
    """Draw a sharding: the tensor cut into tiles with the devices on each, and the slice that each device holds."""
    if output is not None and Path(output).suffix.lower() not in ("", ".svg"):
        raise ShardingError(
            f"cannot write a picture as {Path(output).suffix!r}",
            cause="pictures are written as SVG",
            remedy=f"give -o {Path(output).with_suffix('.svg')}",
        )
    sizes = _shape(shape)
    read = _sharding(sharding, sizes, mesh)
    drawn = picture(read, sizes)
    answer = {**_described(read, sizes), **describe_picture(drawn)}
    if output is not None and output != "-":
        written = {"picture": str(write_file(output, picture_svg(drawn)))}
        if as_json:
            _print_json({**answer, "written": written})
        else:
            print_summary(console(), {"written": written})
    elif as_json:
        _print_json(answer)
    elif output == "-":
        sys.stdout.write(picture_svg(drawn))
    else:
        print_picture(console(), drawn)


@cli.command(
    short_help="Print a sharding in other notations.",
    epilog=_examples(
        """shardwright convert --sharding '<@mesh, [{"x"}, {}]>' --shape 8x16 --mesh x=2,y=4""",
        """shardwright convert --sharding '<@mesh, [{"x"}, {}]>' --shape 8x16 --mesh x=2,y=4 --to sdy""",
    ),
)
@_sharding_options
@click.option("--to", default="all", show_default=True, metavar="NAME", help="A notation, or all.")
def convert(sharding: str, shape: str, mesh: str | None, as_json: bool, to: str) -> None:
    """Print a sharding in another notation, or in every one that can say it, with why the others cannot."""
    sizes = _shape(shape)
    read = _sharding(sharding, sizes, mesh)
    texts: dict[str, str] = {}
    refused: dict[str, Diagnostic] = {}
    for name in [entry.name for entry in notations()] if to == "all" else [to]:
        try:
            texts[name] = print_text(read, name, shape=sizes)
        except ShardingError as error:
            if to != "all":
                raise
            refused[name] = error.diagnostic
    if as_json:
        why = {name: {"message": said.message, "cause": said.cause} for name, said in refused.items()}
        _print_json({**_described(read, sizes), "texts": texts, "refused": why})
    elif to != "all":
        sys.stdout.write(texts[to] + "\n")
    else:
        _print_conversions(texts, refused)


def _print_conversions(texts: dict[str, str], refused: dict[str, Diagnostic]) -> None:
    out = console()
    page = Page(out.width if out.is_terminal else None)
    page.pairs(list(texts.items()))
    if refused:
        page.heading("Not expressible")
        page.pairs([(name, said.message) for name, said in refused.items()])
    page.print(out)


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
        _print_json(summary)
    else:
        print_summary(console(), summary)


def main() -> None:
    """The entry point of the `shardwright` command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without × shows ?
    cli.main(prog_name="shardwright")

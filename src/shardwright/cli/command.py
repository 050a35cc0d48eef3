"""The group of commands: failures become diagnostics and exit statuses.

Exit status: 0 when all went well, 1 for a diagnostic or a result that differs, 2 for wrong options, 141 when
the reader of the answer is gone, and 128 + N when signal N ends it (130 for Ctrl-C).
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

import click

from shardwright.errors import ShardingError
from shardwright.lazy import loaded
from shardwright.process import finish_output, forget, hold_output

__all__ = ["cli", "main"]


class _ClosedPipe(Exception):
    """The reader of standard output is gone; under this name click leaves it to us."""


class _CommandEntry(NamedTuple):
    """Where a command is defined, and what the list of commands says of it."""

    home: str
    short_help: str


_COMMANDS = {
    "analyze": _CommandEntry("shardwright.cli.analyze:analyze", "Say what each device holds, computes and sends."),
    "calibrate": _CommandEntry("shardwright.cli.calibrate:calibrate", "Measure the devices at hand."),
    "convert": _CommandEntry("shardwright.cli.notations:convert", "Write a module or a sharding in another notation."),
    "diff": _CommandEntry("shardwright.cli.plans:diff", "Say what differs between two plans."),
    "explain": _CommandEntry("shardwright.cli.explain:explain", "Say why a value is sharded as it is."),
    "export": _CommandEntry("shardwright.cli.export:export", "Write a partitioned program as one file."),
    "hardware": _CommandEntry("shardwright.cli.hardware:hardware", "Say what hardware there is, and what it can do."),
    "launch": _CommandEntry("shardwright.cli.launch:launch", "Run a Python file in several processes, to try it out."),
    "partition": _CommandEntry("shardwright.cli.programs:partition", "Write the program of one device."),
    "plan": _CommandEntry("shardwright.cli.plans:plan", "Write how arguments and results lie, to apply it again."),
    "propagate": _CommandEntry("shardwright.cli.programs:propagate", "Complete the sharding of every tensor."),
    "run": _CommandEntry("shardwright.cli.programs:run", "Shard, run on virtual devices, compare, summarize."),
    "show": _CommandEntry("shardwright.cli.notations:show", "Draw a sharding: the tiles and the devices."),
    "tune": _CommandEntry("shardwright.cli.tune:tune", "Try other shardings of arguments, and print the best."),
    "verify": _CommandEntry("shardwright.cli.programs:verify", "Run sharded and unsharded, and compare."),
}


class _Commands(click.Group):
    """A group that loads the command invoked, and whose failures are diagnostics: no traceback reaches a user."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """A command by name, loaded."""
        if name not in _COMMANDS:
            return None
        command: click.Command = loaded(_COMMANDS[name].home)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, none of which is loaded for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ClosedPipe from None
        except KeyboardInterrupt:
            raise click.Abort from None  # of the other click prints an empty line

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit with its status."""
        kwargs["standalone_mode"] = False
        status = 0
        try:
            status = super().main(*args, **kwargs) or 0
            finish_output()
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except ShardingError as error:
            status = _fail(str(error))
        except (click.Abort, KeyboardInterrupt):
            status = 130
        except (BrokenPipeError, _ClosedPipe):
            forget(1)
            status = 141
        except OSError as error:
            forget(1)
            status = _fail(
                f"error: cannot write the answer\n  why:    {error.strerror or error}\n"
                "  change: make room, or write to another file or pipe"
            )
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
    print(message, file=sys.stderr)
    return status


def _print_version(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
    if not is_given:
        return
    from importlib.metadata import PackageNotFoundError, version  # as slow as all that help texts need

    try:
        text = version("shardwright")
    except PackageNotFoundError:
        text = "(not installed: run from its source)"
    click.echo(f"shardwright, version {text}")
    ctx.exit()


_HELP = """Shards tensor programs: completes shardings, makes communication explicit, runs and verifies.

FILE is StableHLO text, MLIR bytecode or a StableHLO portable artifact; - is standard input.

\b
Examples:
  shardwright run examples/gpt2.mlir
  shardwright run mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model
  shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 4x3 --mesh x=2
"""


@click.group(cls=_Commands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """The command and its subcommands."""


def main() -> None:
    """Run the `shardwright` command and end its process."""
    hold_output()
    cli.main(prog_name="shardwright")

"""The command that runs a Python file in several processes."""

from __future__ import annotations

from pathlib import Path

import click

from shardwright.cli.given import VIRTUAL_DEVICES, examples

__all__ = ["launch"]


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "shardwright launch train.py --processes 4",
        "shardwright launch train.py --processes 2 --devices 8 -- --steps 10",
    ),
)
@click.argument("file", metavar="FILE.py")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="How many.")
@click.option(
    "--devices",
    type=click.IntRange(min=1, max=VIRTUAL_DEVICES),
    default=8,
    show_default=True,
    metavar="N",
    help="Virtual CPU devices in all; each process has its share.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="End all that takes longer.",
)
def launch(file: str, arguments: tuple[str, ...], processes: int, devices: int, timeout: float) -> None:
    """Try FILE.py out on this machine as on several: in N processes whose devices jax.distributed has joined.

    Each runs it as Python does, with jax.devices() of all. Shown is what the first prints; where one fails all end, and
    its words are told. They meet on the loopback device only.
    """
    from shardwright.errors import ShardingError
    from shardwright.runtime.several import run_script

    if not Path(file).is_file():
        raise ShardingError(f"no such file: {file!r}", remedy="give the path of a Python file")
    run_script(Path(file), arguments, processes, devices, timeout=timeout)

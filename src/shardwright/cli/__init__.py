"""The command `shardwright`: options, printing, exit status, and nothing else."""

from shardwright.cli import explain, notations, programs  # noqa: F401  # they register their commands
from shardwright.cli.command import cli, main

__all__ = ["cli", "main"]

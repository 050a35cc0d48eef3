"""The command `shardwright`: options, printing, exit status, and nothing else."""

from shardwright.cli.command import cli, main

__all__ = ["cli", "main"]

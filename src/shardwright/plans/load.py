"""Plans from files."""

from __future__ import annotations

import os

from shardwright.errors import ShardingError
from shardwright.files import not_a_path, printable, read_file
from shardwright.plans.read import REMEDY, parse_plan
from shardwright.plans.saved import SavedPlan

__all__ = ["load_plan"]


def load_plan(source: str | os.PathLike[str]) -> SavedPlan:
    """Read a plan from a file, as `Plan.save` writes it.

    Arguments:
        source: The path of the file.

    Raises:
        ShardingError: a file that cannot be read, or that is no plan; with the line.

    Example:
        program.apply(sw.load_plan("plan.toml"))  # or the path itself
    """
    if not isinstance(source, (str, os.PathLike)):
        raise not_a_path(source)
    path = os.fspath(source)
    try:
        text = read_file(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ShardingError(
            "the plan is not text", location=printable(path), cause=f"byte {error.start} is not UTF-8", remedy=REMEDY
        ) from None
    except ShardingError as error:
        raise error.replaced(remedy="give the path of a plan, as `shardwright plan` writes it") from None
    return parse_plan(text, printable(path))

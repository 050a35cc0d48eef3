"""Plans from files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.files import not_a_path, printable, read_file
from shardwright.plans.other import OtherPlan
from shardwright.plans.read import REMEDY, parse_plan
from shardwright.plans.saved import SavedPlan

__all__ = ["load_plan", "load_saved"]


def load_plan(source: str | os.PathLike[str] | Mapping[str, Any], **options: Any) -> SavedPlan | OtherPlan:
    """Read a plan from a file, as `Plan.save` writes it, or one of another framework, from JSON or as it is.

    Arguments:
        source: The path of the file, or the values of another format, such as a `base_model_tp_plan`.
        **options: What another format has to be told: `axis` for the axis of a tp_plan, `rules` for the logical axes of
            MaxText.

    Raises:
        ShardingError: a file that cannot be read, or that is no plan, with the line; an option that is not taken.

    Example:
        program.apply(sw.load_plan("plan.toml"))  # or the path itself
        program.apply(sw.load_plan(LlamaConfig.base_model_tp_plan, axis="model"), mesh)
    """
    if isinstance(source, Mapping):
        return OtherPlan(source, options=options)
    if not isinstance(source, (str, os.PathLike)):
        raise not_a_path(source)
    text, location = _text(os.fspath(source))
    if text.lstrip().startswith("{"):
        return OtherPlan(_json(text, location), location, options)
    if options:
        raise ShardingError(
            f"a plan in TOML takes no {next(iter(options))!r}", location=location, remedy="leave it out"
        )
    return parse_plan(text, location)


def load_saved(source: str | os.PathLike[str]) -> SavedPlan:
    """Read a plan of our own from a file.

    Raises:
        ShardingError: a file that cannot be read, or that is none of ours.
    """
    plan = load_plan(source)
    if isinstance(plan, SavedPlan):
        return plan
    raise ShardingError(
        f"the plan is a {plan.format}, which says nothing without a program",
        location=plan.location,
        remedy="make it one of ours: shardwright plan FILE --plan PLAN -o plan.toml",
    )


def _text(path: str) -> tuple[str, str]:
    """The text of a file, and what diagnostics call it."""
    location = printable(path)
    try:
        return read_file(path).decode().replace("\r\n", "\n"), location
    except UnicodeDecodeError as error:
        cause = f"byte {error.start} is not UTF-8"
        raise ShardingError("the plan is not text", location=location, cause=cause, remedy=REMEDY) from None
    except ShardingError as error:
        raise error.replaced(remedy="give the path of a plan, as `shardwright plan` writes it") from None


def _json(text: str, location: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        cause = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ShardingError(
            "the plan begins as JSON and is none", location=f"{location}{where}", cause=cause, remedy=REMEDY
        ) from None

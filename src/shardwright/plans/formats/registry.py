"""The formats of plans of other frameworks, by name, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.lazy import loaded
from shardwright.plans.formats.format import Converted, PlanFormat
from shardwright.plans.formats.homes import HOMES
from shardwright.plans.saved import SavedPlan

__all__ = ["check_options", "convert_plan", "format_of", "plan_format"]


def plan_format(name: str) -> PlanFormat:
    """The format called `name`.

    Raises:
        ShardingError: there is none.
    """
    if name not in HOMES:
        raise ShardingError(f"unknown format of plans {name!r}", remedy=f"one of {', '.join(HOMES)}")
    found: PlanFormat = loaded(HOMES[name])
    return found


def _all() -> Iterator[PlanFormat]:
    return map(plan_format, HOMES)


def format_of(content: Any, location: str) -> PlanFormat:
    """The format that JSON values are in.

    Raises:
        ShardingError: none that is known.
    """
    for each in _all():
        if each.looks_like(content):
            return each
    known = "\n".join(f"          {each.name:<10}  {each.title}" for each in _all())
    raise ShardingError(
        "not a plan in any format",
        location=location,
        cause="its values are like those of none",
        remedy=f"write it in TOML, as `shardwright plan` does, or in one of these\n{known}",
    )


def convert_plan(plan: SavedPlan, name: str, options: Mapping[str, Any], *, strict: bool = False) -> Converted:
    """A plan in the format called `name`.

    Raises:
        ShardingError: no such format or option; where it is to be strict, all that the format cannot say.
    """
    format = plan_format(name)
    check_options(format, options)
    made = format.write(plan, options)
    if strict:
        made.check(name)
    return made


def check_options(format: PlanFormat, options: Mapping[str, Any]) -> None:
    """Whether a format takes these.

    Raises:
        ShardingError: it does not.
    """
    for name in options:
        if name not in format.options:
            takes = ", ".join(format.options) or "nothing"
            raise ShardingError(f"{format.name} takes no {name!r}", cause=f"it takes {takes}", remedy="leave it out")

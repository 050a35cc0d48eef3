"""Pipelines of ours against the same pipelines of the C++: the whole module's text, locations too.

compared(texts, "sdy-sharding-group-import,sdy-user-priority-propagate")
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step
from tests.oracles.shardy import ShardyFailure, run_batch

__all__ = ["Compared", "assert_alike", "compared", "ours"]


_IS_INVALID = re.compile(r'^"builtin\.module"', re.MULTILINE)
"""MLIR prints a module in its generic form where it does not verify."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One module through both.

    Attributes:
        text: The module.
        difference: What differs, as a diff; empty where nothing does.
        died: Why the C++ made nothing of it; it is not compared then.
    """

    text: str
    difference: str
    died: str = ""


def ours(text: str, pipeline: str) -> str:
    """What our passes make of a module, or the diagnostic that they end in."""
    module = load_module(text)
    try:
        for step in parse_pipeline(pipeline):
            run_step(module, step)
    except ShardingError as error:
        return str(error)
    return module_text(module, locations=True)


def compared(texts: Sequence[str], passes: str) -> list[Compared]:
    """Each module through passes of both."""
    pipeline = f"builtin.module({passes})"
    answers = run_batch([(text, pipeline) for text in texts], debug_info=True)
    return [_compared(text, pipeline, answer) for text, answer in zip(texts, answers, strict=True)]


def _compared(text: str, pipeline: str, expected: str | ShardyFailure) -> Compared:
    if isinstance(expected, ShardyFailure):
        return Compared(text, "", expected.message)
    if _IS_INVALID.search(expected):
        return Compared(text, "", "the module that it writes does not verify")
    got = ours(text, pipeline)
    difference = difflib.unified_diff(expected.splitlines(), got.splitlines(), "C++", "ours", lineterm="", n=2)
    return Compared(text, "\n".join(difference))


def assert_alike(texts: Sequence[str], passes: str, *, deaths: float = 0.0) -> int:
    """Fail where one differs, or the C++ dies of more than this part; how many modules were compared."""
    outcomes = compared(texts, passes)
    for outcome in (outcome for outcome in outcomes if outcome.difference):
        raise AssertionError(f"{passes} differs\n{outcome.difference}\nfor the module\n{outcome.text}")
    dead = [outcome for outcome in outcomes if outcome.died]
    assert len(dead) <= deaths * len(texts), f"the C++ makes nothing of {len(dead)}: {dead[0].died}\n{dead[0].text}"
    return len(outcomes) - len(dead)

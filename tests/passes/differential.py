"""A pass of ours against the C++ pass of the same name: the whole module's text, byte for byte, locations too.

    assert_same([Job(text, "sdy-close-shardings"), Job(text, "sdy-unflatten-call-graph", {"dedup-functions-fully": True})])

All jobs go through one subprocess, so give many at once. `prepared` runs C++ passes that stand before ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.registry import Pass, pass_named
from tests.oracles.shardy import ShardyFailure, run_batch

__all__ = ["Job", "assert_same", "ours", "prepared", "theirs"]

Value = bool | int | str


@dataclass(frozen=True)
class Job:
    """A module, as text, and the pass to run on it, with the options that are not at their defaults."""

    text: str
    name: str
    options: Mapping[str, Value] = field(default_factory=dict)

    @property
    def pipeline(self) -> str:
        """The job as a textual pipeline: `builtin.module(func.func(name{option=value}))`."""
        options = " ".join(f"{name}={_spelt(value)}" for name, value in self.options.items())
        text = f"{self.name}{{{options}}}" if options else self.name
        declared = pass_named(self.name)
        if isinstance(declared, Pass) and declared.on != "builtin.module":
            text = f"{declared.on}({text})"
        return f"builtin.module({text})"


def _spelt(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ours(job: Job) -> str:
    """What our pass makes of the module, or the diagnostic that it ends in."""
    declared = pass_named(job.name)
    assert isinstance(declared, Pass)
    module = load_module(job.text)
    try:
        declared.apply(module, {**declared.defaults(), **job.options})
    except ShardingError as error:
        return str(error)
    return module_text(module, locations=True)


def theirs(jobs: Sequence[Job]) -> list[str | ShardyFailure]:
    """What the C++ pass makes of each module, or why it makes nothing."""
    return run_batch([(job.text, job.pipeline) for job in jobs], debug_info=True)


def prepared(texts: Iterable[str], pipeline: str) -> list[str]:
    """The modules after a pipeline of C++ passes, such as those that stand before ours; refused ones left out."""
    answers = run_batch([(text, f"builtin.module({pipeline})") for text in texts], debug_info=True)
    return [answer for answer in answers if isinstance(answer, str)]


def assert_same(jobs: Sequence[Job], *, refusals: bool = True) -> int:
    """Fail with the first difference; return how many modules were compared.

    What the C++ refuses is not compared, or fails too without `refusals`.
    """
    compared = 0
    for job, expected in zip(jobs, theirs(jobs), strict=True):
        if isinstance(expected, ShardyFailure):
            assert refusals, f"the C++ refuses {job.pipeline}: {expected.message}\n{job.text}"
            continue
        got = ours(job)
        if got != expected:
            difference = difflib.unified_diff(expected.splitlines(), got.splitlines(), "C++", "ours", lineterm="", n=2)
            raise AssertionError("\n".join([f"{job.pipeline} differs", *difference, "for the module", job.text]))
        compared += 1
    return compared

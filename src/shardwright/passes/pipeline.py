"""Textual pipelines ↔ the passes to run.

    builtin.module(sdy-basic-propagate{keep-sharding-rules=true},func.func(canonicalize,cse))

A pipeline by name stands for its passes. Our passes are given the whole module wherever they are nested; a pass for
functions stands in `func.func(…)`, and is put there where it is asked for by its name alone.

Source: MLIR's "Pass Infrastructure", Textual Pass Pipeline Specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.passes.options import options_text, parse_options
from shardwright.passes.registry import Options, Pass, pass_named, passes
from shardwright.passes.upstream import is_upstream, run_native
from shardwright.scanner import Scanner, place_of

__all__ = ["PARSER", "PipelineStep", "parse_pipeline", "pipeline_text", "run_step", "steps_of"]

PARSER = "MLIR Textual PassPipeline Parser"
"""What diagnostics call the text of a pipeline, as MLIR's do."""

_ROOT = "builtin.module"
_ANY = "any"
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A pass to run, with its options, and the ops it is nested in, the module's first."""

    entry: Pass
    options: Options
    anchors: tuple[str, ...] = (_ROOT,)

    def __str__(self) -> str:
        """As it stands in a pipeline, with all its options."""
        return self.entry.name + options_text(self.entry, self.options)


def run_step(module: ir.Module, step: PipelineStep) -> None:
    """Run one pass on a module, in place.

    Raises:
        ShardingError: what the pass finds wrong with the module.
    """
    if is_upstream(step.entry.name) and step.anchors != (_ROOT,):
        text = step.entry.name + options_text(step.entry, step.options, changed_only=True)
        run_native(module, f"{'('.join((*step.anchors, text))}{')' * len(step.anchors)}")
    else:
        step.entry.apply(module, step.options)


def steps_of(name: str, options: str | Options = "", anchors: tuple[str, ...] = (_ROOT,)) -> tuple[PipelineStep, ...]:
    """The passes that a pass or pipeline by name stands for.

    Arguments:
        name: The pass or pipeline.
        options: As text, or by name; those left out are at their defaults.
        anchors: The ops it is nested in; a pass for functions that is given to the module is nested.

    Raises:
        ShardingError: no such name, wrong options, or a pass that does not run on the innermost op.
    """
    entry = pass_named(name)
    if isinstance(options, str):
        given = parse_options(entry, options)
    else:
        given = {**parse_options(entry, ""), **options}
    if isinstance(entry, Pass):
        return (PipelineStep(entry, given, _implicit(entry, anchors)),)
    return tuple(step for inner, values in entry.expand(given) for step in steps_of(inner, values, anchors))


def _implicit(entry: Pass, anchors: tuple[str, ...]) -> tuple[str, ...]:
    return (*anchors, entry.on) if len(anchors) == 1 and entry.on not in (_ANY, _ROOT) else anchors


def parse_pipeline(text: str) -> tuple[PipelineStep, ...]:
    """The passes of a textual pipeline in order.

    Raises:
        ShardingError: malformed text, unknown passes or options, or a pass nested in an op that it does not run on;
            at its line and column.
    """
    return _PipelineReader(text).read()


def pipeline_text(steps: Iterable[PipelineStep]) -> str:
    """A pipeline as MLIR prints it: all options by name, neighbours in the same op together."""
    parts: list[str] = []
    inside: tuple[str, ...] = (_ROOT,)
    for step in steps:
        kept = 1
        while kept < min(len(inside), len(step.anchors)) and inside[kept] == step.anchors[kept]:
            kept += 1
        opened = "".join(f"{anchor}(" for anchor in step.anchors[kept:])
        parts += [")" * (len(inside) - kept), "," if parts else "", opened, str(step)]
        inside = step.anchors
    return f"{_ROOT}({''.join(parts)}{')' * len(inside)}"


class _PipelineReader(Scanner):
    """Reads a pipeline; what is wrong stands at a position of the text."""

    TOKEN = re.compile(r"\s*([^\s(){},]+|[(){},])")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.closed = 0
        self.steps: list[PipelineStep] = []

    def read(self) -> tuple[PipelineStep, ...]:
        """All of the text."""
        start = self._start()
        root = self._word()
        if not root or not self.accept("(") or not self.text.rstrip().endswith(")"):
            self._refuse(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'", start
            )
        if root not in (_ROOT, _ANY):
            self._refuse(
                f"can't run '{root}' pass manager on '{_ROOT}' op", start, remedy=f"nest it: {_ROOT}({root}(…))"
            )
        if self.text[self._behind() :].rstrip() != ")":
            self._passes((root,))
            if self.peek():
                self._refuse(
                    "encountered extra closing ')' creating unbalanced parentheses while parsing pipeline",
                    self._start() - 1,
                )
        return tuple(self.steps)

    def _passes(self, anchors: tuple[str, ...]) -> None:
        """A list of passes, up to and with the parenthesis that closes it."""
        start = self._behind()
        while True:
            self._pass(anchors)
            if self.accept(")"):
                self.closed = start
                return
            if self.accept(","):
                continue
            if not self.peek():  # the last parenthesis was to close the whole, not that list
                self._refuse("encountered unbalanced parentheses while parsing pipeline", self.closed)
            self._refuse("expected ',' after parsing pipeline", self._start())

    def _pass(self, anchors: tuple[str, ...]) -> None:
        start = self._start()
        name = self._word()
        if self.accept("("):
            if len(anchors) == _DEEPEST:
                self._refuse(f"pipelines are nested more than {_DEEPEST} deep", self._behind())
            self._passes((*anchors, name or _ANY))
            return
        options = self._braces()
        if name not in {entry.name for entry in passes()}:
            self._refuse(f"'{name}' does not refer to a registered pass or pass pipeline", start)
        try:
            steps = steps_of(name, options, anchors)
        except ShardingError as error:
            raise error.replaced(op="", location=place_of(self.text, start, PARSER)) from None
        entry = pass_named(name)
        for step in steps:
            is_nested_alone = isinstance(entry, Pass) and step.anchors != anchors
            if is_nested_alone or not _runs_on(step.entry, step.anchors):
                self._restricted(step.entry, anchors, start)
        self.steps += steps

    def _restricted(self, entry: Pass, anchors: Sequence[str], start: int) -> NoReturn:
        self._refuse(
            f"Can't add pass '{entry.name}' restricted to '{entry.on}' on a PassManager intended to run on "
            f"'{anchors[-1]}', did you intend to nest?",
            start,
        )

    def _braces(self) -> str:
        """What stands between `{` and its `}`, if it is next."""
        start, depth = self._start(), 1
        if not self.accept("{"):
            return ""
        while depth:
            depth += {"{": 1, "}": -1}.get(self.peek(), 0)
            if not self.peek():
                self._refuse("missing closing '}' while processing pass options", start)
            self.at += 1
        return self.text[start + 1 : self._behind() - 1]

    def _word(self) -> str:
        return "" if self.peek() in "(){}," else self.take()

    def _start(self) -> int:
        """The position of the next token."""
        return self.column() - 1

    def _behind(self) -> int:
        """The position behind the last token taken."""
        return self.column(self.at - 1) - 1 + len(self.tokens[self.at - 1])

    def _refuse(self, message: str, at: int, *, remedy: str = "") -> NoReturn:
        raise ShardingError(message, location=place_of(self.text, at, PARSER), remedy=remedy)


def _runs_on(entry: Pass, anchors: Sequence[str]) -> bool:
    """Whether a pass may stand there: ours in the module or its functions, the others in what they are declared for."""
    if is_upstream(entry.name):
        return entry.on in (_ANY, anchors[-1])
    inner = () if entry.on in (_ANY, _ROOT) else (entry.on,)
    return tuple(anchors[1:]) == inner

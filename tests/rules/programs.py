"""From MLIR text to ops and their rules, for tests."""

from __future__ import annotations

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.context import load_module
from shardwright.ir.graph import Op
from shardwright.notation.modules import read
from shardwright.rules.registry import rule_of
from shardwright.rules.text import ATTRIBUTE, format_rule

__all__ = ["ops_of", "rule_text", "rule_texts", "without_rule"]


def ops_of(text: str) -> list[Op]:
    """The ops of a module's `main`, those in regions included."""
    return list(read(load_module(text)).walk())


def without_rule(op: Op) -> Op:
    """The same op without the attribute that gives its rule."""
    return Op(op.signature.replace(**{ATTRIBUTE: None}), op.operands, op.results)


def rule_texts(ops: list[Op]) -> list[str | None]:
    """Our rule for each op, as text."""
    makers = {value: op for op in ops for value in op.results}
    rules = (rule_of(op, makers.get) for op in ops)
    return [None if rule is None else format_rule(rule) for rule in rules]


def rule_text(text: str, name: str) -> str | None:
    """The rule of the last op called `name`, without the frame `#sdy.op_sharding_rule<…>`."""
    ops = ops_of(text)
    (*_, last) = [rule for op, rule in zip(ops, rule_texts(ops), strict=True) if op.name == name]
    return None if last is None else last.removeprefix("#sdy.op_sharding_rule<").removesuffix(">")

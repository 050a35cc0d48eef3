"""The sharding rule of every op, as its attribute `sdy.sharding_rule`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.graph import Op
from shardwright.ir.signature import Body, Signature
from shardwright.passes.module_graph import ModuleGraph, read_module_graph
from shardwright.passes.module_ops import operations
from shardwright.passes.registry import Option, Options, register
from shardwright.passes.warnings import is_heard, warn_of_unknown
from shardwright.propagation.engine.conservative import conservative_rule
from shardwright.rules.registry import rule_for, rule_of
from shardwright.rules.rule import ShardingRule
from shardwright.rules.text import ATTRIBUTE, format_rule

__all__ = ["CONSERVATIVE", "populate_rules", "populate_rules_of"]

CONSERVATIVE = Option(
    "conservative-propagation",
    False,
    "Whether sub-axes, and factors that need data of neighbouring shards, are left out of propagation.",
)


@register(
    "sdy-populate-op-sharding-rules",
    "Writes the sharding rule of every op that has one, and none yet, as an attribute of it.",
    options=(CONSERVATIVE,),
    on="func.func",
)
def populate_op_sharding_rules(module: ir.Module, options: Options) -> None:
    """Write the rules of all ops, those in bodies of reductions included."""
    populate_rules(read_module_graph(module), conservative=options[CONSERVATIVE.name])
    warn_of_unknown(operations(module, inner_first=True) if is_heard() else ())


def populate_rules(read: ModuleGraph, *, conservative: bool) -> None:
    """Write the rules of the ops that were read into their module."""
    ops = [pair for part in read.parts for pair in part.ops]
    _RuleWriting({value: op for _, op in ops for value in op.results}, conservative).ops(ops)


def populate_rules_of(ops: Iterable[tuple[Any, Op]]) -> None:
    """Write the rules of ops that depend on nothing but themselves."""
    _RuleWriting({}, False).ops(ops)


class _RuleWriting:
    def __init__(self, makers: dict[int, Op], conservative: bool) -> None:
        self.makers = makers
        self.conservative = conservative
        self.attributes: dict[ShardingRule, Any] = {}

    def ops(self, ops: Iterable[tuple[Any, Op]]) -> None:
        for handle, op in ops:
            self._write(handle, rule_of(op, self.makers.get), op.signature)
            self._bodies(handle, op.signature.bodies)

    def _bodies(self, handle: Any, bodies: tuple[Body, ...]) -> None:
        for region, body in zip(handle.regions if bodies else (), bodies, strict=True):
            self._body(region, body)

    def _body(self, region: Any, body: Body) -> None:
        types = list(body.arguments)
        for view, op in zip(region.blocks[0].operations, body.ops, strict=True):
            operands = tuple([types[number] for number in op.operands])
            signature = Signature(op.name, op.attributes, operands, op.results, op.bodies)
            self._write(view.operation, rule_for(signature), signature)
            types += op.results
            self._bodies(view.operation, op.bodies)

    def _write(self, handle: Any, rule: ShardingRule | None, signature: Signature) -> None:
        if rule is None or ATTRIBUTE in handle.attributes:
            return
        stated = conservative_rule(signature, rule) if self.conservative else rule
        if stated not in self.attributes:
            self.attributes[stated] = parse_attribute(format_rule(stated))
        handle.attributes[ATTRIBUTE] = self.attributes[stated]

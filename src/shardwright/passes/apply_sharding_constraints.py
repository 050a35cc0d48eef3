"""`sdy-apply-sharding-constraints`: what constraints constrain takes their sharding before propagation starts.

Constraints count, and the in-shardings of manual computations: see `propagation.steps.constraints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwright.ir.context import ir, parse_attribute
from shardwright.passes.constraint_debug import OPTIONS, Notes
from shardwright.passes.edits import put_behind
from shardwright.passes.module_ops import edge_of, operations, static_shape
from shardwright.passes.module_shardings import Shardings, can_say, single
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.constraints import CONSTRAINING, Constraining
from shardwright.propagation.working import CONSTRAINT, EDGE
from shardwright.rules.rule import identity_rule
from shardwright.rules.text import ATTRIBUTE, format_rule
from shardwright.sharding import TensorSharding

__all__ = ["apply_sharding_constraints"]


@register(
    "sdy-apply-sharding-constraints",
    "Applies constraints that dictate the sharding of their input.",
    options=OPTIONS,
)
def apply_sharding_constraints(module: ir.Module, options: Options) -> None:
    """Apply all constraints, and the in-shardings of manual computations, in program order."""
    ops = [op for op in operations(module, inner_first=True) if op.name in CONSTRAINING]
    notes = Notes(module, options)
    _InModule(module, notes).run(ops)
    notes.write()


class _InModule(Constraining):
    def __init__(self, module: ir.Module, notes: Notes) -> None:
        self.shardings = Shardings(module)
        self.notes = notes

    def can_say(self, value: Any) -> bool:
        return can_say(value)

    def sharding_of(self, value: Any) -> TensorSharding | None:
        return self.shardings.of(value)

    def constrained_to(self, op: Any, index: int) -> TensorSharding | None:
        return self.shardings.read(op.attributes["sharding" if op.name == CONSTRAINT else "in_shardings"])[index]

    def users(self, value: Any) -> Sequence[Any]:
        return [use.owner.operation for use in value.uses]

    def maker(self, value: Any) -> Any:
        return value.owner.operation if isinstance(value, ir.OpResult) else None

    def is_tied(self, value: Any) -> bool:
        return self._edge(value) is not None

    def say(self, value: Any, sharding: TensorSharding, op: Any) -> None:
        self.shardings.say(value, sharding)
        if op.name == CONSTRAINT:
            _write_rule(op)
            self.notes.applied(op, sharding)

    def say_on_edge(self, value: Any, sharding: TensorSharding) -> None:
        self._edge(value).attributes["sharding"] = single(sharding)

    def read_constraint(self, value: Any, sharding: TensorSharding, op: Any) -> None:
        if op.name == CONSTRAINT:
            _move_after(op, value)
            value.replace_all_uses_except(op.results[0], op)
        else:
            put_behind(value, CONSTRAINT, {"sharding": single(sharding)}, op.location)

    def read_behind(self, tail: Any, head: Any) -> None:
        value = head.operands[0]
        for use in list(value.uses):
            user = use.owner.operation
            behind = user != head and user.block == tail.block and tail.is_before_in_block(user)
            if behind and user.name != "func.return":
                user.operands[use.operand_number] = tail.results[0]

    def _edge(self, value: Any) -> Any:
        """The edge that makes a value, or that holds the value's sharding, or `None`."""
        maker = self.maker(value)
        if maker is not None:
            return maker if maker.name == EDGE else edge_of(value)
        owner = value.owner.owner.operation
        return edge_of(owner.results[value.arg_number] if owner.name == "stablehlo.while" else value)


def _move_after(op: Any, value: Any) -> None:
    if isinstance(value, ir.OpResult):
        op.move_after(value.owner.operation)
        return
    first = value.owner.operations[0].operation
    if first != op:
        op.move_before(first)


def _write_rule(constraint: Any) -> None:
    """Propagation is spared making the rule again."""
    shape = static_shape(constraint.results[0].type)
    if ATTRIBUTE not in constraint.attributes and shape is not None:
        constraint.attributes[ATTRIBUTE] = parse_attribute(format_rule(identity_rule(shape)))

"""`sdy-apply-sharding-constraints`: what constraints constrain takes their sharding before propagation starts.

A constraint with no open dimension says how its input should lie, so the input takes its sharding, unless it has one
or another constraint says otherwise; the in-shardings of manual computations count as constraints. Where the input
crosses a region's boundary, its other users read the constraint instead, so that not all that is tied to it is
constrained. A chain of constraints makes later users of its input read the end of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwright.ir.context import ir, parse_attribute
from shardwright.passes.add_data_flow_edges import insert_after
from shardwright.passes.attached import EDGE, Shardings, edge_of, operations, single, static_shape
from shardwright.passes.constraint_debug import OPTIONS, Notes
from shardwright.passes.registry import Options, register
from shardwright.passes.set_sharding import can_say, set_sharding
from shardwright.rules.rule import identity_rule
from shardwright.rules.text import ATTRIBUTE, format_rule
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["apply_sharding_constraints"]

_CONSTRAINT = "sdy.sharding_constraint"
_MANUAL = "sdy.manual_computation"
_CONSTRAINING = frozenset({_CONSTRAINT, _MANUAL})


@register(
    "sdy-apply-sharding-constraints",
    "Applies constraints that dictate the sharding of their input.",
    options=OPTIONS,
)
def apply_sharding_constraints(module: ir.Module, options: Options) -> None:
    """Apply all constraints, and the in-shardings of manual computations, in program order."""
    ops = [op for op in operations(module, inner_first=True) if op.name in _CONSTRAINING]
    notes = Notes(module, options)
    applier = _Applier(module, notes)
    for op in ops:
        if op.name == _CONSTRAINT:
            applier.constraint(op)
        else:
            applier.manual(op)
    notes.write()


class _Applier:
    def __init__(self, module: ir.Module, notes: Notes) -> None:
        self.shardings = Shardings(module)
        self.notes = notes

    def constraint(self, head: Any) -> None:
        """Apply a constraint to its input."""
        value = head.operands[0]
        tail = self._tail(head, value)
        if tail is not None:
            _read_after(tail, value, head)
        sharding = self.shardings.one(head.attributes["sharding"])
        if not self._should_apply(value, sharding):
            return
        if _edge_around(value) is not None:
            self._keep_partial(value, sharding)
            _move_after(head, value)
            value.replace_all_uses_except(head.results[0], head)
            return
        set_sharding(value, sharding, self.shardings)
        _write_rule(head)
        self.notes.applied(head, sharding)

    def manual(self, op: Any) -> None:
        """Apply the in-shardings of a manual computation to its operands."""
        for value, sharding in zip(list(op.operands), self.shardings.read(op.attributes["in_shardings"]), strict=True):
            if not self._should_apply(value, sharding):
                continue
            if _edge_around(value) is None:
                set_sharding(value, sharding, self.shardings)
                continue
            self._keep_partial(value, sharding)
            constraint = ir.Operation.create(
                _CONSTRAINT,
                results=[value.type],
                operands=[value],
                attributes={"sharding": single(sharding)},
                loc=op.location,
            )
            insert_after(value, constraint)
            value.replace_all_uses_except(constraint.results[0], constraint)

    def _should_apply(self, value: Any, sharding: TensorSharding) -> bool:
        return (
            can_say(value)
            and self.shardings.of(value) is None
            and not any(dim.open for dim in sharding.dims)
            and not any(self._says_otherwise(use, sharding) for use in value.uses)
        )

    def _says_otherwise(self, use: Any, sharding: TensorSharding) -> bool:
        user = use.owner.operation
        if user.name == _CONSTRAINT:
            return self.shardings.one(user.attributes["sharding"]) != sharding
        if user.name == _MANUAL:
            incoming = self.shardings.read(user.attributes["in_shardings"])
            return incoming[int(use.operand_number)] != sharding
        return False

    def _tail(self, head: Any, value: Any) -> Any:
        """The end of a chain of at least two constraints that begins with `head`, if it captures later uses."""
        if isinstance(value, ir.OpResult) and value.owner.operation.name == _CONSTRAINT:
            return None
        if self.shardings.of(value) is not None or any(user != head for user in _constraining(value)):
            return None
        tail = head
        while len(uses := list(tail.results[0].uses)) == 1 and uses[0].owner.operation.name == _CONSTRAINT:
            tail = uses[0].owner.operation
        return None if tail == head or _constraining(tail.results[0]) else tail

    def _keep_partial(self, value: Any, sharding: TensorSharding) -> None:
        """How the value is split stays open to propagation, that it awaits reduction does not."""
        edge = _edge_around(value)
        if sharding.partial and edge is not None:
            dims = (DimSharding((), True),) * sharding.rank
            edge.attributes["sharding"] = single(TensorSharding(sharding.mesh, dims, partial=sharding.partial))


def _constraining(value: Any) -> Sequence[Any]:
    """The constraints and manual computations that read a value."""
    users = [use.owner.operation for use in value.uses]
    return [user for user in users if user.name in _CONSTRAINING]


def _edge_around(value: Any) -> Any:
    """The edge that makes a value, or that holds the value's sharding, or `None`."""
    if isinstance(value, ir.OpResult):
        maker = value.owner.operation
        return maker if maker.name == EDGE else edge_of(value)
    owner = value.owner.owner.operation
    return edge_of(owner.results[value.arg_number] if owner.name == "stablehlo.while" else value)


def _read_after(tail: Any, value: Any, head: Any) -> None:
    """Let what comes after `tail` in its block read it in place of `value`; the function's return reads on."""
    for use in list(value.uses):
        user = use.owner.operation
        if user != head and user.name != "func.return" and user.block == tail.block and tail.is_before_in_block(user):
            user.operands[use.operand_number] = tail.results[0]


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

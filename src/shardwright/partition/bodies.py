"""Bodies of manual computations, and scalar ones: programs for one device, taken over as they stand.

Along the axes that a computation leaves free every device computes the whole body. What asks for a layout in it asks
for one along such axes: it changes no value, and nothing is left of it.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.rewrite.bodies import Append, rewritten_body
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.memo import memoize

__all__ = ["SHARDING_NAMES", "check_body", "copied_body", "plain_bodies", "unknown_regions"]

SHARDING_NAMES = frozenset({"mhlo.sharding", "sdy.sharding"})
"""Attributes that say how whole tensors lie."""


def copied_body(source: Graph, target: Graph, block: Block) -> Block:
    """The body of a manual computation of `source`, written for `target`, without what asks for layouts."""
    return _Copier(source, target).block(block)


def check_body(graph: Graph, block: Block) -> None:
    """Check that the body of a manual computation can be taken over.

    Raises:
        ShardingError: there is a manual computation in it.
    """
    for op in block.walk():
        if op.name == "sdy.manual_computation":
            raise ShardingError(
                "a manual computation stands in the body of another one",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause="the body would have to be partitioned along the axes that the outer one leaves free",
                remedy="make the outer one manual over these axes too, and write its body for one device",
            )


def unknown_regions(graph: Graph, op: Op) -> ShardingError:
    """That nobody knows what an op does with its regions."""
    return ShardingError(
        f"{op.name} is not known",
        op=op.signature.label,
        location=str(graph.locations[op.location]),
        cause="it has regions whose meaning is not known",
        remedy="use stablehlo.while, stablehlo.case or a function call",
    )


@memoize
def plain_bodies(signature: Signature) -> Signature:
    """The same op; its bodies, which compute on scalars, ask for no layouts."""
    return replace(signature, bodies=tuple(map(_plain, signature.bodies)))


def _plain(body: Body) -> Body:
    return rewritten_body(body, _plain_op)


def _plain_op(op: BodyOp, append: Append) -> tuple[int, ...]:
    if op.name in LAYOUTS:
        return op.operands
    attributes = tuple((name, text) for name, text in op.attributes if name not in SHARDING_NAMES)
    return append(replace(op, attributes=attributes, bodies=tuple(map(_plain, op.bodies))))


class _Copier(Copier):
    def value(self, value: int) -> int:
        made = self.values[value] = self.target.new_value(self.source.types[value])
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        if op.name in LAYOUTS:
            self.pass_on(op)
        elif op.name == "sdy.named_computation":
            self.inline(op, into)
        elif op.name != "sdy.sharding_group":
            self.copy(op, plain_bodies(op.signature) if op.signature.bodies else op.signature, into)

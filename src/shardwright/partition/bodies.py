"""Bodies of manual computations, and scalar ones: programs for one device, taken over as they stand.

Along the axes that a computation leaves free every device computes the whole body. What asks for a layout in it asks
for one along such axes: it changes no value, and nothing is left of it.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.memo import memoize

__all__ = ["SHARDING_NAMES", "copied_body", "plain_bodies"]

SHARDING_NAMES = frozenset({"mhlo.sharding", "sdy.sharding"})
"""Attributes that say how whole tensors lie."""


def copied_body(source: Graph, target: Graph, block: Block) -> Block:
    """The body of a manual computation of `source`, written for `target`, without what asks for layouts.

    Raises:
        ShardingError: there is a manual computation in it.
    """
    return _Copier(source, target).block(block)


@memoize
def plain_bodies(signature: Signature) -> Signature:
    """The same op; its bodies, which compute on scalars, ask for no layouts."""
    return replace(signature, bodies=tuple(map(_plain, signature.bodies)))


def _plain(body: Body) -> Body:
    numbers = list(range(len(body.arguments)))
    count = len(numbers)
    ops: list[BodyOp] = []
    for op in body.ops:
        operands = tuple(numbers[number] for number in op.operands)
        if op.name in LAYOUTS:
            numbers += operands
            continue
        attributes = tuple((name, text) for name, text in op.attributes if name not in SHARDING_NAMES)
        ops.append(BodyOp(op.name, attributes, operands, op.results, tuple(map(_plain, op.bodies))))
        numbers += range(count, count + len(op.results))
        count += len(op.results)
    return Body(body.arguments, tuple(ops))


class _Copier:
    def __init__(self, source: Graph, target: Graph) -> None:
        self.source = source
        self.target = target
        self.values: dict[int, int] = {}

    def block(self, block: Block) -> Block:
        return Block(self._new(block.arguments), self.ops(block.ops))

    def ops(self, ops: list[Op]) -> list[Op]:
        return [made for op in ops for made in self.op(op)]

    def op(self, op: Op) -> list[Op]:
        """What stands for an op: itself, nothing, or what is in it."""
        operands = tuple(self.values[value] for value in op.operands)
        if op.name in LAYOUTS:
            self.values[op.results[0]] = operands[0]
            return []
        if op.name == "sdy.sharding_group":
            return []
        if op.name == "sdy.named_computation":
            return self._inlined(op, operands)
        if op.name == "sdy.manual_computation":
            raise self._nested(op)
        regions = tuple(map(self.block, op.regions))
        return [Op(op.signature, operands, self._new(op.results), regions, op.location)]

    def _inlined(self, op: Op, operands: tuple[int, ...]) -> list[Op]:
        (block,) = op.regions
        self.values.update(zip(block.arguments, operands, strict=True))
        ops = self.ops(block.ops[:-1])
        returned = [self.values[value] for value in block.terminator.operands]
        self.values.update(zip(op.results, returned, strict=True))
        return ops

    def _new(self, values: tuple[int, ...]) -> tuple[int, ...]:
        for value in values:
            self.values[value] = self.target.new_value(self.source.types[value])
        return tuple(self.values[value] for value in values)

    def _nested(self, op: Op) -> ShardingError:
        return ShardingError(
            "a manual computation stands in the body of another one",
            op=op.signature.label,
            location=str(self.source.locations[op.location]),
            cause="the body would have to be partitioned along the axes that the outer one leaves free",
            remedy="make the outer one manual over these axes too, and write its body for one device",
        )

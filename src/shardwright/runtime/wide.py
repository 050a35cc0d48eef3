"""A program computed more exactly: its `f32`, `bf16` and `f16` as `f64`, its `complex<f32>` as `complex<f64>`.

How far the results of a program are from those of its wide form is how far rounding has moved them. Arguments keep
their types and are widened first, results come out wide. Ops that are made for one type (custom calls, bitcasts,
random numbers, constants) compute as they did, on operands converted down and with results converted up.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.rewrite.bodies import Append, rewritten_body
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.ir.types import TensorType
from shardwright.rules.traits import facts_of
from shardwright.runtime.variant import Variant

__all__ = ["is_wide", "widen"]

_WIDE = {"f32": "f64", "bf16": "f64", "f16": "f64", "complex<f32>": "complex<f64>"}
_DROPPED = {"algorithm": None, "precision_config": None}


def widen(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """The wide form of a program, and how many ops of which kind computed in their own type all the same."""
    widener = _Widener(graph)
    return widener.run(), widener.kept


def is_wide(graph: Graph) -> bool:
    """Whether no value of the program has a type that can be widened."""
    return not any(type.dtype in _WIDE for type in graph.types)


class _Widener(Variant):
    def __init__(self, source: Graph) -> None:
        super().__init__(source)
        self.kept: dict[str, int] = {}

    def value(self, value: int) -> int:
        made = self.values[value] = self.target.new_value(_wide(self.source.types[value]), self.source.shardings[value])
        return made

    def entry(self, block: Block) -> Block:
        arguments = tuple(
            self.target.new_value(self.source.types[value], self.source.shardings[value]) for value in block.arguments
        )
        made = Block(arguments, [])
        for value, argument in zip(block.arguments, arguments, strict=True):
            self.values[value] = self.convert(argument, _wide(self.source.types[value]), made.ops, 0)
        for op in block.ops:
            self.op(op, made.ops)
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        if _keeps_type(op.signature):
            self._kept_op(op, into)
            return
        self.copy(op, _widened(op.signature), into)

    def _kept_op(self, op: Op, into: list[Op]) -> None:
        """The op in its own type, between conversions."""
        touched = [type for type in (*op.signature.operands, *op.signature.results) if type != _wide(type)]
        if touched and op.name != "stablehlo.constant":
            self.kept[op.signature.label] = self.kept.get(op.signature.label, 0) + 1
        operands = tuple(
            self.convert(self.values[value], self.source.types[value], into, op.location) for value in op.operands
        )
        results = tuple(
            self.target.new_value(self.source.types[value], self.source.shardings[value]) for value in op.results
        )
        into.append(Op(op.signature, operands, results, (), op.location))
        for value, result in zip(op.results, results, strict=True):
            self.values[value] = self.convert(result, _wide(self.source.types[value]), into, op.location)

    def convert(self, value: int, type: TensorType, into: list[Op], location: int) -> int:
        own = self.target.types[value]
        if own == type:
            return value
        made = self.emit(into, Signature("stablehlo.convert", (), (own,), (type,)), (value,), location)
        self.target.shardings[made] = self.target.shardings[value]
        return made


def _wide(type: TensorType) -> TensorType:
    return TensorType(type.shape, _WIDE.get(type.dtype, type.dtype))


def _keeps_type(signature: Signature) -> bool:
    return facts_of(signature.name).typed or not signature.name.startswith(("stablehlo.", "chlo.", "func.", "sdy."))


def _widened(signature: Signature) -> Signature:
    return replace(
        signature,
        attributes=tuple((name, text) for name, text in signature.attributes if name not in _DROPPED),
        operands=tuple(map(_wide, signature.operands)),
        results=tuple(map(_wide, signature.results)),
        bodies=tuple(map(_widened_body, signature.bodies)),
    )


def _widened_body(body: Body) -> Body:
    """A body on wide scalars."""
    return rewritten_body(body, _widened_op, tuple(map(_wide, body.arguments)))


def _widened_op(op: BodyOp, append: Append) -> tuple[int, ...]:
    """An op on wide scalars; one that keeps its type has its results converted."""
    wide = tuple(map(_wide, op.results))
    if not facts_of(op.name).typed:
        return append(replace(op, results=wide, bodies=tuple(map(_widened_body, op.bodies))))
    made = append(op)
    return made if wide == op.results else append(BodyOp("stablehlo.convert", (), made, wide))

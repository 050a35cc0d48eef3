"""What is said about the values that enter and leave a called function.

A call says it of its results; where it is silent, the function's results speak for it. The function's arguments speak
for the operands. In the graph such a call is an `sdy.named_computation` with these as `in_shardings` and
`out_shardings`, a call about which nothing is said its ops alone.

    func.func private @f(%x: T {sdy.sharding = <@m, [{"a"}]>}) -> T    sdy.named_computation<"f">(%0)
    %1 = call @f(%0) {sdy.sharding = [<@m, [{"b"}]>]}                      in_shardings=[<@m, [{"a"}]>] out_shardings=…

Source: Shardy's passes `sdy-import-func-calls` and `sdy-propagate-sharding-from-func-to-call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shardwright.boundary import Boundary
from shardwright.ir.carriers import CARRIED_SHARDING, CARRIED_SHARDINGS, carried_text, carried_texts
from shardwright.ir.context import context, ir
from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding, replicated

__all__ = ["CallSide", "call_sides", "computation", "constrained", "is_annotated_call", "is_annotated_function"]

_SHARDING = "sdy.sharding"
_ROWS = ("arg_attrs", "res_attrs")

Read = Callable[[str], tuple[TensorSharding, ...]]
"""The shardings that an attribute's text says."""


class ValueMaker(Protocol):
    """Where values are made: a graph, or what is being read into one."""

    types: list[TensorType]

    def new_value(self, type: TensorType, sharding: TensorSharding | None = None) -> int:
        """A fresh value."""


@dataclass(frozen=True, slots=True)
class CallSide:
    """What is said of the values on one side of a call.

    Attributes:
        shardings: One for each value, fully open for those of which nothing is said.
        carried: The text of a carrier for each value, empty where it has none.
    """

    shardings: tuple[TensorSharding, ...] | None = None
    carried: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return self.shardings is not None or any(self.carried)


def is_annotated_call(call: Any) -> bool:
    """Whether a call says anything of its results."""
    return _SHARDING in call.attributes or CARRIED_SHARDINGS in call.attributes


def is_annotated_function(function: Any) -> bool:
    """Whether a function says anything of its arguments or results."""
    rows = [row for key in _ROWS if key in function.attributes for row in function.attributes[key]]
    dictionaries: list[Any] = [ir.DictAttr(row) for row in dict.fromkeys(rows)]
    return any(key in row for row in dictionaries for key in (_SHARDING, CARRIED_SHARDING))


def call_sides(call: Any, callee: Any, read: Read) -> tuple[CallSide, CallSide]:
    """What is said of a call's operands, and of its results.

    Raises:
        ShardingError: a sharding that cannot be read, a carrier that is not a string, or another number of them than
            of results.
    """
    operands = _side_of(callee, "arg_attrs", call.operands, read)
    carried = carried_texts(call.name, call.attributes, len(call.results))
    if _SHARDING in call.attributes or carried:
        shardings = read(str(call.attributes[_SHARDING])) if _SHARDING in call.attributes else None
        return operands, CallSide(shardings, tuple(carried or ()))
    return operands, _side_of(callee, "res_attrs", call.results, read)


def _side_of(callee: Any, key: str, values: Sequence[Any], read: Read) -> CallSide:
    if key not in callee.attributes:
        return CallSide()
    rows: list[Any] = [ir.DictAttr(row) for row in callee.attributes[key]]
    shardings = [read(str(row[_SHARDING]))[0] if _SHARDING in row else None for row in rows]
    carried = [carried_text(row[CARRIED_SHARDING]) if CARRIED_SHARDING in row else "" for row in rows]
    return CallSide(_filled(shardings, values), tuple(carried) if any(carried) else ())


def _filled(shardings: Sequence[TensorSharding | None], values: Sequence[Any]) -> tuple[TensorSharding, ...] | None:
    mesh = next((sharding.mesh for sharding in shardings if sharding is not None), None)
    if mesh is None:
        return None
    ranks = [TensorType.parse(str(value.type)).rank for value in values]
    return tuple(one or replicated(mesh, rank, open=True) for one, rank in zip(shardings, ranks, strict=True))


def computation(
    graph: ValueMaker,
    name: str,
    operands: tuple[int, ...],
    block: Block,
    sides: tuple[CallSide, CallSide],
    location: int,
) -> Op:
    """The call of function `name` as an `sdy.named_computation` of `block`, which ends with its `func.return`."""
    last = block.ops.pop()
    types = tuple([graph.types[value] for value in last.operands])
    block.ops.append(Op(Signature("sdy.return", (), types, ()), last.operands, (), (), last.location))
    attributes = (("name", str(ir.StringAttr.get(name, context=context()))),)
    incoming, outgoing = sides
    boundary = Boundary(incoming.shardings, outgoing.shardings)
    inward = tuple([graph.types[value] for value in operands])
    results = tuple([graph.new_value(type) for type in types])
    signature = Signature("sdy.named_computation", attributes, inward, types, boundary=boundary)
    return Op(signature, operands, results, (block,), location)


def constrained(
    graph: ValueMaker,
    values: tuple[int, ...],
    texts: tuple[str, ...],
    read: Callable[[str, int], TensorSharding | None],
    location: int,
) -> tuple[tuple[int, ...], list[Op]]:
    """Values under what carriers say of them at the boundary of a call, and the constraints that say it."""
    made = list(values)
    ops: list[Op] = []
    for number, text in enumerate(texts):
        sharding = read(text, values[number])
        if sharding is not None:
            type = graph.types[values[number]]
            made[number] = graph.new_value(type, sharding)
            signature = Signature("sdy.sharding_constraint", (), (type,), (type,))
            ops.append(Op(signature, (values[number],), (made[number],), (), location))
    return tuple(made), ops

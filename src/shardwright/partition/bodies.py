"""Bodies of manual computations, and scalar ones: programs for one device, taken over as they stand.

Here no value is split along the axes that a computation leaves free (see `free_axes`): what asks for a layout in it
changes no value, and nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.boundary import NOTHING_STATED, Boundary, without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.rewrite.bodies import Append, rewritten_body
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.sharding import TensorSharding

__all__ = [
    "SHARDING_NAMES",
    "body_layouts",
    "copied_body",
    "even_boundary",
    "is_program",
    "plain_bodies",
    "plain_signature",
    "unknown_regions",
]

SHARDING_NAMES = frozenset({"mhlo.sharding", "sdy.sharding"})
"""Attributes that say how whole tensors lie."""


def is_program(graph: Graph, op: Op) -> bool:
    """Whether a manual computation of an explicit program has a body that says how its values lie: see `free_axes`."""
    (block,) = op.regions
    made = (*block.arguments, *(value for inner in block.ops for value in inner.results))
    return any(graph.shardings[value] for value in made)


def copied_body(source: Graph, target: Graph, block: Block) -> Block:
    """The body of a manual computation of `source`, written for `target`, without what asks for layouts."""
    return _Copier(source, target).block(block)


def even_boundary(signature: Signature, around: tuple[str, ...]) -> Boundary:
    """The layouts of a manual computation's operands and results, cut to what divides them; the computations that it
    stands in are manual along the axes `around`.
    """
    boundary = signature.boundary.layouts()

    def cut(types: Sequence[TensorType], stated: Sequence[TensorSharding]) -> tuple[TensorSharding, ...]:
        even = [one.evenly_dividing(type.dims) for type, one in zip(types, stated, strict=True)]
        return tuple([replace(one, mesh=one.mesh.inside(around)) if around else one for one in even])

    return Boundary(
        cut(signature.operands, boundary.in_shardings or ()),
        cut(signature.results, boundary.out_shardings or ()),
        boundary.manual_axes,
    )


def body_layouts(
    types: Sequence[TensorType], stated: Sequence[TensorSharding] | None, manual: tuple[str, ...]
) -> tuple[TensorSharding | None, ...]:
    """What the body of a computation over `manual` axes sees of values whose layouts are `stated` at its boundary."""
    return tuple(
        [
            replace(without_manual_axes(layout, manual), mesh=layout.mesh.inside(manual)) if type.is_tensor else None
            for type, layout in zip(types, stated or (), strict=True)
        ]
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


def plain_signature(op: Op) -> Signature:
    """What an op without regions is, apart from the layouts that it states itself or in its bodies."""
    signature = op.signature if op.results or op.regions else replace(op.signature, boundary=NOTHING_STATED)
    return plain_bodies(signature) if signature.bodies else signature


@memoize
def plain_bodies(signature: Signature) -> Signature:
    """The same op; its bodies, which compute on scalars, ask for no layouts."""
    bodies = tuple(map(_plain, signature.bodies))
    return signature if bodies == signature.bodies else replace(signature, bodies=bodies)


@memoize
def _plain(body: Body) -> Body:
    plain = rewritten_body(body, _plain_op)
    return body if plain == body else plain


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
            self.copy(op, plain_signature(op), into)

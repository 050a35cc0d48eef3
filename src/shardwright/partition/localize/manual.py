"""A manual computation holds what one device computes already: its body takes its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.localize.by_hand import is_by_hand, written_by_hand
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings
from shardwright.partition.localize.renumber import by_position
from shardwright.sharding import TensorSharding

__all__ = ["agree_at_boundary", "by_hand", "inline", "of_devices", "sent_together"]

_REDUCE, _GATHER = "stablehlo.all_reduce", "stablehlo.all_gather"


def inline(
    ctx: Local, source: Graph, op: Op, operands: list[int], operand_shardings: Shardings, result_shardings: Shardings
) -> tuple[int, ...]:
    """Write the body of `sdy.manual_computation` on `operands`, with fresh channel handles; its results.

    Raises:
        ShardingError: a value is handed over otherwise than it lies, or the body is not of one device's types.
    """
    body = op.regions[0]
    agree_at_boundary(op, operand_shardings, result_shardings)
    for number, (value, argument) in enumerate(zip(operands, body.arguments, strict=True)):
        if ctx.type(value) != source.types[argument]:
            raise ShardingError(
                f"argument {number} of the body has type {source.types[argument]}, a shard has {ctx.type(value)}",
                remedy="make every mesh axis manual",
            )
    for number, (value, sharding) in enumerate(zip(body.terminator.operands, result_shardings, strict=True)):
        expected = local_type(op.signature.results[number], sharding)
        if source.types[value] != expected:
            raise ShardingError(f"result {number} of the body has type {source.types[value]}, a shard has {expected}")
    copied = _copy(ctx, source, body, dict(zip(body.arguments, operands, strict=True)))
    return tuple(copied[value] for value in body.terminator.operands)


def agree_at_boundary(op: Op, operands: Shardings, results: Shardings) -> None:
    """Check that the values of a manual computation lie as it says.

    Raises:
        ShardingError: one does not.
    """
    boundary = op.signature.boundary
    _agree("operand", boundary.in_shardings or (), operands)
    _agree("result", boundary.out_shardings or (), results)


def of_devices(ctx: Local, source: Graph, signature: Signature) -> Signature:
    """A collective that stands in a body, over positions in the mesh and with a channel handle of its own."""
    return _with_own_channel(ctx, by_position(signature, source, ctx.mesh))


def by_hand(ctx: Local, source: Graph, op: Op, signature: Signature, operands: Sequence[int]) -> tuple[int, ...]:
    """What a collective that XLA does not do makes of `operands`; `signature` is that over positions.

    Raises:
        ShardingError: its groups are not of one size, or leave devices out.
    """
    try:
        return written_by_hand(ctx, signature, operands, ctx.channel)
    except ShardingError as error:
        raise error.at(op.signature.label, str(source.locations[op.location])) from None


def _agree(what: str, stated: tuple[TensorSharding, ...], lies: Shardings) -> None:
    for number, (one, other) in enumerate(zip(stated, lies, strict=True)):
        if not one.equivalent(other):
            raise ShardingError(f"{what} {number} of the manual computation is {one!r}, but the value is {other!r}")


def _copy(ctx: Local, source: Graph, block: Block, values: dict[int, int]) -> dict[int, int]:
    """Write the ops of `block` except its terminator; `values` maps what they read and is added to."""
    for ops in sent_together(block.ops[:-1]):
        if len(ops) > 1 and ops[0].name == _GATHER:
            _copy_gathers(ctx, source, ops, values)
        else:
            for op in ops:
                _copy_op(ctx, source, op, values)
    return values


def sent_together(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Ops one by one, but together those that start as one: all_reduces or all_gathers one behind the other, alike but
    for their sizes, of which none reads another.

    All_reduces stay several ops, of which XLA's combiner makes one; all_gathers are written as one of several operands.
    """
    group: list[Op] = []
    made: set[int] = set()
    for op in ops:
        alike = _alike(op)
        if not group or alike is None or alike != _alike(group[0]) or not made.isdisjoint(op.operands):
            if group:
                yield group
            group, made = [], set()
        group.append(op)
        made.update(op.results)
    if group:
        yield group


def _alike(op: Op) -> object:
    """What collectives have in common that are sent as one; `None` of other ops, and of what is not sent."""
    signature = op.signature
    if op.name not in (_REDUCE, _GATHER) or len(op.operands) != 1 or not signature.results[0].elements:
        return None
    attributes = tuple([pair for pair in signature.attributes if pair[0] != "channel_handle"])
    if op.name == _GATHER:  # StableHLO wants one rank for all
        return op.name, attributes, signature.operands[0].rank
    return op.name, attributes, signature.bodies, signature.operands[0].dtype


def _copy_gathers(ctx: Local, source: Graph, ops: Sequence[Op], values: dict[int, int]) -> None:
    """Write all_gathers that start as one."""
    ctx.location = ops[0].location
    operands, results = (
        tuple([source.types[value] for op in ops for value in some(op)])
        for some in (attrgetter("operands"), attrgetter("results"))
    )
    signature = of_devices(ctx, source, replace(ops[0].signature, operands=operands, results=results))
    made = ctx.append(signature, [values[value] for op in ops for value in op.operands])
    values.update(zip([value for op in ops for value in op.results], made, strict=True))


def _copy_op(ctx: Local, source: Graph, op: Op, values: dict[int, int]) -> None:
    ctx.location = op.location
    if op.name == "stablehlo.partition_id":
        values[op.results[0]] = ctx.position(Mesh(ctx.mesh.axes))
        return
    if op.name.startswith("sdy."):
        raise ShardingError(
            f"{op.name} stands in the body of a manual computation",
            op=op.signature.label,
            location=str(source.locations[op.location]),
            cause="the body is a program for one device",
            remedy="take it out, or materialize the program before localizing it",
        )
    signature = of_devices(ctx, source, op.signature)
    if is_by_hand(signature):
        made = by_hand(ctx, source, op, signature, [values[value] for value in op.operands])
        values.update(zip(op.results, made, strict=True))
        return
    regions = tuple(_copy_region(ctx, source, region, values) for region in op.regions)
    results = ctx.append(signature, [values[value] for value in op.operands], (), regions)
    values.update(zip(op.results, results, strict=True))


def _copy_region(ctx: Local, source: Graph, block: Block, values: dict[int, int]) -> Block:
    arguments = tuple(ctx.graph.new_value(source.types[value]) for value in block.arguments)
    inside = values | dict(zip(block.arguments, arguments, strict=True))
    ops: list[Op] = []
    inner = ctx.inner(ops)
    _copy(inner, source, block, inside)
    _copy_op(inner, source, block.terminator, inside)
    return Block(arguments, ops)


def _with_own_channel(ctx: Local, signature: Signature) -> Signature:
    """Bodies come from several places: their channel handles may coincide."""
    if signature.text("channel_handle") is None or signature.get("channel_handle", {}).get("type") != 1:
        return signature
    return signature.replace(channel_handle=ctx.channel())

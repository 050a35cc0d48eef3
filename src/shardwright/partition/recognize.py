"""Manual computations that `enclose` writes, found again: the op on whole tensors and the steps behind it.

What a body was written from is supposed, written once more, and compared: the all_to_all or permute that leads from the
one layout at its boundary to the other; or the op whose body of scalars combines, with the types outside, its results
partial along the axes that it reduces, and the steps from there. Only where the same body comes of it, attribute for
attribute, is the computation taken for what it means. Any other one stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.context import context
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.opaque import attribute
from shardwright.ir.ops import DEVICE_OPS, MANUAL
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.bodies import is_program
from shardwright.partition.emit import collective, emit_steps
from shardwright.partition.enclose import manual_computation
from shardwright.partition.factors import merge, project, tensor_sharding
from shardwright.partition.localize import local_type
from shardwright.partition.splits import splits_of
from shardwright.reshard.plan import plan
from shardwright.sharding import Partial, TensorSharding
from shardwright.steps import AllToAll, CollectivePermute, is_in_sdy

__all__ = ["recognize"]


def recognize(graph: Graph) -> Graph:
    """An explicit program whose manual computations are ops and steps where `enclose` makes them of these.

    The graph given stays as it is; it is given back where there is none.
    """
    if MANUAL not in graph.op_names():
        return graph
    made = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
    made.main = replace(graph.main, block=_block(made, graph.main.block, ()))
    return made


def _block(graph: Graph, block: Block, around: tuple[str, ...]) -> Block:
    """A block in computations that are manual along the axes `around`."""
    ops: list[Op] = []
    for op in block.ops:
        meant = _meant(graph, op, around) if op.name == MANUAL else None
        if meant is not None:
            ops += meant
        elif op.regions and (op.name != MANUAL or is_program(graph, op)):
            inside = (*around, *op.signature.boundary.manual_axes)
            regions = tuple([_block(graph, region, inside) for region in op.regions])
            ops.append(Op(op.signature, op.operands, op.results, regions, op.location))
        else:
            ops.append(op)
    return Block(block.arguments, ops)


def _meant(graph: Graph, op: Op, around: tuple[str, ...]) -> list[Op] | None:
    """The op and the collectives that a manual computation was written from; `None` for any other."""
    body = op.regions[0]
    if len(op.results) != 1 or op.signature.boundary.free_axes or any(inner.regions for inner in body.ops):
        return None
    for step in _steps(op):
        if _is_written_as(graph, [step], op, around):
            return [step]
    for inner in body.ops:
        before = len(graph.types)
        with suppress(ShardingError):  # it cannot be computed so, or nothing leads from there
            ops = _supposed(graph, op, inner)
            if ops and _is_written_as(graph, ops, op, around):
                return ops
        _forget_values(graph, before)
    return None


def _is_written_as(graph: Graph, ops: list[Op], op: Op, around: tuple[str, ...]) -> bool:
    """Whether the manual computation of `ops` is the one at hand."""
    before = len(graph.types)
    made = manual_computation(graph, ops, op.results, around)
    _forget_values(graph, before)
    return made.signature == op.signature and _form(made.regions[0]) == _form(op.regions[0])


def _forget_values(graph: Graph, first: int) -> None:
    """Take away the values from a number on, which nothing reads."""
    del graph.types[first:], graph.shardings[first:]


def _steps(op: Op) -> Iterator[Op]:
    """The all_to_all and the permute that have the boundary of a manual computation, where there are such."""
    boundary, types = op.signature.boundary, op.signature.results
    if op.signature.operands != types or boundary.in_shardings is None or boundary.out_shardings is None:
        return
    (before,), (after,) = boundary.in_shardings, boundary.out_shardings
    for step in (AllToAll.leading(before.axes, after.axes), CollectivePermute(after)):
        with suppress(ShardingError):  # it does not lead there
            if step is not None and not is_in_sdy(step, before) and step.apply(before.closed()) == after.closed():
                yield Op(collective(step, types[0]), op.operands, op.results, (), op.location)


def _supposed(graph: Graph, op: Op, inner: Op) -> list[Op]:
    """What the manual computation is if `inner` is its op on one device's shards; nothing where that cannot be."""
    whole, into = op.signature, op.signature.boundary.in_shardings or ()
    (type,), (after,) = whole.results, op.signature.boundary.out_shardings or (None,)
    if not inner.signature.bodies or inner.name in DEVICE_OPS or after is None:
        return []
    if inner.signature.operands != tuple(map(local_type, whole.operands, into)) or len(inner.results) != 1:
        return []
    if inner.signature.results[0].rank != type.rank:
        return []
    signature = inner.signature.replace(operands=whole.operands, results=whole.results)
    layout = _computed(signature, into)
    if layout is None or inner.signature.results != (local_type(type, layout),):
        return []
    builder = Builder(graph, [], op.location)
    (value,) = builder.append(signature, op.operands, (layout,))
    steps = plan(type.dims, type.bytes // max(1, type.elements), layout, after, dtype=type.dtype).steps
    emit_steps(builder, value, layout, steps)
    *ops, last = builder.ops
    return [*ops, Op(last.signature, last.operands, op.results, (), op.location)]


def _computed(signature: Signature, operands: tuple[TensorSharding, ...]) -> TensorSharding | None:
    """How an op of one result gives it, partial by another kind than sum; `None` where it is not."""
    splits = splits_of(signature)
    if splits is None or splits.kind == "sum":
        return None
    rule = splits.rule
    given = [project(mapping, rule.sizes, one.axes) for mapping, one in zip(rule.operands, operands, strict=True)]
    factors = merge(len(rule.sizes), given, splits.allowed)
    mesh = operands[0].mesh
    reduced = mesh.in_order(axis for factor in sorted(splits.contributing) for axis in factors[factor])
    partial = tuple(Partial(axis, splits.kind) for axis in reduced)
    return tensor_sharding(mesh, rule.results[0], factors, partial) if partial else None


def _form(block: Block) -> tuple[Any, ...]:
    """The ops of a block without regions, their values numbered in order, constants as what they are.

    Import may have one constant for several.
    """
    numbers = count()
    names: dict[int, Any] = {value: next(numbers) for value in block.arguments}
    form: list[Any] = []
    for op in block.ops:
        signature = _as_read(op.signature)
        if signature.name == "stablehlo.constant":
            names[op.results[0]] = signature
            continue
        names |= {result: next(numbers) for result in op.results}
        form.append((signature, tuple(map(names.get, op.operands))))
    return tuple(form)


@memoize
def _as_read(signature: Signature) -> Signature:
    """The same op, its attributes spelt as MLIR prints them."""
    with context():
        spelt = tuple((name, str(attribute(text))) for name, text in signature.attributes)
    return replace(signature, attributes=spelt)

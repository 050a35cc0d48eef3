"""Import of the mesh RFC's collectives: each becomes the sdy collectives that it is.

Source: the mesh RFC on LLVM's forum, AllGatherOp to ReduceScatterOp; the sdy dialect reference for their counterparts.
"""

from __future__ import annotations

from typing import Any

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.ir.ops import STEPS
from shardwright.notation.axis_positions import axes_at
from shardwright.notation.rfc.collectives import Collective, Move, check, moves
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.layouts import Layout
from shardwright.notation.rfc.mesh import line_of
from shardwright.notation.rfc.reading import FunctionOps, ModuleReading, ValueLayout, located
from shardwright.notation.rfc.rolls import import_roll
from shardwright.notation.sdy.collectives import print_step
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, AllToAll, CollectivePermute, Step

__all__ = ["import_collective"]


def import_collective(
    reading: ModuleReading, function: FunctionOps, op: Any, source: Layout | None, target: Layout | None
) -> None:
    """Put sdy collectives in the place of one of the RFC; its types said `source` and `target` before.

    Raises:
        ShardingError: attributes and types that do not agree, or a communication that the model cannot hold.
    """
    name, where = op.name, line_of(op, reading.name)
    rank = reading.type(op.results[0].type).rank or 0
    known = next((layout.symbol for layout in (source, target) if layout and layout.symbol), function.symbol)
    whole = Layout(known, ((),) * rank)
    with located(name, where):
        collective = Collective(
            name[5:], (source or whole).on(function.symbol), (target or whole).on(function.symbol), _attributes(op)
        )
        for side in (collective.source, collective.target):
            _ = reading.statement(side).sharding  # refuses a mesh or an axis that there is not
        if collective.source.symbol != collective.target.symbol and name != "mesh.collective_permute":
            raise ShardingError(
                f"{name} leads from @{collective.source.symbol} to @{collective.target.symbol}",
                cause="its groups are those of one mesh",
                remedy="name one mesh",
            )
        check(collective)
        chain = moves(collective)
        value = op.operands[0]
        for before, move in zip((collective.source, *(move.target for move in chain)), chain, strict=False):
            value = _moved(reading, op, value, before, move)
    old = op.results[0]
    reading.stated.pop(old, None)
    reading.stated[value] = ValueLayout(reading.statement(collective.target), op.location)
    old.replace_all_uses_with(value)
    erase(op)


def _attributes(op: Any) -> dict[str, Any]:
    """Values of a collective's attributes, as its form reads them."""
    values: dict[str, Any] = {}
    for attribute in RFC.forms[op.name].attributes:
        if attribute.name in op.attributes:
            values[attribute.name] = attribute.kind.decode(str(op.attributes[attribute.name]))
        elif not attribute.optional:
            raise ShardingError(f"{op.name} lacks its attribute {attribute.name}", remedy="give it")
    return values


def _moved(reading: ModuleReading, op: Any, value: Any, before: Layout, move: Move) -> Any:
    """The value after one sdy collective."""
    target = reading.statement(move.target).sharding
    mesh = target.mesh
    if move.name == "roll":
        return import_roll(reading, op, value, move)
    if move.name == "collective_permute":
        source = reading.statement(before).sharding
        if list(map(axes_size, source.axes)) != list(map(axes_size, target.axes)) or source.partial != target.partial:
            raise ShardingError(
                f"a permutation does not lead from {before.text} to {move.target.text}",
                cause="each device sends its whole shard to one other, so all dimensions keep their number of shards",
                remedy="gather, split or reduce as well",
            )
    texts = print_step(_step(move, target), None, mesh)
    attributes = {key: reading.attribute(text) for key, text in texts.items()}
    attributes["out_sharding"] = reading.statement(move.target).attribute
    created = ir.Operation.create(
        f"sdy.{move.name}",
        results=[value.type],
        operands=[value],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    return created.result


def _step(move: Move, target: TensorSharding) -> Step:
    axes, mesh = axes_at(move.axes, target.mesh), target.mesh
    if move.name == "collective_permute":
        return CollectivePermute(target)
    if move.name == "all_reduce":
        return AllReduce(mesh.in_order(axes_at([move.partial], mesh)[0]))
    if move.name == "all_to_all":
        return AllToAll(((axes[0], *move.between),))
    step: Step = STEPS[f"sdy.{move.name}"](tuple(axes))
    return step

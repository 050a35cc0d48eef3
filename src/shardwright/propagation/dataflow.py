"""Data-flow edges: what ties the values on both sides of a region's boundary together.

| op | sources | targets |
| --- | --- | --- |
| `while` | initial value, value the body returns | result, argument of the condition, argument of the body |
| `case` | what each branch returns | result |
| `optimization_barrier` | operand | result |
| `manual_computation`, `named_computation` | operand | argument of the body |
| | what the body returns | result |

An edge becomes an op after its owner (the first target), which takes over the owner's uses and holds the sharding of
all targets. Inside a manual computation tensors are split over the free axes only; its edges add the manual axes
where data leaves and take them away where it enters.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import DATA_FLOW_OPS
from shardwright.ir.signature import Signature
from shardwright.mesh import Axes, AxisRef, Mesh, overlaps_any
from shardwright.notation.sdy.attributes import parse_manual_axes
from shardwright.notation.sdy.sharding import parse_shardings
from shardwright.propagation.working import EDGE, MANUAL, Edge, Working
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["add_edges", "find_edges", "manual_axes", "with_manual_axes", "with_replicated", "without_manual_axes"]


def add_edges(working: Working, meshes: dict[str, Mesh]) -> None:
    """Add the data-flow edges of all ops that have any; those that the program brought with it stay."""
    if any(name in working.special for name in DATA_FLOW_OPS):
        _add(working, working.block, meshes)


def _add(working: Working, block: Block, meshes: dict[str, Mesh]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _add(working, region, meshes)
        ops.append(op)
        name = op.signature.name
        if name not in DATA_FLOW_OPS:
            continue
        if name.startswith("sdy."):
            ops += _computation_edges(working, op, meshes)
        else:
            ops += _control_flow_edges(working, op)
    block.ops = ops


def find_edges(working: Working, meshes: dict[str, Mesh]) -> None:
    """Take up the `sdy.data_flow_edge` ops that a program brings with it."""
    if EDGE not in working.special:
        return
    owners = {op.operands[0]: op for op in working.special[EDGE]}
    for parent in working.block.walk():
        name = parent.signature.name
        if name not in DATA_FLOW_OPS:
            continue
        for index, owner in enumerate(parent.results):
            if owner in owners:
                targets: tuple[int, ...] = ()
                if name == "stablehlo.while":
                    targets = tuple([region.arguments[index] for region in parent.regions])
                _take_up(working, Edge(owners[owner], parent, index, targets, _boundary(parent, index, False, meshes)))
        if not name.startswith("sdy."):
            continue
        for index, owner in enumerate(parent.regions[0].arguments):
            if owner in owners:
                boundary = _boundary(parent, index, True, meshes)
                _take_up(working, Edge(owners[owner], parent, index, (), boundary, True))


def _take_up(working: Working, edge: Edge) -> None:
    working.edges[edge.value] = edge
    for target in (edge.owner, *edge.targets):
        working.holder[target] = edge.value


def _boundary(parent: Op, index: int, inward: bool, meshes: dict[str, Mesh]) -> TensorSharding | None:
    if parent.name != MANUAL:
        return None
    attribute, values = ("in_shardings", parent.operands) if inward else ("out_shardings", parent.results)
    return boundary_shardings(parent, attribute, len(values), meshes, manual_axes(parent.signature))[index]


def _control_flow_edges(working: Working, op: Op) -> list[Op]:
    added: list[Op] = []
    for index, owner in enumerate(op.results):
        if not working.types[owner].is_tensor or owner in working.holder:
            continue
        targets: tuple[int, ...] = ()
        if op.signature.name == "stablehlo.while":
            targets = tuple([region.arguments[index] for region in op.regions])
        added.append(_edge(working, op, index, owner, working.shardings[owner], targets).op)
    return added


def _computation_edges(working: Working, op: Op, meshes: dict[str, Mesh]) -> list[Op]:
    """Edges into a computation's body are put at its start; those of its results are given back."""
    (body,) = op.regions
    manual = manual_axes(op.signature)
    inner: list[Op] = []
    incoming = boundary_shardings(op, "in_shardings", len(op.operands), meshes, manual)
    for index, (owner, said) in enumerate(zip(body.arguments, incoming, strict=True)):
        if working.types[owner].is_tensor and owner not in working.holder:
            sharding = None if said is None else without_manual_axes(said, manual)
            inner.append(_edge(working, op, index, owner, sharding, boundary=said, inward=True).op)
    body.ops[:0] = inner
    outer: list[Op] = []
    outgoing = boundary_shardings(op, "out_shardings", len(op.results), meshes, manual)
    for index, (owner, said) in enumerate(zip(op.results, outgoing, strict=True)):
        if working.types[owner].is_tensor and owner not in working.holder:
            outer.append(_edge(working, op, index, owner, said, boundary=said).op)
    return outer


def _edge(
    working: Working,
    parent: Op,
    index: int,
    owner: int,
    sharding: TensorSharding | None,
    targets: tuple[int, ...] = (),
    boundary: TensorSharding | None = None,
    inward: bool = False,
) -> Edge:
    type = working.types[owner]
    value = working.new_value(type, sharding)
    op = Op(Signature(EDGE, (), (type,), (type,)), (owner,), (value,), (), parent.location)
    working.replace_uses(owner, value, working.uses[owner])
    working.uses[owner] = [op]
    edge = Edge(op, parent, index, targets, boundary if parent.name == MANUAL else None, inward)
    working.edges[value] = edge
    for target in (owner, *targets):
        working.holder[target] = value
    return edge


def manual_axes(signature: Signature) -> tuple[str, ...]:
    """The names of the axes a manual computation is manual in."""
    text = signature.text("manual_axes")
    return parse_manual_axes(text) if text else ()


def boundary_shardings(
    op: Op, attribute: str, count: int, meshes: dict[str, Mesh], manual: tuple[str, ...]
) -> list[TensorSharding | None]:
    """The shardings at the boundary of a computation; manual axes that are not mentioned are replicated."""
    text = op.signature.text(attribute)
    if text is None:
        return [None] * count
    shardings = parse_shardings(text, meshes)
    if len(shardings) != count:
        raise ShardingError(f"{attribute} has {len(shardings)} shardings for {count} values", op=op.name)
    return [_with_replicated(sharding, manual) for sharding in shardings]


def _with_replicated(sharding: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    used = {axis.name for axis in (*sharding.used_axes, *sharding.replicated, *sharding.partial_axes)}
    return with_replicated(sharding, tuple([sharding.mesh.axis(name) for name in manual if name not in used]))


def without_manual_axes(sharding: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    """What is seen inside: manual axes, which come first in every dimension, taken away."""
    if not manual:
        return sharding
    dims = tuple(replace(dim, axes=dim.axes[_manual_count(dim.axes, manual) :]) for dim in sharding.dims)
    return replace(
        sharding,
        dims=dims,
        replicated=tuple(axis for axis in sharding.replicated if axis.name not in manual),
        partial=tuple(p for p in sharding.partial if p.axis.name not in manual),
    )


def with_manual_axes(boundary: TensorSharding, inside: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    """What is seen outside: the manual axes of `boundary`, then the free axes of `inside`.

    The boundary says what is replicated and unreduced, but for axes that `inside` splits dimensions by.
    """
    dims = tuple(
        DimSharding(at.axes[: _manual_count(at.axes, manual)] + free.axes, free.open, free.priority)
        for at, free in zip(boundary.dims, inside.dims, strict=True)
    )
    taken = inside.used_axes
    replicated = tuple(axis for axis in boundary.replicated if not overlaps_any(axis, taken))
    partial = tuple(p for p in boundary.partial if not overlaps_any(p.axis, taken))
    return TensorSharding(inside.mesh, dims, replicated, partial)


def with_replicated(sharding: TensorSharding, axes: Axes) -> TensorSharding:
    """A sharding that has `axes` replicated too."""
    added = [axis for axis in axes if axis not in sharding.replicated]
    if not added:
        return sharding
    return replace(sharding, replicated=tuple(sorted((*sharding.replicated, *added), key=sharding.mesh.sort_key)))


def _manual_count(axes: Axes, manual: tuple[str, ...]) -> int:
    count = 0
    while count < len(axes) and _is_manual(axes[count], manual):
        count += 1
    return count


def _is_manual(axis: AxisRef, manual: tuple[str, ...]) -> bool:
    return axis.name in manual

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

from shardwright.boundary import with_unmentioned, without_manual_axes
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import DATA_FLOW_OPS
from shardwright.ir.signature import Signature
from shardwright.propagation.working import EDGE, MANUAL, DataFlowEdge, Working
from shardwright.sharding import TensorSharding

__all__ = ["add_edges", "find_edges"]


def add_edges(working: Working) -> None:
    """Add the data-flow edges of all ops that have any; those that the program brought with it stay."""
    if any(name in working.special for name in DATA_FLOW_OPS):
        _add(working, working.block)


def _add(working: Working, block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _add(working, region)
        ops.append(op)
        name = op.signature.name
        if name not in DATA_FLOW_OPS:
            continue
        if name.startswith("sdy."):
            ops += _computation_edges(working, op)
        else:
            ops += _control_flow_edges(working, op)
    block.ops = ops


def find_edges(working: Working) -> None:
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
                _take_up(working, DataFlowEdge(owners[owner], parent, index, targets, _boundary(parent, index, False)))
        if not name.startswith("sdy."):
            continue
        for index, owner in enumerate(parent.regions[0].arguments):
            if owner in owners:
                boundary = _boundary(parent, index, True)
                _take_up(working, DataFlowEdge(owners[owner], parent, index, (), boundary, True))


def _take_up(working: Working, edge: DataFlowEdge) -> None:
    working.edges[edge.value] = edge
    for target in (edge.owner, *edge.targets):
        working.holder[target] = edge.value


def _boundary(parent: Op, index: int, inward: bool) -> TensorSharding | None:
    if parent.name != MANUAL:
        return None
    return _stated(parent, inward)[index]


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


def _computation_edges(working: Working, op: Op) -> list[Op]:
    """Edges into a computation's body are put at its start; those of its results are given back."""
    (body,) = op.regions
    manual = op.signature.boundary.manual_axes
    inner: list[Op] = []
    for index, (owner, stated) in enumerate(zip(body.arguments, _stated(op, True), strict=True)):
        if working.types[owner].is_tensor and owner not in working.holder:
            sharding = None if stated is None else without_manual_axes(stated, manual)
            inner.append(_edge(working, op, index, owner, sharding, boundary=stated, inward=True).op)
    body.ops[:0] = inner
    outer: list[Op] = []
    for index, (owner, stated) in enumerate(zip(op.results, _stated(op, False), strict=True)):
        if working.types[owner].is_tensor and owner not in working.holder:
            outer.append(_edge(working, op, index, owner, stated, boundary=stated).op)
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
) -> DataFlowEdge:
    type = working.types[owner]
    value = working.new_value(type, sharding)
    op = Op(Signature(EDGE, (), (type,), (type,)), (owner,), (value,), (), parent.location)
    working.replace_uses(owner, value, working.uses[owner])
    working.uses[owner] = [op]
    edge = DataFlowEdge(op, parent, index, targets, boundary if parent.name == MANUAL else None, inward)
    working.edges[value] = edge
    for target in (owner, *targets):
        working.holder[target] = value
    return edge


def _stated(op: Op, inward: bool) -> list[TensorSharding | None]:
    """What a computation states of its operands, or of its results; manual axes not mentioned are replicated."""
    boundary = op.signature.boundary
    values, shardings = (op.operands, boundary.in_shardings) if inward else (op.results, boundary.out_shardings)
    if shardings is None:
        return [None] * len(values)
    return [with_unmentioned(sharding, boundary.manual_axes) for sharding in shardings]

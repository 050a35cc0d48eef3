"""Data-flow edges: what ties the values on both sides of a region's boundary together.

| op | sources | targets |
| --- | --- | --- |
| `while` | initial value, value the body returns | result, argument of the condition, argument of the body |
| `case` | what each branch returns | result |
| `optimization_barrier` | operand | result |
| `manual_computation`, `named_computation` | operand | argument of the body |
| | what the body returns | result |
| a function and its calls | operands of the calls | argument |
| | what the function returns | result of a call |

An edge becomes an op after its owner (the first target), which takes over the owner's uses and holds the sharding of
all targets. Inside a manual computation tensors are split over the free axes only; its edges add the manual axes
where data leaves and take them away where it enters.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.boundary import with_unmentioned, without_manual_axes
from shardwright.ir.graph import Op
from shardwright.ir.ops import DATA_FLOW_OPS, MANUAL
from shardwright.ir.rewrite.rewriter import Point, Rewriter
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.propagation.working import EDGE, FUNCTION_EDGE, CalledFunction, DataFlowEdge, Working
from shardwright.sharding import TensorSharding

__all__ = ["add_edges", "find_edges", "find_function_edges"]


def add_edges(working: Working) -> None:
    """Add the data-flow edges of all ops that have any; those that the program brought with it stay."""
    if working.special.keys().isdisjoint(DATA_FLOW_OPS):
        return
    ops = [op for op in working.block.walk(regions_first=True) if op.signature.name in DATA_FLOW_OPS]
    with working.rewriter() as rewriter:
        for op in ops:
            if op.signature.name.startswith("sdy."):
                _add_computation_edges(working, op, rewriter)
            else:
                _add_control_flow_edges(working, op, rewriter)


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


def find_function_edges(working: Working, functions: Sequence[CalledFunction]) -> None:
    """Take up the `sdy.func_data_flow_edge` ops that a program of several functions brings with it.

    What calls pass on flows into a function's argument, and what the function returns into the results of its calls.
    These keep the shardings of their own, which nobody but the edge sees.
    """
    if FUNCTION_EDGE not in working.special:
        return
    owners = {op.operands[0]: op for op in working.special[FUNCTION_EDGE]}
    calls: dict[str, list[Op]] = {}
    for op in working.block.walk():
        if op.name == "func.call":
            calls.setdefault(op.signature.text("callee") or "", []).append(op)
    ends = [op for op in working.block.ops[:-1] if op.name == "func.return"]
    for function, end in zip(functions, ends, strict=True):
        callers = tuple(calls.get(function.symbol, ()))
        for index, argument in enumerate(function.arguments):
            edge = owners.get(argument)
            if edge is not None and callers:
                working.edges[edge.results[0]] = DataFlowEdge(edge, edge, index, between=callers)
        for call in callers:
            for index, result in enumerate(call.results):
                edge = owners.get(result)
                if edge is not None:
                    working.edges[edge.results[0]] = DataFlowEdge(edge, call, index, between=(end,))


def _take_up(working: Working, edge: DataFlowEdge) -> None:
    working.edges[edge.value] = edge
    for target in (edge.owner, *edge.targets):
        working.holder[target] = edge.value


def _boundary(parent: Op, index: int, inward: bool) -> TensorSharding | None:
    if parent.name != MANUAL:
        return None
    return _stated(parent, inward)[index]


def _add_control_flow_edges(working: Working, op: Op, rewriter: Rewriter) -> None:
    point = rewriter.after(op)
    for index, owner in enumerate(op.results):
        if not working.types[owner].is_tensor or owner in working.holder:
            continue
        targets: tuple[int, ...] = ()
        if op.signature.name == "stablehlo.while":
            targets = tuple([region.arguments[index] for region in op.regions])
        edge = _edge(working, rewriter, point, op, owner, working.shardings[owner])
        _take_up(working, DataFlowEdge(edge, op, index, targets))


def _add_computation_edges(working: Working, op: Op, rewriter: Rewriter) -> None:
    """Edges into a computation's body stand at its start, those of its results behind it."""
    (body,) = op.regions
    manual = op.signature.boundary.manual_axes
    for inward, owners in ((True, body.arguments), (False, op.results)):
        point = rewriter.start(body) if inward else rewriter.after(op)
        for index, (owner, stated) in enumerate(zip(owners, _stated(op, inward), strict=True)):
            if not working.types[owner].is_tensor or owner in working.holder:
                continue
            sharding = without_manual_axes(stated, manual) if inward and stated is not None else stated
            edge = _edge(working, rewriter, point, op, owner, sharding)
            boundary = stated if op.name == MANUAL else None
            _take_up(working, DataFlowEdge(edge, op, index, (), boundary, inward))


def _edge(
    working: Working, rewriter: Rewriter, point: Point, parent: Op, owner: int, sharding: TensorSharding | None
) -> Op:
    """An edge op at a point, which all that read the owner read instead."""
    reason = f"data flows across the boundary of {parent.name}"
    op = rewriter.create(
        _edge_signature(working.types[owner]), (owner,), point, reason, shardings=(sharding,), location=parent.location
    )
    rewriter.replace_uses(owner, op.results[0], reason, but=op)
    return op


@memoize
def _edge_signature(type: TensorType) -> Signature:
    return Signature(EDGE, (), (type,), (type,))


def _stated(op: Op, inward: bool) -> list[TensorSharding | None]:
    """What a computation states of its operands, or of its results; manual axes not mentioned are replicated."""
    boundary = op.signature.boundary
    values, shardings = (op.operands, boundary.in_shardings) if inward else (op.results, boundary.out_shardings)
    if shardings is None:
        return [None] * len(values)
    return [with_unmentioned(sharding, boundary.manual_axes) for sharding in shardings]

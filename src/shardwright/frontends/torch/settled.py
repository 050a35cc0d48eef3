"""What torch-mlir leaves to be said plainly: constants of `arith`, sizes that are known, converts to the same type.

And booleans, which it compares as numbers with a sign; XLA compares those without only. And sorts keep what is equal in
order, as those of torch do.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.graph import Graph, Op
from shardwright.ir.rewrite.patterns import Pattern, apply_patterns
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.signature import Signature

__all__ = ["drop_unread", "settle"]

_STABLE = "is_stable"
_TYPE, _SIGNED = "compare_type", "#stablehlo<comparison_type SIGNED>"


def settle(graph: Graph) -> None:
    """Rewrite a program that torch-mlir wrote, in place."""
    patterns = [
        Pattern({"arith.constant"}, _constant),
        Pattern({"stablehlo.dynamic_iota"}, _static_iota),
        Pattern({"stablehlo.convert", "stablehlo.reshape"}, _to_itself),
        Pattern({"stablehlo.compare"}, _without_sign),
        Pattern({"stablehlo.sort"}, _stable),
    ]
    with Rewriter(graph, graph.main.block) as rewriter:
        apply_patterns(rewriter, patterns)
    drop_unread(graph)


def drop_unread(graph: Graph) -> None:
    """Take out, in place, what nobody reads."""
    with Rewriter(graph, graph.main.block) as rewriter:
        for op in reversed(list(graph.main.block.ops)):
            if op.results and not op.regions and not any(rewriter.uses[result] for result in op.results):
                rewriter.erase(op, "nobody reads it")


def _constant(op: Op, rewriter: Rewriter) -> bool:
    """A tensor of numbers is StableHLO's constant."""
    if not op.signature.results[0].is_tensor:
        return False
    signature = Signature("stablehlo.constant", op.signature.attributes, (), op.signature.results)
    made = rewriter.create(signature, (), rewriter.before(op), "it is a constant", location=op.location)
    rewriter.replace(op, made.results, "it is a constant")
    return True


def _static_iota(op: Op, rewriter: Rewriter) -> bool:
    """Its sizes stand in its type; those computed for it are not looked at."""
    signature = Signature("stablehlo.iota", op.signature.attributes, (), op.signature.results)
    made = rewriter.create(signature, (), rewriter.before(op), "its sizes are known", location=op.location)
    rewriter.replace(op, made.results, "its sizes are known")
    return True


def _to_itself(op: Op, rewriter: Rewriter) -> bool:
    """A value brought into the type that it has."""
    if op.signature.operands != op.signature.results:
        return False
    rewriter.replace(op, op.operands, "it is of this type already")
    return True


def _without_sign(op: Op, rewriter: Rewriter) -> bool:
    """Booleans have none."""
    signature = op.signature
    attributes = dict(signature.attributes)
    if signature.operands[0].dtype != "i1" or attributes.get(_TYPE) != _SIGNED:
        return False
    attributes[_TYPE] = _SIGNED.replace("SIGNED", "UNSIGNED")
    made = rewriter.create(
        replace(signature, attributes=tuple(attributes.items())),
        op.operands,
        rewriter.before(op),
        "booleans have no sign",
        location=op.location,
    )
    rewriter.replace(op, made.results, "booleans have no sign")
    return True


def _stable(op: Op, rewriter: Rewriter) -> bool:
    """What is equal stays in order."""
    attributes = dict(op.signature.attributes)
    if attributes.get(_STABLE) == "true":
        return False
    op.signature = replace(op.signature, attributes=tuple((attributes | {_STABLE: "true"}).items()))
    return True

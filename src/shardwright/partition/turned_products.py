"""Transpositions of products that nothing else reads, taken for the products of the operands the other way round.

    %1 = dot_general %x, %y    of 64 by 256     is     %2 = dot_general %y, %x    of 256 by 64
    %2 = transpose %1          of 256 by 64

The gradient of a weight is such a pair, wherever JAX has differentiated a product: it begins with what comes back, and
turns the result to how the weight lies. What is multiplied and added up is the same, nothing has to be laid out anew,
and there is an op less to decide on. Left as it is, XLA for CPUs folds the transposition into the product, which has
operands the wrong way round for its library of products then, or, behind a reduction, computes it where its result is
read, across memory: a training step of a GPT of 2 layers takes a fifth longer, and one of 8 layers twice as long.

Products stay whose operands are to be multiplied with different precisions, or of which more is asked.
"""

from __future__ import annotations

import itertools
from operator import attrgetter

from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.merged import read_counts

__all__ = ["turned_products"]

_PRODUCT, _TRANSPOSE = "stablehlo.dot_general", "stablehlo.transpose"
_NUMBERS, _PRECISIONS, _ORDER = "dot_dimension_numbers", "precision_config", "permutation"
_BATCH, _CONTRACTED = "batching_dimensions", "contracting_dimensions"
_name = attrgetter("signature.name")


def turned_products(graph: Graph) -> dict[Op, Op]:
    """By the transpositions of products that nobody else reads, what is computed in their places."""
    block = graph.main.block
    turned: dict[Op, Op] = {}
    for one in block.blocks(opaque=(MANUAL,)):
        names = list(map(_name, one.ops))
        products = {op.results[0]: op for op in itertools.compress(one.ops, map(_PRODUCT.__eq__, names))}
        for op in itertools.compress(one.ops, map(_TRANSPOSE.__eq__, names)) if products else ():
            made = products.get(op.operands[0])
            signature = None if made is None else _exchanged(made.signature, op.signature)
            if made is not None and signature is not None:
                turned[op] = Op(signature, made.operands[::-1], op.results, (), made.location)
    reads = read_counts(block) if turned else {}
    return {op: product for op, product in turned.items() if reads[op.operands[0]] == 1}


@memoize
def _exchanged(product: Signature, turning: Signature) -> Signature | None:
    """The product that the transposition of a product is, if it is one: its free dimensions change places."""
    asked, more = dict(product.attributes), dict(turning.attributes)
    if not asked.keys() <= {_NUMBERS, _PRECISIONS} or more.keys() != {_ORDER}:
        return None
    if len(set(product.get(_PRECISIONS) or ())) > 1:
        return None
    numbers = product.get(_NUMBERS, {})
    batch, contracted = (len(numbers.get(f"lhs_{kind}", ())) for kind in (_BATCH, _CONTRACTED))
    rank, first = product.results[0].rank, product.operands[0].rank - contracted
    if turning.get(_ORDER) != (*range(batch), *range(first, rank), *range(batch, first)):
        return None
    named = [
        f"{side}_{kind} = [{', '.join(map(str, dims))}]"
        for kind in (_BATCH, _CONTRACTED)
        for side, other in (("lhs", "rhs"), ("rhs", "lhs"))
        if (dims := numbers.get(f"{other}_{kind}"))
    ]
    text = f"#stablehlo.dot<{', '.join(named)}>"
    return product.replace(operands=product.operands[::-1], results=turning.results, dot_dimension_numbers=text)

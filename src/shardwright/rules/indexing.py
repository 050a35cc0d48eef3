"""Gather and scatter: a table of slices looked up or combined at positions given by indices.

The dimensions of the slices (the result of a gather, the updates of a scatter) are either *window* dimensions, which
follow those of the input that are neither collapsed nor batching, or *position* dimensions, which follow those of the
indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.rules.builder import NEED_REPLICATION, PASS_THROUGH, REDUCTION, FactorKind, RuleBuilder
from shardwright.rules.facts import OpFacts
from shardwright.rules.registry import result_alone, sharding_rule
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["IndexFactor", "IndexNumbers", "gather_factors", "index_factors", "scatter_factors"]


@dataclass(frozen=True, slots=True)
class IndexFactor:
    """One correspondence between input, indices and slices.

    Attributes:
        role: What connects the dimensions: one of the words that `index_factors` explains.
        input: Dimension of the input, or `None`; likewise `indices` and `slices`.
        size: Elements of the dimension (of the input where a slice takes a part of it).
        part: Elements taken from it, for a `partial` window.
    """

    role: str
    input: int | None
    indices: int | None
    slices: int | None
    size: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class IndexNumbers:
    """The dimension numbers that gather and scatter share."""

    window: tuple[int, ...]
    collapsed: tuple[int, ...]
    input_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    vector: int


def index_factors(
    numbers: IndexNumbers, input: tuple[int, ...], indices: tuple[int, ...], slices: tuple[int, ...]
) -> Iterator[IndexFactor]:
    """The correspondences, in the order of the slices' dimensions, then collapsed dimensions, then the index vector.

    `window`: a dimension taken whole. `partial`: only a part of it. `position`: one of the indices' own.
    `batching`: input, indices and slices go along together. `collapsed`: one element is taken. `vector`: the indices'
    dimension that holds the coordinates.
    """
    skipped = (*numbers.collapsed, *numbers.input_batching)
    windows = iter(dim for dim in range(len(input)) if dim not in skipped)
    positions = iter(dim for dim in range(len(indices)) if dim != numbers.vector)
    batching = dict(zip(numbers.indices_batching, numbers.input_batching, strict=True))
    for out, size in enumerate(slices):
        if out in numbers.window:
            dim = next(windows)
            role = "window" if input[dim] == size else "partial"
            yield IndexFactor(role, dim, None, out, input[dim], size)
        else:
            index = next(positions)
            role = "batching" if index in batching else "position"
            yield IndexFactor(role, batching.get(index), index, out, size)
    for dim in numbers.collapsed:
        yield IndexFactor("collapsed", dim, None, None, input[dim])
    if numbers.vector < len(indices):
        yield IndexFactor("vector", None, numbers.vector, None, indices[numbers.vector])


def _read(numbers: dict[str, Any], names: tuple[str, str, str, str]) -> IndexNumbers:
    window, collapsed, input_batching, indices_batching = (numbers.get(name, ()) for name in names)
    return IndexNumbers(window, collapsed, input_batching, indices_batching, numbers.get("index_vector_dim", 0))


def gather_factors(signature: Signature) -> Iterator[IndexFactor]:
    """The correspondences of a `stablehlo.gather`, its result being the slices."""
    numbers = _read(
        signature.get("dimension_numbers", {}),
        ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"),
    )
    input, indices = signature.operands
    return index_factors(numbers, input.dims, indices.dims, signature.results[0].dims)


def scatter_factors(signature: Signature) -> Iterator[IndexFactor]:
    """The correspondences of a `stablehlo.scatter`, its updates being the slices."""
    numbers = _read(
        signature.get("scatter_dimension_numbers", {}),
        ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims"),
    )
    types = signature.operands
    return index_factors(numbers, types[0].dims, types[len(signature.results)].dims, types[-1].dims)


@sharding_rule(
    "stablehlo.gather",
    facts=OpFacts(exact=True, index_by_index=True, linear=((0,),)),
    through=result_alone,
)
def _gather(signature: Signature) -> ShardingRule:
    builder = RuleBuilder(signature)
    for factor in gather_factors(signature):
        _add_gather_factor(builder, factor)
    return builder.build()


def _add_gather_factor(builder: RuleBuilder, factor: IndexFactor) -> None:
    """A shard that holds the looked-up elements contributes them, the others zeros: a reduction.

    Parts of more than one element may lie across shards: there the dimension must be whole.
    """
    if factor.role == "partial" and factor.part == 1:
        builder.factor(factor.size, [factor.input, None], [None], REDUCTION)
        builder.factor(1, [None, None], [factor.slices], NEED_REPLICATION)
        return
    kinds = {
        "collapsed": REDUCTION if factor.size > 1 else NEED_REPLICATION,
        "partial": NEED_REPLICATION,
        "vector": NEED_REPLICATION,
    }
    kind = kinds.get(factor.role, PASS_THROUGH)
    blocked = factor.role == "partial"
    builder.factor(factor.size, [factor.input, factor.indices], [factor.slices], kind, blocked=blocked)


@sharding_rule(
    "stablehlo.scatter",
    facts=OpFacts(sums=True, in_place=True),
    local=lambda signature, rule: factors_in(rule.operands[-1]),
    through=lambda signature: len(signature.operands) - 1,
)
def _scatter(signature: Signature) -> ShardingRule:
    builder = RuleBuilder(signature)
    position = _position_kind(signature)
    for factor in scatter_factors(signature):
        _add_scatter_factor(builder, factor, len(signature.results), position)
    return builder.build()


def _position_kind(signature: Signature) -> FactorKind:
    """Updates at different positions may meet at one element: combining them is a reduction if the body is one."""
    combiner = _combiner(signature.bodies[0], len(signature.results)) if signature.bodies else None
    boolean = signature.operands[0].dtype == "i1"
    return REDUCTION if combiner in _SUMS or (boolean and combiner in _LOGICAL) else NEED_REPLICATION


_SUMS = frozenset(REDUCTIONS[kind] for kind in ("sum", "max", "min", "product"))
_LOGICAL = frozenset(REDUCTIONS[kind] for kind in ("and", "or"))


def _combiner(body: Body, count: int) -> str | None:
    """The one op by which each of `count` results is made of the old and the new element, or `None`."""
    makers: dict[int, BodyOp] = {}
    number = len(body.arguments)
    for op in body.ops:
        for _ in op.results:
            makers[number] = op
            number += 1
    names: set[str] = set()
    for index, value in enumerate(body.ops[-1].operands):
        maker = makers.get(value)
        if maker is None or sorted(maker.operands) != [index, count + index]:
            return None
        names.add(maker.name)
    return names.pop() if len(names) == 1 else None


def _add_scatter_factor(builder: RuleBuilder, factor: IndexFactor, count: int, position: FactorKind) -> None:
    def add(size: int, input: int | None, indices: int | None, slices: int | None, kind: FactorKind) -> None:
        builder.factor(size, [*[input] * count, indices, *[slices] * count], [input] * count, kind)

    if factor.role == "partial":
        add(factor.size, factor.input, None, None, NEED_REPLICATION)
        add(factor.part, None, None, factor.slices, NEED_REPLICATION)
        return
    kinds = {"position": position, "vector": NEED_REPLICATION}
    add(factor.size, factor.input, factor.indices, factor.slices, kinds.get(factor.role, PASS_THROUGH))

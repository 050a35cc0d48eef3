"""Splits that would be legal and that no rule offers, found by brute force on two simulated ranks.

Every way to cut each operand and each result of an op along one dimension, or not at all, is tried with numbers: the
op on the parts of its operands must give the parts of its results, or contributions whose sum, largest, smallest or
product is the whole result. What a rule offers already is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice, product
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, load_module
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.registry import local_factors, rule_for
from shardwright.rules.rule import ShardingRule, TensorMapping
from tests.rules.corpus import Instance, instances, program
from tests.rules.parts import Split, Tensor, inputs_of
from tests.rules.programs import ops_of
from tests.rules.xla import run_ops

__all__ = ["Missing", "legal_splits", "missing_splits"]

_PARTS = 2
_SEEDS = (11, 12, 13, 14)
_MOST = 400
"""Ways that are tried of one instance."""

_COMBINED = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}

_Dims = tuple[int | None, ...]
"""For every tensor the dimension that is cut, or `None`."""


@dataclass(frozen=True)
class Missing:
    """A legal split of an instance that its rule does not offer.

    Attributes:
        instance: The op.
        operands: Which dimension of each operand is cut.
        results: Which dimension of each result is.
        kind: How the parts' results make the whole: side by side, or combined.
    """

    instance: Instance
    operands: _Dims
    results: _Dims
    kind: str

    def __str__(self) -> str:
        """`stablehlo.pad (0, -) -> (0) side by side: (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>`."""
        sides = (", ".join("-" if dim is None else str(dim) for dim in side) for side in (self.operands, self.results))
        left, right = sides
        types = f"({', '.join(self.instance.operands)}) -> ({', '.join(self.instance.results)})"
        return f"{self.instance.name} ({left}) -> ({right}) {self.kind}: {types}"


def missing_splits(name: str, count: int, seed: int = 0) -> list[Missing]:
    """What is missing of `count` random instances of an op of the corpus."""
    missing: list[Missing] = []
    for instance in instances(name, count, seed):
        signature = ops_of(program([instance]))[0].signature
        if not all(type.elements for type in (*signature.operands, *signature.results)):
            continue
        ways = [way for way in _ways(signature) if not _is_offered(signature, *way)]
        missing += legal_splits(instance, signature, ways)
    return missing


def legal_splits(
    instance: Instance, signature: Signature, ways: Iterable[tuple[_Dims, _Dims]] | None = None
) -> list[Missing]:
    """All splits of an op that numbers show to be legal, or those among `ways` to cut its operands and results."""
    ways = list(islice(_ways(signature) if ways is None else ways, _MOST))
    splits = [(way, split) for way in ways if (split := _split(instance, signature, *way)) is not None]
    if not splits:
        return []
    alive = dict.fromkeys(range(len(splits)), frozenset(("side by side", *_COMBINED)))
    for inputs in (inputs_of(instance, seed) for seed in _SEEDS):
        chosen = [splits[number][1] for number in alive]
        whole, parts = _computed(instance, chosen, inputs)
        for number, outputs in zip(list(alive), parts, strict=True):
            alive[number] &= _kinds(splits[number][1], whole, outputs)
            if not alive[number]:
                del alive[number]
    return [Missing(instance, *splits[number][0], min(kinds)) for number, kinds in alive.items()]


def _ways(signature: Signature) -> Iterator[tuple[_Dims, _Dims]]:
    def choices(types: Sequence[TensorType], whole: bool) -> Iterator[_Dims]:
        rows = [[dim for dim, size in enumerate(type.dims) if size and size % _PARTS == 0] for type in types]
        return product(*([*([None] if whole else []), *row] for row in rows))

    for operands in choices(signature.operands, True):
        if any(dim is not None for dim in operands):
            yield from ((operands, results) for results in choices(signature.results, False))
            yield operands, (None,) * len(signature.results)


def _is_offered(signature: Signature, operands: _Dims, results: _Dims) -> bool:
    rule = rule_for(signature)
    if rule is None:
        return False
    partial = all(dim is None for dim in results)
    for factor in rule.reduction if partial else local_factors(signature):
        if _places(rule.operands, factor) == operands and _places(rule.results, factor) == results:
            return True
    return False


def _places(mappings: tuple[TensorMapping, ...], factor: int) -> _Dims:
    """The dimensions that a factor is the major one of."""
    return tuple(next((dim for dim, factors in enumerate(tensor) if factors[0] == factor), None) for tensor in mappings)


def _split(instance: Instance, signature: Signature, operands: _Dims, results: _Dims) -> Split | None:
    """The op cut so, or nothing, if the types of a part do not make such an op."""
    sizes = [0]

    def mapping(type: TensorType, cut: int | None) -> TensorMapping:
        dims = []
        for dim, size in enumerate(type.dims):
            if dim != cut:
                sizes.append(size)
            dims.append((0 if dim == cut else len(sizes) - 1,))
        return tuple(dims)

    left = tuple(mapping(type, cut) for type, cut in zip(signature.operands, operands, strict=True))
    right = tuple(mapping(type, cut) for type, cut in zip(signature.results, results, strict=True))
    split = Split(instance, ShardingRule(tuple(sizes), left, right), 0, _PARTS)
    try:
        load_module(program([split.local()]))
    except ShardingError:
        return None
    return split


def _computed(
    instance: Instance, splits: Sequence[Split], inputs: list[Tensor]
) -> tuple[list[Tensor], list[list[list[Tensor]]]]:
    """The results of the whole, and those of each part of every split; none of a split that XLA refuses."""
    jobs: list[tuple[Instance, Sequence[Tensor]]] = [(instance, inputs)]
    for split in splits:
        jobs += [(split.local(), split.blocks(inputs, split.rule.operands, part)) for part in range(_PARTS)]
    outputs = _run(jobs)
    return outputs[0], [outputs[1 + _PARTS * n : 1 + _PARTS * (n + 1)] for n in range(len(splits))]


def _run(jobs: Sequence[tuple[Instance, Sequence[Tensor]]]) -> list[list[Tensor]]:
    """All jobs as one program; if it is refused, its halves."""
    try:
        return run_ops(jobs)
    except (ShardingError, ir.MLIRError, ValueError, RuntimeError):
        if len(jobs) == 1:
            return [[]]
        return _run(jobs[: len(jobs) // 2]) + _run(jobs[len(jobs) // 2 :])


def _kinds(split: Split, whole: list[Tensor], parts: Sequence[list[Tensor]]) -> frozenset[str]:
    """The ways in which the parts make the whole."""
    if not whole or any(len(part) != len(whole) for part in parts):
        return frozenset()
    if any(0 in factors for mapping in split.rule.results for factors in mapping):
        expected = [split.blocks(whole, split.rule.results, part) for part in range(_PARTS)]
        same = all(_close(one, other) for one, other in zip(parts, expected, strict=True))
        return frozenset({"side by side"} if same else ())
    return frozenset(kind for kind in _COMBINED if _close(_combine(_COMBINED[kind], parts), whole))


def _combine(function: Any, parts: Sequence[list[Tensor]]) -> list[Tensor]:
    return [reduce(function, column) for column in zip(*parts, strict=True)]


def _close(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=2e-5, atol=2e-5, equal_nan=True) for a, b in pairs)

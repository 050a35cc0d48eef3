"""Reduction factors against numbers: what the parts contribute makes the whole result.

Of what a scatter adds to, one part has the value and the others what changes nothing. The initial value of a reduce
changes nothing, as StableHLO asks. A gather contributes zeros where an index lies in another part.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.signature import Signature
from shardwright.rules.convolution import convolution_dims
from shardwright.rules.registry import rule_for
from tests.rules.corpus import Instance, instances, program
from tests.rules.parts import Split, Tensor, inputs_of
from tests.rules.programs import ops_of
from tests.rules.xla import run_ops

_LEAST = 8
_SUMMING = ("dot", "dot_general", "reduce", "scatter", "convolution", "gather")
_COMBINED = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
_COMBINED |= {"and": np.logical_and, "or": np.logical_or}
_NEUTRAL = {"add": 0, "multiply": 1, "maximum": -(2**31), "minimum": 2**31 - 1, "and": True, "or": False}


def _splits(instance: Instance, signature: Signature) -> Iterator[Split]:
    rule = rule_for(signature)
    assert rule is not None
    for factor in sorted(rule.reduction - _within_windows(signature)):
        parts = next((parts for parts in (2, 3) if rule.sizes[factor] and rule.sizes[factor] % parts == 0), 0)
        if parts:
            yield Split(instance, rule, factor, parts)


def _within_windows(signature: Signature) -> frozenset[int]:
    """The factors along the windows of a convolution: a part of a window meets no part of the lhs alone."""
    rule = rule_for(signature)
    if signature.name != "stablehlo.convolution" or rule is None:
        return frozenset()
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    return frozenset(factor for _, dim, _ in spatial for factor in rule.operands[1][dim])


def _kind(instance: Instance) -> str:
    combiners = re.findall(r'"stablehlo\.(\w+)"\(%x', instance.regions)
    return combiners[0] if combiners else "add"


def _unchanging(instance: Instance, inputs: list[Tensor], places: range) -> list[Tensor]:
    """The inputs, of which some hold the neutral element of what the op combines with."""
    changed = list(inputs)
    for place in places:
        limits = (-np.inf, np.inf) if inputs[place].dtype.kind == "f" else (-(2**31), 2**31 - 1)
        changed[place] = np.full_like(inputs[place], np.clip(_NEUTRAL[_kind(instance)], *limits))
    return changed


def _inputs(instance: Instance, seed: int) -> list[Tensor]:
    count = len(instance.results)
    initial = range(count, 2 * count) if instance.name == "stablehlo.reduce" else range(0)
    return _unchanging(instance, inputs_of(instance, seed), initial)


def _present_rows(split: Split, signature: Signature, inputs: Sequence[Tensor], part: int) -> tuple[Tensor, Tensor]:
    """For a gather: the indices counted from where a part begins, and a table that is 1 where the part is."""
    table, indices = inputs
    numbers = signature.get("dimension_numbers")
    dim = next(dim for dim, factors in enumerate(split.rule.operands[0]) if split.factor in factors)
    size = table.shape[dim] // split.parts
    ones = np.zeros_like(table)
    ones[(slice(None),) * dim + (slice(part * size, (part + 1) * size),)] = 1
    offsets = np.where(np.array(numbers["start_index_map"]) == dim, part * size, 0).astype(indices.dtype)
    vector = numbers.get("index_vector_dim", 0)
    return indices - offsets.reshape([offsets.size if dim == vector else 1 for dim in range(indices.ndim)]), ones


def _jobs(split: Split, signature: Signature, inputs: list[Tensor]) -> Iterator[tuple[Instance, list[Tensor]]]:
    """The whole; then for each part the local op, and for a gather where its results count."""
    yield split.instance, inputs
    for part in range(split.parts):
        blocks = split.blocks(inputs, split.rule.operands, part)
        if split.instance.name != "stablehlo.gather":
            added = range(len(split.instance.results) if split.instance.name == "stablehlo.scatter" and part else 0)
            yield split.local(), _unchanging(split.instance, blocks, added)
            continue
        shifted, ones = _present_rows(split, signature, inputs, part)
        yield split.local(), [blocks[0], shifted]
        yield split.instance, [ones, inputs[1]]


def _contributions(split: Split, outputs: list[list[Tensor]]) -> list[list[Tensor]]:
    if split.instance.name != "stablehlo.gather":
        return outputs
    return [[value * here] for (value,), (here,) in zip(outputs[::2], outputs[1::2], strict=True)]


@pytest.mark.parametrize("name", _SUMMING)
def test_contributions_make_the_whole(name: str) -> None:
    drawn = list(instances(f"stablehlo.{name}", 60, seed=3))
    signatures = [op.signature for op in ops_of(program(drawn)) if op.name == f"stablehlo.{name}"]
    pairs = [(split, one) for drew, one in zip(drawn, signatures, strict=True) for split in _splits(drew, one)][:24]
    assert len(pairs) >= _LEAST
    seed = zlib.crc32(name.encode())
    groups = [list(_jobs(*pair, _inputs(pair[0].instance, seed + at))) for at, pair in enumerate(pairs)]
    outputs = iter(run_ops([job for group in groups for job in group]))
    for (split, _), group in zip(pairs, groups, strict=True):
        whole, *parts = [next(outputs) for _ in group]
        combine = _COMBINED[_kind(split.instance)]
        columns = zip(*_contributions(split, parts), strict=True)
        for ours, theirs in zip((reduce(combine, column) for column in columns), whole, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=str(split))

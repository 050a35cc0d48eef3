"""Every rule against numbers: an op computed in parts along a local factor gives the parts of the whole result."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.signature import Signature
from shardwright.rules.registry import local_factors, rule_for
from tests.rules.corpus import MAKERS, Instance, instances, program
from tests.rules.parts import Split, inputs_of
from tests.rules.programs import ops_of
from tests.rules.xla import run_ops

SPLITS = 10
"""How many are computed of an op, at least."""

_MOST = 200
_COMMUNICATING = "it talks to devices of its own choosing, of which there are none"
_CALL = "XLA has no CPU kernel for most targets; `test_calls.py` has those that it knows"

SKIPPED = {
    "chlo.bessel_i1e": "it has no lowering to StableHLO; its rule is that of every pointwise op",
    "stablehlo.all_gather": _COMMUNICATING,
    "stablehlo.all_reduce": _COMMUNICATING,
    "stablehlo.all_to_all": _COMMUNICATING,
    "stablehlo.collective_broadcast": _COMMUNICATING,
    "stablehlo.collective_permute": _COMMUNICATING,
    "stablehlo.custom_call": _CALL,
    "stablehlo.custom_call/decomposition": _CALL,
    "stablehlo.custom_call/top_k": _CALL,
    "stablehlo.reduce_scatter": _COMMUNICATING,
    "stablehlo.rng_bit_generator": "no part of its numbers can be drawn alone: no factor is local",
}
"""Ops that are not computed in parts here, and why."""

TESTED = [name for name in MAKERS if name not in SKIPPED]


def _splits(instance: Instance, signature: Signature) -> Iterator[Split]:
    rule = rule_for(signature)
    for factor in sorted(local_factors(signature)):
        assert rule is not None
        parts = next((parts for parts in (2, 3) if rule.sizes[factor] and rule.sizes[factor] % parts == 0), 0)
        if parts:
            yield Split(instance, rule, factor, parts)


def _some(name: str) -> list[list[Split]]:
    """The splits of instances that have any, `SPLITS` of them or a few more."""
    drawn = list(instances(name, _MOST, seed=2))
    signatures = [op.signature for op in ops_of(program(drawn)) if op.name == name]
    several: list[list[Split]] = []
    for splits in map(list, map(_splits, drawn, signatures)):
        if splits and sum(map(len, several)) < SPLITS:
            several.append(splits)
    return several


def test_every_op_is_computed_or_there_is_a_reason() -> None:
    assert set(SKIPPED) < set(MAKERS)
    generator = ops_of(program(list(instances("stablehlo.rng_bit_generator", 5))))
    assert all(local_factors(op.signature) == frozenset() for op in generator)


@pytest.mark.parametrize("name", TESTED)
def test_parts_are_computed_from_parts(name: str) -> None:
    groups = _some(name)
    assert sum(map(len, groups)) >= SPLITS
    several = [splits[0].instance for splits in groups]
    inputs = [inputs_of(one, zlib.crc32(name.encode()) + number) for number, one in enumerate(several)]
    splits = [(number, split) for number, group in enumerate(groups) for split in group]
    jobs = list(zip(several, inputs, strict=True))
    jobs += [
        (split.local(), split.blocks(inputs[number], split.rule.operands, part))
        for number, split in splits
        for part in range(split.parts)
    ]
    outputs = run_ops(jobs)
    parts = iter(outputs[len(several) :])
    for number, split in splits:
        for part in range(split.parts):
            expected = split.blocks(outputs[number], split.rule.results, part)
            for ours, theirs in zip(next(parts), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=f"{split} part {part}")

"""Every rule against numbers: an op computed in parts along a local factor gives the parts of the whole result."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.signature import Signature
from shardwright.rules.local import local_factors
from shardwright.rules.registry import rule_for
from tests.rules.corpus import MAKERS, Instance, instances, program
from tests.rules.parts import Split, inputs_of
from tests.rules.programs import ops_of
from tests.rules.xla import run_ops

COUNT = 6
COMMUNICATING = ("all_", "collective", "reduce_scatter")
UNRUNNABLE = ("custom_call", "chlo.bessel_i1e", "chlo.mulhi")  # no CPU kernel; or no lowering to StableHLO
TESTED = [name for name in MAKERS if not any(word in name for word in (*COMMUNICATING, *UNRUNNABLE))]


def _splits(instance: Instance, signature: Signature) -> Iterator[Split]:
    rule = rule_for(signature)
    for factor in sorted(local_factors(signature)):
        assert rule is not None
        parts = next((parts for parts in (2, 3) if rule.sizes[factor] and rule.sizes[factor] % parts == 0), 0)
        if parts:
            yield Split(instance, rule, factor, parts)


@pytest.mark.parametrize("name", TESTED)
def test_parts_are_computed_from_parts(name: str) -> None:
    several = list(instances(name, COUNT, seed=2))
    signatures = [op.signature for op in ops_of(program(several))[: len(several)]]
    inputs = [inputs_of(one, zlib.crc32(name.encode()) + number) for number, one in enumerate(several)]
    splits = [
        (number, split)
        for number, (one, signature) in enumerate(zip(several, signatures, strict=True))
        for split in _splits(one, signature)
    ]
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
            wanted = split.blocks(outputs[number], split.rule.results, part)
            for ours, theirs in zip(next(parts), wanted, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=f"{split} part {part}")

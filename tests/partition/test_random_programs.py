"""Random annotated programs, all stages, run on virtual devices against the program for one device."""

from __future__ import annotations

import itertools
import os
import re

import pytest

from shardwright.propagation import DEFAULT_STRATEGY
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case
from tests.propagation.programs import random_program

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
COUNT = 24
APART = 4 * COUNT
"""From the first program of a block to that of the next: so many are enough, though not all can be compared."""

_LAST_YIELD = re.compile(r"^( *)stablehlo\.return (?:(.*), )?(%\w+) : (.*tensor<i32>)$", re.MULTILINE)


def terminating(text: str) -> str:
    """Let every loop count: the generator's loops hand their counter on as it is, which is all propagation sees."""

    def count(match: re.Match[str]) -> str:
        indent, others, counter, types = match.groups()
        step = f"{indent}{counter}_one = stablehlo.constant dense<1> : tensor<i32>\n"
        step += f"{indent}{counter}_next = stablehlo.add {counter}, {counter}_one : tensor<i32>\n"
        values = f"{others}, {counter}_next" if others else f"{counter}_next"
        return f"{step}{indent}stablehlo.return {values} : {types}"

    return _LAST_YIELD.sub(count, text)


_REDUCE = re.compile(
    r"dense<0.0>( : tensor<f32>\n *%\w+ = stablehlo.reduce\(.*applies stablehlo\.(maximum|minimum|multiply) )"
)
_IDENTITY = {"maximum": "0xFF800000", "minimum": "0x7F800000", "multiply": "1.0"}


def well_defined(text: str) -> str:
    """Reduce from the identity: StableHLO leaves open how often another initial value counts, and XLA uses that."""
    return _REDUCE.sub(lambda match: f"dense<{_IDENTITY[match.group(2)]}>{match.group(1)}", text)


def run(block: int, strategy: str = DEFAULT_STRATEGY) -> None:
    texts = ((seed, well_defined(terminating(random_program(seed)))) for seed in itertools.count(block * APART))
    # What is written per device has no meaning on one: there is nothing to compare a manual computation with.
    compared = ((seed, text) for seed, text in texts if "manual_computation" not in text)
    cases = {seed: make_case(text, seed, strategy=strategy) for seed, text in itertools.islice(compared, COUNT)}
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=300)
    for number, (seed, case) in enumerate(cases.items()):
        assert_equal(f"program {seed}", case, done[2 * number], done[2 * number + 1])


@pytest.mark.parametrize("strategy", [DEFAULT_STRATEGY, "cost"])
def test_sharded_is_unsharded(strategy: str) -> None:
    run(SEED, strategy)


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
def test_sharded_is_unsharded_long(block: int) -> None:
    run(1_000 + block)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_sharded_by_cost_is_unsharded_long(block: int) -> None:
    run(1_000 + block, "cost")

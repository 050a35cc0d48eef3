"""Our rules against those of the C++ Shardy, on random instances of every op."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.rules.registry import beyond_shardy
from shardwright.rules.text import ATTRIBUTE, format_rule, parse_rule
from tests.oracles.shardy import POPULATE_RULES, ShardyFailure, run_batch
from tests.rules.corpus import MAKERS, instances, program
from tests.rules.programs import ops_of, rule_texts, without_rule

pytestmark = pytest.mark.oracle

COUNT = 40
SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
EXAMPLES = Path(__file__).parents[2] / "examples"
INLINE = "builtin.module(inline,symbol-dce,func.func(sdy-populate-op-sharding-rules))"


def differences(output: str | ShardyFailure) -> list[tuple[str, str | None, str | None]]:
    """Op, C++ rule and our rule, where they are not the same."""
    assert isinstance(output, str), output
    ops = ops_of(output)
    stated = [op.signature.text(ATTRIBUTE) for op in ops]
    ours = rule_texts([without_rule(op) for op in ops])
    compared = zip(ops, stated, ours, strict=True)
    return [(op.name, theirs, our) for op, theirs, our in compared if theirs != our and op.name not in beyond_shardy()]


@pytest.fixture(scope="module")
def outputs() -> dict[str, str | ShardyFailure]:
    jobs = [(program(list(instances(name, COUNT, SEED))), POPULATE_RULES) for name in MAKERS]
    return dict(zip(MAKERS, run_batch(jobs), strict=True))


@pytest.mark.parametrize("name", MAKERS)
def test_rules_are_those_of_shardy(name: str, outputs: dict[str, str | ShardyFailure]) -> None:
    assert differences(outputs[name]) == []


@pytest.mark.parametrize("name", MAKERS)
def test_rules_of_shardy_are_read_and_printed_unchanged(name: str, outputs: dict[str, str | ShardyFailure]) -> None:
    output = outputs[name]
    assert isinstance(output, str)
    texts = [op.signature.text(ATTRIBUTE) for op in ops_of(output)]
    assert all(text is None or format_rule(parse_rule(text)) == text for text in texts)


def test_rules_of_the_examples_are_those_of_shardy() -> None:
    files = sorted(EXAMPLES.glob("*.mlir"))
    assert files
    for output in run_batch([(file.read_text(), INLINE) for file in files]):
        assert differences(output) == []

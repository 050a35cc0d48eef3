"""Random modules with one token of an annotation changed: refused where the C++ refuses, accepted where it accepts.

`SHARDWRIGHT_FUZZ=100000 pytest tests/notation/sdy/test_mutations.py` tries as many instead of 1,200.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.notation.sdy.verifier_crashes import refuse_verifier_crashes
from tests.notation.sdy.mutations import mutated
from tests.notation.sdy.valid import VALID
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.programs_wide import wide_program

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "1200"))
_BATCH = 400
_SEEDS_OF_ONE = 8

_OURS_ALONE = re.compile(
    "meshes of different size|a mesh has|at most 18 digits|does not fit (?:its )?axis"
    "|is given twice|negative size|the result is unreduced along|given a mesh of one device"
)
"""What is refused here and not there: docs/differences.md."""


@pytest.mark.oracle
def test_one_token_changed_is_refused_here_as_there(record_property: Callable[[str, object], None]) -> None:
    verdicts = {"accepted by both": 0, "refused by both": 0, "refused here alone": 0, "the C++ dies of": 0}
    for seed, text, answer in _mutants():
        if not isinstance(answer, str) and answer.message.startswith("exit -"):
            verdicts["the C++ dies of"] += 1
            with pytest.raises(ShardingError):
                refuse_verifier_crashes(text)
            continue
        ours = _refusal(text)
        agreed = bool(ours) == isinstance(answer, ShardyFailure)
        assert agreed or _OURS_ALONE.search(ours), f"seed {seed}:\n{text}\nhere: {ours or 'accepted'}\nthere: {answer}"
        key = "refused here alone" if not agreed else "refused by both" if ours else "accepted by both"
        verdicts[key] += 1
    assert min(verdicts["accepted by both"], verdicts["refused by both"]) > _COUNT // 20
    counted = ", ".join(f"{many} {what}" for what, many in verdicts.items())
    record_property("summary", f"one token changed in {_COUNT} annotated modules: {counted}")


def _mutants() -> Iterator[tuple[int, str, str | ShardyFailure]]:
    for start in range(0, _COUNT, _BATCH):
        seeds = range(start, min(start + _BATCH, _COUNT))
        texts = [mutated(_module(seed), seed) for seed in seeds]
        yield from zip(seeds, texts, run_batch([(text, "builtin.module()") for text in texts]), strict=True)


def _module(seed: int) -> str:
    return VALID[seed % len(VALID)] if seed % 2 else wide_program(seed // _SEEDS_OF_ONE)


def _refusal(text: str) -> str:
    """The diagnostic of a module that is refused, which names a line; empty for one that is read."""
    try:
        parse_source(text, "f.mlir")
    except ShardingError as error:
        assert re.match(r"f\.mlir:\d+", error.diagnostic.location), f"{error}\n{text}"
        return str(error)
    return ""

"""Random modules through passes in a row, beside the C++: the whole text, locations too.

`SHARDWRIGHT_FUZZ=2000 pytest tests/passes/test_random_pipelines.py` compares as many modules a pipeline instead of 24.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.passes.piped import assert_alike
from tests.passes.random_calls import random_calling
from tests.passes.random_manual import random_manual
from tests.passes.random_noted import random_noted

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "24"))
_BATCH = 500
_IMPORTED = "sdy-manual-axes-cleanup,sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import"

_NOTED = "debug-propagation-edge-sharding=true debug-sharding-origins=true"
_CONSTRAINED = f"sdy-import-pipeline,sdy-apply-sharding-constraints{{{_NOTED}}}"
_SUNK = "sink-debug-propagation-edge-sharding=true sink-debug-sharding-origins=true"
_NOTED_TWICE = (
    f"sdy-import-pipeline,sdy-user-priority-propagate{{{_NOTED}}},sdy-apply-sharding-constraints{{{_NOTED}}},"
    f"sdy-user-priority-propagate{{{_NOTED}}}"
)

_PIPELINES: tuple[tuple[str, Callable[[int], str], str], ...] = (
    ("parts of manual axes", random_manual, "sdy-manual-axes-cleanup"),
    ("manual computations without edges", random_manual, "sdy-sharding-group-import,sdy-user-priority-propagate"),
    ("manual computations with edges", random_manual, f"{_IMPORTED},sdy-op-priority-propagate"),
    ("groups in manual computations", random_manual, "sdy-propagation-pipeline"),
    (
        "edges of calls",
        random_calling,
        "sdy-sharding-group-import,sdy-add-func-data-flow-edges,sdy-user-priority-propagate",
    ),
    ("functions propagated once", random_calling, "sdy-propagation-pipeline{dedup-functions-fully=true}"),
    ("functions of their own for each call", random_calling, "sdy-propagation-pipeline"),
    ("origins that grow", random_noted, f"{_CONSTRAINED},sdy-user-priority-propagate{{{_NOTED}}}"),
    (
        "origins of edges",
        random_noted,
        f"{_CONSTRAINED},sdy-user-priority-propagate{{{_NOTED}}},func.func(sdy-sink-data-flow-edges{{{_SUNK}}})",
    ),
    ("origins noted twice", random_noted, _NOTED_TWICE),
)
_DEATHS = 0.06
"""What part of the modules the C++ may die of, or leave in a state that does not verify."""


@pytest.mark.oracle
@pytest.mark.parametrize(("make", "passes"), [pair for _, *pair in _PIPELINES], ids=[name for name, *_ in _PIPELINES])
def test_random_modules_read_as_the_cpp_writes_them(
    make: Callable[[int], str], passes: str, record_property: Callable[[str, object], None]
) -> None:
    seeds = range(_COUNT)
    alike = 0
    for start in range(0, _COUNT, _BATCH):
        texts = [make(seed) for seed in seeds[start : start + _BATCH]]
        alike += assert_alike(texts, passes, deaths=max(_DEATHS, 1 / len(texts)))
    record_property(
        "summary", f"{passes}: {alike} of {_COUNT} random modules as the C++ has them, which fails on others"
    )
    assert alike > _COUNT // 2

"""The passes that come before propagation against the C++ ones of the same name, byte for byte with locations."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step
from tests.oracles.shardy import run_batch
from tests.passes.differential import Job, assert_same, prepared
from tests.passes.import_programs import (
    HAND_WRITTEN,
    hand_written,
    random_calls,
    random_constraints,
    random_groups,
    random_meshes,
)
from tests.propagation.programs import random_program

_SEEDS = 12
_EDGES_ADDED = "sdy-manual-axes-cleanup,sdy-add-data-flow-edges"
_NOTED = {"debug-propagation-edge-sharding": True, "debug-sharding-origins": True}

_PASSES: tuple[tuple[str, Mapping[str, bool]], ...] = (
    ("sdy-add-data-flow-edges", {}),
    ("sdy-add-func-data-flow-edges", {}),
    ("sdy-apply-sharding-constraints", {}),
    ("sdy-apply-sharding-constraints", {"debug-propagation-edge-sharding": True}),
    ("sdy-apply-sharding-constraints", _NOTED),
    ("sdy-constant-or-scalar-splitter", {}),
    ("sdy-explicit-gather-scatter-batching", {}),
    ("sdy-flatten-call-graph", {}),
    ("sdy-import-func-calls", {}),
    ("sdy-import-func-calls", {"add-data-flow-edges-on-named-computations": False}),
    ("sdy-inline-meshes", {}),
    ("sdy-lift-inlined-meshes", {}),
    ("sdy-manual-axes-cleanup", {}),
    ("sdy-pre-order-funcs", {}),
    ("sdy-propagate-sharding-from-func-to-call", {}),
    ("sdy-remove-size-one-axes", {}),
    ("sdy-sharding-group-import", {}),
)
_DIFFERENT = {  # docs/differences.md
    "sdy-inline-meshes": {"meshes"},
    "sdy-add-data-flow-edges": {"constraints", "noted_6"},
    "sdy-import-func-calls": set[str](),
}


def _random_modules(seeds: range) -> list[str]:
    programs = [random_program(seed) for seed in seeds]
    makers: tuple[Callable[[int], str], ...] = (random_calls, random_groups, random_constraints, random_meshes)
    return [*programs, *prepared(programs[::2], _EDGES_ADDED), *(maker(seed) for maker in makers for seed in seeds)]


@pytest.fixture(scope="module")
def random_modules() -> list[str]:
    return _random_modules(range(_SEEDS))


@pytest.fixture(scope="module")
def many_modules() -> list[str]:
    return _random_modules(range(1000, 1200))


def _jobs(name: str, options: Mapping[str, bool], texts: list[str]) -> list[Job]:
    if name == "sdy-add-data-flow-edges":  # where edges are, the C++ adds them again: docs/differences.md
        texts = [text for text in texts if "sdy.data_flow_edge" not in text]
    return [Job(text, name, options) for text in texts]


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "options"), _PASSES)
def test_module_reads_as_after_the_pass_of_the_same_name(
    name: str,
    options: Mapping[str, bool],
    random_modules: list[str],
    record_property: Callable[[str, object], None],
) -> None:
    texts = [hand_written(known) for known in HAND_WRITTEN if known not in _DIFFERENT.get(name, ())]
    compared = assert_same(_jobs(name, options, [*texts, *random_modules]))
    record_property("summary", f"{name}: {compared} modules alike")
    assert compared > 2 * _SEEDS


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), _PASSES)
def test_many_random_modules_read_as_after_the_pass_of_the_same_name(
    name: str, options: Mapping[str, bool], many_modules: list[str]
) -> None:
    assert assert_same(_jobs(name, options, many_modules)) > 400


@pytest.mark.oracle
@pytest.mark.parametrize("options", ["", "dedup-functions-fully=true"])
def test_the_import_pipeline_makes_what_shardys_makes(options: str, random_modules: list[str]) -> None:
    pipeline = f"builtin.module(sdy-import-pipeline{{{options}}})"
    examples = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))
    texts = [text for text in random_modules if "sdy.data_flow_edge" not in text]
    texts += [path.read_text() for path in examples]
    answers = run_batch([(text, pipeline) for text in texts], debug_info=True)
    compared = 0
    for text, expected in zip(texts, answers, strict=True):
        if isinstance(expected, str):
            module = load_module(text)
            for step in parse_pipeline(pipeline):
                run_step(module, step)
            got = module_text(module, locations=True)
            difference = difflib.unified_diff(expected.splitlines(), got.splitlines(), "C++", "ours", lineterm="", n=1)
            assert got == expected, "\n".join([*difference, "for the module", text])
            compared += 1
    assert compared > 3 * _SEEDS

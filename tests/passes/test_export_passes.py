"""The passes that follow propagation against the C++ ones of the same name, byte for byte with locations."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module, module_text
from shardwright.passes.registry import Pass, pass_named
from tests.passes.differential import Job, assert_same, prepared
from tests.passes.export_modules import EXPORT_MODULES, random_calls, random_edges
from tests.propagation.programs import random_program

_SEEDS = 24
_NOTED = "debug-sharding-origins=true debug-propagation-edge-sharding=true"


def _propagated(options: str) -> str:
    return (
        "sdy-import-pipeline,sdy-flatten-call-graph,symbol-dce,sdy-import-func-calls,sdy-apply-sharding-constraints,"
        f"sdy-sharding-group-import,sdy-user-priority-propagate{{keep-sharding-rules=true {options}}}"
    )


_PASSES: tuple[tuple[str, dict[str, bool]], ...] = (
    ("sdy-constant-or-scalar-merger", {}),
    ("sdy-sink-data-flow-edges", {}),
    ("sdy-sink-data-flow-edges", {"sink-debug-sharding-origins": True}),
    ("sdy-sink-data-flow-edges", {"sink-debug-propagation-edge-sharding": True}),
    ("sdy-sink-func-data-flow-edges", {}),
    ("sdy-remove-sharding-groups", {}),
    ("sdy-sharding-constraint-to-reshard", {}),
    ("sdy-export-named-computations", {}),
    ("sdy-propagate-to-func-results", {}),
    ("sdy-unflatten-call-graph", {}),
    ("sdy-unflatten-call-graph", {"dedup-functions-fully": True}),
    ("sdy-insert-func-call-reshards", {}),
    ("sdy-update-non-divisible-input-output-shardings", {}),
    ("sdy-remove-sub-axes-in-input-output-shardings", {}),
    ("sdy-close-shardings", {}),
    ("sdy-drop-sharding-rules", {}),
    ("sdy-remove-propagation-debug-info", {}),
    ("sdy-remove-all-gather-reduce-scatter-for-cmv1", {}),
)


_QUIET = [(name, given) for name, given in _PASSES if not any(given.values())] + [("sdy-drop-sharding-and-mesh", {})]
_ODD = (
    "",
    'func.func private @declared(tensor<8xf32>) -> (tensor<8xf32> {jax.result_info = "r"})',
    "module { module @inner { func.func @f() { return } } }",
    "func.func @f(%a: !stablehlo.token, %b: tensor<?x4xf32>, %c: tensor<*xf32>) -> tensor<?x4xf32> {\n"
    '  %0:2 = "some.op"(%a, %b) ({\n  ^bb0(%i: index):\n    "some.end"(%i) : (index) -> ()\n  }) {k = "v"}'
    " : (!stablehlo.token, tensor<?x4xf32>) -> (tensor<?x4xf32>, memref<4xf32>)\n  return %0#0 : tensor<?x4xf32>\n}",
    "func.func @f(%a: i1) {\n  cf.cond_br %a, ^bb1, ^bb2\n^bb1:\n  return\n^bb2:\n  return\n}",
)


def _random_modules(seeds: range) -> list[str]:
    """Programs as they are written and propagated, calls, and edges of data flow."""
    texts = [random_program(seed) for seed in seeds]
    propagated = [*prepared(texts[::2], _propagated("")), *prepared(texts[1::2], _propagated(_NOTED))]
    return [*texts[:4], *propagated, *map(random_calls, seeds), *map(random_edges, seeds)]


@pytest.fixture(scope="module")
def random_modules() -> list[str]:
    return _random_modules(range(_SEEDS))


@pytest.fixture(scope="module")
def many_modules() -> list[str]:
    return _random_modules(range(1000, 1300))


def _compared(name: str, options: dict[str, bool], texts: list[str]) -> int:
    # The C++ closes `{?}p1` to `{}p1`, which its own parser refuses: docs/differences.md.
    unfit = re.compile(r"\{\?\}p\d") if name == "sdy-close-shardings" else re.compile(r"$^")
    return assert_same([Job(text, name, options) for text in texts if unfit.search(text) is None])


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "options"), _PASSES)
def test_module_reads_as_after_the_pass_of_the_same_name(
    name: str, options: dict[str, bool], random_modules: list[str], record_property: Callable[[str, object], None]
) -> None:
    compared = assert_same([Job(text, name, options) for text in EXPORT_MODULES], refusals=False)
    compared += _compared(name, options, random_modules)
    record_property("summary", f"{name}: {compared} modules alike")
    assert compared > len(EXPORT_MODULES) + _SEEDS


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), _PASSES)
def test_many_random_modules_read_as_after_the_pass_of_the_same_name(
    name: str, options: dict[str, bool], many_modules: list[str]
) -> None:
    assert _compared(name, options, many_modules) > 300


@pytest.mark.oracle
def test_a_training_step_reads_as_after_the_passes_of_the_same_names() -> None:
    text = (Path(__file__).parents[2] / "examples" / "gpt32_scan.mlir").read_text()
    (propagated,) = prepared([text], _propagated(""))
    assert sum(_compared(name, options, [propagated]) for name, options in _PASSES) == len(_PASSES)


@pytest.mark.parametrize(("name", "options"), [*_QUIET])
@pytest.mark.parametrize("text", _ODD)
def test_a_module_with_nothing_for_the_pass_stays_as_it_is(name: str, options: dict[str, bool], text: str) -> None:
    entry = pass_named(name)
    assert isinstance(entry, Pass)
    module = load_module(text)
    before = module_text(module)
    entry.apply(module, {**entry.defaults(), **options})
    assert module_text(module) == before

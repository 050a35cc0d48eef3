"""The pipeline against the C++ one: which passes, and what they make of a module together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import context, load_module, module_text, passmanager
from shardwright.passes.pipeline import parse_pipeline, run_step, steps_of
from tests.oracles.shardy import run_batch, run_pipeline
from tests.passes.export_modules import EXPORT_MODULES
from tests.propagation.programs import random_program

_NAME = "sdy-export-pipeline"
_OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"avoid-export-for-partitioning": True},
    {"enable-insert-explicit-collectives": True},
    {"remove-all-gather-reduce-scatter-for-cmv1": True},
    {"enable-insert-explicit-collectives": True, "remove-all-gather-reduce-scatter-for-cmv1": True},
    {"keep-sharding-rules": True},
    {"dump-sharding-origins": True},
    {"dump-propagation-edges": True, "avoid-export-for-partitioning": True},
    {"avoid-reshards-on-calls": True},
    {"update-non-divisible-input-output-shardings": False},
)
_PROPAGATED = (
    "sdy-import-pipeline,sdy-flatten-call-graph,symbol-dce,sdy-import-func-calls,sdy-apply-sharding-constraints,"
    "sdy-sharding-group-import,sdy-user-priority-propagate{keep-sharding-rules=true}"
)
_UNPARSABLE = re.compile(r",sdy-save-module")
_RESHARDS = "sdy-insert-explicit-reshards"
_WITHOUT_RESHARDS = re.compile(rf",func\.func\({_RESHARDS}\{{[^}}]*\}}\)")
_OWN_SUM = re.compile(r"sdy\.(?:all_reduce|reduce_scatter)")


def _cpp(options: dict[str, bool]) -> str:
    listed = " ".join(f"{name}={str(value).lower()}" for name, value in options.items())
    with context():
        return str(passmanager.PassManager.parse(f"builtin.module({_NAME}{{{listed}}})"))


@pytest.mark.oracle
@pytest.mark.parametrize("options", _OPTIONS, ids=lambda options: ",".join(options) or "none")
def test_the_same_passes_run_for_the_same_options(options: dict[str, bool]) -> None:
    ours = [step for step in steps_of(_NAME, options) if step.entry.name != "sdy-save-module"]
    assert ours == list(parse_pipeline(_UNPARSABLE.sub("", _cpp(options))))
    assert len(steps_of(_NAME, options)) - len(ours) == _cpp(options).count("sdy-save-module")


@pytest.mark.oracle
def test_the_passes_together_make_of_a_module_what_the_cpp_ones_make() -> None:
    """Sums that a module brings with it are made twice by the C++ pass that inserts reshards: it is left out there."""
    texts = [*EXPORT_MODULES, *(random_program(seed) for seed in range(100, 112))]
    pipeline = _UNPARSABLE.sub("", _cpp({}))
    propagated = run_batch([(text, f"builtin.module({_PROPAGATED})") for text in texts[len(EXPORT_MODULES) :]])
    texts = [*EXPORT_MODULES, *(text for text in propagated if isinstance(text, str))]
    sums = [_OWN_SUM.search(text) is not None for text in texts]
    pipelines = [_WITHOUT_RESHARDS.sub("", pipeline) if own else pipeline for own in sums]
    compared = 0
    for text, own, expected in zip(texts, sums, run_batch(list(zip(texts, pipelines, strict=True))), strict=True):
        if not isinstance(expected, str) or re.search(r"\{\}p\d", expected):
            continue
        module = load_module(text)
        for step in steps_of(_NAME):
            if not own or step.entry.name != _RESHARDS:
                run_step(module, step)
        assert module_text(module) == expected
        compared += 1
    assert compared > len(EXPORT_MODULES)


@pytest.mark.oracle
def test_the_same_files_are_dumped(tmp_path: Path) -> None:
    text = (
        'sdy.mesh @mesh = <["x"=2]>\nfunc.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }'
    )
    (tmp_path / "cpp").mkdir()
    run_pipeline(text, f"builtin.module({_NAME}{{dump-directory={tmp_path / 'cpp'}}})")
    module = load_module(text)
    for step in steps_of(_NAME, {"dump-directory": str(tmp_path / "ours")}):
        run_step(module, step)
    ours, cpp = ({path.name: path.read_text() for path in (tmp_path / folder).iterdir()} for folder in ("ours", "cpp"))
    assert ours == cpp
    assert len(ours) == 2


def test_a_directory_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    module = load_module("func.func @main() { return }")
    (step,) = steps_of("sdy-save-module", {"dump-directory": str(tmp_path / "file")})
    with pytest.raises(ShardingError, match="cannot be saved to"):
        run_step(module, step)


def test_nothing_is_saved_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (step,) = steps_of("sdy-save-module")
    run_step(load_module("func.func @main() { return }"), step)
    assert not list(tmp_path.iterdir())

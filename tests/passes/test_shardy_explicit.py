"""Programs that Shardy's own passes made explicit, written for one device by ours, run, and held against the program.

`SHARDWRIGHT_FUZZ=2000 pytest tests/passes/test_shardy_explicit.py` takes as many random programs instead of 80.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.modules import read, write
from shardwright.partition import localize
from shardwright.passes.explicit_form import made_explicit
from shardwright.passes.module_shardings import meshes_of
from shardwright.passes.pipeline import parse_pipeline, run_step
from shardwright.runtime.execute import Job, try_jobs
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.unsharded import unsharded
from shardwright.sharding import TensorSharding
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.partition.compare import Case, assert_equal
from tests.propagation.programs import random_program

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "80"))
_BATCH = 100
_MOST_DEVICES = 8
_EXPLICIT = (
    "builtin.module(inline,symbol-dce,sdy-propagation-pipeline,"
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true}),func.func(sdy-reshard-to-collectives))"
)
_LOCAL = "builtin.module(sdy-convert-global-to-local)"
_BARE = "builtin.module(sdy-convert-global-to-local,sdy-drop-sharding-and-mesh)"
_FAILURES = 0.05
"""What part of the programs the C++ may die of, or make explicit in a way that does not verify."""


def _can_run(program: str) -> bool:
    """Whether one device can run it, as it can no manual computation, and in time, and this machine as many devices."""
    mesh = next((mesh for mesh in meshes_of(load_module(program)).values()), None)
    if mesh is None or mesh.size > _MOST_DEVICES:
        return False
    return "sdy.manual_computation" not in program and "stablehlo.while" not in program  # which never end


def _case(program: str, explicit: str) -> Case:
    graph = read(load_module(program))
    made = made_explicit(read(load_module(explicit)))
    module = load_module(explicit)
    for step in parse_pipeline(_BARE):
        run_step(module, step)
    assert module.operation.verify()
    types = [graph.types[value] for value in graph.main.block.arguments]
    inputs = tuple(make_inputs(types, graph.main.argument_names, graph.main.argument_attributes, seed=0))
    returned = made.main.block.terminator.operands
    mesh = next(mesh for mesh in made.meshes.values() if mesh.axes)

    def layout(value: int) -> TensorSharding:
        sharding = made.shardings[value]
        assert sharding is not None
        return sharding

    return Case(
        explicit,
        Job(module_text(write(unsharded(graph), shardings=False)), inputs),
        Job(
            module_text(module),
            inputs,
            mesh,
            tuple(map(layout, made.main.block.arguments)),
            tuple(map(layout, returned)),
            tuple(made.types[value] for value in returned),
        ),
    )


@pytest.mark.oracle
def test_programs_that_shardy_made_explicit_run_and_equal_the_program(
    record_property: Callable[[str, object], None],
) -> None:
    failed = ran = 0
    for start in range(0, _COUNT, _BATCH):
        drawn = [random_program(seed) for seed in range(start, min(start + _BATCH, _COUNT))]
        programs = [text for text in drawn if _can_run(text)]
        answers = run_batch([(program, _EXPLICIT) for program in programs])
        pairs = [
            (program, answer)
            for program, answer in zip(programs, answers, strict=True)
            if not isinstance(answer, ShardyFailure) and not answer.startswith('"builtin.module"')
        ]
        failed += len(programs) - len(pairs)
        cases = [_case(*pair) for pair in pairs if "sdy.mesh" in pair[1]]
        results = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
        for case, reference, local in zip(cases, results[::2], results[1::2], strict=True):
            assert_equal("explicit", case, reference, local)
        ran += len(cases)
    record_property(
        "summary", f"{ran} programs that Shardy made explicit, written for one device and equal; it fails on {failed}"
    )
    assert failed <= max(2, _FAILURES * _COUNT)
    assert ran > _COUNT // 8


def test_an_explicit_program_may_hold_constants_of_sdy() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<1.0> : tensor<8xf32>
  %1 = stablehlo.add %a, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  %2 = sdy.all_gather [{"x"}] %1 out_sharding=<@mesh, [{}]> : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""
    explicit = made_explicit(read(load_module(text)))
    assert [op.name for op in explicit.main.block.ops][:2] == ["sdy.constant", "stablehlo.add"], "as it stands"
    local = module_text(write(localize(explicit), shardings=False))
    assert "stablehlo.constant dense<1.000000e+00> : tensor<4xf32>" in local


_STAYS = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<16x8xf32>,
    %z: tensor<f32>) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<16x8xf32>) {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x16xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
      manual_axes={"x", "y"} (%c: tensor<4x4xf32>) {
    %6 = stablehlo.abs %c : tensor<4x4xf32>
    sdy.return %6 : tensor<4x4xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = sdy.all_gather [{}, {"y"}] %1 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x16xf32>
  %3 = stablehlo.reverse %2, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x16xf32>
  %4 = stablehlo.pad %3, %z, low = [0, 1], high = [0, 1], interior = [0, 0]
    {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x18xf32>
  %5 = stablehlo.slice %4 [0:8, 0:16] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
    : (tensor<8x18xf32>) -> tensor<8x16xf32>
  %7 = stablehlo.negate %b : tensor<16x8xf32>
  %8 = stablehlo.negate %7 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : tensor<16x8xf32>
  return %5, %8 : tensor<8x16xf32>, tensor<16x8xf32>
}
"""


@pytest.mark.oracle
def test_shardings_stay_on_what_is_local_as_in_shardy(record_property: Callable[[str, object], None]) -> None:
    """Where the C++ writes the same program, it says the same of it; it may choose other communication."""
    answers = run_batch([(random_program(seed), _EXPLICIT) for seed in range(_COUNT // 5)])
    explicit = [text for text in answers if isinstance(text, str) and not text.startswith('"builtin.module"')]
    explicit.append(_STAYS)
    with_and_without = run_batch([(text, pipeline) for text in explicit for pipeline in (_LOCAL, _BARE)])
    compared = [
        (_converted(text, _LOCAL), theirs)
        for text, theirs, plain in zip(explicit, with_and_without[::2], with_and_without[1::2], strict=True)
        if isinstance(theirs, str) and "sdy.sharding" in theirs and plain == _converted(text, _BARE)
    ]
    for ours, theirs in compared:
        assert ours == theirs
    record_property(
        "summary", f"{len(compared)} local programs of {len(explicit)} with the shardings that the C++ leaves"
    )
    assert '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}' in compared[-1][1], "the last of them is ours"
    assert len(compared) > len(explicit) // 10


def _converted(text: str, pipeline: str) -> str | ShardyFailure:
    module = load_module(text)
    try:
        for step in parse_pipeline(pipeline):
            run_step(module, step)
    except ShardingError as error:
        return ShardyFailure(str(error))
    return module_text(module)

"""`sdy-insert-explicit-reshards` without its full version, against the C++ pass: the whole text, locations too.

`SHARDWRIGHT_FUZZ=N` takes N random modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import run_step, steps_of
from tests.oracles.shardy import ShardyFailure
from tests.passes.differential import Job, ours, theirs
from tests.passes.reshard_programs import reshard_program

_NAME = "sdy-insert-explicit-reshards"
_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "120"))
_MESHES = """sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2, "w"=4]>
sdy.mesh @turned = <["x"=2, "y"=2, "z"=2, "w"=4], device_ids=[__IDS__]>
""".replace("__IDS__", ", ".join(map(str, reversed(range(32)))))


def _is_valid(answer: str | ShardyFailure) -> bool:
    """Whether the C++ ends well; of a module that does not verify MLIR prints the generic form."""
    return isinstance(answer, str) and '"builtin.module"(' not in answer


def _compare(texts: list[str]) -> int:
    jobs = [Job(text, _NAME) for text in texts]
    compared = 0
    for job, expected in zip(jobs, theirs(jobs), strict=True):
        if _is_valid(expected):
            assert ours(job) == expected, job.text
            compared += 1
    return compared


@pytest.mark.oracle
def test_random_modules_get_the_reshards_of_the_pass(record_property: Callable[[str, object], None]) -> None:
    compared = _compare([reshard_program(seed) for seed in range(_COUNT)])
    assert compared > _COUNT // 2
    record_property("summary", f"{compared} modules with their few explicit reshards, byte for byte")


@pytest.mark.oracle
def test_what_leaves_a_barrier_lies_as_what_enters_it(record_property: Callable[[str, object], None]) -> None:
    compared = _compare([reshard_program(seed, barriers=4) for seed in range(_COUNT)])
    assert compared > _COUNT // 2
    record_property("summary", f"{compared} modules with barriers and their few explicit reshards, byte for byte")


@pytest.mark.oracle
@pytest.mark.long
def test_many_random_modules_get_the_reshards_of_the_pass() -> None:
    assert _compare([reshard_program(seed) for seed in range(10_000, 11_000)]) > 600


@pytest.mark.parametrize("seed", range(40))
def test_what_is_made_of_random_modules_is_valid(seed: int) -> None:
    """Also where the C++ makes none, or dies."""
    text = ours(Job(reshard_program(seed), _NAME))
    assert module_text(load_module(text), locations=True)


_RETURNED = (
    ('[{"y"}, {}], unreduced={"x"}', '[{}, {}], unreduced={"x", "y"}'),
    ('[{"y"}, {}], unreduced={"x"}', '[{"x"}, {}], unreduced={"z"}'),
    ('[{"y", "x"}, {}]', '[{}, {}], unreduced={"y"}'),
    ('[{"y", "x"}, {"z"}]', '[{"x"}, {}], unreduced={"y", "z"}'),
    ('[{"w"}, {"z"}]', '[{"w":(1)2}, {}], unreduced={"w":(2)2}'),
    ('[{"w":(2)2}, {"z"}]', '[{}, {}], unreduced={"w"}'),
    ('[{}, {}], unreduced={"x", "w":(1)2}', '[{}, {}], unreduced={"w"}'),
    ('[{"y"}, {}], replicated={"z"}', '[{}, {}], unreduced={"z"}'),
    ('[{"y"}, {}], replicated={"x"}, unreduced={"z"}', '[{}, {}], replicated={"x"}, unreduced={"w"}'),
    ('[{"y"}p1, {"x"}]', '[{}, {"x"}], unreduced={"y", "z"}'),
)


@pytest.mark.oracle
def test_what_a_function_returns_awaits_the_sums_that_it_says() -> None:
    texts = [
        f"{_MESHES}func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {given}>}}) -> "
        f"(tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {returned}>}}) {{ return %a : tensor<8x8xf32> }}"
        for given, returned in _RETURNED
    ]
    assert _compare(texts) == len(texts)


_JOINED = (
    ("8x8", '[{}, {"y"}]; [{}, {"x"}] -> [{}, {}]'),
    ("8x8", '[{}, {"y"}]; [{}, {}] -> [{}, {"x"}]'),
    ("8x8", '[{"x"}, {"y"}]; [{"y"}, {"x"}] -> [{}, {}]'),
    ("8x8", '[{"x"}, {"y"}]; [{"x"}, {"z"}] -> [{"x"}, {"w"}]'),
    ("2x8", '[{}, {"w"}]; [{}, {"y"}] -> [{}, {}]'),
    ("4x8", '[{}, {"x", "w"}]; [{}, {"y"}] -> [{}, {}]'),
    ("8x8", '[{"w":(1)2}, {"x"}]; [{}, {"w"}] -> [{}, {}]'),
    ("8x8", '[{"w":(1)2}, {}]; [{"w"}, {"x"}] -> [{}, {"x"}]'),
    ("0x8", '[{"x"}, {"y"}]; [{}, {"x"}] -> [{}, {}]'),
    ("7x8", '[{"x"}, {"y"}]; [{}, {"w"}] -> [{}, {}]'),
)


@pytest.mark.oracle
@pytest.mark.parametrize("turned", [False, True])
def test_operands_and_result_of_a_concatenation_are_split_alike(turned: bool) -> None:
    texts = []
    for shape, split in _JOINED:
        operands, result = split.split(" -> ")
        one, two = (f"{{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}" for dims in operands.split("; "))
        if turned:
            two = two.replace("@mesh", "@turned")
        type, made = f"tensor<{shape}xf32>", f"tensor<{shape.split('x')[0]}x16xf32>"
        texts.append(
            f"{_MESHES}func.func @main(%a: {type} {one}, %b: {type} {two}) -> {made} {{\n"
            f"  %0 = stablehlo.concatenate %a, %b, dim = 1 {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {result}>]>}}"
            f" : ({type}, {type}) -> {made}\n  return %0 : {made}\n}}"
        )
    assert _compare(texts) == len(texts)


_OWN_SUM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"y"}>})
    -> (tensor<4x8xf32>, tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
  %0 = sdy.all_reduce {"y"} %a out_sharding=<@mesh, [{}, {}]> : tensor<4x8xf32>
  %1 = sdy.reduce_scatter [{"y"}, {}] %a out_sharding=<@mesh, [{"y"}, {}]> : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def test_what_a_program_sums_itself_is_summed_once() -> None:
    assert ours(Job(_OWN_SUM, _NAME)) == module_text(load_module(_OWN_SUM), locations=True)


_IMPLIED = {
    "an op without results": """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"y"}>}) {
  "my.print"(%a) : (tensor<4xf32>) -> ()
  return
}""",
    "sums over two meshes": """sdy.mesh @mesh = <["x"=2, "y"=2]>
sdy.mesh @other = <["x"=4]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"y"}>})
    -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@other, [{"x"}]>}) {
  return %a : tensor<4xf32>
}""",
    "operands that are summed over in two ways": """sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"z"}>}) {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"z"}>]>}
    : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}""",
    "a largest value that is awaited": r"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4xf32> {shardwright.sharding = "#sdy.sharding<@mesh, [{}], unreduced=max{\22y\22}>"})
    -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
}


@pytest.mark.parametrize("what", _IMPLIED)
def test_what_these_ops_cannot_say_stays_implied(what: str) -> None:
    module = load_module(_IMPLIED[what])
    assert ours(Job(_IMPLIED[what], _NAME)) == module_text(module, locations=True)


@pytest.mark.oracle
def test_the_cpp_dies_of_what_stays_implied_here() -> None:
    jobs = [Job(text, _NAME) for what, text in _IMPLIED.items() if "largest" not in what]
    assert all(isinstance(answer, ShardyFailure) for answer in theirs(jobs))


_CALL = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = func.call @g(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @g(tensor<8xf32>) -> tensor<8xf32>
"""


def test_a_call_of_nothing_is_refused_at_its_place() -> None:
    module = load_module(_CALL)
    module.body.operations[1].operation.erase()
    (step,) = steps_of(_NAME)
    with pytest.raises(ShardingError, match="there is no function @g") as caught:
        run_step(module, step)
    assert (caught.value.diagnostic.location or "").startswith("-:2")

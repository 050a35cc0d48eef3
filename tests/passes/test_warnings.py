"""What the passes warn of beside what the C++ warns of, at the same places and in the same words.

`SHARDWRIGHT_FUZZ=2000 pytest tests/passes/test_warnings.py` compares as many random modules a pipeline instead of 12.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module
from shardwright.passes.pipeline import parse_pipeline, run_step
from shardwright.passes.warnings import Warnings, heard
from tests.oracles.shardy import ShardyFailure, run_warned
from tests.passes.random_calls import random_calling
from tests.passes.random_manual import random_manual

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "12"))
_BATCH = 500
_TANH = re.compile(r"stablehlo\.(?:tanh|transpose) (%\w+)(?:, dims = \[1, 0\])? : (?:\(.*?\) -> )?(\S+)")
_UNKNOWN = (
    "stablehlo.custom_call @foo({0}) : ({1}) -> {1}",
    "stablehlo.custom_call @bar({0}) {{has_side_effect = true}} : ({1}) -> {1}",
    "stablehlo.custom_call @mhlo.erf({0}) : ({1}) -> {1}",
    '"my.op"({0}) : ({1}) -> {1}',
    '"your.op"({0}) : ({1}) -> {1}',
)


def _with_unknown(text: str, seed: int) -> str:
    """A module with ops that nobody knows in the place of some that everybody does."""
    chance = random.Random(seed)

    def other(match: re.Match[str]) -> str:
        return chance.choice(_UNKNOWN).format(match[1], match[2]) if chance.random() < 0.7 else match[0]

    return _TANH.sub(other, text)


def _calling(seed: int) -> str:
    return _with_unknown(random_calling(seed), seed)


def _manual(seed: int) -> str:
    return _with_unknown(random_manual(seed), seed)


def _ours(text: str, pipeline: str) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []

    def say(message: str, location: str) -> None:
        file, line, column = location.rsplit(":", 2)
        said.append((f'loc("{file}":{line}:{column})', message))

    module = load_module(text)
    with heard(Warnings(say)):
        for step in parse_pipeline(pipeline):
            run_step(module, step)
    return said


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("make", "passes"),
    [
        (_calling, "sdy-import-func-calls"),
        (_calling, "func.func(sdy-populate-op-sharding-rules)"),
        (_calling, "sdy-propagation-pipeline"),
        (_calling, "sdy-propagation-pipeline{dedup-functions-fully=true}"),
        (_manual, "sdy-propagation-pipeline"),
        (_manual, "sdy-sharding-group-import,sdy-basic-propagate"),
    ],
)
def test_random_modules_are_warned_of_as_in_the_cpp(
    make: Callable[[int], str], passes: str, record_property: Callable[[str, object], None]
) -> None:
    pipeline = f"builtin.module({passes})"
    warned = compared = 0
    for start in range(0, _COUNT, _BATCH):
        texts = [make(seed) for seed in range(start, min(start + _BATCH, _COUNT))]
        for text, theirs in zip(texts, run_warned([(text, pipeline) for text in texts]), strict=True):
            if isinstance(theirs, ShardyFailure):
                continue
            ours = _ours(text, pipeline)
            assert ours == theirs, f"ours: {ours}\nC++: {theirs}\n{passes} of\n{text}"
            warned += bool(theirs)
            compared += 1
    record_property("summary", f"{passes}: {compared} random modules with the warnings of the C++, {warned} with some")
    assert compared > _COUNT * 0.7
    assert warned > _COUNT // 8


_T = "tensor<8xf32>"
_FOO = f"%0 = stablehlo.custom_call @foo(%x) : ({_T}) -> {_T}"
_READ = f"%1 = stablehlo.add %0, %0 : {_T}"
_TWICE = f"%2 = stablehlo.dot %1, %0 : ({_T}, {_T}) -> tensor<f32>"
_OF_FOO = ["custom call @foo is unknown to SDY sharding rule registry"]


def _looped(body: str) -> str:
    """A loop with these ops in its body."""
    return f"""%r = stablehlo.while(%y = %x) : {_T}
    cond {{ %t = stablehlo.constant dense<true> : tensor<i1> stablehlo.return %t : tensor<i1> }}
    do {{ {body.replace("%x", "%y")} stablehlo.return %y : {_T} }}"""


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("body", "returned", "said"),
    [
        (_FOO, "%x", []),
        (f"{_FOO} {_READ}", "%x", _OF_FOO),
        (f"{_FOO} {_READ} {_TWICE}", "%x", _OF_FOO),
        (f"{_FOO} sdy.sharding_group %0 group_id=1 : {_T}", "%x", _OF_FOO),
        (_looped(f"{_FOO} {_READ}"), "%x", []),
        (_looped(f"{_FOO} {_READ}"), "%r", _OF_FOO),
        (_looped(_FOO), "%r", []),
    ],
)
def test_an_op_that_nothing_reads_is_not_warned_of_and_one_that_only_such_ops_read_is(
    body: str, returned: str, said: list[str]
) -> None:
    text = f"func.func @main(%x: {_T}) -> {_T} {{\n{body}\nreturn {returned} : {_T}\n}}"
    jobs = [(text, f"builtin.module(sdy-{name}-propagate)") for name in ("basic", "aggressive", "user-priority")]
    for (_, pipeline), theirs in zip(jobs, run_warned(jobs), strict=True):
        assert _ours(text, pipeline) == theirs
        assert [message for _, message in theirs] == said


def test_nothing_is_said_where_nobody_listens_and_once_where_somebody_does() -> None:
    text = 'func.func @main(%a: tensor<8xf32>) {\n  "my.op"(%a) : (tensor<8xf32>) -> ()\n  return\n}'
    said: list[str] = []
    steps = parse_pipeline("builtin.module(sdy-basic-propagate,func.func(sdy-populate-op-sharding-rules))")
    for listened in (True, False):
        module = load_module(text)
        for step in steps:
            if listened:
                with heard(warnings := Warnings(lambda message, _: said.append(message), set(said and {"op"}))):
                    run_step(module, step)
                assert warnings.said == {"op"}
            else:
                run_step(module, step)
    assert said == ["op 'my.op' is unknown to SDY sharding rule registry"]


_GROUPED = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func private @f(%x: TENSOR, %y: TENSOR {sdy.sharding = #sdy.sharding<@mesh, [{"OTHER"}]>}) -> TENSOR {
  %0 = sdy.sharding_constraint %x <@mesh, [{"b"}]> : TENSOR
  sdy.sharding_group %0 group_id=7 : TENSOR
  sdy.sharding_group %y group_id=7 : TENSOR
  return %0 : TENSOR
}
func.func @main(%x: TENSOR {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>},
    %y: TENSOR {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) -> TENSOR {
  sdy.sharding_group %x group_id=3 : TENSOR
  sdy.sharding_group %y group_id=3 : TENSOR
  %0 = call @f(%x, %y) : (TENSOR, TENSOR) -> TENSOR
  return %0 : TENSOR
}
""".replace("TENSOR", _T)
_F, _MAIN = 3, 8  # the lines of what is the first of each group


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("passes", "function", "main"),
    [
        ("sdy-propagation-pipeline{dedup-functions-fully=true}", 0, 1),
        ("sdy-propagation-pipeline", 1, 0),
        ("sdy-sharding-group-import,sdy-pre-order-funcs,sdy-basic-propagate", 0, 1),
        ("sdy-pre-order-funcs,sdy-sharding-group-import,sdy-basic-propagate", 1, 0),
        ("sdy-basic-propagate", 7, 3),
    ],
)
@pytest.mark.parametrize("other", ["a", "b"])
def test_groups_are_told_by_their_numbers_wherever_functions_have_gone_since(
    passes: str, function: int, main: int, other: str
) -> None:
    """As in module 30 of the random ones, where functions stand in another order once groups are numbered."""
    text, pipeline = _GROUPED.replace("OTHER", other), f"builtin.module({passes})"
    ours = _ours(text, pipeline)
    assert run_warned([(text, pipeline)]) == [ours]
    told = [(int(message.split("groupID: ")[1].split()[0]), int(where.split(":")[1])) for where, message in ours]
    assert told == sorted([(main, _MAIN)] + [(function, _F)] * (other == "a"))


def test_a_group_of_several_numbers_is_told_by_the_lowest() -> None:
    """The C++ ends the process where a value is in two groups that no pass has united."""
    twice = f"sdy.sharding_group %x group_id=5 : {_T}\n  sdy.sharding_group %x group_id=3"
    text = _GROUPED.replace("OTHER", "b").replace("sdy.sharding_group %x group_id=3", twice)
    ((_, message),) = _ours(text, "builtin.module(sdy-basic-propagate)")
    assert "groupID: 3 do not match" in message

"""Which collectives are put together, and how many: one start is spared, and what hides them is not lost."""

from __future__ import annotations

import random

import pytest

from shardwright.analysis.traffic import KINDS
from shardwright.cost.hardware import Hardware
from shardwright.cost.overlap import Queue
from shardwright.memo import Session
from shardwright.optimize import optimize
from shardwright.optimize.bucketing import _buckets, _order
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.tasks import Tasks
from shardwright.optimize.works import block_seconds, works_of
from shardwright.program import load
from tests.optimize.cases import BUCKETED
from tests.optimize.explicit import better, function, names, run_all, text
from tests.optimize.test_scheduling import explicit_of, random_tasks

_NAME = "bucket-collectives"


@pytest.mark.parametrize("seed", range(60))
def test_everything_stands_behind_what_it_needs(seed: int) -> None:
    tasks, _, _ = random_tasks(seed)
    rng = random.Random(seed)
    sent = {number: 1.0 for number, task in enumerate(tasks) if not task.is_lazy and rng.random() < 0.4}
    now = Tasks(tasks, dict.fromkeys(range(len(tasks)), 1), ())
    leading = now.leading(sent)
    buckets = [bucket for bucket in _buckets(leading, sent, rng.choice([2.0, 3.0, 9.0])) if len(bucket) > 1]
    order = _order(now, leading, buckets)
    assert [place for place in order if place >= 0] == _order(now, leading, buckets, cuts=False)
    end_of = {number: bucket[-1] for bucket in buckets for number in bucket}
    made = [place for place in order if place < 0]
    assert sorted(~place for place in made) == sorted({*end_of.values()})
    places = {place: where for where, place in enumerate(order)}
    for number, task in enumerate(tasks):
        here = places[end_of.get(number, number)]
        for need in task.needs:
            there = places[~end_of[need]] if need in end_of else places[need]
            assert there < here


_STEPS = 8
_GRADIENTS = function(
    ['a: tensor<64x64xf32> [{"x"}, {}]', "b: tensor<64x64xf32> [{}, {}]"],
    "tensor<64x64xf32> [{}, {}]",
    '%d0 = stablehlo.tanh %a «[{"x"}, {}]» : tensor<64x64xf32>\n'
    + "".join(
        f"""
        %d{n + 1} = stablehlo.dot %d{n}, %b «[{{"x"}}, {{}}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
        %p{n} = stablehlo.dot_general %d{n + 1}, %a, contracting_dims = [0] x [0] «[{{}}, {{}}], unreduced={{"x"}}» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
        %g{n} = sdy.all_reduce {{"x"}} %p{n} «[{{}}, {{}}]» : tensor<64x64xf32>
        """
        for n in range(_STEPS)
    )
    + "".join(
        f"%s{n + 1} = stablehlo.maximum %{'g0' if not n else f's{n}'}, %g{n + 1} «[{{}}, {{}}]» : tensor<64x64xf32>\n"
        for n in range(_STEPS - 1)
    )
    + f"return %s{_STEPS - 1} : tensor<64x64xf32>",
)
"""A chain of products, each with a gradient that is reduced, as in a backward pass."""

_DOT_SECONDS, _BYTES = 64**3 / 2 / 1e9, 64 * 64 * 4


def _box(start: float, speed: float) -> Hardware:
    """A hardware whose collectives take so long to start and send so many bytes in a second; f32 is as fast as bf16."""
    return Hardware("a box", speed, start, 1e9, memory_bytes=1e9, peaks=(("f32", 2e9),))


def _sums(start: float, speed: float) -> int:
    """How many starts are left of sums where one takes so long, and so many bytes are sent in a second."""
    with Session(hardware=_box(start, speed)):
        graph = explicit_of(_GRADIENTS)
        made = optimize(graph, [_NAME])
        before, after = (ExplicitProgram(one) for one in (graph, made.graph))
        seconds = [block_seconds(one, one.graph.main.block.ops) for one in (before, after)]
        if made.improvements:
            (one,) = made.improvements
            assert one.bytes_saved == 0
            assert one.seconds_saved == pytest.approx(seconds[0] - seconds[1], rel=0.05)
        assert names(made.graph).count("all_reduce") == _STEPS
        return sum(work.queue is not Queue.COMPUTE for op in after.graph.main.block.ops for work in works_of(after, op))


def test_what_is_hidden_is_left_and_what_only_starts_is_one() -> None:
    quick = _BYTES / _DOT_SECONDS * 1e3
    assert _sums(1e-12, quick) == _STEPS
    assert _sums(100 * _DOT_SECONDS, quick) == 1


def test_where_all_together_would_hide_nothing_several_are_sent() -> None:
    """Two products take as long as half a start: one bucket would begin when all products are done."""
    some = _sums(3 * _DOT_SECONDS, _BYTES / _DOT_SECONDS)
    assert 1 < some < _STEPS


def _two(axis: str = "x", dtype: str = "f32", second: str = "%c, %d", behind: str = "", read: str = "%s") -> str:
    """Two sums, the other one along an axis, of a type, of whatever operands and read so; their product."""
    taken = ['a: tensor<8x8xf32> [{}, {"x"}]', 'b: tensor<8x8xf32> [{"x"}, {}]']
    taken += [f'c: tensor<8x8x{dtype}> [{{}}, {{"{axis}"}}]', f'd: tensor<8x8x{dtype}> [{{"{axis}"}}, {{}}]']
    type, other = "tensor<8x8xf32>", f"tensor<8x8x{dtype}>"
    return function(
        taken,
        f"{type} [{{}}, {{}}]",
        f"""
        %p = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : ({type}, {type}) -> {type}
        %r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : {type}
        %e = sdy.all_slice [{{}}, {{"x"}}] %r «[{{}}, {{"x"}}]» : {type}
        %q = stablehlo.dot {second} «[{{}}, {{}}], unreduced={{"{axis}"}}» : ({other}, {other}) -> {other}
        %s = sdy.all_reduce {{"{axis}"}} %q «[{{}}, {{}}]» : {other}
        {behind}
        %t = stablehlo.convert {read} «[{{}}, {{}}]» : ({other}) -> {type}
        %0 = stablehlo.multiply %r, %t «[{{}}, {{}}]» : {type}
        return %0 : {type}
        """,
    )


def test_sums_along_other_axes_of_other_types_or_of_one_another_are_left() -> None:
    better(_two(), _NAME)
    better(_two(axis="y"), _NAME, changes=False)
    better(_two(dtype="bf16"), _NAME, changes=False)
    better(_two(second="%e, %b"), _NAME, changes=False)


def test_a_sum_of_which_each_device_keeps_a_slice_is_left() -> None:
    """Compilers scatter it, which sends half as much."""
    kept = """%y = sdy.all_slice [{}, {"y"}] %s «[{}, {"y"}]» : tensor<8x8xf32>
        %z = sdy.all_gather [{}, {"y"}] %y «[{}, {}]» : tensor<8x8xf32>"""
    better(_two(behind=kept, read="%z"), _NAME, changes=False)


def test_sums_without_elements_are_no_measure_of_buckets() -> None:
    empty, type = "tensor<0x8xf32>", "tensor<8x8xf32>"
    behind = f"""%h = stablehlo.slice %a [0:0, 0:8] «[{{}}, {{"x"}}]» : ({type}) -> {empty}
        %k = stablehlo.dot %h, %b «[{{}}, {{}}], unreduced={{"x"}}» : ({empty}, {type}) -> {empty}
        %l = sdy.all_reduce {{"x"}} %k «[{{}}, {{}}]» : {empty}
        %m = stablehlo.concatenate %s, %l, dim = 0 «[{{}}, {{}}]» : ({type}, {empty}) -> {type}"""
    better(_two(behind=behind, read="%m"), _NAME)


def test_a_backward_pass_computes_the_same_to_the_bit() -> None:
    box = _box(3 * _DOT_SECONDS, _BYTES / _DOT_SECONDS)
    made = better(_GRADIENTS, _NAME, exact=True, hardware=box)
    together = better(_GRADIENTS, exact=True, hardware=box)
    run_all([("buckets", made), ("all passes", together)], bits=True)


@pytest.mark.parametrize("name", BUCKETED)
def test_explicit_texts_with_buckets_are_taken_by_xla_and_start_each_once(name: str) -> None:
    case = BUCKETED[name]
    spmd = load(text(better(case.text, case.name).after)).plan().partition()
    spmd.verify().require()
    starts = [one.name for one in spmd.local.main.block.walk() if one.name.removeprefix("stablehlo.") in KINDS]
    assert len(starts) == (2 if starts[0] == "stablehlo.all_reduce" else 1)


def test_sums_of_several_ranks_start_once() -> None:
    type = "tensor<8x8xf32>"
    program = function(
        ['a: tensor<8x8xf32> [{}, {"x"}]', 'b: tensor<8x8xf32> [{"x"}, {}]'],
        f"{type} [{{}}, {{}}]",
        f"""
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %p = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : ({type}, {type}) -> {type}
        %r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : {type}
        %q = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] «[{{}}], unreduced={{"x"}}»
            : ({type}, tensor<f32>) -> tensor<8xf32>
        %s = sdy.all_reduce {{"x"}} %q «[{{}}]» : tensor<8xf32>
        %t = stablehlo.broadcast_in_dim %s, dims = [0] «[{{}}, {{}}]» : (tensor<8xf32>) -> {type}
        %0 = stablehlo.multiply %r, %t «[{{}}, {{}}]» : {type}
        return %0 : {type}
        """,
    )
    made = better(program, _NAME)
    after = ExplicitProgram(made.after)
    works = [work for op in after.graph.main.block.ops for work in works_of(after, op)]
    assert names(made.after).count("all_reduce") == 2
    assert sum(work.queue is not Queue.COMPUTE for work in works) == 1

"""Orders of ops: what is legal, what memory allows, and what runs beside what."""

from __future__ import annotations

import random

import pytest

from shardwright.analysis.memory import memory
from shardwright.cost.hardware import Hardware
from shardwright.cost.overlap import Queue, Work, overlapped_seconds
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.memo import Session
from shardwright.notation.modules import read
from shardwright.optimize import optimize
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.schedules import Listed, Priorities, by_critical_path, by_text, listed
from shardwright.optimize.tasks import Task, Tasks
from shardwright.optimize.works import block_seconds
from shardwright.partition import localize, materialize
from tests.optimize.explicit import better, function, names, run_all

_NAME = "schedule-collectives"
_BOX = Hardware("a box of two nodes", 1e9, 1e-6, 1e9, memory_bytes=1e6, node_devices=4)


def explicit_of(text: str) -> Graph:
    return materialize(read(load_module(text))).graph


def random_tasks(seed: int) -> tuple[list[Task], dict[int, int], tuple[int, ...]]:
    """Tasks that read values of earlier ones, some collectives, some constants, some in an order of their own."""
    rng = random.Random(seed)
    tasks: list[Task] = []
    nowhere: set[int] = set()
    fixed: int | None = None
    for number in range(rng.randrange(1, 40)):
        reads = tuple(sorted(rng.sample(range(number), min(number, rng.randrange(4)))))
        needs = dict.fromkeys(reads)
        if rng.random() < 0.2:
            if fixed is not None:
                needs[fixed] = None
            fixed = number
        queue = rng.choice([Queue.COMPUTE, Queue.COMPUTE, Queue.LINKS, Queue.NETWORK])
        work = Work(rng.choice([0.0, 1.0, 2.0, 5.0]), queue, reads, (number,))
        is_lazy = nowhere.issuperset(needs) and queue is Queue.COMPUTE and fixed != number and rng.random() < 0.6
        if is_lazy and not needs and rng.random() < 0.7:
            nowhere.add(number)
        tasks.append(Task((work,), tuple(needs), reads, (number,), is_lazy))
    sizes = {number: 0 if number in nowhere else rng.randrange(1, 9) for number in range(len(tasks))}
    return tasks, sizes, (len(tasks) - 1,)


def order_of(tasks: Tasks, priorities: Priorities, most: float) -> Listed:
    found = listed(tasks, priorities, most)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_order_has_each_task_once_behind_what_it_needs(seed: int) -> None:
    tasks, sizes, returned = random_tasks(seed)
    now = Tasks(tasks, sizes, returned)
    for priorities in (by_text, by_critical_path):
        for most in (0.0, now.held, 1e9):
            order, seconds, held = order_of(now, priorities(tasks), most)
            ordered = Tasks([tasks[number] for number in order], sizes, returned)
            assert (seconds, held) == (_seconds(ordered), ordered.held) == (ordered.seconds, _held(ordered))
            assert sorted(order) == list(range(len(tasks)))
            places = {number: place for place, number in enumerate(order)}
            assert all(places[need] < places[number] for number, task in enumerate(tasks) for need in task.needs)
            assert order_of(now, priorities(tasks), most).order == order


def _seconds(tasks: Tasks) -> float:
    return overlapped_seconds(work for task in tasks.tasks for work in task.works)


def _held(tasks: Tasks) -> int:
    """The most bytes alive at once: of each value from where it is made to where it is read last."""
    ends = {value: place for place, task in enumerate(tasks.tasks) for value in task.reads}
    ends |= dict.fromkeys(tasks.returned, len(tasks.tasks))
    made = {value: place for place, task in enumerate(tasks.tasks) for value in task.makes}
    alive = [
        sum(
            tasks.sizes[value]
            for value, start in made.items()
            if start == place or start < place <= ends.get(value, -1)
        )
        for place in range(len(tasks.tasks))
    ]
    return max(alive)


@pytest.mark.parametrize("seed", range(60))
def test_less_memory_than_is_held_anyway_makes_no_other_order(seed: int) -> None:
    tasks, sizes, returned = random_tasks(seed)
    now = Tasks(tasks, sizes, returned)
    for priorities in (by_text, by_critical_path):
        for most in (1e9, *range(40, 0, -3)):
            known = order_of(now, priorities(tasks), most)
            assert known.held > most or order_of(now, priorities(tasks), known.held) == known


@pytest.mark.parametrize("seed", range(60))
def test_an_order_is_given_up_only_where_it_takes_no_less_than_a_limit(seed: int) -> None:
    tasks, sizes, returned = random_tasks(seed)
    now = Tasks(tasks, sizes, returned)
    for priorities in (by_text, by_critical_path):
        found = order_of(now, priorities(tasks), 1e9)
        for part in (0.3, 0.9, 1.0, 1.1, 2.0):
            limit = part * found.seconds
            within = listed(now, priorities(tasks), 1e9, limit)
            assert within == found if part > 1.0 and limit else within in (None, found)


def test_the_critical_path_finds_what_the_text_does_not() -> None:
    """Two chains, the longer one written last: its collective is to be started first."""
    works = [
        Work(1, Queue.COMPUTE, (), (0,)),
        Work(2, Queue.LINKS, (0,), (1,)),
        Work(1, Queue.COMPUTE, (), (2,)),
        Work(6, Queue.LINKS, (2,), (3,)),
        Work(6, Queue.COMPUTE, (3,), (4,)),
        Work(1, Queue.COMPUTE, (1,), (5,)),
    ]
    made = {value: number for number, work in enumerate(works) for value in work.makes}
    tasks = [Task((work,), tuple([made[value] for value in work.reads]), work.reads, work.makes) for work in works]
    now = Tasks(tasks, dict.fromkeys(range(6), 1), (4, 5))
    seconds = [
        overlapped_seconds(works[number] for number in order_of(now, priorities(tasks), 100).order)
        for priorities in (by_text, by_critical_path)
    ]
    assert seconds[1] < seconds[0]


def _effect(result: str, target: str, operand: str) -> str:
    layout = "sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"
    type = "(tensor<64x64xf32>) -> tensor<64x64xf32>"
    return f"%{result} = stablehlo.custom_call @{target}(%{operand}) {{has_side_effect = true, {layout}}} : {type}\n"


_EFFECTS = function(
    ['a: tensor<64x64xf32> [{"x"}, {}]', "b: tensor<64x64xf32> [{}, {}]"],
    "tensor<64x64xf32> [{}, {}]",
    f"""
    %d = stablehlo.dot %b, %b «[{{}}, {{}}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    {_effect("0", "first", "b")}
    {_effect("1", "second", "b")}
    %2 = sdy.all_gather [{{"x"}}, {{}}] %a «[{{}}, {{}}]» : tensor<64x64xf32>
    %3 = stablehlo.dot %1, %1 «[{{}}, {{}}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot %3, %2 «[{{}}, {{}}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.add %4, %0 «[{{}}, {{}}]» : tensor<64x64xf32>
    %6 = stablehlo.add %5, %d «[{{}}, {{}}]» : tensor<64x64xf32>
    return %6 : tensor<64x64xf32>
    """,
)


def test_ops_with_effects_keep_their_order() -> None:
    """The second of two leads to what is to come early; the first stays before it all the same."""
    made = optimize(explicit_of(_EFFECTS), [_NAME]).graph
    labels = [op.signature.label for op in made.walk() if "custom_call" in op.name]
    assert labels == ["stablehlo.custom_call @first", "stablehlo.custom_call @second"]
    assert names(made)[0] == "all_gather"


_CHAIN = "".join(
    f"""
%g{n} = sdy.all_gather [{{"y"}}, {{}}] %w{n} «[{{}}, {{}}]» : tensor<64x64xf32>
%d{n + 1} = stablehlo.dot %d{n}, %g{n} «[{{"x"}}, {{}}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
"""
    for n in range(6)
)
_WEIGHTS = function(
    ['d0: tensor<64x64xf32> [{"x"}, {}]', *[f'w{n}: tensor<64x64xf32> [{{"y"}}, {{}}]' for n in range(6)]],
    'tensor<64x64xf32> [{"x"}, {}]',
    _CHAIN + "return %d6 : tensor<64x64xf32>",
)


def _peak(graph: Graph) -> int:
    return memory(localize(graph)).peak


def test_what_takes_no_time_stands_before_its_reader() -> None:
    """Early it would hide nothing, and be held: a moment times a number, which is there from the start."""
    type = "tensor<64x64xf32>"
    dot = f"({type}, {type}) -> {type}"
    program = function(
        [f"a: {type} [{{}}, {{}}]", f'w: {type} [{{"x"}}, {{}}]', f"m: {type} [{{}}, {{}}]"],
        f"{type} [{{}}, {{}}]",
        f"""
        %c = stablehlo.constant {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>]>}} dense<0.9> : {type}
        %1 = stablehlo.dot %a, %a «[{{}}, {{}}]» : {dot}
        %2 = sdy.all_gather [{{"x"}}, {{}}] %w «[{{}}, {{}}]» : {type}
        %3 = stablehlo.dot %1, %2 «[{{}}, {{}}]» : {dot}
        %4 = stablehlo.dot %1, %1 «[{{}}, {{}}]» : {dot}
        %5 = stablehlo.multiply %m, %c «[{{}}, {{}}]» : {type}
        %6 = stablehlo.add %3, %4 «[{{}}, {{}}]» : {type}
        %7 = stablehlo.add %6, %5 «[{{}}, {{}}]» : {type}
        return %7 : {type}
        """,
    )
    assert names(better(program, _NAME, hardware=_BOX).after) == [
        "all_gather",
        "dot",
        "dot",
        "dot",
        "add",
        "multiply",
        "add",
    ]


def test_no_more_weights_are_gathered_ahead_than_memory_holds() -> None:
    graph = explicit_of(_WEIGHTS)
    whole = 64 * 64 * 4
    with Session(hardware=_BOX):
        now = _peak(graph)
        saved = []
        for more in (0, whole, 2 * whole, 8 * whole):
            made = optimize(graph, [_NAME], memory=now + more)
            assert _peak(made.graph) <= now + more
            saved.append(sum(one.seconds_saved for one in made.improvements))
    assert saved == sorted(saved)
    assert saved[0] < saved[1]


def test_orders_hold_no_more_than_they_may_however_much_memory_there_is() -> None:
    graph = explicit_of(_WEIGHTS)
    whole = 64 * 64 * 4
    with Session(hardware=_BOX):
        now, free = _peak(graph), optimize(graph, [_NAME])
        assert _peak(free.graph) > now
        seconds = []
        for orders in (0, whole // 2, whole):
            made = optimize(graph, [_NAME], orders=orders)
            assert _peak(made.graph) <= now + orders
            seconds.append(made.seconds)
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == free.seconds < seconds[0]


def test_no_more_is_held_than_hides_as_much() -> None:
    """Where products take longer than gathers, one ahead is enough, however much memory there is."""
    slow = Hardware("a box", 1e9, 1e-9, 64**3 / 2 / 1e-4, memory_bytes=1e8)
    graph = explicit_of(_WEIGHTS)
    with Session(hardware=slow):
        made = optimize(graph, [_NAME])
    assert made.improvements
    assert _peak(made.graph) <= _peak(graph) + 2 * 64 * 64 * 4


def test_weights_gathered_ahead_compute_the_same_to_the_bit() -> None:
    run_all([("weights ahead", better(_WEIGHTS, _NAME, exact=True, hardware=_BOX))], bits=True)


_TWO_LINKS = function(
    ['a: tensor<64x64xf32> [{"x"}, {}]', 'b: tensor<64x64xf32> [{"y"}, {}]'],
    "tensor<64x64xf32> [{}, {}]",
    """
    %0 = sdy.all_gather [{"x"}, {}] %a «[{}, {}]» : tensor<64x64xf32>
    %1 = sdy.all_gather [{"y"}, {}] %b «[{}, {}]» : tensor<64x64xf32>
    %2 = stablehlo.add %0, %1 «[{}, {}]» : tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
    """,
)


def test_what_goes_within_a_node_goes_beside_what_goes_between_nodes() -> None:
    """On a mesh of 2×4 devices, four in a node, `x` leads to another node."""
    seconds = {}
    one = other = added = 0.0
    for nodes in (None, 4, 8):
        with Session(hardware=Hardware("a box", 1e9, 1e-6, 1e12, node_devices=nodes)):
            program = ExplicitProgram(explicit_of(_TWO_LINKS))
            ops = program.graph.main.block.ops
            seconds[nodes] = block_seconds(program, ops)
            one, other, added = (program.seconds(program.cost(op)) for op in ops[:3])
    assert seconds[None] == seconds[8] == pytest.approx(one + other + added)
    assert seconds[4] == pytest.approx(max(one, other) + added)


TURNS = function(
    ['a: tensor<64x64xf32> [{"x"}, {}]', 'w: tensor<64x64xf32> [{"y"}, {}]'],
    'tensor<64x64xf32> [{"x"}, {}]',
    """
    %zero = stablehlo.constant «[]» dense<0> : tensor<i32>
    %1:3 = stablehlo.while(%i = %zero, %x = %a, %v = %w) : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}, {}]>, <@mesh, [{"y"}, {}]>]>}
    cond {
      %n = stablehlo.constant «[]» dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n «[]» : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant «[]» dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one «[]» : tensor<i32>
      %3 = stablehlo.tanh %x «[{"x"}, {}]» : tensor<64x64xf32>
      %2 = sdy.all_gather [{"y"}, {}] %v «[{}, {}]» : tensor<64x64xf32>
      %4 = stablehlo.dot %3, %2 «[{"x"}, {}]» : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %5 = stablehlo.negate %v «[{"y"}, {}]» : tensor<64x64xf32>
      stablehlo.return %j, %4, %5 : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
    }
    return %1#1 : tensor<64x64xf32>
    """,
)


def test_in_a_loop_as_often_as_it_turns() -> None:
    made = better(TURNS, _NAME)
    assert names(made.after).index("all_gather") < names(made.after).index("tanh")
    run_all([("turns", made)], bits=True)
    once = better(TURNS.replace("dense<5>", "dense<1>"), _NAME)
    saved = [sum(one.seconds_saved for one in each.improvements) for each in (made, once)]
    assert saved[0] == pytest.approx(5 * saved[1])

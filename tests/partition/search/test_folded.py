"""Blocks that repeat, chosen alike."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.search.as_decided import Decided, Ops
from shardwright.partition.search.best import BUDGETS, Searched, search
from shardwright.partition.search.build import outline
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.folded import Folded, folded
from shardwright.partition.search.graph import ChoiceGraph, End
from shardwright.partition.search.integer import Limits, solve
from shardwright.partition.search.lifted import lifted
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.outline import Outline
from shardwright.partition.search.total import times_run
from shardwright.report.text import summary_page
from tests.partition.search.programs import SCALED, ready, repeated_program, small_program

ALL = Limits(entries=10_000_000, gap=1e-6, work=1_000_000_000)


def _layers(x: Any, *weights: Any) -> Any:
    for number in range(0, len(weights), 2):
        hidden = jnp.tanh(x @ weights[number])
        x = x + hidden @ weights[number + 1]
        x = x - x.mean(1, keepdims=True)
    return x.sum()


def _deep(layers: int) -> sw.Plan:
    """Layers of a training step, whose weights are split alike."""
    weights = [jnp.ones((32, 64)), jnp.ones((64, 32))] * layers
    step = jax.value_and_grad(_layers, argnums=tuple(range(1, 2 * layers + 1)))
    specs: dict[str | int, Any] = {
        number: sw.P("y") if number % 2 else sw.P(None, "y") for number in range(1, 2 * layers + 1)
    }
    return sw.from_jax(step, jnp.ones((16, 32)), *weights).shard(sw.Mesh(x=2, y=2), {0: sw.P("x"), **specs})


@contextmanager
def _choices(plan: sw.Plan) -> Iterator[Outline]:
    with Session(hardware=SCALED):
        graph = ready(plan)
        yield outline(Decided(Ops(graph, times_run(graph)), decide(graph)))


def _chosen(one: Folded, passes: int) -> tuple[Messages, tuple[int, ...]]:
    messages = Messages(one.graph, 1.0)
    messages.least(Distances(SCALED), passes)
    return messages, messages.chosen()


def test_the_middle_of_a_deep_program_is_as_that_of_a_deeper_one() -> None:
    sizes = []
    for layers in (8, 16):
        with _choices(_deep(layers)) as choices:
            sizes.append((len(folded(choices, 0, 60).graph.nodes), len(choices.ops)))
    (few, all), (few_of_more, more) = sizes
    assert few == few_of_more < all / 3
    assert more > 1.8 * all


def test_what_is_chosen_of_a_folded_graph_takes_as_much_in_the_other() -> None:
    with _choices(_deep(5)) as choices:
        graph = choices.graph
        for most in (1, 40, 80, 10_000):
            one = folded(choices, 0, most)
            _, ways = _chosen(one, 3)
            small = solution_of(one.graph, ways, Distances(SCALED), 0.0)
            large = solution_of(graph, one.unfolded(small).ways, Distances(SCALED), 0.0)
            assert small.seconds == pytest.approx(large.seconds)
            assert one.unfolded(small).links == pytest.approx(large.links)
            assert math.isfinite(small.seconds)


def _told_apart(graph: ChoiceGraph, farther: int) -> list[tuple[object, ...]]:
    """What tells nodes with a choice apart, that many links away; nothing for all others."""
    alike: list[tuple[object, ...]] = [
        (id(node.ways), id(node.seconds)) if len(node.seconds) > 1 else () for node in graph.nodes
    ]
    for _ in range(farther):
        links = [
            (link.type, _end(graph, alike, link.maker), Counter(_end(graph, alike, end) for end in link.readers))
            for link in graph.links
        ]
        seen = [(one, frozenset(readers.items()), maker) for one, maker, readers in links]
        alike = [
            one and (one, *[seen[slot.link] for slot in node.slots])
            for one, node in zip(alike, graph.nodes, strict=True)
        ]
    return alike


def _end(graph: ChoiceGraph, alike: Sequence[tuple[object, ...]], end: End) -> tuple[object, ...]:
    slot, (node, place) = graph.slot(end), end
    return (alike[node], place) if alike[node] else (slot.scope, slot.layouts)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_alike_whose_links_are_to_nodes_that_are_so(seed: int) -> None:
    with _choices(repeated_program(seed)) as choices:
        sizes = [0]
        for farther in range(4):
            told = _told_apart(choices.graph, farther)
            sizes.append(len({one for one in told if one}))
            if sizes[-1] == sizes[-2]:
                break
            one = folded(choices, 0, sizes[-1] + 1)
            pairs = {(number, apart) for number, apart in zip(one.node_of, told, strict=True) if apart}
            assert len(pairs) == len({number for number, _ in pairs}) == sizes[-1]
    assert len(sizes) > 2


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_a_folded_graph_are_bounds_of_the_other(seed: int) -> None:
    with _choices(small_program(seed)) as choices:
        graph = choices.graph
        some = solution_of(graph, [0] * len(graph.nodes), Distances(SCALED), 0.0).seconds
        best, _ = solve(graph, Distances(SCALED), (), min(some, 1e-6), ALL)
        assert best is not None
        for most, passes in ((1, 1), (1, 6), (30, 2), (30, 6), (10_000, 6)):
            one = folded(choices, 0, most)
            messages, ways = _chosen(one, passes)
            assert one.bound(messages) <= best.seconds * (1 + 1e-6) + 1e-15
            assert solution_of(one.graph, ways, Distances(SCALED), 0.0).seconds >= best.seconds * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_lifted_has_moved_as_much_and_bounds_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with _choices(small_program(seed) if seed % 2 else repeated_program(seed)) as choices:
        graph = choices.graph
        some = solution_of(graph, [0] * len(graph.nodes), Distances(SCALED), 0.0).seconds
        best, _ = solve(graph, Distances(SCALED), (), min(some, 1e-6), ALL)
        assert best is not None
        for most, passes in ((1, 1), (1, 6), (30, 3)):
            one = folded(choices, 0, most)
            messages, _ = _chosen(one, passes)
            apart = lifted(one, messages, graph)
            alike = [int(rng.integers(len(node.seconds))) for node in one.graph.nodes]
            ways = [alike[node] for node in one.node_of]
            assert _moved(apart, graph, ways) == pytest.approx(_moved(messages, one.graph, alike), abs=1e-15)
            bounds = [apart.least(Distances(SCALED), 1) for _ in range(8)]
            assert all(after >= before * (1 - 1e-9) for before, after in itertools.pairwise(bounds))
            assert bounds[-1] <= best.seconds * (1 + 1e-6) + 1e-15


def _moved(messages: Messages, graph: ChoiceGraph, ways: Sequence[int]) -> float:
    """What was moved to nodes of the ways that are chosen."""
    return sum(
        float(given[slot.of_way[way]])
        for of_node, node, way in zip(messages.given, graph.nodes, ways, strict=True)
        for given, slot in zip(of_node, node.slots, strict=True)
    )


def test_what_is_proven_of_layers_alike_is_proven_of_all_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Searched]()
    for most in (0, 1_000_000):
        budget = replace(BUDGETS["default"], whole=0, nodes=60, apart=0, lifted=most)
        monkeypatch.setitem(BUDGETS, "default", budget)
        with Session(hardware=SCALED):
            found.append(search(ready(_deep(8)), "default")[1])
    alike, all = found
    assert alike.seconds == all.seconds
    assert alike.seconds_least_alike == pytest.approx(alike.seconds)
    assert alike.seconds_least < 0.97 * all.seconds
    assert all.seconds <= all.seconds_least * (1 + 2.5e-3)


def test_a_graph_with_nothing_alike_stays_as_it_is() -> None:
    with _choices(small_program(3)) as choices:
        one = folded(choices, 10_000, 1)
        assert one.is_whole
        messages, _ = _chosen(one, 5)
        assert one.bound(messages) == pytest.approx(messages.bound)
        assert sum(len(node.seconds) > 1 for node in choices.graph.nodes) == len(one.graph.nodes) - 1
    with _choices(_deep(5)) as choices:
        assert not folded(choices, 0, 1).is_whole


def test_nodes_are_told_apart_while_they_have_few_ways() -> None:
    with _choices(_deep(5)) as choices:
        ways = sum([len(node.seconds) for node in choices.graph.nodes if len(node.seconds) > 1])
        assert folded(choices, 0, 1, ways).is_whole
        sizes = [len(folded(choices, 0, 1, part * ways // 4).graph.nodes) for part in range(5)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[2] < sizes[4]


def test_layers_chosen_alike_are_run_and_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "default", replace(BUDGETS["default"], whole=0, nodes=40, apart=0))
    with Session(hardware=SCALED):
        plan = _deep(6)
        spmd = plan.partition(effort="default")
        graph = ready(plan)
        _, searched = search(graph, "default")
        alone = outline(Decided(Ops(graph, times_run(graph)), decide(graph))).graph.least_alone()
    assert searched.seconds <= searched.seconds_before
    assert 0 < alone <= searched.seconds_least * (1 + 1e-9)
    assert searched.seconds_least <= searched.seconds_least_alike <= searched.seconds
    text = f"{searched.seconds_least_alike * 1e6:,.2f} µs: none is better"
    assert f"least, with layers alike        {text}" in str(summary_page(spmd.summary()))
    spmd.verify().require()


def test_a_program_of_no_values_is_folded_to_nothing() -> None:
    text = "func.func @main() -> tensor<8xf32> {\n%0 = stablehlo.constant dense<1.0> : tensor<8xf32>\nreturn %0 : tensor<8xf32>\n}"
    plan = sw.load(text).shard(sw.Mesh(x=2))
    with _choices(plan) as choices:
        assert not choices.values
        assert len(folded(choices, -1, 1).graph.nodes) == 1
    assert plan.partition(effort="default").searched is not None


def test_what_one_way_is_left_of_does_not_tell_nodes_apart() -> None:
    with _choices(_deep(4)) as choices:
        for kind in choices.kinds:
            kind.seconds = kind.seconds[:1]
            kind.places = [place._replace(layouts=place.layouts[:1]) for place in kind.places]
        assert len(folded(choices, 0, 1000).graph.nodes) == 1


def test_blocks_that_repeat_are_chosen_as_well_as_they_can_be_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of most that is as good as where each is chosen for itself; what is told of the rest holds for all choices.

    What ops move through memory is most of what so small ones take, and is left out.
    """
    budget, as_good, free = BUDGETS["default"], list[bool](), replace(SCALED, memory_bytes_per_second=None)
    for seed in (2, 4, 5, 6, 7, 8, 10):
        with Session(hardware=free):
            graph = ready(repeated_program(seed))
            monkeypatch.setitem(BUDGETS, "default", budget)
            _, apart = search(graph, "default")
            small = folded(outline(Decided(Ops(graph, times_run(graph)), decide(graph))), 0, 1)
            best, _ = solve(small.graph, Distances(free), (), apart.seconds_before, ALL)
            monkeypatch.setitem(BUDGETS, "default", replace(budget, whole=0, nodes=1, apart=0))
            _, alike = search(graph, "default")
        assert best is not None
        assert not small.is_whole
        assert alike.seconds <= min(max(apart.seconds, best.seconds) * (1 + 1e-3), alike.seconds_before)
        assert alike.seconds_least <= apart.seconds * (1 + 1e-9)
        assert alike.seconds_least <= alike.seconds_least_alike <= alike.seconds
        assert apart.seconds_least_alike == apart.seconds_least
        assert apart.seconds_least <= alike.seconds * (1 + 1e-9)
        as_good.append(alike.seconds <= apart.seconds * (1 + 1e-3))
    assert sum(as_good) >= 5


@pytest.mark.parametrize("seed", range(4))
def test_only_ops_of_one_kind_that_may_be_split_alike_are_chosen_alike(seed: int) -> None:
    with _choices(repeated_program(seed)) as choices:
        one = folded(choices, 0, 1)
        kinds: dict[int, set[object]] = {}
        for node, number in zip(choices.graph.nodes, one.node_of, strict=True):
            if len(node.seconds) > 1:
                assert node.op is not None
                kinds.setdefault(number, set()).add((node.op.signature, node.ways, tuple(node.seconds)))
        assert all(len(alike) == 1 for alike in kinds.values())


def test_layers_of_which_none_is_as_another_are_chosen_by_themselves() -> None:
    widths = (32, 64, 128, 256)
    weights = [jnp.ones(shape) for width in widths for shape in ((32, width), (width, 32))]
    program = sw.from_jax(_wider, jnp.ones((16, 32)), *weights)
    specs: dict[str | int, Any] = {
        number: sw.P("y") if number % 2 == 0 else sw.P(None, "y") for number in range(1, len(weights) + 1)
    }
    with _choices(program.shard(sw.Mesh(x=2, y=2), {0: sw.P("x"), **specs})) as choices:
        one = folded(choices, 0, 1)
        products = [
            number
            for op, number in zip(choices.ops, one.node_of, strict=True)
            if op is not None and op.name == "stablehlo.dot_general"
        ]
    assert len(set(products)) == len(products) == 2 * len(widths)


def _wider(x: Any, *weights: Any) -> Any:
    for number in range(0, len(weights), 2):
        x = jnp.tanh(x @ weights[number]) @ weights[number + 1]
    return x

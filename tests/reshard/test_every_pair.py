"""Every pair of layouts of small meshes: the plan takes the least time that a chain of steps takes, on every hardware.

Time, and within as much memory as the larger of source and target needs; whatever the chain, and if there is one. What
is planned is taken on simulated devices, element by element. A sample of the pairs; all of them in the long mode.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest

from shardwright.cost.hardware import Hardware, hardware, preset_names
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import Torus, paths_of, torus_on
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding
from tests.reshard.exhaustive import Exhaustive, State
from tests.reshard.simulate import arrives
from tests.reshard.test_optimality import primes, sharding

MESHES = [Mesh(a=4), Mesh(a=8), Mesh(a=2, b=2), Mesh(a=2, b=4), Mesh(a=2, b=2, c=2), Mesh(a=2, b=3)]
PRESETS = [hardware(name) for name in preset_names()]
HARDWARES = [one.with_a_link() for one in PRESETS] + [one for one in PRESETS if one.torus_dimensions is not None]
"""All where devices have one link, exactly, and those that are tori as such."""

BYTES_OF_TENSORS = (1 << 12, 1 << 21, 1 << 30)
"""So that a start is worth all of a tensor, some of it, or nothing."""

SOURCES, TARGETS = 5, 12


@pytest.mark.parametrize("lengths", ["long", "short"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_no_chain_takes_less_time(mesh: Mesh, rank: int, lengths: str) -> None:
    check(mesh, shape_of(mesh, rank, lengths), SOURCES, TARGETS)


@pytest.mark.long
@pytest.mark.parametrize("lengths", ["long", "short"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_no_chain_takes_less_time_between_any_two(mesh: Mesh, rank: int, lengths: str) -> None:
    check(mesh, shape_of(mesh, rank, lengths))


@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_no_layout_on_the_way_makes_it_cheaper(mesh: Mesh) -> None:
    """The triangle inequality, for layouts between the two that hold no more than these."""
    shape = shape_of(mesh, 3, "long")
    every, rng = Exhaustive(tuple(axis.size for axis in primes(mesh)), shape), random.Random(mesh.size)
    layouts = list(every.layouts())
    for number in range(150):
        first, between, last = rng.sample(layouts, 3)
        if every.held(between) > max(every.held(first), every.held(last)):
            continue
        machine, element = HARDWARES[number % len(HARDWARES)], max(1, rng.choice(BYTES_OF_TENSORS) // math.prod(shape))
        ends = [sharding(mesh, (layout, frozenset())) for layout in (first, between, last)]
        with Session():
            ways = [plan(shape, element, ends[a], ends[b], machine).cost for a, b in ((0, 2), (0, 1), (1, 2))]
        direct, there, on = (price(cost, machine) for cost in ways)
        least = 1.0 if machine.torus_dimensions is None else 0.989  # there what takes a hundredth less is left out
        assert direct * least <= (there + on) * (1 + 1e-9), (ends, machine.name)


def shape_of(mesh: Mesh, rank: int, lengths: str) -> tuple[int, ...]:
    """One of which every dimension takes every axis, or one of which some do not."""
    return (2 * mesh.size,) * rank if lengths == "long" else (mesh.size, 2, 4)[:rank]


def check(mesh: Mesh, shape: tuple[int, ...], sources: int | None = None, targets: int | None = None) -> None:
    """Assert that plans between layouts take the least time; of all layouts some where numbers are given."""
    by_links: dict[Torus | None, list[tuple[int, Hardware]]] = {}
    for numbered in enumerate(HARDWARES):
        by_links.setdefault(torus_on(mesh.size, numbered[1].links), []).append(numbered)
    for torus, machines in by_links.items():
        every, rng = exhaustive(mesh, shape, torus), random.Random(math.prod(shape))
        starting, ending = list(states(every)), list(every.layouts())
        for source in rng.sample(starting, min(sources or len(starting), len(starting))):
            chosen = rng.sample(ending, min(targets or len(ending), len(ending)))
            for most, group in itertools.groupby(sorted(chosen, key=every.held), key=every.held):
                most = max(most, every.held(source[0]))
                layers = every.frontiers(source, most)
                for target in group:
                    state = (target, frozenset[int]())
                    chains = [(float(layer[state]), starts) for starts, layer in enumerate(layers) if state in layer]
                    ends = sharding(mesh, source).closed(), sharding(mesh, state).closed()
                    compare(machines, shape, *ends, chains, float(most))


def exhaustive(mesh: Mesh, shape: tuple[int, ...], torus: Torus | None) -> Exhaustive:
    """All chains; on a torus, what goes over the busiest link counts."""
    atoms = primes(mesh)
    sizes = tuple(axis.size for axis in atoms)
    if torus is None:
        return Exhaustive(sizes, shape)

    @cache
    def over(kind: str, numbers: tuple[int, ...]) -> Fraction:
        axes = tuple(atoms[number] for number in numbers)
        return Fraction(paths_of(axes, mesh, torus).part_of(kind)).limit_denominator(10_000)

    return Exhaustive(sizes, shape, over)


def states(every: Exhaustive) -> Iterator[State]:
    """All layouts, partial along any of the atoms that split nothing."""
    for layout in every.layouts():
        free = sorted(set(range(len(every.sizes))).difference(*layout))
        for number in range(len(free) + 1):
            for partial in itertools.combinations(free, number):
                yield layout, frozenset(partial)


def compare(
    machines: list[tuple[int, Hardware]],
    shape: tuple[int, ...],
    source: TensorSharding,
    target: TensorSharding,
    chains: list[tuple[float, int]],
    most: float,
) -> None:
    """Assert that no plan takes longer than the quickest of `chains`, given as elements sent and collectives."""
    plans: dict[tuple[object, ...], ReshardPlan] = {}
    with Session():
        for number, machine in machines:
            element = max(1, BYTES_OF_TENSORS[number % 3] // math.prod(shape))
            cheapest = plan(shape, element, source, target, machine)
            least = min(price(Cost(sent * element, starts), machine) for sent, starts in chains)
            taken, exact = price(cheapest.cost, machine), 1e-9 if machine.torus_dimensions is None else 1e-3
            if exact == 1e-3 and least:  # parts of bytes are rounded, and what takes a hundredth less is left out
                assert 1 - exact <= taken / least <= 1 / 0.989, (source, target, machine.name)
            else:
                assert taken == pytest.approx(least, rel=exact), (source, target, machine.name)
            assert cheapest.peak_bytes <= most * element, (source, target, machine.name)
            plans[cheapest.steps] = cheapest
    for cheapest in plans.values():
        arrives(shape, source, target, cheapest.steps)

"""Every pair of layouts of small meshes: the plan takes the least time that a chain of steps takes, on every hardware.

Time, and within as much memory as the larger of source and target needs; whatever the chain, and if there is one. What
is planned is taken on simulated devices, element by element. A sample of the pairs; all of them in the long mode.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest

from shardwright.cost.hardware import hardware, preset_names
from shardwright.cost.price import Cost, price
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding
from tests.reshard.exhaustive import Exhaustive, State
from tests.reshard.simulate import arrives
from tests.reshard.test_optimality import primes, sharding

MESHES = [Mesh(a=4), Mesh(a=8), Mesh(a=2, b=2), Mesh(a=2, b=4), Mesh(a=2, b=2, c=2), Mesh(a=2, b=3)]
HARDWARES = [hardware(name).with_a_link() for name in preset_names()]
"""Where a device has one link: tori are looked at in `test_torus.py`."""

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
        assert direct <= (there + on) * (1 + 1e-9), (ends, machine.name)


def shape_of(mesh: Mesh, rank: int, lengths: str) -> tuple[int, ...]:
    """One of which every dimension takes every axis, or one of which some do not."""
    return (2 * mesh.size,) * rank if lengths == "long" else (mesh.size, 2, 4)[:rank]


def check(mesh: Mesh, shape: tuple[int, ...], sources: int | None = None, targets: int | None = None) -> None:
    """Assert that plans between layouts take the least time; of all layouts some where numbers are given."""
    every, rng = Exhaustive(tuple(axis.size for axis in primes(mesh)), shape), random.Random(math.prod(shape))
    starting, ending = list(states(every)), list(every.layouts())
    for source in rng.sample(starting, min(sources or len(starting), len(starting))):
        chosen = rng.sample(ending, min(targets or len(ending), len(ending)))
        for most, group in itertools.groupby(sorted(chosen, key=every.held), key=every.held):
            most = max(most, every.held(source[0]))
            layers = every.frontiers(source, most)
            for target in group:
                state = (target, frozenset[int]())
                chains = [(float(layer[state]), starts) for starts, layer in enumerate(layers) if state in layer]
                compare(shape, sharding(mesh, source).closed(), sharding(mesh, state).closed(), chains, float(most))


def states(every: Exhaustive) -> Iterator[State]:
    """All layouts, partial along any of the atoms that split nothing."""
    for layout in every.layouts():
        free = sorted(set(range(len(every.sizes))).difference(*layout))
        for number in range(len(free) + 1):
            for partial in itertools.combinations(free, number):
                yield layout, frozenset(partial)


def compare(
    shape: tuple[int, ...],
    source: TensorSharding,
    target: TensorSharding,
    chains: list[tuple[float, int]],
    most: float,
) -> None:
    """Assert that no plan takes longer than the quickest of `chains`, given as elements sent and collectives."""
    plans: dict[tuple[object, ...], ReshardPlan] = {}
    with Session():
        for number, machine in enumerate(HARDWARES):
            element = max(1, BYTES_OF_TENSORS[number % 3] // math.prod(shape))
            cheapest = plan(shape, element, source, target, machine)
            least = min(price(Cost(sent * element, starts), machine) for sent, starts in chains)
            assert price(cheapest.cost, machine) == pytest.approx(least, rel=1e-9), (source, target, machine.name)
            assert cheapest.peak_bytes <= most * element, (source, target, machine.name)
            plans[cheapest.steps] = cheapest
    for cheapest in plans.values():
        arrives(shape, source, target, cheapest.steps)

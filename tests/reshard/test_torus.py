"""Reshards on a torus: plans take the least time that a chain takes, and bounds hold."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from shardwright.cost.hardware import TPU_V5P, Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import Torus, paths_of, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.search.least import least_seconds
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllSlice, local_bytes
from tests.reshard.exhaustive import Exhaustive
from tests.reshard.simulate import arrives
from tests.reshard.test_every_pair import states
from tests.reshard.test_nodes import spread
from tests.reshard.test_optimality import primes, sharding

PAIRS = int(os.environ.get("SHARDWRIGHT_FUZZ", "60"))
MESHES = [Mesh(a=4), Mesh(a=8), Mesh(a=2, b=2), Mesh(a=2, b=4), Mesh(a=2, b=2, c=2), Mesh(a=2, b=3)]
TORI = {"cube": (3, 4), "ring": (1, 1), "line": (1, None), "rings": (2, 1), "grid": (2, None)}
LARGE = [Mesh(a=4, b=16), Mesh(a=4, b=4, c=4), Mesh(a=64), Mesh(a=8, b=32), Mesh(a=2, b=4, c=8)]


def machine(dimensions: int, ring: int | None) -> Hardware:
    return replace(TPU_V5P, torus_dimensions=dimensions, torus_ring=ring)


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


@pytest.mark.parametrize("kind", TORI)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_no_chain_takes_less_time(mesh: Mesh, kind: str, record_property: Callable[[str, object], None]) -> None:
    rng, hardware, off = random.Random(mesh.size), machine(*TORI[kind]), list[float]()
    for rank in (1, 2, 3):
        shape = (2 * mesh.size,) * rank
        every = exhaustive(mesh, shape, torus_on(mesh.size, hardware.links))
        starting, ending = list(states(every)), list(every.layouts())
        for source in rng.sample(starting, min(len(starting), max(1, PAIRS // 15))):
            for target in rng.sample(ending, min(len(ending), 5)):
                layers = every.frontiers(source, max(every.held(source[0]), every.held(target)))
                state = (target, frozenset[int]())
                chains = [(float(layer[state]), starts) for starts, layer in enumerate(layers) if state in layer]
                element = max(1, rng.choice([1 << 12, 1 << 21, 1 << 30]) // math.prod(shape))
                ends = sharding(mesh, source).closed(), sharding(mesh, state).closed()
                with Session():
                    found = plan(shape, element, *ends, hardware)
                arrives(shape, *ends, found.steps)
                least = min(price(Cost(sent * element, starts), hardware) for sent, starts in chains)
                taken = price(found.cost, hardware)
                start = price(Cost(0.0, 1), hardware)  # a hundredth of which is no difference
                assert (1 - 1e-3) * least <= taken <= least * (1 + 1e-6) + 0.01 * start, (ends, hardware)
                off.append(taken / least if least else 1.0)
    record_property(
        "summary", f"{len(off)} reshards on a torus take {sum(off) / len(off):.5f} of the least time in the mean"
    )


@pytest.mark.parametrize("kind", TORI)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_no_layout_on_the_way_makes_it_cheaper(mesh: Mesh, kind: str) -> None:
    """The triangle inequality, between layouts that hold no more on the way than at an end."""
    rng, hardware, looked = random.Random(mesh.size), machine(*TORI[kind]), 0
    nothing = 0.01 * price(Cost(0.0, 1), hardware)
    for _ in range(4 * PAIRS):
        rank, element = rng.choice([1, 2, 3]), rng.choice([1, 1 << 9, 1 << 18])
        shape = (2 * mesh.size,) * rank
        ends = [TensorSharding.of(mesh, spread(rng, list(mesh.sizes), rank)).closed() for _ in range(3)]
        first, middle, last = (local_bytes(shape, element, end) for end in ends)
        if middle <= max(first, last):
            with Session():
                ways = [plan(shape, element, ends[a], ends[b], hardware).cost for a, b in ((0, 2), (0, 1), (1, 2))]
            direct, there, on = (price(cost, hardware) for cost in ways)
            assert direct <= (there + on) * (1 + 1e-9) + nothing, (ends, hardware)
            looked += 1
    assert looked > PAIRS


HARD = {
    "an exchange along with an idle axis": ("grid", [["a"], [], ["b"]], [[], ["a", "c"], []], 1 << 21),
    "what both begin with is gathered and cut again": ("grid", [["b", "a"], ["c"]], [["a"], ["c"]], 1 << 24),
    "a permute away from an idle axis": ("ring", [["a"]], [["b", "a"]], 1 << 20),
    "more bytes by fewer collectives": ("line", [["c"], [], ["a"]], [["b", "c"], [], ["a"]], 1 << 21),
}
"""What earlier searches did not find: kind of torus, source, target, bytes."""


@pytest.mark.parametrize("name", HARD)
def test_what_was_overlooked_once_is_found(name: str) -> None:
    kind, before, after, size = HARD[name]
    mesh, hardware = Mesh(a=2, b=2, c=2), machine(*TORI[kind])
    shape = (16,) * len(before)
    every = exhaustive(mesh, shape, torus_on(8, hardware.links))
    numbers = {axis.name: number for number, axis in enumerate(primes(mesh))}
    source, target = (tuple(tuple(numbers[axis] for axis in axes) for axes in one) for one in (before, after))
    state, nothing = (target, frozenset[int]()), frozenset[int]()
    layers = every.frontiers((source, nothing), max(every.held(source), every.held(target)))
    element = size // math.prod(shape)
    least = min(
        price(Cost(float(layer[state]) * element, starts), hardware)
        for starts, layer in enumerate(layers)
        if state in layer
    )
    ends = TensorSharding.of(mesh, before).closed(), TensorSharding.of(mesh, after).closed()
    found = plan(shape, element, *ends, hardware)
    arrives(shape, *ends, found.steps)
    assert price(found.cost, hardware) <= least * (1 + 1e-6)


def test_devices_that_hold_the_same_gather_over_the_links_of_all() -> None:
    """Of a cube each has three links: along one axis alone a gather goes over one of them."""
    mesh, hardware, shape = Mesh(a=2, b=4), machine(3, 4), (1024, 1024)
    source, target = TensorSharding.of(mesh, [["a"], []]), TensorSharding.of(mesh, [[], []])
    found = plan(shape, 256, source, target, hardware)
    assert [type(step) for step in found.steps] == [AllSlice, AllGather]
    arrives(shape, source, target, found.steps)
    held = 256 * 1024 * 1024 / 8
    assert found.cost.bytes_sent - found.cost.bytes_beside == pytest.approx(7 * held / 3)


def test_no_plan_takes_less_than_the_bound(record_property: Callable[[str, object], None]) -> None:
    rng, ratios = random.Random(3), list[float]()
    for _ in range(2 * PAIRS):
        mesh, rank = rng.choice(LARGE), rng.choice([2, 3])
        shape = tuple(rng.choice([256, 1024]) for _ in range(rank))
        summed = [name for name in mesh.sizes if rng.random() < 0.3]
        free = [name for name in mesh.sizes if name not in summed]
        source = TensorSharding.of(mesh, spread(rng, free, rank), partial=summed)
        staying = summed[:1] if rng.random() < 0.3 else []
        rest = [name for name in mesh.sizes if name not in staying]
        target = TensorSharding.of(mesh, spread(rng, rest, rank), partial=staying)
        assert leads_to(source, target)
        type, hardware = TensorType(shape, "f32"), machine(*rng.choice(list(TORI.values())))
        with Session(hardware=hardware):
            least = least_seconds(type, source, target, hardware)
            taken = price(edge_cost(type, source, target, hardware), hardware)
        assert least <= taken * (1 + 1e-9), (shape, source, target, hardware)
        ratios.append(least / taken if taken else 1.0)
    mean = sum(ratios) / len(ratios)
    record_property("summary", f"bounds of reshards on tori are {mean:.2f} of what their plans take")
    assert mean >= 0.6

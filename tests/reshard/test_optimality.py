"""On small meshes no chain of steps whatever sends less than the plan."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from shardwright.axes import AxisRef
from shardwright.cost.hardware import BYTES, Hardware
from shardwright.cost.price import Cost, price
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.reshard.atoms import SearchState
from shardwright.reshard.edges import Edges
from shardwright.reshard.plan import plan
from shardwright.reshard.problem import pose
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes
from tests.reshard.exhaustive import Exhaustive, State

ELEMENT = 1 << 26  # so large that the idle axes are worth their launches

MESHES = [
    (Mesh(a=2, b=2, c=2), (8, 8)),
    (Mesh(a=2, b=2, c=2), (2, 4, 4)),  # not every dimension takes every axis
    (Mesh(a=4, b=2), (4, 4)),
    (Mesh(a=4, b=4), (16, 16)),
    (Mesh(a=2, b=3, c=2), (12, 12)),
    (Mesh(a=9, b=2), (18, 18)),
]


@pytest.mark.parametrize("reduced", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mesh", "shape"), MESHES, ids=repr)
def test_nothing_sends_less_or_takes_fewer_collectives(mesh: Mesh, shape: tuple[int, ...], reduced: bool) -> None:
    every, sampled = Exhaustive(tuple(axis.size for axis in primes(mesh)), shape), samples(mesh, shape, reduced, 8, 40)
    for source, targets in sampled:
        least = every.least(source)
        for target in targets:
            before, after = sharding(mesh, source), sharding(mesh, target)
            cheapest = plan(shape, ELEMENT, before, after, BYTES)
            sent, collectives = least[target]
            assert cheapest.cost.bytes_sent == pytest.approx(float(sent) * ELEMENT), (before, after)
            assert cheapest.cost.starts == collectives, (before, after)
            most = max(local_bytes(shape, ELEMENT, layout) for layout in (before, after))
            assert cheapest.peak_bytes <= most, (before, after)


@pytest.mark.parametrize(
    "share", [16, pytest.param(4, marks=pytest.mark.long), 1], ids="a start is worth 1/{} of the tensor".format
)
@pytest.mark.parametrize("reduced", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mesh", "shape"), MESHES[:5], ids=repr)
def test_nothing_within_the_memory_is_cheaper(mesh: Mesh, shape: tuple[int, ...], reduced: bool, share: int) -> None:
    """By brute force, for as much memory as source and target need, and where there is no chain for less."""
    every, elements = Exhaustive(tuple(axis.size for axis in primes(mesh)), shape), math.prod(shape)
    start = Fraction(elements, share)
    hardware = Hardware("dear starts", 1.0, float(start) * ELEMENT, math.inf)
    for source, targets in samples(mesh, shape, reduced, 3, 12):
        for target in targets:
            before, after = sharding(mesh, source), sharding(mesh, target)
            most = max(local_bytes(shape, 1, layout) for layout in (before, after))
            least = every.least(source, start, most)
            cheapest = plan(shape, ELEMENT, before, after, hardware, most * ELEMENT)
            sent, collectives = least[target]
            expected = Cost(float(sent) * ELEMENT, collectives)
            assert price(cheapest.cost, hardware) == pytest.approx(price(expected, hardware)), (before, after)
            assert cheapest.peak_bytes <= most * ELEMENT
            with pytest.raises(ShardingError, match="cannot become") as refused:
                plan(shape, ELEMENT, before, after, hardware, most * ELEMENT - 1)
            assert f"must hold {most * ELEMENT} bytes" in str(refused.value)


@pytest.mark.parametrize("reduced", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mesh", "shape"), MESHES[:5], ids=repr)
def test_no_chain_has_fewer_collectives_than_the_bound_says(mesh: Mesh, shape: tuple[int, ...], reduced: bool) -> None:
    """By brute force, where a collective is worth so much that nothing else counts; the bound is often met."""
    every, dear = Exhaustive(tuple(axis.size for axis in primes(mesh)), shape), Fraction(1 << 40)
    bounds: list[int] = []
    for source, targets in samples(mesh, shape, reduced, 8, 40):
        least = every.least(source, dear)
        for target in targets:
            problem = pose(shape, sharding(mesh, source), sharding(mesh, target), fine=True).problem
            start = SearchState(problem.source, problem.partial, not problem.permute, "")
            bounds.append(Edges(problem).to_start(start))
            assert bounds[-1] <= least[target][1], (source, target)
    assert max(bounds) > 1


def samples(
    mesh: Mesh, shape: tuple[int, ...], reduced: bool, sources: int, targets: int
) -> Iterator[tuple[State, list[State]]]:
    """Some layouts to start from, partial where `reduced`, and some to get to."""
    atoms = primes(mesh)
    layouts, rng = list(Exhaustive(tuple(axis.size for axis in atoms), shape).layouts()), random.Random(7)
    for source in rng.sample(layouts, sources):
        free = [atom for atom in range(len(atoms)) if not any(atom in of_dim for of_dim in source)]
        partial = frozenset(rng.sample(free, rng.randint(1, len(free))) if reduced and free else ())
        chosen = rng.sample(layouts, min(targets, len(layouts)))
        yield (source, partial), [(target, frozenset()) for target in chosen]


def sharding(mesh: Mesh, state: State) -> TensorSharding:
    """How a tensor in `state` lies."""
    atoms, (layout, partial) = primes(mesh), state
    dims = [[atoms[atom] for atom in of_dim] for of_dim in layout]
    return TensorSharding.of(mesh, dims, partial=[atoms[atom] for atom in partial])


def primes(mesh: Mesh) -> list[AxisRef]:
    atoms: list[AxisRef] = []
    for name, size in mesh.axes:
        pre, prime = 1, 2
        while pre < size:
            if size // pre % prime == 0:
                atoms.append(AxisRef(name, pre, prime))
                pre *= prime
            else:
                prime += 1
    return atoms

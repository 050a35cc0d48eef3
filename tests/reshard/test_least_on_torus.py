"""What no chain goes below on a torus: beside the least of every chain, and beside where devices stand."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from shardwright.axes import primes_of
from shardwright.cost.hardware import hardware
from shardwright.cost.price import price
from shardwright.cost.rates import Rates, rates_of
from shardwright.cost.torus import Torus, is_on_grid, lines_of, torus_of, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.partition.search.least import least_seconds
from shardwright.reshard.atoms import Problem, SearchState
from shardwright.reshard.busiest import UNIT
from shardwright.reshard.edges import Edges
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.reshard.test_every_pair import states
from tests.reshard.test_gap import pair
from tests.reshard.test_optimality import primes
from tests.reshard.test_torus import MESHES, PAIRS, TORI, exhaustive, machine

ODD = [
    Mesh(a=3, b=3),
    Mesh(a=3, b=2),
    Mesh(a=12),
    Mesh(a=3, b=4),
    Mesh(a=2, b=2, device_ids=(0, 2, 1, 3)),
    Mesh(a=2, b=4, device_ids=(0, 2, 4, 6, 1, 3, 5, 7)),
]


@pytest.mark.parametrize("kind", TORI)
@pytest.mark.parametrize("mesh", [*MESHES, *ODD], ids=repr)
def test_no_chain_goes_below(mesh: Mesh, kind: str, record_property: Callable[[str, object], None]) -> None:
    rng, torus, ratios = random.Random(mesh.size), torus_on(mesh.size, machine(*TORI[kind]).links), list[float]()
    assert torus is not None
    atoms = primes(mesh)
    sizes, lines = tuple(axis.size for axis in atoms), tuple(lines_of((axis,), mesh, torus) for axis in atoms)
    for rank in (1, 2, 3):
        shape = (2 * mesh.size,) * rank
        every = exhaustive(mesh, shape, torus)
        starting = list(states(every))
        for layout, summed in rng.sample(starting, min(len(starting), max(1, PAIRS // 20))):
            partial = tuple(sorted(summed))
            for (target, left), (least, _) in every.least((layout, summed)).items():
                if left:
                    continue
                problem = Problem(
                    sizes,
                    shape,
                    layout,
                    target,
                    partial,
                    kinds=(0,) * len(partial),
                    clashes=(0,) * len(sizes),
                    permute=False,
                    lines=lines,
                    is_on_grid=is_on_grid(mesh, torus),
                )
                edges = Edges(problem)
                bound = edges.to_send(SearchState(layout, partial, True, "")) / UNIT / edges.scale * math.prod(shape)
                assert bound <= float(least) * (1 + 1e-4), (mesh, torus, layout, summed, target)
                ratios.append(bound / float(least) if least else 1.0)
    record_property("summary", f"{len(ratios)} bounds on a torus are {sum(ratios) / len(ratios):.2f} of the least")
    # on a line of eight without ends that meet, all but the nearest go through the same links
    least_mean = 0.2 if not is_on_grid(mesh, torus) else 0.6 if kind == "line" else 0.8
    assert sum(ratios) / len(ratios) > least_mean


def test_what_is_on_a_grid_is_told_by_where_devices_stand() -> None:
    rng, on = random.Random(0), 0
    for _ in range(400):
        sizes = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(rng.choice([1, 2, 3]))]
        mesh = Mesh(dict(zip("abc", sizes, strict=False)))
        torus = torus_of(mesh.size, rng.choice([1, 2, 3]), None)
        assert is_on_grid(mesh, torus) == _is_grid(mesh, torus), (mesh, torus)
        if mesh.size > 1:  # listed one by one, in the same order and in another
            ids = list(range(mesh.size))
            assert is_on_grid(Mesh(dict(mesh.axes), device_ids=ids), torus) == is_on_grid(mesh, torus)
            rng.shuffle(ids)
            other = Mesh(dict(mesh.axes), device_ids=ids)
            assert is_on_grid(other, torus) == _is_grid(other, torus), (other, torus)
        on += is_on_grid(mesh, torus)
    assert 100 < on < 390


def _is_grid(mesh: Mesh, torus: Torus) -> bool:
    """Whether a step along a part of an axis leads as far along one dimension of the torus, wherever it begins."""
    parts = [part for name, size in mesh.axes if size > 1 for part in primes_of(mesh.axis(name))]
    ids = np.array([mesh.device_id(position) for position in range(mesh.size)]).reshape([part.size for part in parts])
    for number, part in enumerate(parts):
        rows = np.moveaxis(ids, number, 0).reshape(part.size, -1)
        steps = set[tuple[int, ...]]()
        for before, after in itertools.pairwise(rows):
            for one, other in zip(before.tolist(), after.tolist(), strict=True):
                there, here = _place(other, torus), _place(one, torus)
                steps.add(tuple([a - b for a, b in zip(there, here, strict=True)]))
        if len(steps) != 1 or sum(map(bool, *steps)) != 1:
            return False
    return True


def _place(device: int, torus: Torus) -> tuple[int, ...]:
    places = list[int]()
    for length in reversed(torus.lengths):
        places.append(device % length)
        device //= length
    return tuple(places)


def test_gathers_use_the_links_of_what_is_unused_in_the_end() -> None:
    """A device has one link along `a` and two along the ring `b`."""
    mesh, torus = Mesh(a=2, b=4), Torus((2, 4), True)
    shape, lines = (64, 64), tuple(lines_of((mesh.axis(name),), mesh, torus) for name in "ab")
    # [a, b] → [a] three times an eighth over two links; [b, a] → [a] all but an eighth over three, to be cut again
    for source, least in ((((0, 1), ()), 3 / 8 / 2), (((1, 0), ()), 7 / 8 / 3)):
        problem = Problem((2, 4), shape, source, ((0,), ()), (), (), (0, 0), False, lines=lines, is_on_grid=True)
        edges = Edges(problem)
        bound = edges.to_send(SearchState(source, (), True, "")) / UNIT / edges.scale
        assert bound == pytest.approx(least, rel=1e-6), source


def test_what_sets_of_atoms_take_is_told_at_once_as_one_by_one() -> None:
    rng = random.Random(2)
    for _ in range(60):
        mesh = Mesh(dict(zip("abc", rng.choices([2, 3, 4, 6, 8], k=rng.choice([1, 2, 3])), strict=False)))
        torus = torus_of(mesh.size, rng.choice([1, 2, 3]), rng.choice([None, 2, 4]))
        rates = rates_of(tuple(lines_of((atom,), mesh, torus) for atom in primes(mesh)))
        for some in range(1 << len(rates.lines)):
            count = rates.counts[some]
            assert count == rates.count(some)
            assert rates.links[some] == pytest.approx(1 / rates.paths(some).of_gather), (mesh, torus, some)
            across = [rates.paths(all_of).of_exchange * (1 - 1 / rates.count(all_of)) for all_of in _with(rates, some)]
            assert rates.crossing[some] == pytest.approx(max(across, default=0.0)), (mesh, torus, some)


def _with(rates: Rates, some: int) -> list[int]:
    """For each atom of a set the atoms among which it is that cross least."""
    every = range(1, 1 << len(rates.lines))
    atoms = [atom for atom in range(len(rates.lines)) if some >> atom & 1]

    def across(all_of: int) -> float:
        return rates.paths(all_of).of_exchange * (1 - 1 / rates.count(all_of))

    return [min([all_of for all_of in every if all_of >> atom & 1], key=across) for atom in atoms]


PODS = [(64, 8), (4, 16, 8), (8, 16, 8), (2, 4, 16, 8), (4, 128, 8), (16, 32, 16)]


def test_no_plan_goes_below_on_a_pod(record_property: Callable[[str, object], None]) -> None:
    """From 512 chips to 8,192: more than there can be told of by every chain."""
    rng, pod, ratios = random.Random(7), hardware("tpu_v5p"), list[float]()
    for _ in range(90):
        shape, source, target = pair(rng, PODS)
        axes = [source.mesh.axis(name) for name, _ in source.mesh.axes]
        left = [axis for axis in axes if not any(axis.overlaps(one) for one in source.used_axes)]
        if left and rng.random() < 0.7:
            source = TensorSharding.of(source.mesh, source.axes, partial=left).closed()
        type = TensorType((*shape[:-1], shape[-1] << 16), "f32")
        assert type.shape
        with Session():
            found = price(plan(type.shape, 4, source, target, pod).cost, pod)
            least = least_seconds(type, source, target, pod)
        assert least <= found * (1 + 1e-9), (source, target)
        ratios.append(least / found if found else 1.0)
    mean = sum(ratios) / len(ratios)
    record_property("summary", f"{len(ratios)} bounds on 512 chips and more are {mean:.2f} of what plans take")
    assert mean > 0.6

"""On small meshes no chain of steps whatever sends less than the plan."""

from __future__ import annotations

import random

import pytest

from shardwright.mesh import AxisRef, Mesh
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes
from tests.reshard.exhaustive import Exhaustive, Layout

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
    atoms = primes(mesh)
    every = Exhaustive(tuple(axis.size for axis in atoms), shape)
    layouts, rng = list(every.layouts()), random.Random(7)

    def sharding(layout: Layout, partial: frozenset[int] = frozenset()) -> TensorSharding:
        dims = [[atoms[atom] for atom in of_dim] for of_dim in layout]
        return TensorSharding.of(mesh, dims, partial=[atoms[atom] for atom in partial])

    for source in rng.sample(layouts, 8):
        free = [atom for atom in range(len(atoms)) if not any(atom in of_dim for of_dim in source)]
        partial = frozenset(rng.sample(free, rng.randint(1, len(free))) if reduced and free else ())
        least = every.least((source, partial))
        for target in rng.sample(layouts, min(40, len(layouts))):
            before, after = sharding(source, partial), sharding(target)
            found = plan(shape, ELEMENT, before, after)
            sent, collectives = least[target, frozenset()]
            assert found.cost.bytes_sent == pytest.approx(float(sent) * ELEMENT), (before, after)
            assert found.cost.starts == collectives, (before, after)
            most = max(local_bytes(shape, ELEMENT, layout) for layout in (before, after))
            assert found.peak_bytes <= most, (before, after)


def primes(mesh: Mesh) -> list[AxisRef]:
    found: list[AxisRef] = []
    for name, size in mesh.axes:
        pre, prime = 1, 2
        while pre < size:
            if size // pre % prime == 0:
                found.append(AxisRef(name, pre, prime))
                pre *= prime
            else:
                prime += 1
    return found

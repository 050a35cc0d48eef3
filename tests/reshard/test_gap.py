"""How far plans are from what no plan goes below: what the device must receive that holds the least of its part.

And, where that is not met, from what no chain of the steps there are goes below, which takes a look at all of them: it
is told of axes that are cut into primes in one way only. Pairs of layouts larger than those that `test_every_pair`
looks through. `SHARDWRIGHT_FUZZ=N` tries N.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable, Sequence
from fractions import Fraction

from shardwright.axes import AxisRef, axes_size, can_coexist
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.reshard.exhaustive import Layout
from tests.reshard.pruned import Pruned
from tests.reshard.simulate import arrives
from tests.reshard.test_optimality import primes

PAIRS = int(os.environ.get("SHARDWRIGHT_FUZZ", "1000"))
ELEMENT = 1 << 20
SIZES = [
    *((16,), (8, 2), (4, 4), (2, 2, 4), (4, 2, 2), (2, 2, 2, 2), (8, 4), (4, 8), (2, 2, 2, 2, 2)),
    *((8, 8), (16, 4), (4, 4, 4), (6, 2), (2, 3, 2), (3, 4, 2)),
]


def test_plans_send_hardly_more_than_no_plan_goes_below(record_property: Callable[[str, object], None]) -> None:
    rng = random.Random(PAIRS)
    gaps = [gaps_of(*pair(rng)) for _ in range(PAIRS)]
    bare, mean = (sum(ratios) / len(gaps) for ratios in zip(*gaps, strict=True))
    off, missed = (sum(ratio > 1 for ratio in ratios) for ratios in zip(*gaps, strict=True))
    record_property(
        "summary",
        f"plans of {len(gaps)} larger pairs of layouts send {bare:.4f} times what some device must receive in the mean,"
        f" at most {max(gaps)[0]:.2f} times, {off} more than that; and {mean:.4f} times what no chain goes below,"
        f" {missed} more than that",
    )
    assert bare <= 1.02
    assert mean <= 1.01


TORN = [(6, 2), (12,), (6, 4), (12, 2)]
"""Meshes of axes that both 2 and 3 divide."""


def test_parts_of_axes_that_cannot_be_used_together(record_property: Callable[[str, object], None]) -> None:
    """A permute changes how an axis is cut; what the target leaves of it is used on the way."""
    rng, ratios = random.Random(5), list[float]()
    while len(ratios) < 150:
        shape, source, target = pair(rng, TORN)
        if all(can_coexist(one, other) for one in source.used_axes for other in target.used_axes):
            continue
        with Session():
            steps = plan(shape, ELEMENT, source, target, BYTES).steps
        arrives(shape, source, target, steps)
        ratios.append(gaps_of(shape, source, target)[0])
    mean = sum(ratios) / len(ratios)
    record_property("summary", f"plans between parts that cannot be used together: {mean:.4f} times what is lacking")
    assert mean <= 1.11


def gaps_of(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> tuple[float, float]:
    """What a plan sends, as a multiple of what some device must receive, and of what no chain goes below.

    1 where nothing must be sent, and nothing is.
    """
    with Session():
        sent = plan(shape, ELEMENT, source, target, BYTES).cost.bytes_sent
    least = max(lacking(shape, source, target, position) for position in range(source.mesh.size)) * ELEMENT
    assert sent >= least * (1 - 1e-12)
    assert least or not sent
    if not least or sent <= least * (1 + 1e-12):
        return 1.0, 1.0
    atoms = primes(source.mesh)
    ends = layout_of(source, atoms), layout_of(target, atoms)
    if ends[0] is None or ends[1] is None or not all(is_power(size) for _, size in source.mesh.axes):
        return sent / least, sent / least
    every = Pruned(tuple(axis.size for axis in atoms), shape)
    optimum = every.least_between(ends[0], ends[1], Fraction(sent / ELEMENT).limit_denominator(1 << 20))
    return sent / least, sent / ELEMENT / float(optimum)


def is_power(size: int) -> bool:
    """Whether one prime alone divides a size, so that there is one way to cut an axis into primes."""
    return len({prime for prime in range(2, size + 1) if size % prime == 0 and is_prime(prime)}) <= 1


def is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, number))


def layout_of(sharding: TensorSharding, atoms: Sequence[AxisRef]) -> Layout | None:
    """A sharding by its prime sub-axes."""
    dims: list[tuple[int, ...]] = []
    for axes in sharding.axes:
        parts = [[number for number, atom in enumerate(atoms) if axis.contains(atom)] for axis in axes]
        if [math.prod(atoms[number].size for number in of_axis) for of_axis in parts] != [axis.size for axis in axes]:
            return None
        dims.append(tuple(itertools.chain(*parts)))
    return tuple(dims)


def lacking(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, position: int) -> int:
    """How many elements a device lacks of its part of the target."""
    held, needed = source.device_slice(shape, position), target.device_slice(shape, position)
    overlaps: list[int] = [
        max(0, min(a.stop, b.stop) - max(a.start, b.start)) for a, b in zip(held, needed, strict=True)
    ]
    return math.prod(target.local_shape(shape)) - math.prod(overlaps)


def pair(
    rng: random.Random, sizes: Sequence[tuple[int, ...]] = SIZES
) -> tuple[tuple[int, ...], TensorSharding, TensorSharding]:
    """Two layouts of a tensor of one to four dimensions, which both divide it, on a mesh of some sizes."""
    mesh, rank = Mesh(zip("abcde", rng.choice(sizes), strict=False)), rng.randint(1, 4)
    source, target = layout(rng, mesh, rank), layout(rng, mesh, rank)
    lengths = (math.lcm(axes_size(a), axes_size(b)) for a, b in zip(source.axes, target.axes, strict=True))
    return tuple(length * rng.choice((1, 2, 4)) for length in lengths), source, target


def layout(rng: random.Random, mesh: Mesh, rank: int) -> TensorSharding:
    """Axes, some of them cut into sub-axes, in any order in any dimension, or in none."""
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    parts = [part for name, size in mesh.axes for part in cut(rng, name, size)]
    for part in rng.sample(parts, len(parts)):
        if rng.random() < 0.85:
            rng.choice(dims).append(part)
    return TensorSharding.of(mesh, dims).closed()


def cut(rng: random.Random, name: str, size: int) -> list[AxisRef]:
    parts: list[AxisRef] = []
    pre = 1
    while pre < size:
        whole = size // pre
        part = rng.choice([n for n in range(2, whole + 1) if whole % n == 0]) if rng.random() < 0.4 else whole
        parts.append(AxisRef(name, pre, part))
        pre *= part
    return parts

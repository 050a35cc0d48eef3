"""How far plans are from what no chain goes below: what the device must receive that holds the least of its part.

Pairs of layouts larger than those that `test_every_pair` looks through. `SHARDWRIGHT_FUZZ=N` tries N.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable

from shardwright.axes import AxisRef, axes_size
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding

PAIRS = int(os.environ.get("SHARDWRIGHT_FUZZ", "1000"))
ELEMENT = 1 << 20
SIZES = [
    *((16,), (8, 2), (4, 4), (2, 2, 4), (4, 2, 2), (2, 2, 2, 2), (8, 4), (4, 8), (2, 2, 2, 2, 2)),
    *((8, 8), (16, 4), (4, 4, 4), (6, 2), (2, 3, 2), (3, 4, 2)),
]


def test_plans_send_hardly_more_than_no_plan_goes_below(record_property: Callable[[str, object], None]) -> None:
    rng = random.Random(PAIRS)
    gaps = [gap(*pair(rng)) for _ in range(PAIRS)]
    mean, off = sum(gaps) / len(gaps), sum(one > 1 for one in gaps)
    record_property(
        "summary",
        f"plans of {len(gaps)} larger pairs of layouts send {mean:.4f} times the lower bound in the mean,"
        f" at most {max(gaps):.2f} times; {off} do not meet it",
    )
    assert mean <= 1.02


def gap(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> float:
    """What a plan sends, as a multiple of the bound; 1 where nothing must be sent, and nothing is."""
    with Session():
        sent = plan(shape, ELEMENT, source, target, BYTES).cost.bytes_sent
    least = max(lacking(shape, source, target, position) for position in range(source.mesh.size)) * ELEMENT
    assert sent >= least * (1 - 1e-12)
    assert least or not sent
    return sent / least if least and sent > least * (1 + 1e-12) else 1.0


def lacking(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, position: int) -> int:
    """How many elements a device lacks of its part of the target."""
    held, needed = source.device_slice(shape, position), target.device_slice(shape, position)
    overlaps: list[int] = [
        max(0, min(a.stop, b.stop) - max(a.start, b.start)) for a, b in zip(held, needed, strict=True)
    ]
    return math.prod(target.local_shape(shape)) - math.prod(overlaps)


def pair(rng: random.Random) -> tuple[tuple[int, ...], TensorSharding, TensorSharding]:
    """Two layouts of a tensor of one to four dimensions, which both divide it."""
    mesh, rank = Mesh(zip("abcde", rng.choice(SIZES), strict=False)), rng.randint(1, 4)
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

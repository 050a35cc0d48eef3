"""What is known without a search is what the search finds."""

from __future__ import annotations

import random

import pytest

from shardwright.cost.hardware import TPU_V5P, hardware
from shardwright.cost.price import Cost, price
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard import plan as planning
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.reshard.test_gap import layout

MESHES = [Mesh(x=4), Mesh(x=2, y=4), Mesh(x=2, y=2, z=2), Mesh(x=2, y=3), Mesh(x=8, y=4, z=2), Mesh(x=6, y=4)]


def test_what_is_cut_further_or_gathered_is_planned_as_the_search_would(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, asked = random.Random(0), list[tuple[tuple[int, ...], int, TensorSharding, TensorSharding, str]]()
    for _ in range(300):
        mesh, rank = rng.choice(MESHES), rng.randint(1, 3)
        shape = tuple([rng.choice((48, 96, 3072)) for _ in range(rank)])
        split = layout(rng, mesh, rank)
        less = split.with_axes([axes[: rng.randint(0, len(axes))] for axes in split.axes])
        if split.divides(shape):
            given = rng.choice((1, 4, 64)), rng.choice(("h100", "tpu_v5p", "cpu_8"))
            asked += [(shape, given[0], split, less, given[1]), (shape, given[0], less, split, given[1])]
    assert len(asked) > 300
    with Session():
        found = [plan(*one[:4], hardware(one[4]).with_a_link()) for one in asked]
        on_torus = [plan(*one[:4], TPU_V5P) for one in asked]
    for known in ("cut_or_gathered", "gathered_by_all"):
        monkeypatch.setattr(planning, known, lambda *_: None)
    with Session():
        assert [plan(*one[:4], hardware(one[4]).with_a_link()) for one in asked] == found
        nothing = 0.0101 * price(Cost(0.0, 1), TPU_V5P)  # a hundredth of a start is no difference on a torus
        for one, told in zip(asked, on_torus, strict=True):
            assert price(told.cost, TPU_V5P) <= price(plan(*one[:4], TPU_V5P).cost, TPU_V5P) + nothing


def test_three_dimensions_are_gathered_by_what_takes_less_time() -> None:
    """Brought into one dimension first they are gathered by one collective, which sends more and is started once."""
    mesh = Mesh(x=2, y=2, z=2)
    split, whole = TensorSharding.of(mesh, [["x"], ["y"], ["z"]]), TensorSharding.of(mesh, [[], [], []])
    with Session(hardware=hardware("h100")):
        assert plan((8, 8, 8), 4, split.closed(), whole.closed()).cost.starts == 2

"""Values that change their layout, many in a program, on real devices: every element arrives where it belongs."""

from __future__ import annotations

import random

import numpy as np
import pytest

import shardwright as sw
from shardwright.analysis.traffic import collectives, summarize
from shardwright.cost.hardware import BYTES, TPU_V5P, Hardware
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.frontends.devices import eight_devices
from tests.reshard.sdy_text import mesh_text, sharding
from tests.reshard.test_gap import layout

eight_devices()

MESHES = [
    (Mesh(a=8), (8, 16, 8)),
    (Mesh(a=2, b=4), (8, 16, 8)),
    (Mesh(a=4, b=2, device_ids=[3, 1, 0, 2, 7, 6, 4, 5]), (8, 16, 8)),
    (Mesh(a=2, b=2, c=2), (8, 16, 8)),
    (Mesh(a=2, b=3), (12, 6, 6)),
    (Mesh(a=6), (6, 12)),
]
"""Of at most eight devices, and a tensor of which a dimension takes all of them."""

COUNT = 24


@pytest.mark.parametrize("hardware", [BYTES, TPU_V5P], ids=lambda hardware: hardware.name)
@pytest.mark.parametrize(("mesh", "shape"), MESHES, ids=repr)
def test_every_element_arrives_and_no_more_is_sent_than_planned(
    mesh: Mesh, shape: tuple[int, ...], hardware: Hardware
) -> None:
    rng = random.Random(mesh.size)
    pairs = [(layout(rng, mesh, len(shape)), layout(rng, mesh, len(shape))) for _ in range(COUNT)]
    with Session(hardware=hardware):
        spmd = sw.load(program(mesh, shape, pairs)).plan().partition()
        cost = [plan(shape, 4, *pair).cost for pair in pairs]
        total = summarize(collectives(spmd.local)).total
        assert (total.static, total.static_bytes) == (sum(c.starts for c in cost), sum(c.bytes_sent for c in cost))
        given = [np.random.default_rng(n).integers(-99, 99, shape).astype(np.int32) for n in range(COUNT)]
        for actual, expected in zip(spmd.compile()(*given), given, strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_two_shards_become_three_and_three_two() -> None:
    mesh, shape = Mesh(a=2, b=3), (12, 6, 6)
    a, b = (mesh.axis("a"),), (mesh.axis("b"),)
    pairs = [
        (TensorSharding.of(mesh, [a, b, ()]), TensorSharding.of(mesh, [b, a, ()])),
        (TensorSharding.of(mesh, [(), b, a]), TensorSharding.of(mesh, [(), a, b])),
    ]
    with Session(hardware=BYTES):
        spmd = sw.load(program(mesh, shape, pairs)).plan().partition()
        kinds = spmd.traffic.kinds
    assert list(kinds) == ["collective_permute"]
    assert (kinds["collective_permute"].static, kinds["collective_permute"].static_bytes) == (12, 2 * 12 * 6 * 4)
    given = [np.random.default_rng(n).integers(-99, 99, shape).astype(np.int32) for n in range(2)]
    for actual, expected in zip(spmd.compile()(*given), given, strict=True):
        np.testing.assert_array_equal(actual, expected)


def program(mesh: Mesh, shape: tuple[int, ...], pairs: list[tuple[TensorSharding, TensorSharding]]) -> str:
    """A program that gives every argument back in another layout."""
    kind = f"tensor<{'x'.join(map(str, shape))}xi32>"
    arguments, results = (
        [f"{kind} {{sdy.sharding = #sdy.sharding{sharding(pair[side], 'm')}}}" for pair in pairs] for side in (0, 1)
    )
    names = [f"%a{number}" for number in range(len(pairs))]
    given = ", ".join(f"{name}: {argument}" for name, argument in zip(names, arguments, strict=True))
    return f"""sdy.mesh @m = {mesh_text(mesh)}
        func.func @main({given}) -> ({", ".join(results)}) {{
          return {", ".join(names)} : {", ".join([kind] * len(pairs))}
        }}"""

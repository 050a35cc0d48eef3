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

SHAPE = (8, 16, 8)
MESHES = [
    Mesh(a=8),
    Mesh(a=2, b=4),
    Mesh(a=4, b=2, device_ids=[3, 1, 0, 2, 7, 6, 4, 5]),
    Mesh(a=2, b=2, c=2),
]
"""Of eight devices; a dimension takes all of them."""

COUNT = 24


@pytest.mark.parametrize("hardware", [BYTES, TPU_V5P], ids=lambda hardware: hardware.name)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_every_element_arrives_and_no_more_is_sent_than_planned(mesh: Mesh, hardware: Hardware) -> None:
    rng = random.Random(mesh.size)
    pairs = [(layout(rng, mesh, len(SHAPE)), layout(rng, mesh, len(SHAPE))) for _ in range(COUNT)]
    with Session(hardware=hardware):
        spmd = sw.load(program(mesh, pairs)).plan().partition()
        cost = [plan(SHAPE, 4, *pair).cost for pair in pairs]
        total = summarize(collectives(spmd.local)).total
        assert (total.static, total.static_bytes) == (sum(c.starts for c in cost), sum(c.bytes_sent for c in cost))
        given = [np.random.default_rng(n).integers(-99, 99, SHAPE).astype(np.int32) for n in range(COUNT)]
        for actual, expected in zip(spmd.compile()(*given), given, strict=True):
            np.testing.assert_array_equal(actual, expected)


def program(mesh: Mesh, pairs: list[tuple[TensorSharding, TensorSharding]]) -> str:
    """A program that gives every argument back in another layout."""
    kind = f"tensor<{'x'.join(map(str, SHAPE))}xi32>"
    arguments, results = (
        [f"{kind} {{sdy.sharding = #sdy.sharding{sharding(pair[side], 'm')}}}" for pair in pairs] for side in (0, 1)
    )
    names = [f"%a{number}" for number in range(len(pairs))]
    given = ", ".join(f"{name}: {argument}" for name, argument in zip(names, arguments, strict=True))
    return f"""sdy.mesh @m = {mesh_text(mesh)}
        func.func @main({given}) -> ({", ".join(results)}) {{
          return {", ".join(names)} : {", ".join([kind] * len(pairs))}
        }}"""

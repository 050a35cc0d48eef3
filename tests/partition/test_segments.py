"""Arguments and results with offsets and halos, document 001's among them: through all stages, and on devices."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims, cores
from shardwright.notation.carriers import carrier_text
from tests.frontends.devices import eight_devices

eight_devices()

OFFSETS = """
mesh.mesh @mesh1d_4(shape = 4)
func.func @main(%arg0: tensor<4x14xf32>) -> tensor<4x14xf32> {
  %sharding4 = mesh.sharding @mesh1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !mesh.sharding
  %sharded2 = mesh.shard %arg0 to %sharding4 : tensor<4x14xf32>
  %0 = stablehlo.tanh %sharded2 : tensor<4x14xf32>
  return %0 : tensor<4x14xf32>
}
"""
CUBE = """
mesh.mesh @mesh(shape = 2x2)
func.func @main(%arg0: tensor<32x32x32xf32>) -> tensor<32x32x32xf32> {
  %s = mesh.sharding @mesh split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 20, 32] : !mesh.sharding
  %0 = mesh.shard %arg0 to %s : tensor<32x32x32xf32>
  %1 = stablehlo.tanh %0 : tensor<32x32x32xf32>
  return %1 : tensor<32x32x32xf32>
}
"""
HALO = """
mesh.mesh @mesh0(shape = 2x2x4)
func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %halo_sharding = mesh.sharding @mesh0 split_axes = [[0]] halo_sizes = [1, 2] : !mesh.sharding
  %sharded1 = mesh.shard %arg0 to %halo_sharding : tensor<4x8xf32>
  %0 = stablehlo.tanh %sharded1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(
    ("listing", "local", "sent"),
    [
        (OFFSETS, "4x5", 4 * 4 * 3),  # at most three columns, one device down
        (CUBE, "24x20x32", 4 * 32 * (8 * 20 + 4 * 16)),  # 8 rows of what is 20 columns wide, then 4 columns of 16 rows
        (HALO, "5x8", 0),
    ],
)
def test_the_listings_of_document_001(listing: str, local: str, sent: int) -> None:
    spmd = sw.load(listing).plan().partition()
    assert spmd.verify().ok
    assert f'(%arg0: tensor<{local}xf32> loc("arg0"))' in spmd.module()
    assert spmd.traffic.total.executed_bytes == sent
    assert not spmd.notes


def test_shards_are_those_that_document_001_names() -> None:
    (sharding,) = sw.load(OFFSETS).plan().partition().in_shardings
    assert [one.stop - one.start for one in cores(sharding, (4, 14), 1)] == [2, 3, 4, 5]
    (sharding,) = sw.load(CUBE).plan().partition().in_shardings
    first, last = (sharding.device_slice((32, 32, 32), at) for at in (0, 3))
    assert [[part.stop - part.start for part in of] for of in (first, last)] == [[24, 20, 32], [8, 12, 32]]


def bounded(mesh: sw.Mesh, shape: tuple[int, ...], rng: random.Random) -> sw.TensorSharding:
    """A sharding along all axes, with offsets or, where its shards divide, halos."""
    dims: list[list[str]] = [[] for _ in shape]
    for name in mesh.sizes:
        rng.choice(dims).append(name)
    sharding = sw.TensorSharding.of(mesh, dims)
    parts = [size // local for size, local in zip(shape, sharding.local_shape(shape), strict=True)]
    if sharding.divides(shape) and rng.random() < 0.5:
        halos = [(rng.randrange(3), rng.randrange(1, 3)) if many > 1 else None for many in parts]
        return replace(sharding, halos=tuple(halos))
    shards = [int(np.prod([mesh.sizes[name] for name in names])) for names in dims]
    while True:
        offsets = [
            (0, *sorted(rng.choices(range(size + 1), k=many - 1)), size) if many > 1 else None
            for size, many in zip(shape, shards, strict=True)
        ]
        made = replace(sharding, offsets=tuple(offsets))
        if any(cores(made, shape, dim) != cores(sharding, shape, dim) for dim in bounded_dims(made)):
            return made  # what cuts as shards are cut without is read as no offsets


def program(seed: int) -> str:
    """What is taken in one way, used, and given in another, on devices in one order or another."""
    rng = random.Random(seed)
    mesh = rng.choice([sw.Mesh(x=4), sw.Mesh(x=2, y=3), sw.Mesh(x=2, y=2, device_ids=[2, 0, 3, 1]), sw.Mesh(x=8)])
    shape = rng.choice([(16, 12), (14, 9), (24, 24), (8, 5), (6, 12)])
    lies = [carrier_text(bounded(mesh, shape, rng), shape).replace('"', r"\"") for _ in range(4)]
    lies = [text.replace(f"@{mesh.name}", "@m") for text in lies]
    type = f"tensor<{'x'.join(map(str, shape))}x{rng.choice(('f32', 'i32', 'bf16'))}>"
    ids = "" if mesh.device_ids is None else f", device_ids={list(mesh.device_ids)}"
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    a, b, c, d = [f'{{shardwright.sharding = "{text}"}}' for text in lies]
    return f"""sdy.mesh @m = <[{axes}]{ids}>
    func.func @main(%a: {type} {a}, %b: {type} {b}) -> ({type} {c}, {type} {d}) {{
      %0 = stablehlo.add %a, %b : {type}
      %1 = stablehlo.multiply %0, %b : {type}
      return %0, %1 : {type}, {type}
    }}
    """


def check(seed: int) -> None:
    spmd = sw.load(program(seed)).plan().partition()
    assert all(map(bounded_dims, (*spmd.in_shardings, *spmd.out_shardings)))
    verification = spmd.verify()
    assert verification.ok, f"{program(seed)}\n{verification}"


@pytest.mark.parametrize("seed", range(6))
def test_what_is_taken_and_given_is_right_and_so_are_halos(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 120))
def test_what_is_taken_and_given_is_right_long(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(2))
def test_compiled_programs_take_and_give_arrays_of_their_own_shapes(seed: int) -> None:
    spmd = sw.load(program(seed)).plan().partition()
    a, b = spmd.inputs()
    total, product = spmd.compile()(a, b)
    np.testing.assert_array_equal(np.asarray(total), a + b)
    np.testing.assert_array_equal(np.asarray(product), (a + b) * b)


def test_a_wrong_halo_is_a_difference() -> None:
    """What verify looks at is not only what a shard has of its own."""
    from shardwright.runtime.shards import assemble, cut

    sharding = replace(sw.TensorSharding.of(sw.Mesh(x=2), [["x"]]), halos=((1, 1),))
    array = np.arange(8.0, dtype=np.float32)
    shards = cut(array, sharding)
    assert [shard.tolist() for shard in shards] == [[0, 0, 1, 2, 3, 4], [3, 4, 5, 6, 7, 0]]
    assert not assemble(shards, sharding, (8,))[1]
    shards[1][0] += 1
    whole, differences = assemble(shards, sharding, (8,))
    assert (whole == array).all()
    assert [one.position for one in differences] == [1]


def test_inside_of_a_program_they_are_left_out_with_a_note() -> None:
    spmd = (
        sw.load(
            OFFSETS.replace("%arg0 to", "%1 to").replace(
                "  %sharded2", "  %1 = stablehlo.abs %arg0 : tensor<4x14xf32>\n  %sharded2"
            )
        )
        .plan()
        .partition()
    )
    assert spmd.verify().ok
    assert any("inside a program shards are of one size" in note.message for note in spmd.notes)


def test_arguments_that_are_taken_whole_have_none() -> None:
    with pytest.raises(ShardingError, match="'arg0' has offsets or halos, and is to be taken whole"):
        sw.load(OFFSETS).plan().partition(arguments="whole")


def test_contributions_have_none() -> None:
    text = HALO.replace("split_axes = [[0]] halo_sizes", "split_axes = [[0]] partial = sum [1] halo_sizes")
    with pytest.raises(ShardingError, match="offsets or halos of contributions"):
        sw.load(text).plan().partition()


def test_what_is_returned_in_a_layout_of_the_dialect_is_a_result_so() -> None:
    text = OFFSETS.replace("%arg0 to", "%1 to").replace(
        "  %sharded2", "  %1 = stablehlo.abs %arg0 : tensor<4x14xf32>\n  %sharded2"
    )
    text = text.replace("return %0", "return %sharded2").replace(
        "  %0 = stablehlo.tanh %sharded2 : tensor<4x14xf32>\n", ""
    )
    spmd = sw.load(text).plan().partition()
    assert [one.offsets for one in spmd.out_shardings] == [(None, (0, 2, 5, 9, 14))]
    assert "-> tensor<4x5xf32>" in spmd.module()
    assert spmd.verify().ok
    assert not spmd.notes

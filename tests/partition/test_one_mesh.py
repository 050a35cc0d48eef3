"""Programs whose shardings are on meshes of different axes over the same devices."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

import shardwright as sw
from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.ops import COLLECTIVES
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import print_mesh, print_sharding
from shardwright.runtime.execute import try_jobs
from shardwright.sharding import TensorSharding
from tests.partition.compare import assert_equal, make_case

ROWS, COLUMNS = 24, 48
PAIRS = [
    (Mesh(x=4, y=2, name="m"), Mesh(a=2, b=4, name="n")),
    (Mesh(x=8, name="m"), Mesh(a=2, b=2, c=2, name="n")),
    (Mesh(x=2, y=3, name="m"), Mesh(a=3, b=2, name="n")),
    (Mesh(x=12, name="m"), Mesh(a=2, b=3, c=2, name="n")),
    (Mesh(x=4, y=2, name="m"), Mesh([("a", 2), ("b", 4)], device_ids=[7, 6, 5, 4, 3, 2, 1, 0], name="n")),
    (Mesh([("x", 2), ("y", 3)], device_ids=[1, 0, 3, 2, 5, 4], name="m"), Mesh(a=3, b=2, name="n")),
]


def random_sharding(mesh: Mesh, chance: random.Random) -> TensorSharding:
    """A sharding of `ROWS` by `COLUMNS` that divides them."""
    axes = [mesh.axis(name) for name, _ in mesh.axes]
    chance.shuffle(axes)
    dims: list[Axes] = [(), ()]
    for axis in axes:
        dim = chance.randrange(3)
        if dim < 2 and (ROWS, COLUMNS)[dim] % (axis.size * math.prod([a.size for a in dims[dim]])) == 0:
            dims[dim] = (*dims[dim], axis)
    return TensorSharding.of(mesh, dims)


def program(meshes: Sequence[Mesh], shardings: Sequence[TensorSharding]) -> str:
    """One argument, two constraints and the result, each with its sharding."""
    declared = "\n".join(f"sdy.mesh @{mesh.name} = {print_mesh(mesh)}" for mesh in meshes)
    argument, first, second, result = map(print_sharding, shardings)
    first, second = (text.removeprefix("#sdy.sharding") for text in (first, second))
    return f"""{declared}
    func.func @main(%a: tensor<{ROWS}x{COLUMNS}xf32> {{sdy.sharding = {argument}}}, %b: tensor<{COLUMNS}xf32>)
        -> (tensor<{ROWS}x{COLUMNS}xf32> {{sdy.sharding = {result}}}) {{
      %0 = stablehlo.tanh %a : tensor<{ROWS}x{COLUMNS}xf32>
      %1 = sdy.sharding_constraint %0 {first} : tensor<{ROWS}x{COLUMNS}xf32>
      %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{COLUMNS}xf32>) -> tensor<{ROWS}x{COLUMNS}xf32>
      %3 = stablehlo.add %1, %2 : tensor<{ROWS}x{COLUMNS}xf32>
      %4 = sdy.sharding_constraint %3 {second} : tensor<{ROWS}x{COLUMNS}xf32>
      %5 = stablehlo.multiply %4, %4 : tensor<{ROWS}x{COLUMNS}xf32>
      return %5 : tensor<{ROWS}x{COLUMNS}xf32>
    }}"""


@pytest.mark.parametrize("meshes", PAIRS, ids=lambda pair: " and ".join(repr(mesh) for mesh in pair))
def test_values_move_between_meshes_of_different_axes(meshes: Sequence[Mesh]) -> None:
    chance = random.Random(repr(meshes))
    texts = [program(meshes, [random_sharding(meshes[n % 2], chance) for n in range(4)]) for _ in range(4)]
    cases = [make_case(text, seed) for seed, text in enumerate(texts)]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, case in enumerate(cases):
        assert_equal(case.text, case, done[2 * number], done[2 * number + 1])


def explicit(text: str) -> Graph:
    return sw.load(text).plan().partition().explicit


def collectives(graph: Graph) -> list[str]:
    return [op.name for op in graph.walk() if op.name in COLLECTIVES]


def test_the_same_placement_by_other_axes_sends_nothing() -> None:
    m, n = PAIRS[0]
    here = TensorSharding.of(m, [["x"], ["y"]])
    there = TensorSharding.of(n, [["a", n.axis("b", 1, 2)], [n.axis("b", 2, 2)]])
    assert set(collectives(explicit(program((m, n), (here, there, here, there))))) <= {"sdy.all_slice"}


def test_the_mesh_of_the_first_sharding_names_the_axes_where_it_can() -> None:
    m, n = PAIRS[0]
    graph = explicit(
        program((m, n), [TensorSharding.of(mesh, [[], axes]) for mesh, axes in ((m, ["x"]), (n, ["b"])) * 2])
    )
    assert {sharding.mesh for sharding in graph.shardings if sharding is not None} == {m}
    assert repr(graph.main.result_shardings[0]) == "[{}, {x:(2)2, y}]"


def test_a_mesh_that_nobody_stated_has_names_of_its_own() -> None:
    m, n = PAIRS[2]
    graph = explicit(
        program((m, n), [TensorSharding.of(mesh, [[], axes]) for mesh, axes in ((m, ["y"]), (n, ["b"])) * 2])
    )
    assert [(mesh.name, mesh.axes) for mesh in graph.used_meshes] == [("common", (("c", 6),))]


def manual(m: Mesh, n: Mesh) -> str:
    """A computation that is manual along the axes a and b of `n`, of an argument and a result on `m`."""
    rows = 8 // n.sizes["b"]
    return f"""sdy.mesh @m = {print_mesh(m)}
    sdy.mesh @n = {print_mesh(n)}
    func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}})
        -> (tensor<8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"y"}}]>}}) {{
      %0 = sdy.manual_computation(%a) in_shardings=[<@n, [{{"b"}}, {{}}]>] out_shardings=[<@n, [{{"b"}}]>]
          manual_axes={{"a", "b"}} (%x: tensor<{rows}x8xf32>) {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
            : (tensor<{rows}x8xf32>, tensor<f32>) -> tensor<{rows}xf32>
        sdy.return %1 : tensor<{rows}xf32>
      }} : (tensor<8x8xf32>) -> tensor<8xf32>
      %2 = stablehlo.sine %0 : tensor<8xf32>
      return %2 : tensor<8xf32>
    }}"""


def test_manual_computations_keep_their_axes() -> None:
    m, n = PAIRS[0]
    graph = explicit(manual(m, n))
    assert {sharding.mesh.axes for sharding in graph.shardings if sharding is not None} == {n.axes}


def test_manual_computations_whose_axes_cannot_say_the_others_are_refused() -> None:
    with pytest.raises(ShardingError, match="cannot be partitioned together") as refused:
        explicit(manual(Mesh(x=2, y=6), Mesh(a=3, b=4)))
    assert "name axes of one, by which the other cannot be said" in refused.value.diagnostic.cause
    assert refused.value.diagnostic.location == "-:5"

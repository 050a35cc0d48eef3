"""Which size a dimension is padded to: one for all that go along with it, of which devices hold least."""

from __future__ import annotations

import math
import random

import pytest

from shardwright.axes import axes_size
from shardwright.extents import filled_shape
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation.modules import read
from shardwright.partition.padding.sizes import padded_shapes
from shardwright.sharding import TensorSharding


def graph_of(mesh: str, *lines: str, result: str) -> Graph:
    body = "\n  ".join(lines)
    return read(
        load_module(f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func @main(%a: tensor<7x6xf32>) -> {result} {{\n  {body}\n}}")
    )


def along(axes: str, type: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{axes}]>]>}} : {type}"


def tanh(axes: str, result: str = "%0", operand: str = "%a", type: str = "tensor<7x6xf32>") -> str:
    return f"{result} = stablehlo.tanh {operand} {along(axes, type)}"


def shapes_of(graph: Graph) -> list[tuple[int, ...]]:
    """The shapes of what ops make."""
    shapes = padded_shapes(graph)
    return [shapes.get(v, graph.types[v].dims) for op in graph.main.block.ops for v in op.results]


def test_nothing_is_padded_where_all_dimensions_divide() -> None:
    graph = graph_of('"x"=2', tanh('{}, {"x"}'), "return %0 : tensor<7x6xf32>", result="tensor<7x6xf32>")
    assert padded_shapes(graph) == {}


@pytest.mark.parametrize(
    ("mesh", "axes", "shape"),
    [
        ('"x"=4', '{"x"}, {}', (8, 6)),
        ('"x"=4', '{}, {"x"}', (7, 8)),
        ('"x"=3, "y"=2', '{"x", "y"}, {}', (12, 6)),
        ('"x"=3, "y"=4', '{"x"}, {"y"}', (9, 8)),
        ('"x"=16', '{"x"}, {}', (16, 6)),
    ],
)
def test_a_dimension_is_padded_to_what_its_shards_divide(mesh: str, axes: str, shape: tuple[int, ...]) -> None:
    graph = graph_of(mesh, tanh(axes), "return %0 : tensor<7x6xf32>", result="tensor<7x6xf32>")
    assert shapes_of(graph) == [shape]


def test_what_padding_does_not_make_smaller_is_not_padded() -> None:
    """Two elements over four devices are one on each of two, copied, or one on each of two: nothing is won."""
    graph = graph_of(
        '"x"=4',
        "%0 = stablehlo.slice %a [0:2, 0:6] : (tensor<7x6xf32>) -> tensor<2x6xf32>",
        tanh('{"x"}, {}', "%1", "%0", "tensor<2x6xf32>"),
        "return %1 : tensor<2x6xf32>",
        result="tensor<2x6xf32>",
    )
    assert padded_shapes(graph) == {}


def test_dimensions_that_go_along_with_each_other_get_one_size() -> None:
    """Of 8 rows a device has 2 and, along `y`, all 8; of 9 all and 3; of 12 it has 3 and 4, which is least."""
    graph = graph_of(
        '"x"=4, "y"=3',
        tanh('{"x"}, {}'),
        tanh('{"y"}, {}', "%1", "%0"),
        "return %1 : tensor<7x6xf32>",
        result="tensor<7x6xf32>",
    )
    assert shapes_of(graph) == [(12, 6), (12, 6)]


def test_what_is_whole_stays_as_it_is() -> None:
    graph = graph_of(
        '"x"=4',
        tanh('{"x"}, {}'),
        tanh("{}, {}", "%1", "%0"),
        "return %1 : tensor<7x6xf32>",
        result="tensor<7x6xf32>",
    )
    assert shapes_of(graph) == [(8, 6), (7, 6)]


def test_dimensions_go_along_through_transposes_products_and_loops() -> None:
    graph = graph_of(
        '"x"=4',
        "%0 = stablehlo.transpose %a, dims = [1, 0] " + along('{}, {"x"}', "(tensor<7x6xf32>) -> tensor<6x7xf32>"),
        "%c = stablehlo.constant dense<3> : tensor<i32>",
        "%1:2 = stablehlo.while(%i = %c, %s = %0) : tensor<i32>, tensor<6x7xf32> attributes "
        '{sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {"x"}]>]>}',
        "cond { %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "stablehlo.return %p : tensor<i1> }",
        "do { stablehlo.return %i, %s : tensor<i32>, tensor<6x7xf32> }",
        "%2 = stablehlo.dot_general %a, %1#1, contracting_dims = [1] x [0] "
        + along('{}, {"x"}', "(tensor<7x6xf32>, tensor<6x7xf32>) -> tensor<7x7xf32>"),
        "return %2 : tensor<7x7xf32>",
        result="tensor<7x7xf32>",
    )
    shapes = padded_shapes(graph)
    assert [shape for shape in shapes.values() if shape != (6, 8)] == [(7, 8)]
    assert list(shapes.values()).count((6, 8)) >= 2


def test_exact_shapes_are_the_least_that_hold_all_and_divide() -> None:
    """Over random shapes: what every device has of the tensor is what it has of the exact shape, within the tensor."""
    rng = random.Random(0)
    for _ in range(200):
        mesh = rng.choice((Mesh(x=4), Mesh(x=2, y=3), Mesh(x=2, y=2, z=5)))
        dims = tuple(rng.randrange(1, 23) for _ in range(rng.randrange(1, 4)))
        lists: list[list[str]] = [[] for _ in dims]
        for name in mesh.sizes:
            lists[rng.randrange(len(dims))].append(name)
        sharding = TensorSharding.of(mesh, lists)
        exact = filled_shape(sharding, dims)
        assert sharding.divides(exact)
        assert sharding.local_shape(exact) == sharding.local_shape(dims)
        for size, wide, axes in zip(dims, exact, sharding.axes, strict=True):
            assert size <= wide < size + axes_size(axes)
        covered = 0
        for position in range(mesh.size):
            own, filled = (sharding.device_slice(shape, position) for shape in (dims, exact))
            for part, whole, size in zip(own, filled, dims, strict=True):
                assert (part.start, part.stop) == (min(whole.start, size), min(whole.stop, size))
            covered += math.prod(part.stop - part.start for part in own)
        copies = mesh.size // math.prod(map(axes_size, sharding.axes))
        assert covered == copies * math.prod(dims)

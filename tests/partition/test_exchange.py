"""Reductions by a computation of their own along split dimensions: in parts, exchanged and reduced once more."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.errors import ShardingError
from shardwright.memo import Session
from shardwright.partition.assign import choices
from shardwright.partition.check import check
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Computed
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.partition.ways import Choice
from tests.frontends.devices import eight_devices

eight_devices()

FIRST = """reducer(%p: tensor<i32>, %q: tensor<i32>) {
      %none = stablehlo.constant dense<-1> : tensor<i32>
      %c = stablehlo.compare EQ, %p, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = stablehlo.select %c, %q, %p : tensor<i1>, tensor<i32>
      stablehlo.return %r : tensor<i32>
    }"""
"""The first that is not −1: associative, with −1 neutral, and it does not commute."""

LARGEST = """reducer(%p: tensor<f32>, %q: tensor<f32>) (%s: tensor<i32>, %t: tensor<i32>) {
      %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %d = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>
      %e = stablehlo.select %c, %s, %t : tensor<i1>, tensor<i32>
      stablehlo.return %d, %e : tensor<f32>, tensor<i32>
    }"""
"""Of equals the one that comes first: it looks at no index, so the order of shards alone decides."""

LOG_SUM = """reducer(%p: tensor<f32>, %q: tensor<f32>) (%s: tensor<f32>, %t: tensor<f32>) {
      %m = stablehlo.maximum %p, %q : tensor<f32>
      %a = stablehlo.subtract %p, %m : tensor<f32>
      %b = stablehlo.subtract %q, %m : tensor<f32>
      %c = stablehlo.exponential %a : tensor<f32>
      %d = stablehlo.exponential %b : tensor<f32>
      %e = stablehlo.multiply %s, %c : tensor<f32>
      %f = stablehlo.multiply %t, %d : tensor<f32>
      %g = stablehlo.add %e, %f : tensor<f32>
      stablehlo.return %m, %g : tensor<f32>, tensor<f32>
    }"""
"""A maximum, and the sum of exponentials less by it."""

LAYOUTS = [
    ('"x"=4', "8x16", '[{}, {"x"}]', [1]),
    ('"x"=4', "16x8", '[{"x"}, {}]', [0]),
    ('"x"=4', "16", '[{"x"}]', [0]),
    ('"x"=2, "y"=4', "8x16", '[{"x"}, {"y"}]', [1]),
    ('"x"=2, "y"=4', "8x16", '[{}, {"x", "y"}]', [1]),
    ('"x"=2, "y"=4', "8x16", '[{}, {"y", "x"}]', [1]),
    ('"x"=2, "y"=4', "8x16", '[{"y":(2)2}, {"y":(1)2, "x"}]', [1]),
    ('"x"=2, "y"=4', "8x16", '[{}, {"y":(2)2, "x"}]', [1]),
    ('"a"=3, "b"=2', "4x12", '[{}, {"a", "b"}]', [1]),
    ('"a"=3, "b"=2', "12x4x6", '[{"b"}, {}, {"a"}]', [2]),
    ('"x"=2, "y"=4', "16x16", '[{"x"}, {"y"}]', [0, 1]),
    ('"x"=2, "y"=4', "16x4x16", '[{"y"}, {}, {"x"}]', [0, 2]),
    ('"x"=2, "y"=2, "z"=2', "8x8x8", '[{"x"}, {"y"}, {"z"}]', [0, 1, 2]),
    ('"x"=2, "y"=4', "16x16", '[{}, {"x", "y"}]', [0, 1]),
]
"""Meshes, shapes, how operands lie, and what is reduced."""


def dims_of(shape: str) -> tuple[int, ...]:
    return tuple(map(int, shape.split("x")))


def reducing(
    mesh: str,
    shape: str,
    layout: str,
    reduced: list[int],
    body: str,
    dtypes: list[str],
    starts: list[str],
    ids: str = "",
) -> str:
    """A reduction of as many arguments as there are element types, all of one layout."""
    kept = [str(size) for dim, size in enumerate(dims_of(shape)) if dim not in reduced]
    ins = [f"tensor<{shape}x{dtype}>" for dtype in dtypes]
    outs = ", ".join(f"tensor<{'x'.join([*kept, dtype])}>" for dtype in dtypes)
    names = range(len(dtypes))
    arguments = (f"%a{n}: {ins[n]} {{sdy.sharding = #sdy.sharding<@m, {layout}>}}" for n in names)
    constants = (f"%i{n} = stablehlo.constant dense<{starts[n]}> : tensor<{dtypes[n]}>" for n in names)
    scalars = [f"tensor<{dtype}>" for dtype in dtypes]
    return f"""sdy.mesh @m = <[{mesh}]{ids}>
    func.func @main({", ".join(arguments)}) -> ({outs}) {{
      {" ".join(constants)}
      %r:{len(dtypes)} = stablehlo.reduce{", ".join(f"(%a{n} init: %i{n})" for n in names)} across dimensions = {reduced}
        : ({", ".join([*ins, *scalars])}) -> ({outs}) {body}
      return {", ".join(f"%r#{n}" for n in names)} : {outs}
    }}"""


def first_text(layout: tuple[str, str, str, list[int]], ids: str = "") -> str:
    return reducing(*layout, FIRST, ["i32"], ["-1"], ids)


def largest_text(layout: tuple[str, str, str, list[int]], ids: str = "") -> str:
    return reducing(*layout, LARGEST, ["f32", "i32"], ["0xFF800000", "0"], ids)


def partition(text: str) -> sw.Spmd:
    return sw.load(text).plan().partition(effort="fast")


def results(spmd: sw.Spmd, *arguments: Any) -> list[Any]:
    """What it computes; its explicit module, written and read again, is the same program."""
    again = partition(spmd.module("explicit"))
    assert again.module("explicit") == spmd.module("explicit")
    if spmd.mesh.device_ids is None:
        assert again.module("local") == spmd.module("local")
    return [np.asarray(one) for one in jax.tree.leaves(spmd.compile()(*arguments))]


def by_bytes(function: Any, x: Any, mesh: sw.Mesh, arg: str) -> sw.Spmd:
    """A function of JAX partitioned so that it sends least, however many collectives that takes."""
    with Session(hardware=BYTES):
        return sw.from_jax(function, x).shard(mesh, args={0: arg}).partition(effort="fast")


def exchanging(spmd: sw.Spmd) -> int:
    """How many ops there are inside which devices exchange something."""
    graph = spmd.explicit
    layouts = [(op, [graph.shardings[value] for value in op.operands]) for op in graph.walk()]
    return sum(bool(exchanges_of(op.signature, tuple(filter(None, of_op)))) for op, of_op in layouts)


def in_front(values: Any, reduced: list[int]) -> Any:
    """The elements that are reduced to each result, in their order, as the last dimension."""
    kept = [dim for dim in range(values.ndim) if dim not in reduced]
    moved = values.transpose([*kept, *sorted(reduced)])
    return moved.reshape([values.shape[dim] for dim in kept] + [-1])


def the_choice(text: str) -> Choice:
    """How the reduce of a program is split."""
    graph = sw.load(text).plan().graph
    decisions = decide(graph)
    ((op, decision),) = (
        (op, decision)
        for op, decision in zip(graph.walk(), decisions.ops, strict=True)
        if op.name == "stablehlo.reduce" and isinstance(decision, Computed)
    )
    sources = tuple((layout,) for layout in decision.operands if layout)
    targets = tuple(layout for layout in decision.results if layout)
    return next(
        choice
        for choice in choices(op.signature, sources, targets, frozenset())
        if choice.operands == decision.operands
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_elements_meet_in_the_order_of_the_whole(layout: tuple[str, str, str, list[int]]) -> None:
    _, shape, _, reduced = layout
    rng = np.random.default_rng(0)
    size = dims_of(shape)
    x = np.where(rng.random(size) < 0.1, rng.integers(0, 1000, size), -1).astype(np.int32)
    spmd = partition(first_text(layout))
    returned = "func.return"  # its result is to lie by whole axes
    assert [note.op for note in spmd.notes] == [returned] * ('"y":(2)2}, {' in layout[2])
    (actual,) = results(spmd, x)
    rows = in_front(x, reduced)
    first = np.argmax(rows != -1, axis=-1)
    np.testing.assert_array_equal(actual, np.take_along_axis(rows, first[..., None], -1)[..., 0])


@pytest.mark.parametrize("layout", [LAYOUTS[4], LAYOUTS[9], LAYOUTS[10]], ids=str)
def test_of_equal_elements_the_first_is_found(layout: tuple[str, str, str, list[int]]) -> None:
    _, shape, _, reduced = layout
    size = dims_of(shape)
    x = np.random.default_rng(1).integers(0, 3, size).astype(np.float32)
    places = np.arange(math.prod(size), dtype=np.int32).reshape(size)
    largest, place = results(partition(largest_text(layout)), x, places)
    rows, numbers = in_front(x, reduced), in_front(places, reduced)
    np.testing.assert_array_equal(largest, rows.max(-1))
    np.testing.assert_array_equal(place, np.take_along_axis(numbers, rows.argmax(-1)[..., None], -1)[..., 0])


@pytest.mark.parametrize("mesh", ['"x"=4', '"x"=2, "y"=2'])
def test_devices_in_an_order_of_their_own(mesh: str) -> None:
    layout = (mesh, "8x16", '[{}, {"x"}]' if "y" not in mesh else '[{}, {"y", "x"}]', [1])
    x = np.arange(8 * 16, dtype=np.int32).reshape(8, 16)
    x[:, ::3] = -1
    spmd = partition(first_text(layout, ", device_ids=[2, 0, 3, 1]"))
    (actual,) = results(spmd, x)
    np.testing.assert_array_equal(actual, x[:, 1])
    (actual,) = jax.tree.leaves(partition(spmd.module("explicit")).compile()(x))
    np.testing.assert_array_equal(actual, x[:, 1])


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if '[{"y":(2)2}' not in layout[2]], ids=str)
def test_what_is_sent_inside_is_priced_as_written(layout: tuple[str, str, str, list[int]]) -> None:
    text = largest_text(layout)
    with Session(hardware=BYTES):
        exchange, total = the_choice(text).exchange, partition(text).traffic.total
    assert exchange.starts > 0
    assert total.static == exchange.starts
    assert total.static_bytes == pytest.approx(exchange.bytes_sent)


def test_argmax_sends_a_value_and_an_index_of_every_row() -> None:
    """All of the operand before: 3,145,728 bytes. Both go at once, floats beside integers."""
    mesh = sw.Mesh(x=4)
    x = np.random.default_rng(0).standard_normal((256, 4096)).astype(np.float32)
    spmd = sw.from_jax(lambda x: jnp.argmax(x, axis=1), x).shard(mesh, args={0: "-,x"}).partition(effort="fast")
    assert (spmd.traffic.total.static, spmd.traffic.total.static_bytes) == (1, 3 * 256 * (4 + 4))
    assert not spmd.notes
    (actual,) = results(spmd, x)
    np.testing.assert_array_equal(actual, x.argmax(1))


def test_the_results_may_stay_split_along_other_dimensions() -> None:
    spmd = partition(largest_text(('"x"=2, "y"=4', "8x16", '[{"x"}, {"y"}]', [1])))
    (reduce,) = (op for op in spmd.explicit.walk() if op.name == "stablehlo.reduce")
    layouts = [spmd.explicit.shardings[value] for value in (*reduce.operands, *reduce.results)]
    assert list(map(repr, layouts)) == ["[{x}, {y}]", "[{x}, {y}]", "[]", "[]", "[{x}]", "[{x}]"]
    assert spmd.traffic.total.static_bytes == 3 * 4 * (4 + 4)


@pytest.mark.parametrize(
    ("mesh", "arg"), [(sw.Mesh(x=2, y=4), "x,y"), (sw.Mesh(x=4), "-,x"), (sw.Mesh(x=3, y=2), "-,x+y")]
)
def test_argmax_and_argmin_of_jax(mesh: sw.Mesh, arg: str) -> None:
    """With ties everywhere, rows of infinities alone, and NaNs, of which each counts as the largest and smallest."""

    def function(x: Any) -> Any:
        return jnp.argmax(x, axis=1), jnp.argmin(x, axis=1)

    rng = np.random.default_rng(2)
    for dtype in (np.float32, np.int32):
        x = rng.integers(-2, 3, (12, 48)).astype(dtype)
        if dtype == np.float32:
            x[2:4], x[4:6] = -np.inf, np.inf
            x[6:][rng.random((6, 48)) < 0.05] = np.nan
        spmd = by_bytes(function, x, mesh, arg)
        assert exchanging(spmd) == 2
        assert not spmd.notes
        for actual, expected in zip(results(spmd, x), function(x), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_the_largest_and_its_place_of_a_whole_tensor() -> None:
    """As JAX has it: the tensor as one row."""
    x = np.random.default_rng(3).integers(0, 5, (16, 16)).astype(np.float32)
    spmd = by_bytes(lambda x: (jnp.argmax(x), jnp.take(x, jnp.argmax(x))), x, sw.Mesh(x=2, y=4), "x,y")
    assert exchanging(spmd) > 0
    place, largest = results(spmd, x)
    assert (int(place), float(largest)) == (int(x.argmax()), x.max())


@pytest.mark.parametrize("layout", [LAYOUTS[3], LAYOUTS[5], LAYOUTS[10]], ids=str)
def test_what_computes_something_of_initial_values_is_gathered(layout: tuple[str, str, str, list[int]]) -> None:
    _, shape, _, reduced = layout
    x = np.random.default_rng(4).standard_normal(dims_of(shape)).astype(np.float32)
    text = reducing(*layout, LOG_SUM, ["f32", "f32"], ["-1.0e+30", "0.0"])
    spmd = partition(text)
    assert exchanging(spmd) == 0
    largest, total = results(spmd, x, np.ones_like(x))
    rows = in_front(x, reduced)
    np.testing.assert_array_equal(largest, rows.max(-1))
    np.testing.assert_allclose(total, np.exp(rows - rows.max(-1, keepdims=True)).sum(-1), rtol=1e-5)


def test_a_loop_and_its_body_exchange_as_well() -> None:
    def climb(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return x.at[jnp.arange(8), jnp.argmax(x, axis=1)].add(-1.0)

        return jax.lax.fori_loop(0, 3, step, x)

    x = np.random.default_rng(5).integers(0, 4, (8, 64)).astype(np.float32)
    spmd = by_bytes(climb, x, sw.Mesh(x=4), "-,x")
    assert exchanging(spmd) == 1
    (actual,) = results(spmd, x)
    np.testing.assert_array_equal(actual, climb(x))


def test_a_dimension_that_does_not_divide_is_padded_with_initial_values() -> None:
    spmd = partition(largest_text(('"x"=4', "8x18", '[{}, {"x"}]', [1])))
    assert spmd.notes == ()
    assert exchanging(spmd) == 1
    x = np.random.default_rng(6).integers(0, 3, (8, 18)).astype(np.float32)
    places = np.arange(8 * 18, dtype=np.int32).reshape(8, 18)
    _, place = spmd.compile(trial=False)(x, places)
    np.testing.assert_array_equal(place, places[np.arange(8), x.argmax(1)])


def test_a_body_of_a_wider_type_gets_initial_values_of_that() -> None:
    """StableHLO has inputs and initial values of one type; XLA runs no such reduction, so its types tell."""
    spmd = partition("""sdy.mesh @m = <["x"=4]>
    func.func @main(%a: tensor<8x16xf16> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>}) -> tensor<8xf32> {
      %i = stablehlo.constant dense<0.0> : tensor<f16>
      %r = "stablehlo.reduce"(%a, %i) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %s = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %u = stablehlo.select %s, %p, %q : tensor<i1>, tensor<f32>
          stablehlo.return %u : tensor<f32>
      }) {dimensions = array<i64: 1>} : (tensor<8x16xf16>, tensor<f16>) -> tensor<8xf32>
      return %r : tensor<8xf32>
    }""")
    assert exchanging(spmd) == 1
    reductions = [op.signature for op in spmd.local.walk() if op.name == "stablehlo.reduce"]
    assert [[type.dtype for type in signature.operands] for signature in reductions] == [["f16", "f16"], ["f32", "f32"]]


def test_results_of_such_a_reduction_are_no_contributions() -> None:
    spmd = partition(first_text(LAYOUTS[0]))
    (reduce,) = (op for op in spmd.explicit.walk() if op.name == "stablehlo.reduce")
    result = spmd.explicit.shardings[reduce.results[0]]
    assert result is not None
    partial = sw.TensorSharding.of(spmd.mesh, [[]], partial=["x"])
    spmd.explicit.shardings[reduce.results[0]] = partial
    with pytest.raises(ShardingError, match="its result is partial along"):
        check(spmd.explicit)

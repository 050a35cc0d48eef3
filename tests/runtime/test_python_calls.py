"""Calls of Python with effects: once for each call of the program, with whole values, in order where they have one."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

X = np.arange(35, dtype=np.float32).reshape(7, 5)  # divides along no axis
EVEN = np.arange(64, dtype=np.float32).reshape(8, 8)
MESH = sw.Mesh(x=2, y=4)
NUMBERS: tuple[Any, ...] = (
    np.array([True, False]),
    np.array([-1, 127], np.int8),
    np.array([1, -0.0, np.nan, -np.inf], jnp.bfloat16),
    np.array(-0.0, np.float16),
    np.array([-0.0, 1.5], np.float32),
    np.array([1 + 2j, -3j], np.complex64),
    np.array([0, 2**32 - 1], np.uint32),
)

Seen = list[Any]


def jitted(function: Callable[[Any], Any]) -> Any:
    return sw.jit(function, MESH, {0: P("x", "y")})


def run(function: Callable[[Any], Any], x: Any = X, times: int = 2) -> Any:
    """What the last call gives, when all that it does is done."""
    step = jitted(function)
    results = [step(x) for _ in range(times)]
    jax.effects_barrier()
    return results[-1]


def test_each_call_is_made_once_with_the_whole_value() -> None:
    seen: Seen = []

    def function(x: Any) -> Any:
        io_callback(lambda a: seen.append(np.asarray(a)), None, 2 * x)
        return x + 1

    np.testing.assert_array_equal(run(function), X + 1)
    assert len(seen) == 2
    np.testing.assert_array_equal(seen, [2 * X, 2 * X])


def test_results_are_the_same_bits_on_all_devices() -> None:
    count = itertools.count()

    def function(x: Any) -> Any:
        like = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in NUMBERS]
        return io_callback(lambda: (np.int32(next(count)), NUMBERS), (jax.ShapeDtypeStruct((), np.int32), like)), x

    (number, values), _ = run(function)
    assert number == 1, "of two calls by eight devices the second"
    for own, expected in zip(values, NUMBERS, strict=True):
        assert {np.asarray(shard.data).tobytes() for shard in own.addressable_shards} == {expected.tobytes()}


def test_what_has_an_order_keeps_it_in_loops_in_branches_and_from_call_to_call() -> None:
    seen: Seen = []

    def note(number: Any) -> None:
        seen.append(int(number))

    def function(x: Any) -> Any:
        def body(carry: Any, _: None) -> Any:
            io_callback(note, None, carry[0, 0], ordered=True)
            return carry + 1, None

        y, _ = jax.lax.scan(body, x, None, length=3)
        io_callback(note, None, y[0, 0], ordered=True)
        jax.lax.cond(y[0, 0] > 0, lambda: io_callback(note, None, -1, ordered=True), lambda: None)
        return y

    step = jitted(function)
    for first in (0, 100):
        step(X + first)
    jax.effects_barrier()
    assert seen == [0, 1, 2, 3, -1, 100, 101, 102, 103, -1]

    def around(x: Any) -> Any:
        io_callback(note, None, -2, ordered=True)
        y = step(x)
        io_callback(note, None, -3, ordered=True)
        return y

    seen.clear()
    jax.jit(around)(X)
    jax.effects_barrier()
    assert seen == [-2, 0, 1, 2, 3, -1, -3]


def test_what_returns_nothing_is_called_all_the_same() -> None:
    seen: Seen = []
    step = jitted(lambda x: io_callback(lambda a: seen.append(a.shape), None, x))
    step(X)
    jax.jit(lambda x: step(x))(X)
    jax.effects_barrier()
    assert seen == [X.shape] * 2


def test_what_is_shown_is_shown_once_and_under_a_derivative(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        jax.debug.print("sum {}", x.sum())
        return (x * x).sum()

    run(function, times=1)
    assert capsys.readouterr().out == "sum 595.0\n"
    np.testing.assert_array_equal(jax.grad(jitted(function))(X), 2 * X)
    jax.effects_barrier()
    assert capsys.readouterr().out == "sum 595.0\n"


def test_what_is_shown_in_an_order_is_on_several_devices_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`jax.jit` refuses that."""

    def function(x: Any) -> None:
        for row in range(3):
            jax.debug.print("{}", x[row].sum(), ordered=True)

    run(function, EVEN, times=1)
    assert capsys.readouterr().out == "28.0\n92.0\n156.0\n"


@pytest.mark.parametrize("ordered", [False, True])
def test_in_a_map_over_shards_each_device_calls_with_its_own(ordered: bool) -> None:
    seen: Seen = []
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def inner(shard: Any) -> Any:
        io_callback(lambda a: seen.append(np.asarray(a)), None, shard, ordered=ordered)
        return shard + 1

    mapped = jax.shard_map(inner, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    np.testing.assert_array_equal(run(mapped, EVEN, times=1), EVEN + 1)
    assert {shard.shape for shard in seen} == {(4, 2)}
    assert sorted(float(shard[0, 0]) for shard in seen) == [0, 2, 4, 6, 32, 34, 36, 38]


@pytest.mark.parametrize(("transform", "what"), [(jax.grad, "differentiated"), (jax.vmap, "mapped")])
def test_what_jax_cannot_transform_is_refused(transform: Any, what: str) -> None:
    def function(x: Any) -> Any:
        io_callback(lambda a: None, None, x)
        return x.sum()

    with pytest.raises(sw.ShardingError, match=f"cannot be {what} here") as caught:
        transform(jitted(function))(X if what == "differentiated" else np.stack([X, X]))
    assert transform.__name__ in caught.value.diagnostic.remedy


def test_where_the_functions_are_not_at_hand_programs_are_written_and_not_run() -> None:
    def function(x: Any) -> Any:
        return io_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)

    program = sw.from_jax(function, X)
    assert list(program.arguments) == ["x"], "nobody gives a token"
    elsewhere = pickle.loads(pickle.dumps(program)), sw.load(jax.jit(function).lower(X).as_text(debug_info=True))
    for other in elsewhere:
        spmd = other.shard(MESH, {"x": P("x", "y")}).partition()
        assert spmd.module("local").count("stablehlo.if") == 1
        with pytest.raises(sw.ShardingError, match="apart from the process that made it") as caught:
            spmd.compile()
        assert caught.value.diagnostic.location == f"{__file__}:{function.__code__.co_firstlineno + 1}"
    spmd = sw.from_jax(function, EVEN).shard(MESH, {0: P("x", "y")}).partition()
    assert list(spmd.traffic.kinds) == ["all_gather", "all_reduce"], "the operand, and what the call gives"
    (note,) = spmd.notes
    assert note.message == "operand 1 is gathered along dimension 0, 1: one device calls Python with whole values"
    assert not note.is_fallback
    with pytest.raises(sw.ShardingError, match="apart from the process that made it"):
        spmd.verify()


def test_in_a_computation_that_leaves_axes_free_nobody_knows_who_is_to_call() -> None:
    program = sw.load("""
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y", ?}]>] out_shardings=[<@mesh, [{"x"}, {"y", ?}]>]
      manual_axes={"x"} (%b: tensor<4x8xf32>) {
    %1 = stablehlo.add %b, %b : tensor<4x8xf32>
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) {has_side_effect = true} : (tensor<4x8xf32>) -> ()
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
""")
    with pytest.raises(sw.ShardingError, match="in a manual computation that leaves axes free"):
        program.shard(results={0: P("x", "y")}).partition()


def test_verification_refuses_what_does_something_each_time() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return x + 1

    spmd = sw.from_jax(function, EVEN).shard(MESH, {0: P("x", "y")}).partition()
    with pytest.raises(sw.ShardingError, match="cannot be run apart") as caught:
        spmd.verify()
    assert "does something" in caught.value.diagnostic.cause
    assert caught.value.diagnostic.location.startswith(__file__)


def test_jax_partitions_it_with_our_shardings_too() -> None:
    seen: Seen = []

    def function(x: Any) -> Any:
        jax.debug.callback(lambda a: seen.append(np.asarray(a)), x.sum())
        return x + 1

    plan = sw.from_jax(function, EVEN).shard(MESH, {0: P("x", "y")})
    for made in (
        plan.constrained(),
        jax.jit(function, in_shardings=plan.in_shardings, out_shardings=plan.out_shardings),
    ):
        np.testing.assert_array_equal(jax.jit(made)(EVEN), EVEN + 1)
    jax.effects_barrier()
    np.testing.assert_array_equal(seen, [EVEN.sum(), EVEN.sum()])

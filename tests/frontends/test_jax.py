"""JAX functions become programs that remember how they are called."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardwright.errors import ShardingError
from shardwright.frontends.jax import lower
from shardwright.frontends.load import Source
from shardwright.runtime.call import JaxCall
from tests.frontends.devices import eight_devices

eight_devices()

F32 = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
PARAMS = {"w1": F32((8, 16)), "w2": F32((16, 8))}
BATCH = {"x": F32((4, 8))}


def step(params: Any, batch: Any, scale: Any, unused: Any = 0.0, *, times: int = 1) -> Any:
    hidden = batch["x"] @ params["w1"]
    return {"params": jax.tree.map(lambda p: p * scale, params), "loss": (hidden @ params["w2"]).sum() * times}


def lowered(fn: Any, *args: Any, **kwargs: Any) -> tuple[Source, JaxCall]:
    options = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith(("static_", "donate_"))}
    return lower(fn, args, kwargs, "cpu", **options)


def names(source: Source) -> list[str]:
    return source.graph.main.argument_names


def test_arguments_and_results_are_named_by_their_place_in_the_pytree() -> None:
    source, call = lowered(step, PARAMS, BATCH, 2.0)
    assert names(source) == ["params/w1", "params/w2", "batch/x", "scale"]
    assert source.graph.main.result_names == ["loss", "params/w1", "params/w2"]
    assert (source.name, call.name) == ("step", "step")


def test_containers_of_every_kind_have_names() -> None:
    class Pair(NamedTuple):
        left: Any
        right: Any

    source, _ = lowered(lambda tree, *rest: (tree, rest), Pair([F32(())], (F32(()),)), F32(()), F32(()))
    assert names(source) == ["tree/left/0", "tree/right/0", "rest/0", "rest/1"]


def test_keyword_and_static_arguments() -> None:
    source, call = lowered(step, PARAMS, batch=BATCH, scale=F32(()), times=3, static_argnames="times")
    assert names(source) == ["params/w1", "params/w2", "batch/x", "scale"]
    args, kwargs = jax.tree.unflatten(call.in_tree, range(4))
    assert (len(args), sorted(kwargs)) == (1, ["batch", "scale"])


def test_unused_arguments_of_a_plain_function_are_kept() -> None:
    source, call = lowered(step, PARAMS, BATCH, 2.0, F32((3,)))
    assert names(source)[-1] == "unused"
    assert call.kept == (0, 1, 2, 3, 4)


def test_unused_arguments_that_jax_dropped_are_known() -> None:
    source, call = lowered(jax.jit(lambda a, b, c: a + c), F32((4,)), F32((4,)), F32((4,)))
    assert (names(source), call.kept) == (["a", "c"], (0, 2))
    assert call.flatten((jnp.zeros(4), jnp.ones(4), jnp.full(4, 2.0)), {})[1][0] == 2.0


def test_dropped_arguments_of_a_function_with_static_ones_are_known() -> None:
    source, call = lowered(jax.jit(lambda n, a, b: b * n, static_argnums=0), 3, F32((4,)), F32((4,)))
    assert (names(source), call.kept) == (["b"], (1,))


def test_dropped_arguments_that_cannot_be_told_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwright.frontends.jax._told_kept", lambda lowered: ())
    fn = jax.jit(lambda n, a, b: a * n, static_argnums=0)
    with pytest.raises(ShardingError, match="jit it with keep_unused=True"):
        lowered(fn, 3, F32((4,)), F32((4,)))


def test_tokens_of_callbacks_in_an_order_are_no_arguments() -> None:
    def ordered(x: Any) -> Any:
        return io_callback(lambda a: a, F32((4,)), x, ordered=True)

    source, call = lowered(ordered, F32((4,)))
    assert source.graph.main.argument_names == ["x"]
    assert [op.name for op in source.graph.main.block.ops][:1] == ["stablehlo.create_token"]
    assert len(call.callbacks.functions) == 1
    assert call.callbacks.is_ordered


def test_donation_is_kept() -> None:
    source, _ = lowered(step, PARAMS, BATCH, 2.0, donate_argnums=0)
    assert ["tf.aliasing_output" in row for row in source.graph.main.argument_attributes] == [True, True, False, False]


def test_options_of_jit_are_refused_for_a_jitted_function() -> None:
    with pytest.raises(ShardingError, match="step is jitted already, and donate_argnums was given"):
        lowered(jax.jit(step), PARAMS, BATCH, 2.0, donate_argnums=0)


def test_shardings_of_a_jitted_function_are_kept() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), (AxisType.Auto, AxisType.Auto))

    def constrained(x: Any, w: Any) -> Any:
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("data", "model")))

    fn = jax.jit(constrained, in_shardings=(NamedSharding(mesh, P("data")), None), donate_argnums=0)
    graph = lowered(fn, F32((8, 8)), F32((8, 8)))[0].graph
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{data}, {}]", "None"]
    assert "[{data}, {model}]" in map(repr, graph.shardings)
    assert graph.main.argument_attributes[0] == {"jax.buffer_donor": "true"}


def test_locations_are_the_users_lines_and_never_this_packages() -> None:
    source, _ = lowered(step, PARAMS, BATCH, 2.0)
    assert isinstance(source.content, str)
    assert "shardwright/frontends" not in source.content.replace(__file__, "")
    files = {source.graph.locations[op.location].file for op in source.graph.walk()}
    assert files == {__file__}


def test_results_come_back_in_their_containers() -> None:
    _, call = lowered(step, PARAMS, BATCH, 2.0)
    assert call.unflatten(["loss", "w1", "w2"]) == {"loss": "loss", "params": {"w1": "w1", "w2": "w2"}}


def test_scalars_take_the_type_they_were_lowered_for() -> None:
    _, call = lowered(lambda x, n: x * n, F32((4,)), F32(()))
    assert call.flatten((jnp.ones(4), 3), {})[1].dtype == jnp.float32


def test_random_keys_go_in_and_come_out() -> None:
    key = jax.random.key(0)
    source, call = lowered(lambda key: jax.random.split(key), key)
    assert str(source.graph.types[source.graph.main.block.arguments[0]]) == "tensor<2xui32>"
    (data,) = call.flatten((key,), {})
    assert data.dtype == jnp.uint32
    assert call.unflatten([jnp.zeros((2, 2), jnp.uint32)]).dtype == key.dtype


def test_another_structure_is_refused() -> None:
    _, call = lowered(step, PARAMS, BATCH, 2.0)
    with pytest.raises(ShardingError, match="other arguments than it was lowered for"):
        call.flatten((PARAMS, BATCH), {})


@pytest.mark.parametrize("value", [jnp.ones((4, 9)), jnp.ones((4, 8), jnp.int32)])
def test_another_shape_or_type_is_refused_by_name(value: Any) -> None:
    _, call = lowered(step, PARAMS, BATCH, 2.0)
    params = {"w1": jnp.ones((8, 16)), "w2": jnp.ones((16, 8))}
    with pytest.raises(ShardingError) as caught:
        call.flatten((params, {"x": value}, 2.0), {})
    assert caught.value.diagnostic.op == "argument batch/x"

"""Manual computations that leave axes free: JAX's partial-auto `shard_map`, split along the axes that it does not name.

What they compute on eight devices is what XLA's own partitioner makes of the annotated program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.ops import DEVICE_OPS
from shardwright.notation import modules
from shardwright.partition import localize, materialize
from shardwright.partition.free_axes import stays_within
from shardwright.program import Plan
from shardwright.reshard.plan import plan as reshard_plan
from shardwright.sharding import Partial, replicated

P = PartitionSpec
MESH = sw.Mesh(data=2, model=4)
X = np.linspace(-1, 1, 16 * 32, dtype=np.float32).reshape(16, 32)
W = np.cos(np.arange(32 * 32, dtype=np.float32)).reshape(32, 32)
ROWS, WHOLE = P("data", None), P()


def over_data(body: Callable[..., Any], results: Any) -> Callable[..., Any]:
    """A body that is written per device along "data", of rows of x and all of w."""
    mesh = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return jax.shard_map(
        body, mesh=mesh, in_specs=(ROWS, WHOLE), out_specs=results, axis_names={"data"}, check_vma=False
    )


def _maxima(x: Any, w: Any) -> Any:
    y = x @ w
    return y - y.max(axis=1, keepdims=True), lax.pmax(y.max(), "data")


def _loop(x: Any, w: Any) -> Any:
    def turn(carry: Any, _: None) -> Any:
        z = jax.nn.softmax(carry @ w, axis=-1)
        return z + lax.ppermute(carry, "data", [(0, 1), (1, 0)]), z.max()

    y, greatest = lax.scan(turn, x, None, length=3)
    return y, lax.psum(greatest, "data")


def _gradient(x: Any, w: Any) -> Any:
    return lax.pmean(jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w), "data")


def _collectives(x: Any, w: Any) -> Any:
    y = x @ w
    scattered = lax.psum_scatter(y, "data", scatter_dimension=0, tiled=True)
    exchanged = lax.all_to_all(y, "data", split_axis=1, concat_axis=0, tiled=True)
    return scattered, exchanged, lax.all_gather(y, "data", axis=0, tiled=True).sum(0)


def _places(x: Any, w: Any) -> Any:
    return jnp.sort(x @ w, axis=1) + lax.axis_index("data"), jnp.cumsum(x @ w, axis=1)


def _nested(x: Any, w: Any) -> Any:
    def inner(y: Any) -> Any:
        return y * 2 + lax.axis_index("model") + lax.psum(y.sum(), "model")

    mesh = jax.sharding.get_abstract_mesh()
    split = P(None, "model")
    y = jax.shard_map(inner, mesh=mesh, in_specs=split, out_specs=split, axis_names={"model"}, check_vma=False)(x @ w)
    return y + lax.axis_index("data")


def _constrained(x: Any, w: Any) -> Any:
    return 2 * lax.with_sharding_constraint(x @ w, NamedSharding(jax.sharding.get_abstract_mesh(), P(None, "model")))


BODIES: dict[str, tuple[Callable[..., Any], Any]] = {
    "maxima": (_maxima, (ROWS, WHOLE)),
    "loop": (_loop, (ROWS, WHOLE)),
    "gradient": (_gradient, WHOLE),
    "collectives": (_collectives, (ROWS, ROWS, WHOLE)),
    "places": (_places, (ROWS, ROWS)),
    "nested": (_nested, ROWS),
    "constrained": (_constrained, ROWS),
}
ARGS: dict[str, dict[str | int, Any]] = {
    "columns": {0: ROWS, 1: P(None, "model")},
    "contracted": {0: P(None, "model"), 1: P("model", None)},
    "manual_axis_behind": {1: P(("model", "data"), None)},
}


def _plan(name: str, args: str) -> Plan:
    body, results = BODIES[name]
    return sw.from_jax(over_data(body, results), X, W).shard(MESH, args=ARGS[args])


@pytest.mark.parametrize("args", ARGS)
@pytest.mark.parametrize("name", BODIES)
def test_they_compute_what_xla_makes_of_them(name: str, args: str) -> None:
    spmd = _plan(name, args).partition()
    spmd.verify().require()
    (split,) = re.findall(r"stablehlo\.dot_general .*\(tensor<8x(\d+)xf32>", spmd.module("local"))[:1]
    assert int(split) == (32 if args == "columns" else 8)  # contracted columns are split as the weights' rows are


@pytest.mark.parametrize("name", BODIES)
def test_their_explicit_program_is_read_as_it_was_written(name: str) -> None:
    spmd = _plan(name, "contracted").partition()
    again = sw.load(spmd.module("explicit")).plan().partition()
    assert again.module("local") == spmd.module("local")


def test_nothing_is_sent_for_columns_of_weights() -> None:
    assert _plan("constrained", "columns").partition().traffic.total.executed_bytes == 0


def test_values_differ_along_manual_axes_so_nothing_is_shared_out_there() -> None:
    """Idle devices share a large reduction: in a body those along its manual axes have other values."""
    steps = {}
    for mesh in (MESH, MESH.inside(["data"])):
        whole = replicated(mesh, 2)
        partial = whole.with_axes(whole.axes, [Partial(mesh.axis("model"))])
        steps[mesh.manual] = repr(reshard_plan((4096, 4096), 4, partial, whole).steps)
    assert "data" in steps[()]
    assert "data" not in steps["data",]


def _collective(groups: str) -> tuple[Graph, Any]:
    text = f"""
    sdy.mesh @mesh = <["data"=2, "model"=4]>
    func.func @main(%x: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{"model"}}]>}}) -> tensor<8x8xf32> {{
      %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"data"}}, {{"model"}}]>]
          out_shardings=[<@mesh, [{{"data"}}, {{"model"}}]>] manual_axes={{"data"}} (%a: tensor<4x8xf32>) {{
        %1 = "stablehlo.all_reduce"(%a) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            replica_groups = {groups}, use_global_device_ids}}> ({{
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %2 = stablehlo.add %p, %q : tensor<f32>
            stablehlo.return %2 : tensor<f32>
        }}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
        sdy.return %1 : tensor<4x8xf32>
      }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }}"""
    graph = sw.load(text).plan().graph
    (op,) = [op for op in graph.walk() if op.name in DEVICE_OPS]
    return graph, op


WITHIN = {
    "dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>": True,
    "dense<[[0, 5], [1, 4], [2, 6], [3, 7]]> : tensor<4x2xi64>": False,
    "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>": False,
    "dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>": True,
}


@pytest.mark.parametrize(("groups", "within"), WITHIN.items(), ids=range(len(WITHIN)))
def test_a_collective_is_on_shards_where_its_devices_hold_the_same_parts(groups: str, within: bool) -> None:
    graph, op = _collective(groups)
    assert stays_within(op.signature, graph, graph.mesh.inside(["data"])) == within
    local = localize(materialize(graph).graph)
    (made,) = [op for op in local.walk() if op.name == "stablehlo.all_reduce"]
    assert made.signature.operands[0].dims == ((4, 2) if within else (4, 8))


def test_devices_that_hold_different_parts_may_not_communicate_in_an_explicit_program() -> None:
    graph, _ = _collective(next(iter(WITHIN)))
    text = modules.located_text(materialize(graph).graph)
    ring = text.replace(
        "return %0",
        '%9 = sdy.all_reduce {} %0 out_sharding=<@mesh, [{"data"}, {"model"}]> : tensor<8x8xf32>\n    return %9',
    )
    assert "all_reduce" in sw.load(ring).plan().partition().module("local")
    with pytest.raises(ShardingError, match="devices that hold different parts") as raised:
        sw.load(ring.replace("[[0, 4], [1, 5]", "[[0, 5], [1, 4]")).plan().partition()
    assert raised.value.diagnostic.op == "stablehlo.all_reduce"

"""What JAX has traced, lowered or exported of a function is the program that the function is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardwright as sw
from shardwright.runtime.call import JaxCall
from tests.frontends.devices import eight_devices

eight_devices()

MESH = sw.Mesh(data=2, model=4)
RNG = np.random.default_rng(0)
PARAMS = {"w1": RNG.normal(size=(8, 16)).astype(np.float32), "w2": RNG.normal(size=(16, 8)).astype(np.float32)}
X = RNG.normal(size=(4, 8)).astype(np.float32)
ARGS = {"params/w1": P(None, "model"), "x": P("data")}


def step(params: Any, x: Any, unused: Any, *, times: int = 1) -> Any:
    return {"y": jnp.tanh(x @ params["w1"]) @ params["w2"] * times}


JITTED = jax.jit(step, static_argnames="times", donate_argnums=1)


def run(program: sw.Program, *args: Any) -> None:
    plan = program.shard(MESH, ARGS)
    assert repr(plan.arguments["params/w2"]) == "[{model}, {}]"
    compiled = plan.partition().compile(trial=False)
    np.testing.assert_allclose(compiled(*args)["y"], step(*args, times=2)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stage", ["function", "traced", "lowered"])
def test_a_function_at_any_stage(stage: str) -> None:
    traced = JITTED.trace(PARAMS, X, 1.0, times=2)
    program = {
        "function": lambda: sw.from_jax(JITTED, PARAMS, X, 1.0, times=2),
        "traced": lambda: sw.from_jax(traced),
        "lowered": lambda: sw.from_jax(traced.lower()),
    }[stage]()
    assert program.name == "step"
    assert list(program.arguments) == ["params/w1", "params/w2", "x"]
    assert isinstance(program.call, JaxCall)
    assert program.call.donated == (False, False, True, False)
    run(program, PARAMS, X, 1.0)


def exported() -> export.Exported:
    return export.export(jax.jit(step, static_argnames="times"))(PARAMS, X, 1.0, times=2)


def test_an_exported_function() -> None:
    program = sw.from_jax(exported())
    assert program.name == "step"
    run(program, PARAMS, X, 1.0)


def test_an_exported_function_keeps_its_shardings() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    fn = jax.jit(lambda params, x: step(params, x, 1.0), in_shardings=(None, NamedSharding(mesh, P("data"))))
    program = sw.from_jax(export.export(fn)(PARAMS, X))
    assert repr(program.plan().arguments["x"]) == "[{data}, {}]"


def test_an_exported_function_in_a_file(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers", reason="jax.export serializes by flatbuffers")
    blob = exported().serialize()
    (tmp_path / "step.jax").write_bytes(blob)
    for given in (blob, bytes(blob), tmp_path / "step.jax", str(tmp_path / "step.jax")):
        run(sw.from_jax(given), PARAMS, X, 1.0)
    with pytest.raises(sw.ShardingError, match=r"what jax\.export serialized goes to sw\.from_jax"):
        sw.load(tmp_path / "step.jax")


def test_what_cannot_be_read_as_exported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(blob: bytearray) -> Any:
        raise ImportError("Please install 'flatbuffers'")

    with pytest.raises(sw.ShardingError) as caught:
        sw.from_jax(b"no function")
    assert caught.value.diagnostic.remedy
    monkeypatch.setattr(export, "deserialize", without)
    with pytest.raises(sw.ShardingError, match="install flatbuffers"):
        sw.from_jax(b"no function")


def test_a_function_exported_for_shapes_without_a_size_is_refused() -> None:
    rows = export.symbolic_shape("rows, 8")
    function = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct(rows, jnp.float32))
    with pytest.raises(sw.ShardingError, match="argument 0 of sin has dimensions without a size"):
        sw.from_jax(function)

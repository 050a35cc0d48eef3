"""The way from a program to numbers, as Python users go it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

MESH = sw.Mesh(data=2, model=4)
MATMUL = """
func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}
"""


def train_step(params: Any, batch: Any, rate: Any) -> Any:
    def loss(params: Any) -> Any:
        hidden = jax.nn.relu(batch["x"] @ params["w1"])
        return ((hidden @ params["w2"] - batch["y"]) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradient), value


def arguments() -> tuple[Any, Any, float]:
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, 0.1, shape), jnp.float32)

    return {"w1": draw(16, 32), "w2": draw(32, 16)}, {"x": draw(8, 16), "y": draw(8, 16)}, 0.1


@pytest.fixture(scope="module")
def plan() -> sw.Plan:
    program = sw.from_jax(train_step, *arguments(), donate_argnums=0)
    return program.shard(MESH, args={"params/w1": sw.P(None, "model"), "batch": sw.P("data")})


@pytest.fixture(scope="module")
def spmd(plan: sw.Plan) -> sw.Spmd:
    return plan.partition()


def test_the_public_names_are_all_there_is() -> None:
    import shardwright

    for name in shardwright.__all__:
        assert getattr(shardwright, name) is not None
    assert jax.sharding.PartitionSpec is shardwright.P
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        shardwright.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_shardings_are_completed_and_named(plan: sw.Plan) -> None:
    assert {name: repr(sharding) for name, sharding in plan.shardings.items()} == {
        "params/w1": "[{}, {model}]",
        "params/w2": "[{model}, {}]",
        "batch/x": "[{data}, {}]",
        "batch/y": "[{data}, {}]",
        "rate": "[]",
        "result/0/w1": "[{}, {model}]",
        "result/0/w2": "[{model}, {}]",
        "result/1": "[]",
    }


def test_named_shardings_have_the_structure_of_the_function(plan: sw.Plan) -> None:
    params, batch, rate = plan.in_shardings
    assert params["w1"].spec == sw.P(None, "model")
    assert batch["x"].spec == sw.P("data", None)
    assert rate.spec == sw.P()
    assert plan.out_shardings[0]["w2"].spec == sw.P("model", None)


def test_named_shardings_serve_jit_and_device_put(plan: sw.Plan) -> None:
    args = arguments()
    placed = jax.device_put(args, plan.in_shardings)
    assert placed[0]["w1"].addressable_shards[0].data.shape == (16, 8)
    jitted = jax.jit(train_step, in_shardings=plan.in_shardings, out_shardings=plan.out_shardings)
    np.testing.assert_allclose(jitted(*placed)[1], train_step(*args)[1], rtol=1e-5)


def test_one_program_can_be_sharded_in_several_ways(plan: sw.Plan) -> None:
    other = plan.program.shard(sw.Mesh(data=8), args={"batch": sw.P("data")})
    assert repr(other.shardings["params/w1"]) == "[{}, {}]"
    assert repr(plan.shardings["params/w1"]) == "[{}, {model}]"
    assert "propagate" not in plan.program.clock.seconds


def test_verification_agrees(spmd: sw.Spmd) -> None:
    verification = spmd.verify(arguments())
    assert verification.ok, verification.worst
    assert len(verification.outputs) == 3
    assert {"load", "propagate", "materialize", "localize", "verify"} <= set(spmd.clock.seconds)


def test_verification_takes_inputs_by_name(spmd: sw.Spmd) -> None:
    given = np.full((8, 16), 3.0, np.float32)
    np.testing.assert_array_equal(spmd.inputs({"batch/x": given})[2], given)
    with pytest.raises(sw.ShardingError, match="belong to no argument"):
        spmd.inputs({"nothing": given})


def test_inputs_are_what_the_function_was_lowered_with(spmd: sw.Spmd) -> None:
    for own, array in zip(jax.tree.leaves(arguments()), spmd.inputs(seed=1), strict=True):
        np.testing.assert_array_equal(array, np.asarray(own, np.float32))


def test_inputs_that_are_drawn_depend_on_the_seed_alone() -> None:
    spmd = sw.load(MATMUL).shard(MESH, {"x": "data,-"}).partition()
    one, same, other = spmd.inputs(seed=1), spmd.inputs(seed=1), spmd.inputs(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_a_wrong_program_does_not_verify(spmd: sw.Spmd, monkeypatch: pytest.MonkeyPatch) -> None:
    right = spmd.module("local")
    wrong = right.replace("stablehlo.maximum", "stablehlo.minimum")
    assert wrong != right
    monkeypatch.setattr(sw.Spmd, "module", lambda spmd, stage: wrong)
    verification = spmd.verify(arguments())
    assert not verification.ok
    with pytest.raises(sw.ShardingError, match="differs"):
        verification.require()


def test_compiled_programs_are_called_as_the_function_is(spmd: sw.Spmd) -> None:
    args = arguments()
    expected = train_step(*args)
    results = spmd.compile()(*args)
    assert isinstance(results, tuple)
    assert list(results[0]) == list(expected[0])
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), results, expected)
    assert jax.tree.map(lambda leaf: leaf.sharding, results) == spmd.plan.out_shardings


def test_compiled_programs_consume_what_was_donated(spmd: sw.Spmd) -> None:
    params, batch, rate = arguments()
    step = spmd.compile()
    placed, kept = jax.device_put((params, batch), spmd.plan.in_shardings[:2])
    params, loss = step(placed, kept, rate)
    assert placed["w1"].is_deleted()
    assert not kept["x"].is_deleted()
    losses = [loss]
    for _ in range(3):
        params, loss = step(params, kept, rate)
        losses.append(loss)
    assert losses[-1] < losses[0]


def test_compiled_programs_refuse_other_arguments(spmd: sw.Spmd) -> None:
    params, batch, _ = arguments()
    with pytest.raises(sw.ShardingError, match="other arguments than it was lowered for"):
        spmd.compile()(params, batch)


def test_a_program_from_text_takes_and_gives_arrays() -> None:
    spmd = sw.load(MATMUL).shard(MESH, args={"x": "data,model"}).partition()
    x, w = (np.ones(shape, np.float32) for shape in ((16, 64), (64, 32)))
    step = spmd.compile()
    (y,) = step(x, w)
    np.testing.assert_allclose(y, x @ w)
    assert spmd.traffic.total.static == 1
    with pytest.raises(sw.ShardingError, match="the program takes 2 arrays, 1 were given"):
        step(x)
    with pytest.raises(sw.ShardingError, match=r"input w has shape \[32, 64\]"):
        step(x, w.T)


def test_the_order_of_devices_is_that_of_the_mesh() -> None:
    mesh = sw.Mesh([("data", 2), ("model", 4)], device_ids=[7, 6, 5, 4, 3, 2, 1, 0])
    spmd = sw.load(MATMUL).shard(mesh, args={"x": "data,model", "w": "model,."}).partition()
    x, w = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((16, 64), (64, 32)))
    (y,) = spmd.compile()(x, w)
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-4)
    assert spmd.verify([x, w]).ok


def double_elsewhere(x: Any) -> Any:
    return jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1


def test_effects_stay_where_only_what_is_dead_reads_their_results() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @log(%a) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %a : tensor<8xf32>
}
"""
    local = sw.load(text).plan().partition().module("local")
    assert "@log" in local
    assert "negate" not in local


def test_a_call_of_python_that_nobody_reads_is_not_run_unsharded_either() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}
"""
    spmd = sw.load(text).plan().partition()
    assert "custom_call" not in spmd.module("local")
    with pytest.raises(sw.ShardingError, match="cannot be run apart from the process that made it"):
        spmd.verify()


def test_a_program_that_calls_python_is_refused_at_its_line() -> None:
    """Its module names the function by a number; without the process that knows it, XLA ends its process."""
    program = sw.from_jax(double_elsewhere, jnp.ones((8, 4)))
    spmd = pickle.loads(pickle.dumps(program.shard(sw.Mesh(x=8), args={0: "x,-"}).partition()))
    for run in (spmd.verify, spmd.compile):
        with pytest.raises(sw.ShardingError, match="cannot be run apart from the process that made it") as caught:
            run()
        assert caught.value.diagnostic.op == "stablehlo.custom_call @xla_ffi_python_cpu_callback"
        assert caught.value.diagnostic.location.startswith(f"{__file__}:")


def test_what_ends_its_process_is_tried_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwright.runtime.runnable.check_runnable", lambda graph, **options: None)
    program = sw.from_jax(double_elsewhere, jnp.ones((8, 4)))
    spmd = program.shard(sw.Mesh(x=8), args={0: "x,-"}).partition()
    spmd = pickle.loads(pickle.dumps(spmd))  # which has not the function
    with pytest.raises(sw.ShardingError, match=r"was ended by signal \d+ \(SIG"):
        spmd.compile()


def test_a_program_is_tried_once_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    spmd = sw.load(MATMUL).shard(MESH, args={"w": "-,model"}).partition()
    with sw.Session():
        spmd.compile()
        monkeypatch.setattr("shardwright.runtime.execute.try_jobs", None)
        spmd.compile()
    monkeypatch.undo()
    with sw.Session():
        assert spmd.verify().ok
        monkeypatch.setattr("shardwright.runtime.execute.try_jobs", None)
        spmd.compile()
    with sw.Session():
        spmd.compile(trial=False)


def test_a_trial_does_not_wait_for_numbers_that_never_come() -> None:
    """On zeros this loop has no end."""
    program = sw.from_jax(lambda x: jax.lax.while_loop(lambda v: v.sum() < 99, lambda v: v * 2, x), jnp.ones((8, 4)))
    spmd = program.shard(sw.Mesh(x=8), args={0: "x,-"}).partition()
    assert float(spmd.compile()(np.ones((8, 4), np.float32)).sum()) == 128.0


def test_too_few_devices_for_compile() -> None:
    spmd = sw.load(MATMUL).shard(sw.Mesh(data=16), args={"x": "data,."}).partition()
    with pytest.raises(sw.ShardingError, match="this process has 8"):
        spmd.compile()


@pytest.mark.parametrize("stage", ["propagated", "explicit", "local"])
def test_every_stage_is_a_module_that_can_be_read(spmd: sw.Spmd, stage: str, tmp_path: Path) -> None:
    path = spmd.write(stage, tmp_path / f"{stage}.mlir")
    again = sw.load(path)
    assert list(again.arguments) == list(spmd.plan.program.arguments)
    assert path.read_text() == spmd.module(stage)


def test_a_propagated_module_goes_on_where_it_stopped(plan: sw.Plan, tmp_path: Path) -> None:
    again = sw.load(plan.write(tmp_path / "full.mlir")).plan()
    assert list(map(repr, again.arguments.values())) == list(map(repr, plan.arguments.values()))


def test_a_propagated_module_is_verified_without_its_resharding() -> None:
    text = MATMUL.replace("return %y", "%z = sdy.reshard %y <@mesh, [{}, {}]> : tensor<16x32xf32>\n  return %z")
    program = sw.load('\nsdy.mesh @mesh = <["data"=2, "model"=4]>' + text)
    assert "sdy." not in program.unsharded().replace("sdy.mesh", "")
    assert program.shard(args={"x": "data,model"}).partition().verify().ok


def test_the_reference_is_the_program_untouched(plan: sw.Plan) -> None:
    assert plan.program.unsharded() == plan.program.source.content


def test_an_unknown_stage(spmd: sw.Spmd) -> None:
    with pytest.raises(sw.ShardingError, match="unknown stage 'optimized'"):
        spmd.module("optimized")


def test_a_program_without_a_mesh_has_no_plan() -> None:
    with pytest.raises(sw.ShardingError, match="the program has no mesh"):
        sw.load(MATMUL).plan()


# Strategies

_COMPETING = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x", ?}, {?}]> : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %b <@mesh, [{"y", ?}, {?}]> : tensor<8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""


def test_a_strategy_is_kept_and_explained() -> None:
    program = sw.load(_COMPETING)
    usual, simple = program.shard(), program.shard(strategy="rfc")
    assert repr(usual.shardings["b"]) == "[{y}, {}]"
    assert repr(simple.shardings["b"]) == "[{x}, {}]"
    assert (usual.strategy, simple.strategy) == ("user-priority", "rfc")
    [explanation] = simple.explain("b")
    assert explanation.sharding == simple.shardings["b"]
    assert simple.partition().verify().ok


def test_hints_that_a_strategy_drops_are_listed_with_their_lines() -> None:
    program = sw.load(_COMPETING)
    [dropped] = program.plan("rfc").dropped
    assert str(dropped).startswith("-:5: the hint for operand 1 of stablehlo.add [{y}, {}] is dropped: ")
    assert program.plan().dropped == ()


@pytest.mark.parametrize("strategy", ["best", "", None, ["rfc"]])
def test_an_unknown_strategy_is_refused_with_those_there_are(strategy: Any) -> None:
    explicit = sw.load(MATMUL).shard(MESH, args={"x": "data,model"}).partition().module("explicit")
    for program in (sw.load(_COMPETING), sw.load(explicit)):
        with pytest.raises(sw.ShardingError, match="unknown strategy") as caught:
            program.plan(strategy)
        assert caught.value.diagnostic.remedy.startswith("one of user-priority, ")


def test_a_program_that_came_explicit_drops_nothing() -> None:
    summed = sw.load(MATMUL).shard(MESH, args={"x": "data,model"}).partition().module("explicit")
    assert "sdy.all_reduce" in summed
    assert sw.load(summed).plan("rfc").dropped == ()


def test_of_many_explanations_the_first_are_printed() -> None:
    adds = [f'%{name} = stablehlo.tanh %a : tensor<8x8xf32> loc("net.py":3:0)' for name in range(30)]
    results = ", ".join(f"%{name}" for name in range(30))
    types = ", ".join(["tensor<8x8xf32>"] * 30)
    text = f"func.func @main(%a: tensor<8x8xf32>) -> ({types}) {{\n" + "\n".join(adds)
    explanations = (
        sw.load(f"{text}\nreturn {results} : {types}\n}}").shard(MESH, args={"a": "data,."}).explain("net.py:3")
    )
    assert len(explanations) == 30
    assert str(explanations).count("= stablehlo.tanh: ") == 20
    assert str(explanations).endswith("\n\n… and 10 more values; --all lists them")

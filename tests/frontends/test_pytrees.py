"""Shardings as JAX's users give them: trees that are prefixes, functions, patterns; for arguments and for results."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import shardwright as sw
from shardwright.frontends.selection import select_values
from tests.frontends.devices import eight_devices

eight_devices()

MESH = sw.Mesh(data=2, model=4)
F32 = jax.ShapeDtypeStruct((8, 16), jnp.float32)


class State(NamedTuple):
    params: Any
    count: Any


def step(state: State, batch: Any, *, scale: Any) -> Any:
    params = jax.tree.map(lambda p: p * scale, state.params)
    return State(params, state.count + 1), {"loss": batch["x"].sum(), "grads": params}


PROGRAM = sw.from_jax(
    step,
    State({"w1": F32, "w2": F32}, jax.ShapeDtypeStruct((), jnp.int32)),
    {"x": F32, "y": F32},
    scale=jax.ShapeDtypeStruct((), jnp.float32),
)


def given(args: Any) -> dict[str, str]:
    graph = PROGRAM.shard(MESH, args).annotated
    pairs = zip(graph.main.argument_names, graph.main.block.arguments, strict=True)
    return {name: repr(graph.shardings[value]) for name, value in pairs if graph.shardings[value] is not None}


def given_results(results: Any) -> dict[str, str]:
    graph = PROGRAM.shard(MESH, results=results).annotated
    pairs = zip(graph.main.result_names, graph.main.result_shardings, strict=True)
    return {name: repr(sharding) for name, sharding in pairs if sharding is not None}


def refused(args: Any) -> Any:
    with pytest.raises(sw.ShardingError) as caught:
        PROGRAM.shard(MESH, args)
    assert caught.value.diagnostic.cause
    assert caught.value.diagnostic.remedy
    return caught.value.diagnostic


DATA, MODEL = "[{data}, {}]", "[{}, {model}]"


@pytest.mark.parametrize(
    "args",
    [
        (State(P(None, "model"), None), {"x": P("data"), "y": P("data")}),
        [State(P(None, "model"), None), P("data")],
        (State({"w1": (None, "model"), "w2": ".,model"}, None), {"x": "data", "y": ("data", None)}),
        {"state": State(P(None, "model"), None), "batch": {"x": P("data"), "y": "data"}},
        {"state": {"params": P(None, "model")}, "batch": P("data")},
        {r"w\d": P(None, "model"), "batch": "data"},
        {re.compile("^state/params/"): P(None, "model"), "batch/[xy]": P("data"), ".*": P()},
        lambda name, leaf: None if leaf.ndim == 0 else P(None, "model") if "params" in name else P("data"),
    ],
)
def test_one_thing_said_in_many_ways(args: Any) -> None:
    expected = {"state/params/w1": MODEL, "state/params/w2": MODEL, "batch/x": DATA, "batch/y": DATA}
    assert {name: text for name, text in given(args).items() if text != "[]"} == expected


def test_a_tuple_for_as_many_arguments_is_no_sharding_of_each() -> None:
    program = sw.from_jax(lambda x, y: x + y.sum(), F32, F32)
    assert [repr(one) for one in program.shard(MESH, ("data", None)).arguments.values()] == [DATA, "[{}, {}]"]
    both = program.shard(MESH, (("data", None), (None, "model"))).arguments
    assert [repr(one) for one in both.values()] == [DATA, MODEL]


def test_named_shardings_of_a_tree() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    plan = PROGRAM.shard(mesh, (None, {"x": NamedSharding(mesh, P("data")), "y": None}))
    assert repr(plan.arguments["batch/x"]) == DATA


def test_a_plan_is_taken_back() -> None:
    program = sw.from_jax(lambda params, x: x @ params["w"], {"w": jax.ShapeDtypeStruct((16, 8), jnp.float32)}, F32)
    plan = program.shard(MESH, {"x": "data", "params/w": (None, "model")})
    again = program.shard(MESH, plan.in_shardings, results=plan.out_shardings)
    assert again.arguments == plan.arguments
    assert again.results == plan.results


def test_what_a_function_is_told() -> None:
    seen = {}

    def tell(name: str, leaf: Any) -> None:
        seen[name] = (leaf.shape, leaf.dtype)

    given(tell)
    assert seen["state/count"] == ((), np.int32)
    assert seen["batch/x"] == ((8, 16), np.float32)


W1, W2, G1, G2 = (f"result/{path}" for path in ("0/params/w1", "0/params/w2", "1/grads/w1", "1/grads/w2"))


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"result/1/loss": P()}, {"result/1/loss": "[]"}),
        ((State(P("data"), None), None), {W1: DATA, W2: DATA}),
        ((None, {"grads": {"w1": P(None, "model")}}), {G1: MODEL}),
        ({"result/0": State({"w2": "data"}, None)}, {W2: DATA}),
        ({"grads/w": P("data"), r"grads/w\d": P()}, {G1: DATA, G2: DATA}),
        (lambda name, leaf: "data" if name.endswith("w1") else None, {W1: DATA, G1: DATA}),
    ],
)
def test_shardings_of_results(results: Any, expected: dict[str, str]) -> None:
    if isinstance(results, dict) and "grads/w" in results:
        results = {re.compile(key): spec for key, spec in results.items()}
    assert given_results(results) == expected


def test_results_lie_as_they_are_asked_to() -> None:
    program = sw.from_jax(lambda x, w: x @ w, F32, jax.ShapeDtypeStruct((16, 8), jnp.float32))
    plan = program.shard(MESH, {"x": "data"}, results=P(None, "model"))
    assert repr(plan.results["result"]) == MODEL
    assert plan.partition().verify().ok


def test_a_place_that_is_not_there_is_told_with_what_is_near() -> None:
    diagnostic = refused((State({"w_1": P(), "w2": P()}, None), None))
    assert diagnostic.message == "there is no 'w_1' in 0/params"
    assert diagnostic.remedy == "did you mean 'w1'?"


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        ((State({"w1": {"deep": P()}}, None), None), "at arguments/0/params/w1 there is an array"),
        ((None, [P(), P(), P()]), "at arguments/1 there is a dict with x, y"),
    ],
)
def test_a_tree_that_is_no_prefix_is_told_with_its_place(args: Any, cause: str) -> None:
    assert refused(args).cause == cause


def test_another_number_of_shardings_than_arguments() -> None:
    diagnostic = refused([P(), P(), P()])
    assert diagnostic.message == "3 shardings for 2 positional arguments, 6 arguments in its module"


def test_names_that_match_nothing_come_with_what_is_near() -> None:
    assert "did you mean 'state/params/w1'?" in refused({"stat/params/w1": P()}).remedy
    assert "did you mean 'state/params'?" in refused({"state/prams": P()}).remedy
    assert refused({"layers/.*": P()}).message == "no argument matches 'layers/.*'"
    assert "regular expression" in refused({"layers/(": P()}).cause


def test_names_win_over_patterns_and_earlier_patterns_over_later_ones() -> None:
    names = ["a/w1", "a/w2", "b/w1"]
    chosen = select_values(names, {"w1$": 1, ".*": 3, "a/w2": 2, "b": 4})
    assert [chosen[number][1] for number in range(3)] == [1, 2, 4]

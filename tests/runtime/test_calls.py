"""Programs that call Python are verified in another process, which asks this one."""

from __future__ import annotations

import os
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.runtime.calls import Asking, answering
from shardwright.runtime.verify import Verification
from tests.frontends.devices import eight_devices

eight_devices()

MESH = {"data": 2, "model": 4}
X = jnp.arange(64, dtype=jnp.float32).reshape(8, 8) / 8


def calling(function: Any, *like: Any) -> Any:
    def program(x: Any) -> Any:
        whole = jax.pure_callback(function, like, jnp.tanh(x), x.sum())
        return [(one.astype(jnp.float32) + x).sum(0) for one in whole]

    return program


def verified(function: Any, *like: Any, **options: Any) -> Verification:
    program = sw.from_jax(calling(function, *like), X)
    return program.shard(MESH, {"x": "data,model"}).partition().verify(**options)


def test_functions_are_called_in_this_process_with_whole_arrays() -> None:
    seen: set[Any] = set()

    def function(x: Any, total: Any) -> Any:
        seen.add((os.getpid(), np.shape(x), np.shape(total)))
        return np.asarray(x) * 2, np.asarray(x).astype(jnp.bfloat16) * total.astype(jnp.bfloat16)

    like = jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.bfloat16)
    assert verified(function, *like).ok
    assert seen == {(os.getpid(), (8, 8), ())}


def test_a_function_under_a_condition_is_called_where_it_holds() -> None:
    def program(x: Any) -> Any:
        def check(x: Any) -> Any:
            return jax.pure_callback(lambda a: np.asarray(a) + 1, x, x)

        return jax.lax.cond(x.max() > 100, check, lambda x: x - 1, x)

    spmd = sw.from_jax(program, X).shard(MESH, {"x": "data"}).partition()
    assert spmd.verify([np.asarray(X)]).ok
    assert spmd.verify([np.asarray(X) + 200]).ok


def test_a_function_that_answers_otherwise_each_time_is_a_difference() -> None:
    calls = iter(range(1000))
    like = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    verification = verified(lambda x, total: (np.full((8, 8), next(calls), np.float32),), like, rtol=1e-3, atol=1e-3)
    assert not verification.ok


def test_what_a_function_raises_is_told() -> None:
    def function(x: Any, total: Any) -> Any:
        raise ValueError("no such\nthing")

    with pytest.raises(sw.ShardingError) as caught:
        verified(function, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    told = caught.value.diagnostic
    assert told.message == "a Python function that the program calls raised ValueError: no such thing"
    assert told.remedy == "give inputs with which it does not (inputs=), or change it"


def test_several_processes_are_refused_at_the_line() -> None:
    like = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    with pytest.raises(sw.ShardingError, match="apart from the process that made it") as caught:
        verified(lambda x, total: (np.asarray(x),), like, processes=2)
    assert caught.value.diagnostic.location.startswith(f"{__file__}:")


def test_many_ask_at_once() -> None:
    answers: dict[int, Any] = {}
    with answering([[], [lambda x: (x + 1,), lambda x, y: (x, y, x * y)]]) as (descriptor,):
        first, second = Asking(os.dup(descriptor)).functions(1, 2)

        def ask(number: int) -> None:
            answers[number] = *first(np.full(100, number)), *second(number, 2)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, (more, *others) in answers.items():
        np.testing.assert_array_equal(more, np.full(100, number + 1))
        assert others == [number, 2, 2 * number]
    assert len(answers) == 20


def test_without_functions_there_is_nothing_to_ask() -> None:
    with answering([[], []]) as pipe:
        assert pipe == ()

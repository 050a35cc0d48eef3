"""Memoized answers belong to a session."""

from __future__ import annotations

import copy
import functools
import gc
import os
import pickle
import subprocess
import sys
from contextlib import suppress

import pytest

import shardwright as sw
from shardwright.memo import Session, current_session, forget_everywhere, memoize, uncollected
from shardwright.mesh import Mesh
from shardwright.notation.registry import notation_names
from shardwright.sharding import TensorSharding
from tests.propagation.programs import random_program

calls: list[int] = []

_CACHED = type(functools.cache(len))
"""What functions with a cache are; objects of others may have one that is told otherwise."""


@memoize
def double(number: int) -> int:
    """Twice a number, counting how often it is worked out."""
    calls.append(number)
    return 2 * number


def test_a_session_starts_empty_and_is_left_behind() -> None:
    calls.clear()
    outer = current_session()
    with Session() as session:
        assert current_session() is session
        assert [double(4), double(4)] == [8, 8]
        assert calls == [4]
        with Session():
            assert double(4) == 8
        assert calls == [4, 4]
    assert current_session() is outer


def test_all_sessions_forget() -> None:
    calls.clear()
    with Session():
        double(5)
        with Session():
            double(5)
            forget_everywhere()
            double(5)
        double(5)
    assert calls == [5, 5, 5, 5]


def test_tables_are_bounded() -> None:
    with Session(limit=3) as session:
        for number in range(10):
            double(number)
        assert all(len(table) <= 3 for table in session.tables.values())
        session.clear()
        assert not any(session.tables.values())


def test_a_table_is_bounded_whoever_fills_it() -> None:
    with Session(limit=3) as session:
        for number in range(10):
            current_session().table("own")[number] = -number
        assert session.table("own") == {9: -9}


def _growing() -> dict[str, int]:
    """The tables of our modules, and the caches of their functions that have no bound, with their sizes."""
    sizes: dict[str, int] = {}
    for module in [name for name in sys.modules if name.partition(".")[0] == "shardwright"]:
        for name, value in vars(sys.modules[module]).items():
            if isinstance(value, (dict, list, set)) and not name.startswith("__"):
                sizes[f"{module}.{name}"] = len(value)
            elif isinstance(value, _CACHED) and value.cache_info().maxsize is None:
                sizes[f"{module}.{name}"] = value.cache_info().currsize
    return sizes


def test_nothing_but_the_session_grows_with_what_is_read() -> None:
    def take_through(seed: int) -> None:
        values = ", ".join(str(seed + number) for number in range(100))
        head, tail = random_program(seed).rsplit("return", 1)
        constant = f"stablehlo.constant {{own.note{seed} = {seed}}} dense<[{values}]> : tensor<100xi32>"
        text = f"{head}%k = {constant}\n  return{tail}"
        plan = sw.load(text).plan()
        plan.partition().module()
        plan.explain(next(iter(plan.shardings)))
        for notation in notation_names():
            with suppress(sw.ShardingError):
                next(iter(plan.shardings.values())).to(notation)

    for seed in range(8):
        take_through(seed)
    before = _growing()
    for seed in range(100, 108):
        take_through(seed)
    assert {name: size for name, size in _growing().items() if size != before.get(name)} == {}


def test_errors_are_not_remembered() -> None:
    attempts: list[int] = []

    @memoize
    def fails(number: int) -> int:
        attempts.append(number)
        raise ValueError

    with Session():
        for _ in range(2):
            with pytest.raises(ValueError):  # noqa: PT011
                fails(1)
    assert attempts == [1, 1]


def test_the_collector_is_paused_and_resumed_whatever_happens() -> None:
    @uncollected
    def fails() -> None:
        assert not gc.isenabled()
        raise KeyError

    assert gc.isenabled()
    with pytest.raises(KeyError):
        fails()
    assert gc.isenabled()


def test_what_remembers_its_hash_is_equal_in_another_process() -> None:
    """Hashes of texts are other ones there."""
    mesh = Mesh(x=2, y=4)
    sharding = TensorSharding.of(mesh, [["x"], ["y"]])
    assert {hash(mesh), hash(sharding)}  # computed, and remembered
    code = (
        "import pickle, sys; from shardwright.mesh import Mesh; from shardwright.sharding import TensorSharding\n"
        "mesh, sharding = pickle.load(sys.stdin.buffer)\n"
        "here = Mesh(x=2, y=4)\n"
        "same = TensorSharding.of(here, [['x'], ['y']])\n"
        "print(mesh == here, sharding == same, {here: 1}.get(mesh), {same: 1}.get(sharding))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    data = pickle.dumps((mesh, sharding))
    done = subprocess.run([sys.executable, "-c", code], input=data, env=environment, capture_output=True, check=True)
    assert done.stdout == b"True True 1 1\n"
    assert copy.deepcopy((mesh, sharding)) == (mesh, sharding)

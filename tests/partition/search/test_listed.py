"""Which of a great many ways are looked at; axes that a program never tells apart are not told apart by them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.partition.factors import FactorAxes
from shardwright.partition.joined_axes import axes_together
from shardwright.partition.proposals import from_mesh
from shardwright.partition.search.listed import LISTED, are_many, listed_splits
from shardwright.partition.splits import Splits
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

MESH = sw.Mesh(pod=2, replica=4, data=4, model=8)


def of(*dims: Sequence[str], partial: Sequence[str] = (), mesh: sw.Mesh = MESH) -> TensorSharding:
    return TensorSharding.of(mesh, dims, partial=partial)


BATCH = of(["pod", "replica", "data"], ["model"])


@pytest.mark.parametrize(
    ("others", "groups"),
    [
        ([], "pod+replica+data model"),
        ([of(["data"], ["model"])], "pod+replica data model"),
        ([of(["model"], [])], "pod+replica+data model"),
        ([of(["replica", "pod", "data"])], "pod replica data model"),
        ([of(["pod"], ["replica", "data"])], "pod replica+data model"),
        ([of(["replica", "data"])], "pod replica+data model"),
        ([of([], partial=["pod", "replica", "data"])], "pod+replica+data model"),
        ([of([], partial=["pod"])], "pod replica+data model"),
        ([TensorSharding.of(MESH, [[MESH.axis("replica", 1, 2)]])], "pod replica data model"),
        ([replace(of([]), replicated=(MESH.axis("data"),))], "pod+replica data model"),
    ],
)
def test_axes_are_together_that_no_sharding_tells_apart(others: list[TensorSharding], groups: str) -> None:
    together = axes_together([BATCH, *others], MESH)
    assert " ".join(map("+".join, together)) == groups


def test_manual_axes_are_by_themselves() -> None:
    inside = MESH.inside(("replica",))
    assert axes_together([], inside) == (("pod",), ("replica",), ("data", "model"))


def test_of_a_great_many_ways_half_are_of_fewest_axes_and_half_of_most_parts() -> None:
    mapping = ((0,), (1,), (2,), (3,))
    rule = ShardingRule((512, 512, 512, 512), (mapping,), (mapping,))
    splits, lying = Splits(rule, frozenset(range(4)), "sum", (), 0), TensorSharding.of(MESH, [["model"], [], [], []])
    assert are_many(4, MESH)
    assert not are_many(3, sw.Mesh(data=4, model=8, expert=2))
    some, every = listed_splits(splits, ((lying,),), (lying,)), list(from_mesh(splits, ((lying,),), (lying,)))
    assert len(every) > LISTED == len(some) == len(set(some))
    assert some[: LISTED // 2] == every[: LISTED // 2]
    assert all(map(_uses_all, some[LISTED // 2 :]))
    assert not any(map(_uses_all, some[: LISTED // 2]))


def test_ways_do_not_tell_axes_apart_that_are_together() -> None:
    mapping = ((0,), (1,), (2,), (3,))
    rule = ShardingRule((512, 512, 512, 512), (mapping,), (mapping,))
    splits, lying = Splits(rule, frozenset(range(4)), "sum", (), 0), TensorSharding.of(MESH, [["model"], [], [], []])
    groups = (("pod", "replica"), ("data",), ("model",))
    of_groups = listed_splits(splits, ((lying,),), (lying,), groups)
    assert sum(_uses_all(axes) for axes in of_groups) > 100
    for factors in of_groups:
        behind = [(one.name, other.name) for axes in factors for one, other in itertools.pairwise(axes)]
        names = [axis.name for axes in factors for axis in axes]
        assert names.count("pod") == names.count("replica") == behind.count(("pod", "replica"))
    # what one axis of both makes of it
    joined = sw.Mesh(both=8, data=4, model=8)
    lying = TensorSharding.of(joined, [["model"], [], [], []])
    assert len(listed_splits(splits, ((lying,),), (lying,))) == len(of_groups)


def _uses_all(factors: FactorAxes) -> bool:
    return len({axis.name for axes in factors for axis in axes}) == len(MESH.sizes)


def _attention(x: jax.Array, q: jax.Array, k: jax.Array, out: jax.Array) -> jax.Array:
    heads = jnp.einsum("bld,dhe->bhle", x, q), jnp.einsum("bld,dhe->bhle", x, k)
    weights = jax.nn.softmax(jnp.einsum("bhle,bhme->bhlm", *heads))
    return jnp.einsum("bhlm,bhme,hed->bld", weights, heads[1], out)


def test_a_batch_over_two_axes_is_chosen_as_over_one_of_both() -> None:
    chosen = dict[str, sw.Spmd]()
    program = sw.from_jax(
        _attention, jnp.ones((16, 8, 32)), jnp.ones((32, 4, 8)), jnp.ones((32, 4, 8)), jnp.ones((4, 8, 32))
    )
    for name, mesh in {
        "two": sw.Mesh(pod=2, replica=2, data=2, model=2),
        "one": sw.Mesh(both=4, data=2, model=2),
    }.items():
        batch = ("pod", "replica", "data") if name == "two" else ("both", "data")
        weights = {1: sw.P("data", "model"), 2: sw.P("data", "model"), 3: sw.P("model", None, "data")}
        with sw.Session(hardware=sw.hardware("tpu_v5p")):
            chosen[name] = program.shard(mesh, {0: sw.P(batch), **weights}).partition(effort="default")
    two, one = (chosen[name].searched for name in ("two", "one"))
    assert two
    assert one
    assert two.seconds == pytest.approx(one.seconds, rel=1e-6)
    chosen["two"].verify().require()

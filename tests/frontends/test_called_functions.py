"""Programs whose custom calls call functions, from JAX and from files, through every stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.notation.conversion import convert_module
from shardwright.program import Program, Spmd, from_jax, load
from shardwright.rules.registry import forget_rule, rule

X = jax.ShapeDtypeStruct((16, 256), jnp.float32)
MESH = sw.Mesh(data=2, model=4)


def largest(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What TPUs look up neighbours by; elsewhere XLA sorts, for the same custom call."""
    return jax.lax.approx_max_k(jnp.tanh(x) * x, 4)


def collectives(spmd: Spmd) -> dict[str, int]:
    return {kind: traffic.static for kind, traffic in spmd.traffic.kinds.items()}


def checked(program: Program, spec: str) -> Spmd:
    """The program in parts, which computes what it does as a whole."""
    spmd = program.shard(MESH, {0: spec}).partition()
    spmd.verify().require()
    return spmd


def test_neighbours_are_looked_up_row_by_row_on_devices() -> None:
    assert collectives(checked(from_jax(largest, X, platform="cpu"), "data+model,.")) == {}
    assert collectives(checked(from_jax(largest, X, platform="cpu"), "data,model")) == {"all_gather": 1}


def test_a_program_for_tpus_is_partitioned_with_its_comparator() -> None:
    local = from_jax(largest, X, platform="tpu").shard(MESH, {"x": "data,-"}).partition().module()
    comparator = re.search(r"called_computations = \[@(\w+)\]", local)
    assert comparator is not None
    assert f"func.func @{comparator[1]}(" in local.partition("@main(")[2]
    assert "tensor<8x4xf32>" in local


def test_what_no_kernel_here_computes_ends_in_a_diagnostic() -> None:
    spmd = from_jax(largest, X, platform="tpu").shard(MESH, {"x": "data,-"}).partition()
    with pytest.raises(sw.ShardingError, match="PartialReduce"):
        spmd.verify()


def test_why_the_result_is_sharded_is_told_through_the_call() -> None:
    plan = from_jax(largest, X, platform="cpu").shard(MESH, {"x": "data,-"})
    assert "custom_call @ApproxTopK" in str(plan.explain("result/0"))


FACTORS = """sdy.mesh @m = <["data"=2, "model"=4]>
func.func private @never(%a: tensor<8x4x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"model"}, {}, {}]>})
    -> tensor<8x4x4xf32> {
  %0 = sdy.sharding_constraint %a <@m, [{}, {"data"}, {}]> : tensor<8x4x4xf32>
  return %0 : tensor<8x4x4xf32>
}
func.func @main(%x: tensor<8x4x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"data"}, {}, {}]>}) -> tensor<8x4x4xf32> {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {api_version = 4 : i32, called_computations = [@never],
    backend_config = {uplo = 76 : ui8}} : (tensor<8x4x4xf32>) -> (tensor<8x4x4xf32>, tensor<8xi32>)
  return %0#0 : tensor<8x4x4xf32>
}
"""


@pytest.fixture
def factorization_rule() -> Iterator[Callable[[], None]]:
    """Gives the factorization below a rule, until the test ends."""
    yield lambda: rule("@lapack_spotrf_ffi", "b i j -> b i j, b", need_replication="i j", local="b")
    forget_rule("@lapack_spotrf_ffi")


def test_a_call_of_a_function_is_whole_unless_a_rule_says_more(factorization_rule: Callable[[], None]) -> None:
    matrices = np.eye(4, dtype=np.float32) * 4 + np.random.default_rng(0).random((8, 1, 1), dtype=np.float32)
    program = load(FACTORS)
    whole = program.plan().partition()
    whole.verify([matrices]).require()
    assert collectives(whole) == {"all_gather": 1}
    factorization_rule()
    split = program.plan().partition()
    split.verify([matrices]).require()
    assert collectives(split) == {}
    for local in (whole.module(), split.module()):
        assert "func.func private @never(" in local
        assert "sdy.sharding" not in local


@pytest.mark.parametrize("target", ["mhlo.topk", "mhlo.erf"])
def test_calls_that_are_split_otherwise_are_whole_with_a_function(target: str) -> None:
    call = f"stablehlo.custom_call @{target}(%x)"
    types = "(tensor<8x4xf32>) -> tensor<8x4xf32>"
    text = (
        "func.func private @f(%a: tensor<8x4xf32>) -> tensor<8x4xf32> { return %a : tensor<8x4xf32> }\n"
        f"func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{\n %0 = {call} {{called_computations = [@f]}} "
        f": {types}\n return %0 : tensor<8x4xf32>\n}}\n"
    )
    with_function, without = text, text.replace(" {called_computations = [@f]}", "")
    counts = [collectives(load(one).shard(MESH, {"x": "data,-"}).partition()) for one in (with_function, without)]
    assert counts == [{"all_gather": 1}, {}]


@pytest.mark.parametrize("notation", ["sdy", "rfc", "shard", "mesh", "mhlo"])
def test_every_notation_keeps_the_function(notation: str) -> None:
    converted = convert_module(FACTORS, notation)
    assert "called_computations = [@never]" in converted
    assert "func.func private @never(" in converted
    assert set(load(converted).graph.callees.functions) == {"never"}

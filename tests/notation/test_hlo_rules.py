"""Sharding rules of ops in modules of `mhlo.sharding`: as Shardy's exports carry them, there and back."""

from __future__ import annotations

import io

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.conversion import convert_module

RULE = "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=16}>"
MODULE = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.custom_call @f(%x) {ATTRIBUTES} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""


def converted(attributes: str) -> str:
    return convert_module(MODULE.replace("{ATTRIBUTES}", f"{{{attributes}}}"), "mhlo", "-")


@pytest.mark.parametrize("others", ["", 'a = "b"'])
def test_a_rule_goes_there_and_back(others: str) -> None:
    stated = f", mhlo.frontend_attributes = {{{others}}}" if others else ""
    text = converted(f"sdy.sharding_rule = {RULE}{stated}")
    ending = f', xla.sdy.sharding_rule = "{RULE}"}}' if others else f'{{xla.sdy.sharding_rule = "{RULE}"}}'
    assert f"mhlo.frontend_attributes = {{{others}{ending}" if others else f"frontend_attributes = {ending}" in text
    assert "sdy.sharding_rule = #sdy" not in text
    back = convert_module(text, "sdy", "-")
    assert f"sdy.sharding_rule = {RULE}" in back
    assert (f"mhlo.frontend_attributes = {{{others}}}" in back) == bool(others)
    assert "xla.sdy" not in back


def test_a_text_that_is_no_rule_is_refused_at_its_op() -> None:
    text = converted(f"sdy.sharding_rule = {RULE}").replace("<([i, j])->", "<([i, j)->")
    with pytest.raises(ShardingError) as caught:
        convert_module(text, "sdy", "-")
    assert "xla.sdy.sharding_rule" in caught.value.diagnostic.message
    assert caught.value.diagnostic.op == "stablehlo.custom_call"


def test_what_jax_says_of_a_custom_call_is_not_lost() -> None:
    """A Cholesky factorization along its batch: the rule says that this can be split, once it is read back too."""
    program = sw.from_jax(jnp.linalg.cholesky, jax.ShapeDtypeStruct((16, 8, 8), "float32"))
    text = program.shard(sw.Mesh(x=4), args=[("x", None, None)]).module()
    assert "sdy.sharding_rule" in text
    plan = sw.load(convert_module(text, "mhlo", "-")).plan()
    spmd = plan.partition()
    assert spmd.verify().ok
    assert not spmd.traffic.total.executed_bytes


def test_bytecode_is_told_by_its_dialects_not_by_what_is_carried() -> None:
    text = converted(f"sdy.sharding_rule = {RULE}")
    back = convert_module(as_bytecode(text), "sdy", "-")
    assert f"sdy.sharding_rule = {RULE}" in back
    assert "sdy.sharding = #sdy.sharding<@" in back
    assert f"sdy.sharding_rule = {RULE}" in convert_module(as_bytecode(back), "sdy", "-")


def as_bytecode(text: str) -> bytes:
    stream = io.BytesIO()
    load_module(text).operation.write_bytecode(stream)
    return stream.getvalue()

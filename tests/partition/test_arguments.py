"""Arguments that every device takes whole: the same program, which slices its shards out by its partition id."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.partition import check
from shardwright.program import Plan, Spmd
from tests.frontends.devices import eight_devices
from tests.models.test_jax_features import ZOO

eight_devices()


def _plan(arguments: str, body: str, results: str, mesh: str = '["x"=2, "y"=4]') -> Plan:
    text = f"sdy.mesh @mesh = <{mesh}>\nfunc.func @main({arguments}) -> ({results}) {{\n{body}\n}}"
    return sw.load(text).shard()


def _on(type: str, dims: str, more: str = "") -> str:
    return f"{type} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]{more}>}}"


def _types(spmd: Spmd) -> list[str]:
    return [str(type) for type in spmd.local.arguments.values()]


_EIGHT, _SEVEN = "tensor<8x8xf32>", "tensor<7x8xf32>"
_DOT = f"""  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({_EIGHT}, {_EIGHT}) -> {_EIGHT}
  return %0 : {_EIGHT}"""
_BOTH = "%a: " + _on(_EIGHT, '{"x"}, {"y"}') + ", %b: " + _on(_EIGHT, "{}, {}")


def test_a_device_takes_the_whole_and_slices_its_shard_by_its_index() -> None:
    plan = _plan(_BOTH, _DOT, _on(_EIGHT, '{"x"}, {}'))
    split, whole = plan.partition(), plan.partition(arguments="whole")
    assert _types(split)[0] == "tensor<4x2xf32>"
    assert _types(whole) == [_EIGHT, _EIGHT]
    (sliced,) = (op for op in whole.local.walk() if op.name == "stablehlo.dynamic_slice" and op.operands[0] == 0)
    assert str(sliced.signature.results[0]) == "tensor<4x2xf32>"
    assert any(op.name == "stablehlo.partition_id" for op in whole.local.walk())
    assert whole.out_shardings == split.out_shardings
    assert whole.traffic == split.traffic
    assert whole.verify().ok


def test_the_explicit_program_says_so_and_is_read_again() -> None:
    whole = _plan(_BOTH, _DOT, _on(_EIGHT, '{"x"}, {}')).partition(arguments="whole")
    text = whole.module("explicit")
    assert 'sdy.all_slice [{"x"}, {"y"}] %arg0 out_sharding=<@mesh, [{"x"}, {"y"}]>' in text
    assert sw.load(text).plan().partition().module() == sw.load(text).plan().partition(arguments="whole").module()


def test_what_is_whole_already_is_taken_as_it_is() -> None:
    plan = _plan("%a: " + _on(_EIGHT, "{}, {}"), f"  return %a : {_EIGHT}", _on(_EIGHT, "{}, {}"))
    assert plan.partition(arguments="whole").module() == plan.partition().module()


def test_an_argument_that_nobody_reads_is_not_sliced() -> None:
    plan = _plan(_BOTH, f"  return %b : {_EIGHT}", _on(_EIGHT, "{}, {}"))
    whole = plan.partition(arguments="whole")
    assert [op.name for op in whole.local.walk()] == ["func.return"]


def test_uneven_arguments_are_padded_and_sliced() -> None:
    lies = '{"y"}, {"x"}'
    body = f"  %0 = stablehlo.tanh %a : {_SEVEN}\n  return %0, %a : {_SEVEN}, {_SEVEN}"
    plan = _plan("%a: " + _on(_SEVEN, lies), body, f"{_on(_SEVEN, lies)}, {_on(_SEVEN, lies)}")
    whole = plan.partition(arguments="whole")
    check(whole.explicit)
    assert _types(whole) == [_SEVEN]
    assert whole.out_shardings == plan.partition().out_shardings
    assert whole.verify().ok


def test_contributions_stay_contributions() -> None:
    body = f"  %0 = stablehlo.negate %a : {_EIGHT}\n  return %0 : {_EIGHT}"
    plan = _plan("%a: " + _on(_EIGHT, '{"x"}, {}', ', unreduced={"y"}'), body, _on(_EIGHT, '{"x"}, {}'))
    whole = plan.partition(arguments="whole")
    (layout,) = whole.in_shardings
    assert [axis.name for axis in layout.partial_axes] == ["y"]
    assert not any(layout.axes)
    assert whole.verify().ok


def test_devices_in_another_order_slice_what_they_hold() -> None:
    mesh = '["x"=4], device_ids=[3, 1, 0, 2]'
    body = f"  %0 = stablehlo.tanh %a : {_EIGHT}\n  return %0 : {_EIGHT}"
    plan = _plan("%a: " + _on(_EIGHT, '{"x"}, {}'), body, _on(_EIGHT, '{"x"}, {}'), mesh)
    assert plan.partition(arguments="whole").verify().ok


def test_an_argument_that_is_split_is_donated_no_more() -> None:
    donated = _EIGHT + ' {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
    arguments = f"%a: {donated}, %b: {_EIGHT} {{jax.buffer_donor = true}}"
    whole = _plan(arguments, f"  return %a, %b : {_EIGHT}, {_EIGHT}", f"{_EIGHT}, {_EIGHT}").partition(
        arguments="whole"
    )
    rows = whole.local.main.argument_attributes
    assert ["jax.buffer_donor" in row for row in rows] == [False, True]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_nothing_else_of_a_program_changes(name: str) -> None:
    function, arguments, args = ZOO[name]
    plan = sw.from_jax(function, *arguments).shard(sw.Mesh(data=2, model=4), args=args)
    split, whole = plan.partition(), plan.partition(arguments="whole")
    check(whole.explicit)
    assert whole.traffic == split.traffic
    assert whole.notes == split.notes
    assert whole.out_shardings == split.out_shardings
    assert not any(any(layout.axes) for layout in whole.in_shardings)


@pytest.mark.parametrize("name", ["attention", "scan", "segsum", "uneven"])
def test_programs_compute_the_same(name: str) -> None:
    function, arguments, args = ZOO[name]
    plan = sw.from_jax(function, *arguments).shard(sw.Mesh(data=2, model=4), args=args)
    plan.partition(arguments="whole").verify().require()


def test_compiled_programs_take_whole_arrays() -> None:
    def step(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w)

    x, w = jnp.arange(64.0).reshape(8, 8) / 64, jnp.eye(8)
    plan = sw.from_jax(step, w, x).shard(sw.Mesh(x=8), args={"x": "x,-"})
    made = plan.partition(arguments="whole").compile()(w, x)
    assert jnp.allclose(made, step(w, x))


def test_another_way_to_take_arguments_is_refused() -> None:
    plan = _plan(_BOTH, _DOT, _EIGHT)
    with pytest.raises(sw.ShardingError, match="no way to take arguments: 'half'") as raised:
        plan.partition(arguments="half")
    assert raised.value.diagnostic.remedy == "one of split, whole"

"""Collectives of bodies that XLA does not do: what devices make of what they exchange is what numpy makes of it."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.runtime.execute import execute_local

_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>"
_NAMES = {"i1": np.dtype(np.bool_), "i32": np.dtype(np.int32), "ui8": np.dtype(np.uint8), "f32": np.dtype(np.float32)}


def _text(line: str, dtype: str, mesh: str = '"x"=6', inside: int = 6, outside: int = 36) -> str:
    """A body of which each device takes and gives rows along x."""
    return f"""sdy.mesh @mesh = <[{mesh}]>
func.func @main(%a: tensor<36x4x{dtype}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<{outside}x4x{dtype}> {{
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{}}]>] out_shardings=[<@mesh, [{{"x"}}, {{}}]>]
      manual_axes={{"x"}} (%b: tensor<6x4x{dtype}>) {{
    {line}
    sdy.return %r : tensor<{inside}x4x{dtype}>
  }} : (tensor<36x4x{dtype}>) -> tensor<{outside}x4x{dtype}>
  return %0 : tensor<{outside}x4x{dtype}>
}}
"""


def _reducing(op: str, dtype: str, groups: str, name: str = "all_reduce", more: str = "", rows: int = 6) -> str:
    ids = "" if "0" not in groups else ", use_global_device_ids"
    return f"""%r = "stablehlo.{name}"(%b) <{{{more}replica_groups = {groups}, {_CHANNEL}{ids}}}> ({{
      ^bb0(%p: tensor<{dtype}>, %q: tensor<{dtype}>):
        {op}
        stablehlo.return %s : tensor<{dtype}>
    }}) : (tensor<6x4x{dtype}>) -> tensor<{rows}x4x{dtype}>"""


def _binary(name: str, dtype: str) -> str:
    return f"%s = stablehlo.{name} %p, %q : tensor<{dtype}>"


def _dense(rows: list[list[int]]) -> str:
    return f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _given(dtype: str) -> Any:
    drawn = np.random.default_rng(0).integers(0, 1 << 30, (36, 4))
    return drawn.astype(_NAMES[dtype]) if dtype != "i1" else drawn % 3 > 0


def _run(text: str, given: Any) -> tuple[sw.Spmd, Any]:
    spmd = sw.load(text).plan().partition()
    result = spmd.plan.program.graph.types[spmd.plan.program.graph.main.block.terminator.operands[0]]
    types = [TensorType(result.dims, result.dtype)]
    done = execute_local(spmd.module("local"), spmd.mesh, spmd.in_shardings, spmd.out_shardings, [given], types)
    return spmd, done.outputs[0]


def _parts(given: Any) -> list[Any]:
    return np.split(given, 6)


_FUNCTIONS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_GROUPS = [[[0, 1, 2, 3, 4, 5]], [[0, 2, 4], [1, 3, 5]], [[5, 0], [2, 1], [4, 3]], [[n] for n in range(6)]]


@pytest.mark.parametrize("groups", _GROUPS, ids=str)
@pytest.mark.parametrize(("name", "dtype"), [("and", "i32"), ("or", "ui8"), ("xor", "i1")])
def test_bits_are_combined(name: str, dtype: str, groups: list[list[int]]) -> None:
    given = _given(dtype)
    spmd, done = _run(_text(_reducing(_binary(name, dtype), dtype, _dense(groups)), dtype), given)
    parts = _parts(given)
    expected = {device: reduce(_FUNCTIONS[name], [parts[n] for n in group]) for group in groups for device in group}
    np.testing.assert_array_equal(done, np.concatenate([expected[device] for device in range(6)]))
    assert spmd.verify().ok


@pytest.mark.parametrize("groups", ["dense<0> : tensor<1x1xi64>", "axes"])
def test_groups_need_not_be_listed(groups: str) -> None:
    """All partitions of a replica; devices along an axis of the mesh."""
    axes = '#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>'
    line = _reducing(_binary("and", "i32"), "i32", axes if groups == "axes" else groups)
    ids = ", use_global_device_ids"
    line = line.replace(ids, "") if groups != "axes" else line.replace(_CHANNEL, _CHANNEL + ids)
    given = _given("i32")
    _, done = _run(_text(line, "i32"), given)
    np.testing.assert_array_equal(done, np.tile(reduce(np.bitwise_and, _parts(given)), (6, 1)))


def test_any_function_of_two_elements_combines() -> None:
    """x + y + x·y, of which 1 + … is a product."""
    body = """%t = stablehlo.multiply %p, %q : tensor<f32>
        %u = stablehlo.add %p, %q : tensor<f32>
        %s = stablehlo.add %t, %u : tensor<f32>"""
    given = (_given("f32") / (1 << 31)).astype(np.float32)
    spmd, done = _run(_text(_reducing(body, "f32", _dense(_GROUPS[0])), "f32"), given)
    expected = np.prod([1 + part for part in _parts(given)], axis=0) - 1
    np.testing.assert_allclose(done, np.tile(expected, (6, 1)), rtol=1e-5)
    assert spmd.verify().ok


@pytest.mark.parametrize("groups", [_GROUPS[0], _GROUPS[1]], ids=str)
def test_each_device_keeps_its_part_of_what_is_combined(groups: list[list[int]]) -> None:
    count = len(groups[0])
    line = _reducing(
        _binary("xor", "i32"), "i32", _dense(groups), "reduce_scatter", "scatter_dimension = 0 : i64, ", 6 // count
    )
    given = _given("i32")
    spmd, done = _run(_text(line, "i32", inside=6 // count, outside=36 // count), given)
    parts = _parts(given)
    expected: dict[int, Any] = {}
    for group in groups:
        whole = reduce(np.bitwise_xor, [parts[n] for n in group])
        expected |= dict(zip(group, np.split(whole, count), strict=True))
    np.testing.assert_array_equal(done, np.concatenate([expected[device] for device in range(6)]))
    assert spmd.verify().ok


@pytest.mark.parametrize("groups", _GROUPS, ids=str)
def test_a_broadcast_gives_what_the_first_of_a_group_has(groups: list[list[int]]) -> None:
    line = f"""%r = "stablehlo.collective_broadcast"(%b) <{{replica_groups = {_dense(groups)}, {_CHANNEL}}}>
      : (tensor<6x4xf32>) -> tensor<6x4xf32>"""
    given = _given("f32")
    given[::3, 1] = -0.0
    given[::4, 2] = np.nan
    spmd, done = _run(_text(line, "f32"), given)
    source = {device: group[0] for group in groups for device in group}
    expected = np.concatenate([_parts(given)[source[device]] for device in range(6)])
    np.testing.assert_array_equal(done.view(np.int32), expected.view(np.int32))
    assert spmd.verify().ok


def test_what_lies_along_free_axes_stays_split() -> None:
    text = """sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func @main(%a: tensor<12x6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<12x6xi32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
      manual_axes={"x"} (%b: tensor<6x6xi32>) {
    LINE
    sdy.return %r : tensor<6x6xi32>
  } : (tensor<12x6xi32>) -> tensor<12x6xi32>
  return %0 : tensor<12x6xi32>
}
"""
    line = _reducing(_binary("and", "i32"), "i32", _dense([[0, 3], [1, 4], [2, 5]])).replace("6x4xi32", "6x6xi32")
    given = _given("i32").reshape(-1)[:72].reshape(12, 6)
    spmd, done = _run(text.replace("LINE", line), given)
    np.testing.assert_array_equal(done, np.tile(given[:6] & given[6:], (2, 1)))
    gathered = next(op.signature.results[0] for op in spmd.local.walk() if op.name == "stablehlo.all_gather")
    assert gathered.dims == (2, 6, 2)
    assert spmd.verify().ok


@pytest.mark.parametrize(
    "groups", ["dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>", "dense<[[0, 1, 2, 3], [4, 5, -1, -1]]> : tensor<2x4xi64>"]
)
def test_groups_that_leave_devices_out_or_differ_in_size_are_refused_at_their_line(groups: str) -> None:
    text = _text(_reducing(_binary("and", "i32"), "i32", groups), "i32")
    with pytest.raises(ShardingError, match="groups of different size, or leaves devices out") as caught:
        sw.load(text).plan().partition()
    assert caught.value.diagnostic.op == "stablehlo.all_reduce"
    assert caught.value.diagnostic.location.startswith("-:5")
    assert "each of the 6 devices once" in caught.value.diagnostic.remedy


def test_what_xla_does_is_left_to_it() -> None:
    for name, dtype in (("add", "f32"), ("and", "i1"), ("maximum", "i32")):
        spmd = sw.load(_text(_reducing(_binary(name, dtype), dtype, _dense(_GROUPS[0])), dtype)).plan().partition()
        assert "stablehlo.all_reduce" in [op.name for op in spmd.local.walk()]

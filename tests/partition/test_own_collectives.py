"""StableHLO collectives outside of manual computations, in programs for one device: what copies of a value come to."""

from __future__ import annotations

import pytest

import shardwright as sw
import shardwright.passes.all
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.pipeline import parse_pipeline, run_step
from shardwright.runtime.unsharded import unsharded
from tests.oracles.shardy import run_pipeline

_T = "tensor<8x16xf32>"
_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_BY_Y = "replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>"
_BY_X = 'replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>'
_ALL = "replica_groups = dense<0> : tensor<1x1xi64>"
_RING = f"source_target_pairs = dense<{[[n, (n + 1) % 8] for n in range(8)]}> : tensor<8x2xi64>"


def _reduce(attributes: str, op: str = "add", name: str = "all_reduce", made: str = _T) -> str:
    return f"""%r = "stablehlo.{name}"(%0) <{{{attributes}}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.{op} %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({_T}) -> {made}"""


def _plain(name: str, attributes: str, made: str = _T) -> str:
    return f'%r = "stablehlo.{name}"(%0) <{{{attributes}}}> : ({_T}) -> {made}'


def _text(body: str, made: str = _T, mesh: str = "", layout: str = '[{"x"}, {"y"}]') -> str:
    return f"""sdy.mesh @mesh = <["x"=2, "y"=4]{mesh}>
func.func @main(%a: {_T} {{sdy.sharding = #sdy.sharding<@mesh, {layout}>}}) -> {made} {{
  %0 = stablehlo.tanh %a : {_T}
  {body}
  %z = stablehlo.negate %r : {made}
  return %z : {made}
}}
"""


_MEANT = {
    "a sum between some": (_reduce(f"{_CHANNEL}, {_BY_Y}, use_global_device_ids"), _T),
    "a sum between all partitions of the replica": (_reduce(f"{_CHANNEL}, {_ALL}"), _T),
    "a largest value, groups of axes": (_reduce(f"{_CHANNEL}, {_BY_X}, use_global_device_ids", "maximum"), _T),
    "a sum without a channel": (_reduce(_BY_Y), _T),
    "of one replica": (_reduce(_ALL), _T),
    "a gather": (
        _plain(
            "all_gather", f"all_gather_dim = 1 : i64, {_CHANNEL}, {_BY_X}, use_global_device_ids", "tensor<8x32xf32>"
        ),
        "tensor<8x32xf32>",
    ),
    "a permute": (_plain("collective_permute", f"{_CHANNEL}, {_RING}"), _T),
}


def test_what_they_come_to_is_what_the_partitioned_program_gives() -> None:
    bodies = [body.replace("%r ", f"%r{number} ", 1) for number, (body, _) in enumerate(_MEANT.values())]
    returned = ", ".join(f"%r{number}" for number in range(len(bodies)))
    types = ", ".join(made for _, made in _MEANT.values())
    head, *_ = _text("").partition("  \n")
    text = head.replace(f"-> {_T} {{", f"-> ({types}) {{") + "\n  ".join(
        ["", *bodies, f"return {returned} : {types}\n}}"]
    )
    spmd = sw.load(text).shard().partition()
    names = [op.name for op in spmd.local.walk()]
    assert names.count("stablehlo.all_reduce") == 5
    assert "stablehlo.collective_permute" in names
    assert spmd.verify().ok


def _without_a_mesh(body: str) -> sw.Plan:
    lines = _text(body).replace(' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}', "").splitlines()
    return sw.load("\n".join(lines[1:])).shard(sw.Mesh(x=2, y=4), {"a": sw.P("x", "y")})


def test_the_mesh_may_be_given_later_where_devices_are_listed() -> None:
    listed = _without_a_mesh(_reduce(f"{_CHANNEL}, {_BY_Y}, use_global_device_ids"))
    copies = [op for op in unsharded(listed.program.source.graph).walk() if op.name == "stablehlo.map"]
    assert len(copies) == 2, "of four copies"
    unknown = _without_a_mesh(_reduce(f"{_CHANNEL}, {_ALL}"))
    with pytest.raises(ShardingError, match="how many there are is not said") as caught:
        unsharded(unknown.program.source.graph)
    assert (caught.value.diagnostic.location or "").startswith("-:3")


@pytest.mark.parametrize(
    "body",
    [
        _plain("collective_broadcast", f"{_CHANNEL}, {_BY_Y}"),
        _reduce(f"{_CHANNEL}, {_BY_Y}, use_global_device_ids", "xor"),
    ],
)
def test_what_xla_does_not_do_is_written_with_what_it_does(body: str) -> None:
    text = _text(body).replace("tanh", "negate").replace("f32", "i32")
    spmd = sw.load(text).shard().partition()
    names = [op.name for op in spmd.local.walk()]
    assert "stablehlo.all_gather" in names
    assert not {"stablehlo.collective_broadcast", "stablehlo.all_reduce"} & {*names}
    assert spmd.verify().ok


def test_three_copies_are_summed_on_a_mesh_whose_devices_lie_in_another_order() -> None:
    groups = "replica_groups = dense<[[0, 2, 4], [1, 3, 5]]> : tensor<2x3xi64>"
    text = _text(_reduce(f"{_CHANNEL}, {groups}, use_global_device_ids")).replace(
        '<["x"=2, "y"=4]>', '<["x"=2, "y"=3], device_ids=[1, 3, 5, 0, 2, 4]>'
    )
    spmd = sw.load(text.replace('[{"x"}, {"y"}]', '[{"x"}, {}]')).shard().partition()
    assert not any(op.name == "stablehlo.all_gather" for op in spmd.local.walk()), "x splits what y sums"
    assert spmd.verify().ok


_SCATTERED = "tensor<2x16xf32>"
_REFUSED = {
    "each device of a group gets another part": (
        _reduce(
            f"{_CHANNEL}, {_BY_Y}, scatter_dimension = 0 : i64, use_global_device_ids",
            name="reduce_scatter",
            made=_SCATTERED,
        ),
        _SCATTERED,
    ),
    "another part of what": (
        _plain(
            "all_to_all",
            f"{_CHANNEL}, {_BY_Y}, split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 4 : i64",
            "tensor<2x64xf32>",
        ),
        "tensor<2x64xf32>",
    ),
    "get zeros": (
        _plain("collective_permute", f"{_CHANNEL}, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"),
        _T,
    ),
    "leave devices out": (
        _reduce(f"{_CHANNEL}, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids"),
        _T,
    ),
    "the mesh has 8 devices": (
        _reduce(f"{_CHANNEL}, replica_groups = dense<[{[*range(16)]}]> : tensor<1x16xi64>, use_global_device_ids"),
        _T,
    ),
}


@pytest.mark.parametrize("cause", _REFUSED)
def test_what_gives_no_one_value_is_refused_at_its_line(cause: str) -> None:
    program = sw.load(_text(*_REFUSED[cause]))
    with pytest.raises(ShardingError) as caught:
        program.shard().partition()
    found = caught.value.diagnostic
    assert cause in (found.cause or "")
    assert (found.location or "").startswith("-:4")
    assert found.remedy


_EXPLICIT = "sdy-propagation-pipeline,func.func(sdy-insert-explicit-reshards{enable-full-version=true})"


@pytest.mark.oracle
def test_where_the_devices_of_a_group_hold_the_same_the_local_program_is_that_of_shardy() -> None:
    text = _text(_reduce(f"{_CHANNEL}, {_BY_Y}, use_global_device_ids"), layout='[{"x"}, {}]')
    pipeline = f"builtin.module({_EXPLICIT},sdy-convert-global-to-local,sdy-drop-sharding-and-mesh)"
    module = load_module(text)
    for step in parse_pipeline(pipeline):
        run_step(module, step)
    assert module_text(module) == run_pipeline(text, pipeline)

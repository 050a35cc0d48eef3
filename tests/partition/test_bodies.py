"""Bodies of manual computations are programs for one device: what asks for layouts in them leaves nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.partition import localize, materialize
from shardwright.partition.materialize import Explicit
from shardwright.propagation import propagate
from shardwright.runtime.execute import Job, run_jobs
from shardwright.runtime.unsharded import unsharded

SPLIT = '<@mesh, [{}, {"b"}]>'
WHOLE = "<@mesh, [{}, {}]>"
TYPE = "tensor<4x8xf32>"
LAYOUTS = {
    "sharding_constraint": f"%k = sdy.sharding_constraint %i {SPLIT} : {TYPE}",
    "unreduced": f'%k = sdy.sharding_constraint %i <@mesh, [{{}}, {{}}], unreduced={{"b"}}> : {TYPE}',
    "reshard": f"%k = sdy.reshard %i {SPLIT} : {TYPE}",
    "collectives": (
        f'%j = sdy.all_slice [{{}}, {{"b"}}] %i out_sharding={SPLIT} : {TYPE}\n'
        f'%k = sdy.all_gather [{{}}, {{"b"}}] %j out_sharding={WHOLE} : {TYPE}'
    ),
    "propagation_barrier": f"%k = sdy.propagation_barrier %i allowed_direction=NONE : {TYPE}",
    "sharding_group": f"sdy.sharding_group %i group_id=0 : {TYPE}\n%k = stablehlo.add %i, %i : {TYPE}",
    "named_computation": (
        f'%k = sdy.named_computation<"g">(%i) (%z: {TYPE}) {{ %n = stablehlo.negate %z : {TYPE}\n'
        f"sdy.return %n : {TYPE} }} : ({TYPE}) -> {TYPE}"
    ),
    "region": (
        '%c = stablehlo.constant dense<0> : tensor<i32>\n%k = "stablehlo.case"(%c) ({\n'
        f"%q = sdy.sharding_constraint %i {SPLIT} : {TYPE}\nstablehlo.return %q : {TYPE}}}) : (tensor<i32>) -> {TYPE}"
    ),
}
NESTED = (
    '%k = sdy.manual_computation(%i) in_shardings=[<@mesh, [{"b"}, {}]>] out_shardings=[<@mesh, [{"b"}, {}]>]'
    ' manual_axes={"b"} (%z: tensor<2x8xf32>) { sdy.return %z : tensor<2x8xf32> } : (tensor<4x8xf32>) -> tensor<4x8xf32>'
)


def program(body: str) -> str:
    return (
        'sdy.mesh @mesh = <["a"=2, "b"=2]>\nfunc.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n'
        '  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>]'
        f' manual_axes={{"a"}} (%i: {TYPE}) {{\n{body}\nsdy.return %k : {TYPE}\n  }} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n'
        "  return %m : tensor<8x8xf32>\n}\n"
    )


def explicit(text: str) -> Explicit:
    return materialize(propagate(read(load_module(text))))


@pytest.mark.parametrize("body", LAYOUTS.values(), ids=LAYOUTS)
def test_nothing_is_left_of_what_asks_for_layouts(body: str) -> None:
    made = explicit(program(body))
    written = write(made.graph)
    assert written.operation.verify()
    local = write(localize(made.graph), shardings=False)
    assert local.operation.verify()
    ops = str(local).replace("sdy.mesh", "")
    assert "sdy." not in ops
    assert ("stablehlo.negate" in ops) == ("named" in body)


def test_a_request_along_a_free_axis_that_nobody_reads_is_told_of() -> None:
    (note,) = explicit(program(LAYOUTS["reshard"])).notes
    assert note.message == "it is left out: nobody reads the value as [{}, {b}]"
    assert not explicit(program(LAYOUTS["propagation_barrier"])).notes


def test_a_manual_computation_may_stand_in_another() -> None:
    local = str(write(localize(explicit(program(NESTED)).graph), shardings=False))
    assert "tensor<2x8xf32>" in local


def test_requests_in_a_body_are_not_localized_as_they_stand() -> None:
    graph = propagate(read(load_module(program(LAYOUTS["reshard"]))))
    with pytest.raises(ShardingError, match="result 0 of the body has shards of type"):
        localize(graph)
    argument = '%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}'
    text = program(LAYOUTS["propagation_barrier"]).replace("%x: tensor<8x8xf32>", argument, 1)
    with pytest.raises(ShardingError, match=r"sdy\.propagation_barrier stands in the body of a manual computation"):
        localize(read(load_module(text)))


def test_scalar_bodies_keep_nothing_of_layouts() -> None:
    text = """sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
   reducer(%p: tensor<f32>, %q: tensor<f32>) {
    %1 = stablehlo.negate %p {mhlo.sharding = "{replicated}"} : tensor<f32>
    %2 = sdy.sharding_constraint %1 <@mesh, []> : tensor<f32>
    %3 = stablehlo.subtract %q, %2 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>} : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  return %0 : tensor<f32>
}"""
    for graph in (localize(explicit(text).graph), unsharded(read(load_module(text)))):
        local = str(write(graph, shardings=False))
        assert "sdy.sharding" not in local
        assert "mhlo.sharding" not in local
        assert re.search(r"subtract %arg3, %\d", local)


def test_scalar_bodies_within_a_manual_one_lose_their_layouts() -> None:
    """JAX writes a constraint into the sum of `psum_scatter` where a mesh has other axes; XLA takes none there."""
    spmd = (
        sw.load(
            """
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%a: tensor<8x8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x4xi32> {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{?}, {"x", ?}]>] out_shardings=[<@mesh, [{?}, {"x", ?}]>]
          manual_axes={"x"} (%b: tensor<8x4xi32>) {
        %1 = "stablehlo.reduce_scatter"(%b) <{
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, scatter_dimension = 1 : i64,
            replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
          ^bb0(%p: tensor<i32>, %q: tensor<i32>):
            %2 = stablehlo.add %p, %q : tensor<i32>
            %3 = sdy.sharding_constraint %2 <@mesh, []> : tensor<i32>
            stablehlo.return %3 : tensor<i32>
        }) : (tensor<8x4xi32>) -> tensor<8x2xi32>
        sdy.return %1 : tensor<8x2xi32>
      } : (tensor<8x8xi32>) -> tensor<8x4xi32>
      return %0 : tensor<8x4xi32>
    }"""
        )
        .plan()
        .partition()
    )
    assert "sharding_constraint" not in spmd.module("local")
    a = np.arange(64, dtype=np.int32).reshape(8, 8)
    types = tuple(spmd.plan.program.results.values())
    (done,) = run_jobs([Job(spmd.module("local"), (a,), spmd.mesh, spmd.in_shardings, spmd.out_shardings, types)])
    np.testing.assert_array_equal(done.outputs[0], a[:, :4] + a[:, 4:])

"""Modules with `mhlo.sharding`: what becomes of what on the way to the `sdy` dialect and back, and what is refused."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import Source
from shardwright.ir.context import load_module, module_text
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.hlo.mesh import derive_mesh
from shardwright.notation.hlo.modules import export_module, import_module
from shardwright.notation.hlo.sharding import parse_hlo, parse_sharding, print_sharding
from shardwright.program import Program
from shardwright.sharding import TensorSharding
from tests.notation.test_hlo_properties import modelled


def imported(text: str, name: str = "step.mlir") -> str:
    module = load_module(text, name)
    import_module(module, name)
    assert module.operation.verify()
    return module_text(module)


def exported(text: str, version: str = "V2") -> str:
    module = load_module(text)
    export_module(module, version)
    assert module.operation.verify()
    return module_text(module)


def wrapped(body: str, arguments: str = "%x: tensor<8x16xf32>") -> str:
    return f"func.func @main({arguments}) -> tensor<8x16xf32> {{\n{body}\n}}\n"


def refusal(work: Callable[[], object]) -> ShardingError:
    with pytest.raises(ShardingError) as caught:
        work()
    return caught.value


# One mesh for all


@pytest.mark.parametrize(
    ("texts", "mesh"),
    [
        (["{devices=[2,4]<=[8]}"], Mesh(a=2, b=4)),
        (["{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"], Mesh(a=2, b=4)),
        (["{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"], Mesh(a=2, b=2, c=2)),
        (["{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}"], Mesh(a=2, b=4)),
        (["{devices=[2,3]<=[6]}", "{devices=[3,2]<=[6]}"], Mesh(a=6)),
        (["{devices=[2,2]0,2,1,3}", "{devices=[4,1]0,1,2,3}"], Mesh(a=2, b=2)),
        (["{devices=[2,2]3,0,1,2}", "{replicated}"], Mesh(a=2, b=2, device_ids=[3, 0, 1, 2])),
        (["{mesh['x'=2,'y'=4], [{'x'}, {}]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"], Mesh(x=2, y=4)),
        (["{devices=[1048576,4096]<=[4294967296]}", "{replicated}"], Mesh(a=1048576, b=4096)),
        (["{{devices=[2,1]<=[2]}, {replicated}}"], Mesh(a=2)),
    ],
)  # fmt: skip
def test_one_mesh_serves_all_shardings(texts: list[str], mesh: Mesh) -> None:
    derived = derive_mesh(map(parse_hlo, texts))
    assert (derived.axes, derived.device_ids) == (mesh.axes, mesh.device_ids)


def test_lists_that_are_permuted_alike_share_a_mesh_in_that_order() -> None:
    rng = random.Random(3)
    for _ in range(60):
        sizes = [rng.choice([2, 2, 3, 4]) for _ in range(rng.randint(1, 3))]
        total = int(np.prod(sizes))
        mesh = Mesh(zip("xyz", sizes, strict=False), device_ids=rng.sample(range(total), total))
        shardings = []
        for _ in range(rng.randint(1, 4)):
            dims: list[list[str]] = [[], []]
            for axis in rng.sample([name for name, _ in mesh.axes], len(sizes)):
                rng.choice([*dims, []]).append(axis)
            shardings.append(TensorSharding.of(mesh, dims))
        texts = [print_sharding(sharding) for sharding in shardings]
        derived = derive_mesh([parse_hlo(text) for text in texts], total)
        for sharding, text in zip(shardings, texts, strict=True):
            from_text = parse_sharding(text, (12, 12), derived)
            assert modelled(from_text, (12, 12)) == modelled(sharding, (12, 12))


def test_shardings_that_no_mesh_serves_have_several() -> None:
    text = wrapped(
        '  %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x16xf32>\n'
        '  %1 = stablehlo.sine %0 {mhlo.sharding = "{devices=[4,1]0,2,3,1}"} : tensor<8x16xf32>\n'
        '  %2 = stablehlo.cosine %1 {mhlo.sharding = "{devices=[1,4]0,2,3,1}"} : tensor<8x16xf32>\n'
        "  return %2 : tensor<8x16xf32>"
    )
    module = imported(text)
    assert 'sdy.mesh @mesh = <["a"=4]>' in module
    assert 'sdy.mesh @mesh_0 = <["a"=4], device_ids=[0, 2, 3, 1]>' in module
    assert re.findall(r"per_value<\[<(@\w+, \[.*?\])>", module) == [
        '@mesh, [{"a"}, {}]', '@mesh_0, [{"a"}, {}]', '@mesh_0, [{}, {"a"}]'
    ]  # fmt: skip


def test_named_meshes_are_kept_apart() -> None:
    text = wrapped(
        """  %0 = stablehlo.tanh %x {mhlo.sharding = "{mesh['x'=2,'y'=2], [{'x'}, {}]}"} : tensor<8x16xf32>\n"""
        """  %1 = stablehlo.sine %0 {mhlo.sharding = "{mesh['z'=4], [{}, {'z'}]}"} : tensor<8x16xf32>\n"""
        "  return %1 : tensor<8x16xf32>"
    )
    module = imported(text)
    assert 'sdy.mesh @mesh = <["x"=2, "y"=2]>' in module
    assert 'sdy.mesh @mesh_0 = <["z"=4]>' in module
    assert '<@mesh_0, [{}, {"z"}]>' in module


def test_shardings_that_no_mesh_serves_are_named_with_their_lines() -> None:
    text = wrapped(
        '  %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x16xf32>\n'
        '  %1 = stablehlo.sine %0 {mhlo.sharding = "{devices=[2,1,2]0,2,3,1 last_tile_dims={manual}}"} : tensor<8x16xf32>\n'
        "  return %1 : tensor<8x16xf32>"
    )
    message = str(refusal(lambda: imported(text)))
    assert "step.mlir:3: error: two shardings have no common mesh" in message
    assert "stablehlo.sine (step.mlir:3) has {devices=[2,1,2]0,2,3,1 last_tile_dims={manual}}" in message
    assert "stablehlo.tanh (step.mlir:2) has {devices=[4,1]<=[4]}" in message
    assert "change: tile both by the axes of one mesh" in message


@pytest.mark.parametrize(
    ("sharding", "message", "cause"),
    [
        ("{devices=[2]<=[2]}", "cannot make a sharding of", "tiles of 1 dimension for a tensor of 2"),
        ("{devices=[2,2]<=[4]T(0}", "is no permutation", "column"),
        ("{devices=[4294967296]<=[2]}", "4294967296 tiles for 2 devices", "column 2"),
        ("{devices=[2,2]7,0,1,2}", "no mesh serves this sharding", "device 7 is not one of 4"),
        ("{{replicated}, {replicated}}", "2 shardings are given for 1 result", "mhlo.sharding is"),
        ("{manual}", "manual outside of every manual computation", "SPMDFullToShardShape"),
        ("{devices=[1,2,2]<=[4] last_tile_dims={maximal}}", "cannot make a sharding of", "maximal subgroups"),
        ("\\08\\01", "mhlo.sharding is not a text", "serialized"),
    ],
)
def test_a_wrong_sharding_is_refused_at_its_op(sharding: str, message: str, cause: str) -> None:
    if "T(0}" in sharding:
        sharding = "{devices=[2,2]<=[2,2]T(0,0)}"
    text = wrapped(
        f'  %0 = stablehlo.tanh %x {{mhlo.sharding = "{sharding}"}} : tensor<8x16xf32>\n  return %0 : tensor<8x16xf32>'
    )
    diagnostic = refusal(lambda: imported(text)).diagnostic
    assert message in diagnostic.message
    assert cause in diagnostic.cause
    assert (diagnostic.op, diagnostic.location) == ("stablehlo.tanh", "step.mlir:2")
    assert diagnostic.remedy


def test_a_wrong_sharding_of_an_argument_names_it() -> None:
    text = wrapped("  return %x : tensor<8x16xf32>", '%x: tensor<8x16xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}')
    diagnostic = refusal(lambda: imported(text)).diagnostic
    assert diagnostic.message.startswith("argument 0 of @main: ")
    assert diagnostic.location == "step.mlir:1"


def test_the_number_of_devices_is_what_the_module_says() -> None:
    text = "module attributes {mhlo.num_partitions = 4 : i32} {\n" + wrapped(
        "  return %x : tensor<8x16xf32>", '%x: tensor<8x16xf32> {mhlo.sharding = "{devices=[3,1]<=[3]}"}'
    )
    diagnostic = refusal(lambda: imported(text + "}")).diagnostic
    assert "it is for 3 devices, the module for 4" in diagnostic.cause
    assert '"a"=4' in imported((text + "}").replace("{devices=[3,1]<=[3]}", "{replicated}"))
    diagnostic = refusal(lambda: imported((text + "}").replace("<=[3]", "<=[8]").replace("[3,", "[8,"))).diagnostic
    assert "it is for 8 devices, the module for 4" in diagnostic.cause


# What becomes of what


def test_every_statement_is_imported_and_exported() -> None:
    text = """module @step attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> {jax.buffer_donor = true, mhlo.sharding = "{devices=[2,4]<=[8]}"}, %arg1: tensor<16xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<8x16xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}) {
    %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate metadata={op_name=\\22a\\22}}"} : tensor<8x16xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[1,1,2,4]<=[8] last_tile_dims={unreduced, replicated}}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2:2 = stablehlo.optimization_barrier {mhlo.sharding = "{{devices=[8,1]<=[8]}, {maximal device=3}}"} %1, %arg1 : tensor<8x16xf32>, tensor<16xf32>
    %3 = stablehlo.custom_call @Sharding(%2#0) {backend_config = "", has_side_effect = true, mhlo.sharding = "{unknown shard_as 7}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    stablehlo.custom_call @log(%2#1) {has_side_effect = true, mhlo.sharding = "{maximal device=0}"} : (tensor<16xf32>) -> ()
    return %2#0 : tensor<8x16xf32>
  }
}
"""
    inner = imported(text)
    assert "mhlo.sharding" not in inner
    for statement in [
        'sdy.mesh @mesh = <["a"=2, "b"=4]>',
        "sdy.mesh @maximal_mesh_3 = <[], device_ids=[3]>",
        'jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>',
        "{sdy.sharding = #sdy.sharding<@mesh, [{}]>}",
        'shardwright.metadata = ["{op_name=\\22a\\22}"]',
        'sdy.sharding_constraint %0 <@mesh, [{}, {?}], unreduced={"a"}>',
        'sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {}]>, <@maximal_mesh_3, []>]>',
        "sdy.sharding_group %2#0 group_id=7",
        "sdy.sharding_per_value<[<@maximal_mesh_0, []>]>",
    ]:
        assert statement in inner
    assert exported(inner) == text
    named = exported(inner, "named")
    assert "{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}" in named
    assert imported(named) == inner
    assert "{devices=[2,4]0,1,2,3,4,5,6,7}" in exported(inner, "V1")


def test_shard_groups_of_annotated_values_keep_both() -> None:
    inner = imported(
        wrapped(
            '  %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[2,1]<=[2] shard_like 3}"} : tensor<8x16xf32>\n'
            "  return %0 : tensor<8x16xf32>",
            '%x: tensor<8x16xf32> {mhlo.sharding = "{replicated shard_as 3}"}',
        )
    )
    assert inner.count("group_id=3") == 2
    assert '[{"a"}, {}]' in inner


def test_a_module_without_shardings_stays_as_it_is() -> None:
    text = wrapped("  return %x : tensor<8x16xf32>")
    assert imported(text) == module_text(load_module(text))
    assert exported(text) == module_text(load_module(text))


def test_a_mesh_that_the_module_has_is_used() -> None:
    text = 'sdy.mesh @devices = <["x"=2, "y"=4]>\n' + wrapped(
        "  return %x : tensor<8x16xf32>",
        '%x: tensor<8x16xf32> {mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}',
    )
    assert '<@devices, [{"x", "y":(1)2}, {}]>' in imported(text)


def test_ops_inline_between_crossings_become_a_region() -> None:
    text = wrapped(
        """  %c = stablehlo.constant dense<1.0> : tensor<4x16xf32>
  %d = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2,1]<=[2]}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = stablehlo.add %1, %c {mhlo.sharding = "{manual}"} : tensor<4x16xf32>
  %e = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
  %3 = stablehlo.add %2, %e : tensor<4x16xf32>
  %f = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[2,1]<=[2]}"} : (tensor<4x16xf32>) -> tensor<8x16xf32>
  %5 = stablehlo.add %4, %f : tensor<8x16xf32>
  return %5 : tensor<8x16xf32>"""
    )
    inner = imported(text)
    region = inner[inner.index("sdy.manual_computation") : inner.index("sdy.return")]
    assert region.count("stablehlo.add") == 2
    assert region.count("stablehlo.constant") == 2  # one moved, one repeated
    assert inner.count("stablehlo.constant") == 3
    assert 'manual_axes={"a"}' in region
    spmd = Program(Source("-", inner, modules.read(load_module(inner)))).plan().partition()
    assert "tensor<4x16xf32>" in spmd.module("local")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  %1 = {F}(%x) {MANUAL} : (tensor<8x16xf32>) -> tensor<4x16xf32>\n  %2 = {S}(%1) {TILED} : (tensor<4x16xf32>) -> tensor<8x16xf32>", "of which @Sharding says nothing"),
        ("  %2 = {S}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>", "a value of global shape"),
        ("  %0 = {A}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %2 = {F}(%0) {MANUAL} : (tensor<8x16xf32>) -> tensor<8x16xf32>", "a value of local shape is returned"),
        ("  %0 = {A}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %1 = {F}(%0) {MANUAL} : (tensor<8x16xf32>) -> tensor<2x16xf32>\n  %2 = {S}(%1) {TILED} : (tensor<2x16xf32>) -> tensor<8x16xf32>", "is not the share of"),
        ("  %0 = {A}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %1 = {F}(%0) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %2 = {S}(%1) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>", "a manual computation is over no axes"),
        ("  %y = stablehlo.slice %x [0:4, 0:16] : (tensor<8x16xf32>) -> tensor<4x16xf32>\n  %z = stablehlo.tanh %y : tensor<4x16xf32>\n  %0 = {A}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %1 = {F}(%0) {MANUAL} : (tensor<8x16xf32>) -> tensor<4x16xf32>\n  %3 = stablehlo.add %1, %y : tensor<4x16xf32>\n  %2 = {S}(%3) {TILED} : (tensor<4x16xf32>) -> tensor<8x16xf32>", "read among values of local shape"),
        ("  %0 = {A}(%x) {TILED} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  %1 = {F}(%0) {MANUAL} : (tensor<8x16xf32>) -> tensor<4x16xf32>\n  %3 = stablehlo.tanh %1 {TILED} : tensor<4x16xf32>\n  %2 = {S}(%3) {TILED} : (tensor<4x16xf32>) -> tensor<8x16xf32>", "not manual over the same devices"),
        ("  %2 = {A}(%x) {mhlo.sharding = \"{replicated}\", backend_config = \"dims\"} : (tensor<8x16xf32>) -> tensor<8x16xf32>", "backend_config 'dims' is not understood"),
        ("  %2 = {A}(%x) {mhlo.sharding = \"{replicated}\", backend_config = \"unspecified_dims=[2]\"} : (tensor<8x16xf32>) -> tensor<8x16xf32>", "is not understood"),
    ],
)  # fmt: skip
def test_other_forms_of_manual_computations_are_refused_by_name_and_line(body: str, message: str) -> None:
    for short, long in [
        ("{A}", "stablehlo.custom_call @Sharding"),
        ("{F}", "stablehlo.custom_call @SPMDFullToShardShape"),
        ("{S}", "stablehlo.custom_call @SPMDShardToFullShape"),
        ("{TILED}", '{mhlo.sharding = "{devices=[2,1]<=[2]}"}'),
        ("{MANUAL}", '{mhlo.sharding = "{manual}"}'),
    ]:
        body = body.replace(short, long)
    diagnostic = refusal(lambda: imported(wrapped(body + "\n  return %2 : tensor<8x16xf32>"))).diagnostic
    assert message in diagnostic.message
    assert re.fullmatch(r"step.mlir:\d+", diagnostic.location)
    assert diagnostic.remedy


MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        ("%0 = sdy.propagation_barrier %x allowed_direction=NONE : tensor<8x16xf32>", "sdy.propagation_barrier", "propagate first"),
        ("%0 = sdy.data_flow_edge %x : tensor<8x16xf32>", "sdy.data_flow_edge", "edges"),
        ('%0 = sdy.sharding_constraint %x <@mesh, [{"x"}p1, {}]> : tensor<8x16xf32>', "priorities", "propagate first"),
        ('%0 = sdy.all_slice [{"x"}, {}] %x out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x16xf32>', "sdy.all_slice", "not explicit yet"),
        ('%0 = "shardwright.constraint"(%x) {sharding = "x"} : (tensor<8x16xf32>) -> tensor<8x16xf32>', "shardwright.constraint", "by sum"),
        ('%0 = stablehlo.tanh %x {shardwright.shardings = ["x"]} : tensor<8x16xf32>', "other than sums", "convert it to `shard`"),
    ],
)  # fmt: skip
def test_export_refuses_what_cannot_be_said(body: str, message: str, remedy: str) -> None:
    diagnostic = refusal(lambda: exported(MESH + wrapped(f"  {body}\n  return %0 : tensor<8x16xf32>"))).diagnostic
    assert message in diagnostic.message
    assert remedy in diagnostic.remedy
    assert diagnostic.location == "-:3"


def test_an_unknown_version_is_refused() -> None:
    assert (
        "V1, V2, named" in refusal(lambda: exported(wrapped("  return %x : tensor<8x16xf32>"), "V9")).diagnostic.remedy
    )


def test_a_function_called_with_different_axes_taken_is_refused() -> None:
    text = (
        MESH
        + wrapped(
            """  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%a: tensor<8x16xf32>) {
    %2 = func.call @f(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    sdy.return %2 : tensor<8x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = call @f(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>"""
        )
        + wrapped(
            '  %0 = sdy.sharding_constraint %x <@mesh, [{"y"}, {}]> : tensor<8x16xf32>\n  return %0 : tensor<8x16xf32>'
        ).replace("@main", "private @f")
    )
    assert "@f is called with different axes taken" in refusal(lambda: exported(text)).diagnostic.message
    again = imported(exported(text.replace('sdy.sharding_constraint %x <@mesh, [{"y"}, {}]>', "stablehlo.tanh %x")))
    assert "func.call @f" in again


def test_named_computations_are_written_in_place() -> None:
    text = MESH + wrapped(
        """  %0 = sdy.named_computation<"layer">(%x) in_shardings=[<@mesh, [{"x"}, {?}]>] out_shardings=[<@mesh, [{}, {"y"}]>] (%a: tensor<8x16xf32>) {
    %1 = stablehlo.tanh %a : tensor<8x16xf32>
    sdy.return %1 : tensor<8x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>"""
    )
    again = imported(exported(text))
    assert re.search(r'constraint %arg0 <@mesh, \[\{"a"\}, \{\?\}\]>.*\n.*tanh.*\n.*<@mesh, \[\{\}, \{"b"\}\]>', again)


def test_hostile_orders_are_refused_without_being_written_out() -> None:
    shardings = ["{devices=[1342177280,3]<=[5,805306368]T(1,0)}", "{devices=[2,2013265920]<=[4026531840]}"]
    lines = [
        f'  %{n} = stablehlo.tanh %x {{mhlo.sharding = "{text}"}} : tensor<8x16xf32>'
        for n, text in enumerate(shardings)
    ]
    start = time.perf_counter()
    error = refusal(lambda: imported(wrapped("\n".join([*lines, "  return %x : tensor<8x16xf32>"]))))
    assert time.perf_counter() - start < 2
    assert "written out" in str(error)


def test_negative_groups_get_numbers_that_hlo_has() -> None:
    groups = "\n".join(f"  sdy.sharding_group %x group_id={number} : tensor<8x16xf32>" for number in (-1, 0, -3))
    text = exported(wrapped(f"{groups}\n  return %x : tensor<8x16xf32>"))
    assert re.findall(r"shard_as -?\d+", text) == ["shard_as 2", "shard_as 0", "shard_as 1"]
    assert imported(text).count("sdy.sharding_group") == 3


def test_the_body_of_a_manual_computation_over_axes_of_size_1_stands_in_its_place() -> None:
    text = """sdy.mesh @mesh = <["a"=1, "b"=2]>
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"a"} (%y: tensor<8x16xf32>) {
    %1 = stablehlo.tanh %y : tensor<8x16xf32>
    sdy.return %1 : tensor<8x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""
    again = exported(text)
    assert "SPMD" not in again
    assert imported(again).count("sdy.sharding_constraint") == 2

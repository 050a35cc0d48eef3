"""Every collective, along axes in and out of mesh order and along parts of axes, gives what one device computes."""

from __future__ import annotations

import itertools

import pytest

import shardwright as sw
from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.opaque import dense_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.localize import Local, localize
from shardwright.partition.localize.collectives import (
    local_all_gather,
    local_all_reduce,
    local_all_to_all,
    local_collective_permute,
    local_reduce_scatter,
    permute_pairs,
    replica_groups,
)
from shardwright.sharding import TensorSharding
from tests.partition.localize.programs import Case, layouts, problems

AXES = {
    "x": '"x"',
    "y": '"y"',
    "x,y": '"x", "y"',
    "y,x": '"y", "x"',
    "y major": '"y":(1)2',
    "y minor": '"y":(2)2',
    "y minor,y major": '"y":(2)2, "y":(1)2',
    "y minor,x": '"y":(2)2, "x"',
    "y minor,x,y major": '"y":(2)2, "x", "y":(1)2',
    "y major,x,y minor": '"y":(1)2, "x", "y":(2)2',
}

MESHES = {
    "in order": "",
    "devices permuted": 'sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[3, 1, 0, 2, 7, 6, 4, 5]>\n',
}


def _cases() -> list[Case]:
    cases = []
    for (label, axes), (order, mesh) in itertools.product(AXES.items(), MESHES.items()):

        def case(what: str, body: str, label: str = label, order: str = order, mesh: str = mesh) -> None:
            cases.append(Case(f"{what} {label} ({order})", mesh + body))

        case(
            "gather, slice and all-to-all",
            f"""
            func.func @main(%a: tensor<8x8xi32> ARG([{{{axes}}}, {{}}])ARG)
                -> (tensor<8x8xi32>, tensor<8x8xi32>, tensor<8x8xi32>) {{
              %0 = sdy.all_gather [{{{axes}}}, {{}}] %a out_sharding=<@mesh, [{{}}, {{}}]> : tensor<8x8xi32>
              %1 = sdy.all_slice [{{}}, {{{axes}}}] %0 out_sharding=<@mesh, [{{}}, {{{axes}}}]> : tensor<8x8xi32>
              %2 = sdy.all_to_all [{{{axes}}}: 0->1] %a out_sharding=<@mesh, [{{}}, {{{axes}}}]> : tensor<8x8xi32>
              return %0, %1, %2 : tensor<8x8xi32>, tensor<8x8xi32>, tensor<8x8xi32>
            }}""",
        )
        case(
            "partial sums",
            f"""
            func.func @main(%a: tensor<4x8xf32> ARG([{{}}, {{{axes}}}])ARG, %b: tensor<8x8xf32> ARG([{{{axes}}}, {{}}])ARG)
                -> (tensor<4x8xf32>, tensor<4x8xf32>) {{
              %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
                {{SH([{{}}, {{}}], unreduced={{{_in_order(axes)}}})SH}}
                : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
              %1 = sdy.reduce_scatter [{{}}, {{{axes}}}] %0 out_sharding=<@mesh, [{{}}, {{{axes}}}]> : tensor<4x8xf32>
              %2 = sdy.all_reduce {{{_in_order(axes)}}} %0 out_sharding=<@mesh, [{{}}, {{}}]> : tensor<4x8xf32>
              return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
            }}""",
        )
    return cases


def _in_order(axes: str) -> str:
    """Axes to reduce are written in mesh order, parts of one axis joined."""
    parts = axes.split(", ")
    if '"y":(1)2' in parts and '"y":(2)2' in parts:
        parts = [part for part in parts if "y" not in part] + ['"y"']
    return ", ".join(sorted(parts))


CASES = [
    *_cases(),
    Case(
        "several dimensions at once",
        """
        func.func @main(%a: tensor<8x8x4xf32> ARG([{"x", "y":(1)2}, {"y":(2)2}, {}])ARG)
            -> (tensor<8x8x4xf32>, tensor<8x8x4xf32>) {
          %0 = sdy.all_gather [{"y":(1)2}, {"y":(2)2}, {}] %a out_sharding=<@mesh, [{"x"}, {}, {}]> : tensor<8x8x4xf32>
          %1 = sdy.all_slice [{"y":(2)2}, {}, {"y":(1)2}] %0
            out_sharding=<@mesh, [{"x", "y":(2)2}, {}, {"y":(1)2}]> : tensor<8x8x4xf32>
          %2 = sdy.all_gather [{"x", "y":(1)2}, {"y":(2)2}, {}] %a out_sharding=<@mesh, [{}, {}, {}]> : tensor<8x8x4xf32>
          return %1, %2 : tensor<8x8x4xf32>, tensor<8x8x4xf32>
        }""",
    ),
    Case(
        "two all-to-alls in one",
        """
        func.func @main(%a: tensor<8x8x4x4xi32> ARG([{"x", "y":(1)2}, {"y":(2)2}, {}, {}])ARG) -> tensor<8x8x4x4xi32> {
          %0 = sdy.all_to_all [{"y":(1)2}: 0->2, {"y":(2)2}: 1->3] %a
            out_sharding=<@mesh, [{"x"}, {}, {"y":(1)2}, {"y":(2)2}]> : tensor<8x8x4x4xi32>
          return %0 : tensor<8x8x4x4xi32>
        }""",
    ),
    Case(
        "two all-to-alls in one, of unlike sizes and out of mesh order",
        """
        func.func @main(%a: tensor<2x8x4x8xi32> ARG([{}, {"y"}, {"x"}, {}])ARG) -> tensor<2x8x4x8xi32> {
          %0 = sdy.all_to_all [{"y"}: 1->3, {"x"}: 2->0] %a
            out_sharding=<@mesh, [{"x"}, {}, {}, {"y"}]> : tensor<2x8x4x8xi32>
          return %0 : tensor<2x8x4x8xi32>
        }""",
    ),
    Case(
        "scatter of two dimensions",
        """
        func.func @main(%a: tensor<4x8xf32> ARG([{}, {"x", "y"}])ARG, %b: tensor<8x8xf32> ARG([{"x", "y"}, {}])ARG)
            -> tensor<4x8xf32> {
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {SH([{}, {}], unreduced={"x", "y"})SH}
            : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
          %1 = sdy.reduce_scatter [{"y"}, {"x"}] %0 out_sharding=<@mesh, [{"y"}, {"x"}]> : tensor<4x8xf32>
          return %1 : tensor<4x8xf32>
        }""",
    ),
    *(
        Case(
            f"permute {before} to {after}",
            f"""
            func.func @main(%a: tensor<8x8xi32> ARG([{before}])ARG) -> tensor<8x8xi32> {{
              %0 = sdy.collective_permute %a out_sharding=<@mesh, [{after}]> : tensor<8x8xi32>
              return %0 : tensor<8x8xi32>
            }}""",
        )
        for before, after in [
            ('{"x"}, {"y"}', '{"y":(1)2}, {"x", "y":(2)2}'),
            ('{"x", "y"}, {}', '{"y", "x"}, {}'),
            ('{"y":(2)2}, {}', '{"x"}, {}'),
            ('{"y":(1)2, "x"}, {"y":(2)2}', '{"y"}, {"x"}'),
            ('{"x"}, {}', '{"y":(1)2}, {}'),
        ]
    ),
    Case(
        "permute between device orders",
        """
        sdy.mesh @mesh = <["x"=2, "y"=4]>
        sdy.mesh @other = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
        func.func @main(%a: tensor<8x8xi32> ARG([{"x", "y"}, {}])ARG) -> tensor<8x8xi32> {
          %0 = sdy.collective_permute %a out_sharding=<@other, [{"x", "y"}, {}]> : tensor<8x8xi32>
          %1 = sdy.all_to_all [{"y"}: 0->1] %0 out_sharding=<@other, [{"x"}, {"y"}]> : tensor<8x8xi32>
          %2 = sdy.all_gather [{}, {"y"}] %1 out_sharding=<@other, [{"x"}, {}]> : tensor<8x8xi32>
          %3 = sdy.all_slice [{"y"}, {}] %2 out_sharding=<@other, [{"x", "y"}, {}]> : tensor<8x8xi32>
          %4 = sdy.collective_permute %3 out_sharding=<@mesh, [{"x", "y"}, {}]> : tensor<8x8xi32>
          return %4 : tensor<8x8xi32>
        }""",
    ),
]


@pytest.fixture(scope="module")
def by_case() -> dict[str, str]:
    return problems(CASES)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_collective_gives_what_one_device_computes(by_case: dict[str, str], name: str) -> None:
    assert name not in by_case, by_case[name]


KINDS = {
    "f32": ("sum", "max", "min", "product"),
    "i32": ("sum", "max", "min", "product", "and", "or", "xor"),
    "ui8": ("sum", "max", "min", "and", "or", "xor"),
    "bf16": ("sum", "max"),
    "f16": ("sum", "min"),
    "i1": ("sum", "max", "min", "product", "and", "or", "xor"),
}

_REDUCERS = {
    "sum": "add",
    "max": "maximum",
    "min": "minimum",
    "product": "multiply",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def _reduction(kind: str, dtype: str) -> Case:
    identity = {"product": 1, "min": 127, "and": 255 if dtype == "ui8" else -1}.get(kind, 0)
    initial = f"{float(identity)}" if "f" in dtype else str(identity)
    if dtype == "i1":
        initial = "true" if kind in ("product", "min", "and") else "false"
    if dtype.startswith("f") or dtype == "bf16":
        initial = {"max": "-1.0e2", "min": "1.0e2"}.get(kind, initial)
    type = f"tensor<8x16x{dtype}>"
    return Case(
        f"{kind} of {dtype}",
        f"""
        func.func @main(%a: {type} ARG([{{"y", "x"}}, {{}}])ARG) -> (tensor<16x{dtype}>, tensor<16x{dtype}>) {{
          %c = stablehlo.constant dense<{initial}> : tensor<{dtype}>
          %0 = stablehlo.reduce(%a init: %c) applies stablehlo.{_REDUCERS[kind]} across dimensions = [0]
            : ({type}, tensor<{dtype}>) -> tensor<16x{dtype}>
          return %0, %0 : tensor<16x{dtype}>, tensor<16x{dtype}>
        }}""",
    )


def _reduced_by_hand(case: Case, kind: str) -> Graph:
    """The per-device program with its reduction finished by an all-reduce and by a reduce-scatter and a gather."""
    graph = case.graph()
    mesh = graph.meshes["mesh"]
    axes = (mesh.axis("y"), mesh.axis("x"))
    (reduced,) = graph.main.block.ops[1].results
    graph.shardings[reduced] = TensorSharding.of(mesh, [[]], partial=axes, kind=kind)
    local = localize(graph)
    ops = local.main.block.ops
    ops.pop()
    ctx = Local(local, ops)
    partial = ops[-1].results[0]
    reduced = local_all_reduce(ctx, partial, axes, kind)
    scattered = local_reduce_scatter(ctx, partial, axes, 0, kind)
    gathered = local_all_gather(ctx, scattered, axes, 0)
    types = (local.types[reduced], local.types[gathered])
    ctx.append(Signature("func.return", (), types, ()), (reduced, gathered))
    return local


def test_every_kind_of_reduction() -> None:
    cases = [(_reduction(kind, dtype), kind) for dtype, kinds in KINDS.items() for kind in kinds]
    locals = [_reduced_by_hand(case, kind) for case, kind in cases]
    assert problems([case for case, _ in cases], locals) == {}


def test_a_kind_without_meaning_is_refused() -> None:
    graph = Case(
        "empty", 'func.func @main(%a: tensor<4xf32> ARG([{"x"}])ARG) -> tensor<4xf32> { return %a : tensor<4xf32> }'
    ).graph()
    ctx = Local(graph, [])
    with pytest.raises(ShardingError, match="average"):
        local_all_reduce(ctx, 0, (ctx.mesh.axis("x"),), "average")


def test_uneven_parts_are_refused() -> None:
    graph = Case("empty", "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> { return %a : tensor<3xf32> }").graph()
    ctx = Local(graph, [])
    with pytest.raises(ShardingError, match="2 equal parts"):
        local_all_to_all(ctx, 0, (ctx.mesh.axis("x"),), 0, 0)


def test_groups_do_not_grow_with_the_mesh() -> None:
    small, large = Mesh(x=2, y=4), Mesh(x=256, y=64)
    texts = [replica_groups((mesh.axis("x"),), mesh, mesh) for mesh in (small, large)]
    assert texts[0] == texts[1]


def test_groups_of_parts_of_an_axis_are_joined_and_named() -> None:
    mesh = Mesh(x=2, y=8)
    whole = (AxisRef("y", 1, 2), AxisRef("y", 2, 4))
    assert replica_groups(whole, mesh, mesh) == replica_groups((mesh.axis("y"),), mesh, mesh)
    assert "sub_axis_info = (2)2" in replica_groups((mesh.axis("y", 2, 2),), mesh, mesh)


def test_permutation_sends_each_shard_once_and_keeps_what_is_there() -> None:
    mesh = Mesh(a=8, b=4, c=4)
    source = TensorSharding.of(mesh, [["a"], ["b"]])
    target = TensorSharding.of(mesh, [[mesh.axis("c"), mesh.axis("a", 4, 2)], [mesh.axis("a", 1, 4)]])
    pairs = permute_pairs(source, target, mesh)
    assert sorted(pairs[:, 0].tolist()) == pairs[:, 1].tolist() == list(range(mesh.size))
    for sender, receiver in pairs.tolist():
        held = [mesh.index(axes, sender) for axes in source.axes]
        needed = [mesh.index(axes, receiver) for axes in target.axes]
        assert held == needed
        if [mesh.index(axes, receiver) for axes in source.axes] == needed:
            assert sender == receiver


def test_permutation_of_a_large_mesh_is_quick() -> None:
    mesh = Mesh(a=128, b=128)
    source, target = TensorSharding.of(mesh, [["a"]]), TensorSharding.of(mesh, [["b"]])
    assert permute_pairs(source, target, mesh).shape == (16384, 2)


def test_permutation_needs_equal_numbers_of_parts() -> None:
    graph = Case(
        "empty", 'func.func @main(%a: tensor<8xf32> ARG([{"x"}])ARG) -> tensor<8xf32> { return %a : tensor<8xf32> }'
    ).graph()
    source = layouts(graph)[0][0]
    with pytest.raises(ShardingError, match="no permutation"):
        local_collective_permute(Local(graph, []), 0, source, TensorSharding.of(source.mesh, [["y"]]))


def test_collective_must_give_the_sharding_it_declares() -> None:
    graph = Case(
        "wrong",
        """
        func.func @main(%a: tensor<8xf32> ARG([{"x"}])ARG) -> tensor<8xf32> {
          %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
          return %0 : tensor<8xf32>
        }""",
    ).graph()
    graph.shardings[graph.main.block.ops[0].results[0]] = TensorSharding.of(graph.meshes["mesh"], [["y"]])
    with pytest.raises(ShardingError, match=r"sdy.all_gather takes \[\{x\}\] to \[\{\}\], not to \[\{y\}\]"):
        localize(graph)


def test_channel_handles_are_unique() -> None:
    graph = localize(CASES[0].graph())
    handles = [op.signature.text("channel_handle") for op in graph.walk() if op.signature.text("channel_handle")]
    assert len(handles) == len(set(handles)) == 2
    assert TensorType((8, 8), "i32") in graph.types


def test_large_groups_of_device_ids_become_groups_of_positions() -> None:
    ids = ", ".join(map(str, reversed(range(128))))
    pairs = ", ".join(f"[{device}, {device + 1}]" for device in range(0, 128, 2))
    split = '<@m, [{"x"}, {}]>'
    text = f"""sdy.mesh @m = <["x"=128], device_ids=[{ids}]>
    func.func @main(%a: tensor<128x4xf32>) -> tensor<128x4xf32> {{
      %0 = sdy.manual_computation(%a) in_shardings=[{split}] out_shardings=[{split}] manual_axes={{"x"}} (%b: tensor<1x4xf32>) {{
        %1 = "stablehlo.all_reduce"(%b) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[{pairs}]> : tensor<64x2xi64>, use_global_device_ids}}> ({{
        ^bb0(%c: tensor<f32>, %d: tensor<f32>):
          %2 = stablehlo.add %c, %d : tensor<f32>
          stablehlo.return %2 : tensor<f32>
        }}) : (tensor<1x4xf32>) -> tensor<1x4xf32>
        sdy.return %1 : tensor<1x4xf32>
      }} : (tensor<128x4xf32>) -> tensor<128x4xf32>
      return %0 : tensor<128x4xf32>
    }}"""
    graph = sw.load(text).plan().partition().local
    (reduce,) = (op for op in graph.walk() if op.name == "stablehlo.all_reduce")
    groups = dense_array(reduce.signature.text("replica_groups") or "").tolist()
    assert groups == [[127 - device, 126 - device] for device in range(0, 128, 2)]

from __future__ import annotations

import pytest

from shardwright.analysis.groups import replica_groups
from shardwright.analysis.loops import trips
from shardwright.analysis.traffic import CollectiveUse, KindTraffic, collectives, summarize
from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from tests.analysis.programs import HANDLE, MESH, all_gather, all_reduce, along, graph


def only(g: Graph) -> CollectiveUse:
    (use,) = collectives(g)
    return use


def function(ops: str, argument: str, result: str, value: str = "%0") -> str:
    return f"  func.func @main(%a: {argument}) -> {result} {{{ops}\n    return {value} : {result}\n  }}"


def test_all_gather_sends_the_gathered_bytes_less_its_own() -> None:
    ops = all_gather("%0", "%a", "(tensor<4x8xf32>) -> tensor<4x32xf32>", 1, along("y"))
    use = only(graph(function(ops, "tensor<4x8xf32>", "tensor<4x32xf32>")))
    assert (use.kind, use.axes, use.group_size) == ("all_gather", (AxisRef("y", 1, 4),), 4)
    assert (use.operand_bytes, use.result_bytes, use.sent_bytes) == (128, 512, 384)
    assert (use.executed, use.total_bytes, use.trip_count_known) == (1, 384, True)


@pytest.mark.parametrize(
    ("groups", "size", "sent"),
    [
        (along("x"), 2, 128),
        (along("x", "y"), 8, 224),
        (along("y:(1)2"), 2, 128),
        ("dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>", 4, 192),
        ("dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>", 3, 2 * 128 * 2 / 3),
        ("dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>", 1, 0),
    ],
)
def test_all_reduce_sends_by_the_size_of_its_groups(groups: str, size: int, sent: float) -> None:
    ops = all_reduce("%0", "%a", "tensor<32xf32>", groups)
    use = only(graph(function(ops, "tensor<32xf32>", "tensor<32xf32>")))
    assert use.group_size == size
    assert use.sent_bytes == pytest.approx(sent)


def test_no_groups_at_all_mean_one_of_all_devices() -> None:
    ops = all_reduce("%0", "%a", "tensor<32xf32>", "dense<> : tensor<0x0xi64>", handle="")
    use = only(graph(function(ops, "tensor<32xf32>", "tensor<32xf32>")))
    assert (use.group_size, use.sent_bytes) == (8, 224)


def test_groups_along_axes_are_the_devices_that_differ_only_there() -> None:
    rows = {}
    for axes in (("x",), ("y",), ("y:(1)2",), ("y:(2)2", "x")):
        g = graph(function(all_reduce("%0", "%a", "tensor<4xf32>", along(*axes)), "tensor<4xf32>", "tensor<4xf32>"))
        groups = replica_groups(next(iter(g.walk())).signature, g.meshes, 8)
        rows[axes] = [row.tolist() for row in groups.rows]
    assert rows["x",] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert rows["y",] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert rows["y:(1)2",] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert rows["y:(2)2", "x"] == [[0, 4, 1, 5], [2, 6, 3, 7]]


def test_groups_follow_the_device_order_of_the_mesh() -> None:
    mesh = '  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>\n'
    ops = all_reduce("%0", "%a", "tensor<4xf32>", along("x"))
    g = graph(function(ops, "tensor<4xf32>", "tensor<4xf32>"), mesh=mesh)
    groups = replica_groups(next(iter(g.walk())).signature, g.meshes, 4)
    assert [row.tolist() for row in groups.rows] == [[3, 1], [2, 0]]


def test_groups_over_a_mesh_that_is_gone_are_an_error() -> None:
    ops = all_reduce("%0", "%a", "tensor<4xf32>", along("x"))
    g = graph(function(ops, "tensor<4xf32>", "tensor<4xf32>"))
    g.meshes.clear()
    with pytest.raises(ShardingError, match="does not define"):
        collectives(g)


def test_reduce_scatter_and_all_to_all_send_all_parts_but_their_own() -> None:
    ops = f"""
    %s = "stablehlo.reduce_scatter"(%a) <{{scatter_dimension = 0 : i64, replica_groups = {along("y")}, {HANDLE}}}> ({{
    ^bb0(%left: tensor<f32>, %right: tensor<f32>):
      %sum = stablehlo.add %left, %right : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }}) : (tensor<32xf32>) -> tensor<8xf32>
    %0 = "stablehlo.all_to_all"(%s) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
      replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>}}>
      : (tensor<8xf32>) -> tensor<8xf32>"""
    uses = collectives(graph(function(ops, "tensor<32xf32>", "tensor<8xf32>")))
    assert [(use.kind, use.operand_bytes, use.result_bytes, use.sent_bytes) for use in uses] == [
        ("reduce_scatter", 128, 32, 96),
        ("all_to_all", 32, 32, 16),
    ]


@pytest.mark.parametrize(("pairs", "sent"), [("[[0, 1], [1, 0]]", 128), ("[[0, 0], [1, 1]]", 0)])
def test_a_permute_sends_its_buffer_unless_nobody_moves(pairs: str, sent: float) -> None:
    attributes = f"source_target_pairs = dense<{pairs}> : tensor<2x2xi64>"
    ops = f'\n    %0 = "stablehlo.collective_permute"(%a) <{{{attributes}}}> : (tensor<32xf32>) -> tensor<32xf32>'
    assert only(graph(function(ops, "tensor<32xf32>", "tensor<32xf32>"))).sent_bytes == sent


LOOP = """  func.func @main(%a: tensor<32xf32>, %n: tensor<i32>) -> tensor<32xf32> {{
    %first = stablehlo.constant dense<{first}> : tensor<i32>
    %bound = stablehlo.constant dense<{bound}> : tensor<i32>
    %0:3 = stablehlo.while(%i = %first, %x = %a, %end = {end}) : tensor<i32>, tensor<32xf32>, tensor<i32>
    cond {{
      %test = stablehlo.compare {direction}, {test} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %test : tensor<i1>
    }} do {{
      %step = stablehlo.constant dense<{step}> : tensor<i32>
      %next = stablehlo.add %i, %step : tensor<i32>{body}
      stablehlo.return %next, %y, %end : tensor<i32>, tensor<32xf32>, tensor<i32>
    }}
    return %0#1 : tensor<32xf32>
  }}"""
REDUCED = all_reduce("%y", "%x", "tensor<32xf32>", along("x"))


def loop(
    first: int = 0,
    bound: int = 5,
    step: int = 1,
    direction: str = "LT",
    end: str = "%bound",
    test: str = "%i, %end",
    body: str = REDUCED,
) -> Graph:
    return graph(LOOP.format(first=first, bound=bound, step=step, direction=direction, end=end, test=test, body=body))


@pytest.mark.parametrize(
    ("given", "executed"),
    [
        ({}, 5),
        ({"direction": "LE"}, 6),
        ({"step": 2}, 3),
        ({"first": 7}, 0),
        ({"first": 9, "step": -3, "bound": 1, "direction": "GT"}, 3),
        ({"test": "%end, %i", "direction": "GT"}, 5),
        ({"test": "%i, %bound"}, 5),
        ({"direction": "NE"}, 5),
    ],
)
def test_a_collective_in_a_loop_counts_once_per_trip(given: dict, executed: int) -> None:
    use = only(loop(**given))
    assert (use.executed, use.sent_bytes, use.total_bytes) == (executed, 128, executed * 128)
    assert use.trip_count_known


def test_a_loop_that_ends_when_the_data_says_counts_once_and_says_so() -> None:
    use = only(loop(end="%n"))
    assert (use.executed, use.trip_count_known) == (1, False)
    assert not summarize([use]).trip_counts_known


def test_nested_loops_multiply() -> None:
    inner = f"""
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %three = stablehlo.constant dense<3> : tensor<i32>
      %inner:2 = stablehlo.while(%j = %zero, %z = %x) : tensor<i32>, tensor<32xf32>
      cond {{
        %test = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %test : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %following = stablehlo.add %one, %j : tensor<i32>{all_reduce("%w", "%z", "tensor<32xf32>", along("x"))}
        stablehlo.return %following, %w : tensor<i32>, tensor<32xf32>
      }}
      %y = stablehlo.negate %inner#1 : tensor<32xf32>"""
    assert only(loop(body=inner)).executed == 15


def test_counting_loops_have_closed_forms() -> None:
    for first, step, bound in [(0, 1, 4), (0, 3, 10), (2, 2, 2), (5, 1, 4), (-3, 4, 9)]:
        assert trips(first, step, bound, "LT") == len(range(first, bound, step))
        assert trips(first, step, bound, "LE") == len(range(first, bound + 1, step))
        assert trips(-first, -step, -bound, "GT") == len(range(first, bound, step))
    assert trips(0, 0, 3, "LT") is None
    assert trips(0, 2, 3, "NE") is None
    assert trips(0, 1, 3, "EQ") is None


def test_of_a_case_the_branch_that_sends_most_counts() -> None:
    def branch(axes: str, name: str) -> str:
        return (
            all_reduce(name, "%a", "tensor<32xf32>", along(axes)) + f"\n      stablehlo.return {name} : tensor<32xf32>"
        )

    small, big = branch("x", "%s"), branch("y", "%t")
    ops = f"""
    %i = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%i) ({{ {small} }}, {{ {big} }}) : (tensor<i32>) -> tensor<32xf32>"""
    assert only(graph(function(ops, "tensor<32xf32>", "tensor<32xf32>"))).sent_bytes == 192


SLICE = """
    %table = stablehlo.constant dense<{table}> : tensor<8xi32>
    %id = stablehlo.partition_id : tensor<ui32>
    %element = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<8xi32>, tensor<ui32>) -> tensor<1xi32>
    %offset = stablehlo.reshape %element : (tensor<1xi32>) -> tensor<i32>
    %0 = stablehlo.dynamic_slice %r, %offset, sizes = [8] : (tensor<32xf32>, tensor<i32>) -> tensor<8xf32>"""


@pytest.mark.parametrize(
    ("axes", "table", "expected"),
    [
        ("y", [0, 8, 16, 24] * 2, [("reduce_scatter", 4, 96)]),
        ("y", [0] * 8, [("all_reduce", 4, 192)]),
        ("x", [0, 8, 16, 24] * 2, [("all_reduce", 2, 128)]),
        ("y", [0, 0, 8, 8] * 2, [("reduce_scatter", 2, 64), ("all_reduce", 2, 64)]),
    ],
    ids=["along", "same_slice", "across", "half"],
)
def test_an_all_reduce_of_which_each_keeps_a_slice_is_a_reduce_scatter(
    axes: str, table: list[int], expected: list
) -> None:
    ops = all_reduce("%r", "%a", "tensor<32xf32>", along(axes)) + SLICE.format(table=table)
    uses = collectives(graph(function(ops, "tensor<32xf32>", "tensor<8xf32>")))
    assert [(use.kind, use.group_size, use.sent_bytes) for use in uses] == expected


def test_an_offset_computed_from_the_device_id_is_followed() -> None:
    ops = (
        all_reduce("%r", "%a", "tensor<32xf32>", along("y"))
        + """
    %id = stablehlo.partition_id : tensor<ui32>
    %four = stablehlo.constant dense<4> : tensor<ui32>
    %eight = stablehlo.constant dense<8> : tensor<i32>
    %rest = stablehlo.remainder %id, %four : tensor<ui32>
    %signed = stablehlo.convert %rest : (tensor<ui32>) -> tensor<i32>
    %offset = stablehlo.multiply %signed, %eight : tensor<i32>
    %0 = stablehlo.dynamic_slice %r, %offset, sizes = [8] : (tensor<32xf32>, tensor<i32>) -> tensor<8xf32>"""
    )
    assert only(graph(function(ops, "tensor<32xf32>", "tensor<8xf32>"))).kind == "reduce_scatter"


def test_an_all_reduce_used_whole_as_well_stays_one() -> None:
    reduced = all_reduce("%r", "%a", "tensor<32xf32>", along("y")) + SLICE.format(table=[0, 8, 16, 24] * 2)
    ops = reduced + "\n    %n = stablehlo.negate %r : tensor<32xf32>"
    assert only(graph(function(ops, "tensor<32xf32>", "tensor<8xf32>"))).kind == "all_reduce"


def test_a_summary_adds_up_per_kind() -> None:
    ops = all_gather("%g", "%a", "(tensor<16xf32>) -> tensor<32xf32>", 0, along("x"))
    gathered = function(ops, "tensor<16xf32>", "tensor<32xf32>", "%g")
    summary = summarize([*collectives(loop()), *collectives(loop(step=2)), *collectives(graph(gathered))])
    assert list(summary.kinds) == ["all_gather", "all_reduce"]
    assert summary.kinds["all_reduce"] == KindTraffic(2, 8, 256, 1024)
    assert summary.total == KindTraffic(3, 9, 320, 1088)


def test_a_collective_says_where_it_comes_from() -> None:
    text = all_gather("%0", "%a", "(tensor<16xf32>) -> tensor<32xf32>", 0, along("x")) + ' loc("model.py":7:3)'
    assert str(only(graph(function(text, "tensor<16xf32>", "tensor<32xf32>"), mesh=MESH)).location) == "model.py:7"

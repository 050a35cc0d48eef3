"""What cannot be lowered is refused by name, at its line, with a remedy; nothing ends in a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.notation.shard.grids import grids
from shardwright.partition.processes import lower

GRID = '"shard.grid"() {sym_name = "g", shape = array<i64: 2, 4>} : () -> ()'
T = "tensor<4x8xf32>"


def op(name: str, attributes: str, operands: str = "%x", types: str = T, result: str = T) -> str:
    return f'%r = "shard.{name}"({operands}) {{grid = @g, {attributes}}} : ({types}) -> {result}'


def lower_line(line: str, result: str = T) -> None:
    text = f"{GRID}\nfunc.func @main(%x: {T}, %n: index, %h: i64) {{\n{line}\nreturn\n}}"
    module = load_module(text, "p.mlir")
    graph = lower(read(module, "p.mlir"), grids(module))
    assert write(graph, shardings=False).operation.verify()


GROUP = "grid_axes = array<i16: 1>"
DYN = "array<i64: -9223372036854775808>"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (op("all_reduce", f"{GROUP}, reduction = #shard<partial generic>"), "combine values by 'generic'"),
        (
            op("all_reduce", f"{GROUP}, reduction = #shard<partial bitwise_xor>"),
            "f32 cannot be combined by 'bitwise_xor'",
        ),
        (op("all_reduce", f"{GROUP}, reduction = 3 : i64"), "combine values by 3"),
        (op("all_reduce", "grid_axes = array<i16: 2>"), "no different axes of grid @g"),
        (op("all_reduce", "grid_axes = array<i16: 1, 1>"), "no different axes of grid @g"),
        (op("all_reduce", 'grid_axes = "1"'), "no list of integers"),
        (op("all_reduce", GROUP, result="tensor<8x4xf32>"), "is said to give tensor<8x4xf32>"),
        (op("all_reduce", GROUP).replace("@g", "@missing"), "there is no grid @missing"),
        (op("all_gather", f"{GROUP}, gather_axis = 2 : index"), "no dimension of tensor<4x8xf32>"),
        (op("all_gather", f"{GROUP}, gather_axis = -1 : index"), "no dimension of"),
        (op("all_gather", GROUP), "gather_axis is no integer"),
        (op("all_gather", f"{GROUP}, gather_axis = 1 : index"), "is said to give"),
        (op("all_gather", f"{GROUP}, gather_axis = 0 : index", "", ""), "no operand"),
        (op("all_slice", "grid_axes = array<i16: 0, 1>, slice_axis = 0 : index"), "does not divide into 8"),
        (op("reduce_scatter", "grid_axes = array<i16: 0, 1>, scatter_dim = 0 : index"), "does not split into 8"),
        (op("broadcast", f"{GROUP}, root = {DYN}", "%x, %n", f"{T}, index"), "known when the program runs only"),
        (op("broadcast", f"{GROUP}, root = {DYN}"), "more dynamic entries"),
        (op("broadcast", f"{GROUP}, root = array<i64: 0>", "%x, %n", f"{T}, index"), "fewer dynamic entries"),
        (op("gather", f"{GROUP}, root = array<i64: 4>, gather_axis = 0 : index"), "no device of a group of shape"),
        (op("reduce", f"{GROUP}, root = array<i64: 0, 0>"), "no device of a group"),
        (op("scatter", f"{GROUP}, scatter_dim = 0 : index"), "no device of a group"),
        (op("shift", f"{GROUP}, shift_axis = 0 : index, offset = 1 : i64"), "not one of grid_axes"),
        (op("shift", f"{GROUP}, shift_axis = 1 : index"), "offset is no integer"),
        (op("recv", f"{GROUP}, source = array<i64: 0>"), "nothing was sent"),
        (op("recv", GROUP), "from any source"),
        (op("send", f"{GROUP}, destination = array<i64: 0>"), "never received"),
        (op("update_halo", "split_axes = #shard.axisarray<[[0]]>, static_halo_sizes = array<i64: 1>"), "1 halo sizes"),
        (op("update_halo", "split_axes = #shard.axisarray<[[0]]>, static_halo_sizes = array<i64: 3, 1>"), "no room"),
        (op("update_halo", "split_axes = #shard.axisarray<[[0]]>, static_halo_sizes = array<i64: -1, 1>"), "no room"),
        (op("update_halo", "split_axes = #shard.axisarray<[[0], [0]]>"), "no different axes"),
        (op("update_halo", "split_axes = #shard.axisarray<[[0], [], [1]]>"), "up to 2 dimensions"),
        (op("update_halo", "static_halo_sizes = array<i64>"), "up to 2 dimensions"),
        (
            op(
                "update_halo",
                "split_axes = #shard.axisarray<[[0]]>, static_halo_sizes = array<i64: 1, -9223372036854775808>",
                "%x, %h",
                f"{T}, i64",
            ),
            "known when the program runs only",
        ),
        (op("process_multi_index", "axes = array<i16: 3>", "", "", "index"), "no different axes"),
        (op("process_multi_index", "axes = array<i16>", "", "", "index"), "is said to give"),
        (op("neighbors_linear_indices", "split_axes = array<i16: 0>", "%n", "index", "index"), "has 2 indices, 1 are"),
        (op("shard_shape", "dims = array<i64: 4>, device = array<i64: 0, 0>", "", "", "index"), "no operand that is a"),
        (op("get_sharding", "", result="!shard.sharding").replace(", }", "}"), "no op of a per-device program"),
    ],
)
def test_an_op_that_cannot_be_lowered_is_refused_at_its_line(line: str, message: str) -> None:
    with pytest.raises(ShardingError) as raised:
        lower_line(line)
    diagnostic = raised.value.diagnostic
    assert message in diagnostic.message
    assert diagnostic.op == line.split('"')[1]
    assert diagnostic.location == "p.mlir:3"


SHARDING = '%s = "shard.sharding"() {{grid = @g, split_axes = #shard.axisarray<[[0]]>{}}} : () -> !shard.sharding\n'
SHAPE = '%r = "shard.shard_shape"(%s) {dims = array<i64: 9>, device = array<i64: 0, 0>} : (!shard.sharding) -> index'


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (", static_halo_sizes = array<i64: 1, 1>", "shape of a shard with halos"),
        (", static_sharded_dims_offsets = array<i64: 0, 4>", "do not bound 2 shards"),
        (", static_sharded_dims_offsets = array<i64: 0, 5, 4>", "do not bound 2 shards"),
        (", static_sharded_dims_offsets = array<i64: 0, 5, 9, 9>", "left over"),
    ],
)
def test_a_shard_without_a_shape_is_refused(attributes: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as raised:
        lower_line(SHARDING.format(attributes) + SHAPE)
    assert raised.value.diagnostic.op == "shard.shard_shape"
    assert raised.value.diagnostic.location == "p.mlir:4"


def test_a_sharding_is_not_passed_on() -> None:
    module = load_module(f"{GRID}\nfunc.func @main(%s: !shard.sharding) -> index {{\n{SHAPE}\nreturn %r : index\n}}")
    with pytest.raises(ShardingError, match="cannot be passed on"):
        lower(read(module), grids(module))


def test_a_sharding_is_not_returned() -> None:
    text = f"{GRID}\nfunc.func @main() -> !shard.sharding {{\n{SHARDING.format('')}return %s : !shard.sharding\n}}"
    module = load_module(text)
    with pytest.raises(ShardingError, match=r"type !shard\.sharding"):
        lower(read(module), grids(module))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [("4294967296, 4294967296", "more than"), ("2097152", "more than")],
)
def test_a_grid_beyond_all_machines_is_refused_at_once(sizes: str, message: str) -> None:
    line = op("shift", "grid_axes = array<i16: 0>, shift_axis = 0 : index, offset = 1 : i64")
    text = f"{GRID.replace('2, 4', sizes)}\nfunc.func @main(%x: {T}) {{\n{line}\nreturn\n}}"
    module = load_module(text)
    with pytest.raises(ShardingError, match=message):
        lower(read(module), grids(module))


def test_grids_of_different_size_in_one_program_are_refused() -> None:
    other = '"shard.grid"() {sym_name = "h", shape = array<i64: 4>} : () -> ()'
    lines = f"{op('all_reduce', GROUP)}\n{op('all_reduce', 'grid_axes = array<i16: 0>').replace('@g', '@h').replace('%r', '%q')}"
    module = load_module(f"{GRID}\n{other}\nfunc.func @main(%x: {T}) {{\n{lines}\nreturn\n}}")
    with pytest.raises(ShardingError, match="different size") as raised:
        lower(read(module), grids(module))
    assert "@g of 8, @h of 4" in raised.value.diagnostic.cause


NUMBERS = st.integers(-2, 5) | st.sampled_from([1 << 40, -(1 << 63), (1 << 63) - 1])
LISTS = st.lists(NUMBERS, max_size=3)
NAMES = (
    "all_gather",
    "all_reduce",
    "all_slice",
    "all_to_all",
    "broadcast",
    "gather",
    "grid_shape",
    "neighbors_linear_indices",
    "process_linear_index",
    "process_multi_index",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "shard_shape",
    "shift",
    "update_halo",
)
KEYS = ("gather_axis", "slice_axis", "split_axis", "concat_axis", "scatter_dim", "shift_axis", "offset", "axis")
LIST_KEYS = ("axes", "root", "source", "destination", "static_halo_sizes", "dims", "device")


@st.composite
def odd_lines(draw: st.DrawFn) -> str:
    entries = ["grid = @g"]
    axes = draw(st.lists(st.integers(-1, 3), max_size=3))
    entries.append(f"grid_axes = array<i16{': ' if axes else ''}{', '.join(map(str, axes))}>")
    entries += [f"{key} = {draw(NUMBERS)} : i64" for key in draw(st.sets(st.sampled_from(KEYS)))]
    for key in draw(st.sets(st.sampled_from(LIST_KEYS))):
        values = draw(LISTS)
        entries.append(f"{key} = array<i64{': ' if values else ''}{', '.join(map(str, values))}>")
    split = draw(st.lists(st.lists(st.integers(-1, 3), max_size=2), max_size=3))
    entries.append(f"split_axes = {draw(st.sampled_from([f'#shard.axisarray<{split}>', str(axes), '@g']))}")
    kind = draw(st.sampled_from(["#shard<partial sum>", "#shard<partial average>", '"max"', "unit", "@g", "[]"]))
    entries.append(f"reduction = {kind}")
    operands, types = draw(
        st.sampled_from(
            [("%x", T), ("", ""), ("%x, %n", f"{T}, index"), ("%n", "index"), ("%n, %n", "index, index"), ("%h", "i64")]
        )
    )
    results = draw(st.sampled_from([T, "index", "tensor<4x2xf32>", "tensor<16x8xf32>", "i64", "()", "!shard.sharding"]))
    head = "" if results == "()" else "%r = "
    return f'{head}"shard.{draw(st.sampled_from(NAMES))}"({operands}) {{{", ".join(entries)}}} : ({types}) -> {results}'


@settings(max_examples=400, deadline=None)
@given(odd_lines())
def test_odd_ops_are_lowered_or_refused(line: str) -> None:
    try:
        lower_line(line)
    except ShardingError as error:
        assert error.diagnostic.op == line.split('"')[1]
        assert error.diagnostic.location == "p.mlir:3"
        assert error.diagnostic.message

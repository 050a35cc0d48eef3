"""Gather, scatter and dynamic updates of sharded tensors, indices out of range included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shardwright as sw
from tests.partition.localize.programs import Case, problems

WILD = np.array([[0, 1], [7, 3], [-1, 2], [3, -5], [8, 0], [100, 100], [-(2**31), 2**31 - 1], [4, 3]], np.int32)
"""Index vectors into 8x4: inside, at the edges, and far out."""


def _gather(name: str, indices: str, table: str, result: str, reduce: str = "", out: str = "[{}, {}]") -> Case:
    """Rows of an 8x4 table at scalar indices; `reduce` finishes a partial result."""
    partial = f", unreduced={{{reduce}}}" if reduce else ""
    final = "return %0 : tensor<8x4xf32>"
    if reduce:
        final = f"""%1 = sdy.all_reduce {{{reduce}}} %0 out_sharding=<@mesh, {result}> : tensor<8x4xf32>
          return %1 : tensor<8x4xf32>"""
    return Case(
        name,
        f"""
        func.func @main(%table: tensor<8x4xf32> ARG({table})ARG, %at: tensor<8xi32> ARG({indices})ARG) -> tensor<8x4xf32> {{
          %0 = "stablehlo.gather"(%table, %at) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}}>
            {{SH({result}{partial})SH}} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
          {final}
        }}""",
        {"1": np.array([0, 3, 4, 7, -1, 8, 2**31 - 1, -(2**31)], np.int32)},
    )


def _point_gather(dtype: str, values: np.ndarray) -> Case:
    """Single elements at index vectors, both dimensions of the table split."""
    count = len(values)
    return Case(
        f"elements at {dtype} index vectors",
        f"""
        func.func @main(%table: tensor<8x4xi32> ARG([{{"y"}}, {{"x"}}])ARG, %at: tensor<{count}x2x{dtype}>)
            -> tensor<{count}xi32> {{
          %0 = "stablehlo.gather"(%table, %at) <{{dimension_numbers = #stablehlo.gather<
            collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}}>
            {{SH([{{}}], unreduced={{"x", "y"}})SH}} : (tensor<8x4xi32>, tensor<{count}x2x{dtype}>) -> tensor<{count}xi32>
          %1 = sdy.all_reduce {{"x", "y"}} %0 out_sharding=<@mesh, [{{}}]> : tensor<{count}xi32>
          return %1 : tensor<{count}xi32>
        }}""",
        {"1": values},
    )


UNSIGNED = np.array([[0, 1], [7, 3], [8, 0], [200, 255], [255, 2], [3, 4]])

GATHERS = [
    _gather("rows of a whole table, indices split", '[{"x"}]', "[{}, {}]", '[{"x"}, {}]'),
    _gather("rows, columns of the table split", "[{}]", '[{}, {"y"}]', '[{}, {"y"}]'),
    _gather("rows of a split table", "[{}]", '[{"y"}, {}]', "[{}, {}]", '"y"'),
    _gather("rows of a table split out of order", "[{}]", '[{"y", "x"}, {}]', "[{}, {}]", '"x", "y"'),
    _gather("everything split", '[{"x"}]', '[{"y":(2)2}, {"y":(1)2}]', '[{"x"}, {"y":(1)2}]', '"y":(2)2'),
    _point_gather("i32", WILD),
    _point_gather("i64", WILD.astype(np.int64) * 2**20),
    _point_gather("i8", UNSIGNED.astype(np.uint8).view(np.int8)),
    _point_gather("ui8", UNSIGNED.astype(np.uint8)),
    _point_gather("ui32", (UNSIGNED * 2**24).astype(np.uint32)),
    _point_gather("ui64", UNSIGNED.astype(np.uint64) * np.uint64(2**56)),
    Case(
        "one split dimension of two, indices counted by a middle vector dimension",
        """
        func.func @main(%table: tensor<8x4xi32> ARG([{}, {"y"}])ARG, %at: tensor<4x2x2xi32> ARG([{"x"}, {}, {}])ARG)
            -> tensor<4x2xi32> {
          %0 = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<
            collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}>
            {SH([{"x"}, {}], unreduced={"y"})SH} : (tensor<8x4xi32>, tensor<4x2x2xi32>) -> tensor<4x2xi32>
          %1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x2xi32>
          return %1 : tensor<4x2xi32>
        }""",
        {"1": WILD[:8].reshape(4, 2, 2)},
    ),
    Case(
        "windows beside a split dimension of size-one windows",
        """
        func.func @main(%table: tensor<8x6xf32> ARG([{"y"}, {}])ARG, %at: tensor<8x2xi32> ARG([{"x"}, {}])ARG)
            -> tensor<8x1x3xf32> {
          %0 = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
            start_index_map = [0, 1], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 3>, indices_are_sorted = false}>
            {SH([{"x"}, {}, {}], unreduced={"y"})SH} : (tensor<8x6xf32>, tensor<8x2xi32>) -> tensor<8x1x3xf32>
          %1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{"x"}, {}, {}]> : tensor<8x1x3xf32>
          return %1 : tensor<8x1x3xf32>
        }""",
        {"1": WILD},
    ),
    Case(
        "a split dimension without an index is taken at 0",
        """
        func.func @main(%table: tensor<8x6xf32> ARG([{"y"}, {}])ARG, %at: tensor<5xi32>) -> tensor<5xf32> {
          %0 = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<
            collapsed_slice_dims = [0, 1], start_index_map = [1], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}>
            {SH([{}], unreduced={"y"})SH} : (tensor<8x6xf32>, tensor<5xi32>) -> tensor<5xf32>
          %1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{}]> : tensor<5xf32>
          return %1 : tensor<5xf32>
        }""",
        {"1": np.array([0, 5, 6, -1, 3], np.int32)},
    ),
    Case(
        "batching dimensions are split with their indices",
        """
        func.func @main(%table: tensor<4x8x6xf32> ARG([{"y"}, {"x"}, {}])ARG, %at: tensor<4x3x1xi32> ARG([{"y"}, {}, {}])ARG)
            -> tensor<4x3x6xf32> {
          %0 = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
            collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
            start_index_map = [1], index_vector_dim = 2>,
            slice_sizes = array<i64: 1, 1, 6>, indices_are_sorted = false}>
            {SH([{"y"}, {}, {}], unreduced={"x"})SH} : (tensor<4x8x6xf32>, tensor<4x3x1xi32>) -> tensor<4x3x6xf32>
          %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{"y"}, {}, {}]> : tensor<4x3x6xf32>
          return %1 : tensor<4x3x6xf32>
        }""",
        {"1": np.array([[0, 7, 8], [-1, 3, 4], [5, 100, 2], [1, 1, 6]], np.int32)[..., None]},
    ),
]


def _scatter(
    name: str,
    operand: str,
    indices: str,
    updates: str,
    result: str,
    reduce: str = "",
    op: str = "add",
    dtype: str = "f32",
) -> Case:
    """Rows of an 8x4 tensor updated at scalar indices."""
    partial = f", unreduced={{{reduce}}}" if reduce else ""
    final = f"return %0 : tensor<8x4x{dtype}>"
    if reduce:
        final = f"""%1 = sdy.all_reduce {{{reduce}}} %0 out_sharding=<@mesh, {result}> : tensor<8x4x{dtype}>
          return %1 : tensor<8x4x{dtype}>"""
    body = f"%c = stablehlo.{op} %p, %q : tensor<{dtype}>\n stablehlo.return %c : tensor<{dtype}>"
    if op == "set":
        body = f"stablehlo.return %q : tensor<{dtype}>"
    at = [0, 3, 4, 7, -1, 8, 2**31 - 1, -(2**31)] if op == "set" else [0, 3, 3, 7, -1, 8, 0, -(2**31)]
    return Case(
        name,
        f"""
        func.func @main(%a: tensor<8x4x{dtype}> ARG({operand})ARG, %at: tensor<8xi32> ARG({indices})ARG,
                        %u: tensor<8x4x{dtype}> ARG({updates})ARG) -> tensor<8x4x{dtype}> {{
          %0 = "stablehlo.scatter"(%a, %at, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
            update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{
            ^bb0(%p: tensor<{dtype}>, %q: tensor<{dtype}>):
              {body}
          }}) {{SH({result}{partial})SH}} : (tensor<8x4x{dtype}>, tensor<8xi32>, tensor<8x4x{dtype}>) -> tensor<8x4x{dtype}>
          {final}
        }}""",
        {"1": np.array(at, np.int32)},
    )


def _point_scatter(dtype: str, values: np.ndarray) -> Case:
    count = len(values)
    return Case(
        f"elements at {dtype} index vectors of a scatter",
        f"""
        func.func @main(%a: tensor<8x4xi32> ARG([{{"y"}}, {{"x"}}])ARG, %at: tensor<{count}x2x{dtype}>,
                        %u: tensor<{count}xi32>) -> tensor<8x4xi32> {{
          %0 = "stablehlo.scatter"(%a, %at, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
            inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1],
            index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{
            ^bb0(%p: tensor<i32>, %q: tensor<i32>):
              %c = stablehlo.add %p, %q : tensor<i32>
              stablehlo.return %c : tensor<i32>
          }}) {{SH([{{"y"}}, {{"x"}}])SH}} : (tensor<8x4xi32>, tensor<{count}x2x{dtype}>, tensor<{count}xi32>) -> tensor<8x4xi32>
          return %0 : tensor<8x4xi32>
        }}""",
        {"1": values},
    )


SCATTERS = [
    _scatter("rows added, columns split", '[{}, {"y"}]', "[{}]", '[{}, {"y"}]', '[{}, {"y"}]'),
    _scatter("rows added to a split tensor", '[{"y"}, {}]', "[{}]", "[{}, {}]", '[{"y"}, {}]'),
    _scatter("rows set in a split tensor", '[{"y", "x"}, {}]', "[{}]", "[{}, {}]", '[{"y", "x"}, {}]', op="set"),
    _scatter("updates split", "[{}, {}]", '[{"y"}]', '[{"y"}, {}]', "[{}, {}]", '"y"'),
    _scatter("everything split", '[{"y"}, {}]', '[{"x"}]', '[{"x"}, {}]', '[{"y"}, {}]', '"x"'),
    _scatter("split rows and split windows", '[{"x"}, {"y"}]', "[{}]", '[{}, {"y"}]', '[{"x"}, {"y"}]'),
    _scatter(
        "integers added, updates split",
        "[{}, {}]",
        '[{"x", "y"}]',
        '[{"x", "y"}, {}]',
        "[{}, {}]",
        '"x", "y"',
        dtype="i32",
    ),
    _point_scatter("i32", WILD),
    _point_scatter("i64", WILD.astype(np.int64) * 2**20),
    _point_scatter("i8", UNSIGNED.astype(np.uint8).view(np.int8)),
    _point_scatter("ui8", UNSIGNED.astype(np.uint8)),
    _point_scatter("ui32", (UNSIGNED * 2**24).astype(np.uint32)),
    _point_scatter("ui64", UNSIGNED.astype(np.uint64) * np.uint64(2**56)),
    Case(
        "windows beside a split dimension, and dropped where they stick out",
        """
        func.func @main(%a: tensor<8x6xf32> ARG([{"y"}, {}])ARG, %at: tensor<8x2xi32>, %u: tensor<8x3xf32>)
            -> tensor<8x6xf32> {
          %0 = "stablehlo.scatter"(%a, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
            update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1],
            index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %c = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %c : tensor<f32>
          }) {SH([{"y"}, {}])SH} : (tensor<8x6xf32>, tensor<8x2xi32>, tensor<8x3xf32>) -> tensor<8x6xf32>
          return %0 : tensor<8x6xf32>
        }""",
        {"1": np.array([[0, 0], [0, 3], [1, 4], [7, 3], [7, -1], [8, 0], [3, 2], [-1, 1]], np.int32)},
    ),
    Case(
        "two tensors at once",
        """
        func.func @main(%a: tensor<8xf32> ARG([{"y"}])ARG, %b: tensor<8xi32> ARG([{"y"}])ARG, %at: tensor<6x1xi32>,
                        %u: tensor<6xf32>, %v: tensor<6xi32>) -> (tensor<8xf32>, tensor<8xi32>) {
          %0:2 = "stablehlo.scatter"(%a, %b, %at, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
            inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
            ^bb0(%p: tensor<f32>, %q: tensor<i32>, %r: tensor<f32>, %s: tensor<i32>):
              %c = stablehlo.add %p, %r : tensor<f32>
              %d = stablehlo.maximum %q, %s : tensor<i32>
              stablehlo.return %c, %d : tensor<f32>, tensor<i32>
          }) {SH([{"y"}]; [{"y"}])SH}
            : (tensor<8xf32>, tensor<8xi32>, tensor<6x1xi32>, tensor<6xf32>, tensor<6xi32>) -> (tensor<8xf32>, tensor<8xi32>)
          return %0#0, %0#1 : tensor<8xf32>, tensor<8xi32>
        }""",
        {"2": np.array([[0], [7], [7], [-1], [8], [3]], np.int32)},
    ),
    Case(
        "batching dimensions of a scatter are split with their indices",
        """
        func.func @main(%a: tensor<4x8xf32> ARG([{"y"}, {"x"}])ARG, %at: tensor<4x3x1xi32> ARG([{"y"}, {}, {}])ARG,
                        %u: tensor<4x3xf32> ARG([{"y"}, {}])ARG) -> tensor<4x8xf32> {
          %0 = "stablehlo.scatter"(%a, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
            inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
            scatter_dims_to_operand_dims = [1], index_vector_dim = 2>,
            indices_are_sorted = false, unique_indices = false}> ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %c = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %c : tensor<f32>
          }) {SH([{"y"}, {"x"}])SH} : (tensor<4x8xf32>, tensor<4x3x1xi32>, tensor<4x3xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }""",
        {"1": np.array([[0, 7, 8], [-1, 3, 4], [5, 100, 2], [1, 1, 6]], np.int32)[..., None]},
    ),
]


def _update(start: int, size: int, dtype: str = "f32", index: str = "i32") -> Case:
    value = {"bf16": ml_dtypes.bfloat16}.get(dtype, np.float32)
    return Case(
        f"{size} {dtype} at {start} ({index})",
        f"""
        func.func @main(%a: tensor<16x6x{dtype}> ARG([{{"y", "x"}}, {{}}])ARG, %u: tensor<{size}x3x{dtype}>,
                        %s: tensor<{index}>, %t: tensor<{index}>) -> tensor<16x6x{dtype}> {{
          %0 = stablehlo.dynamic_update_slice %a, %u, %s, %t {{SH([{{"y", "x"}}, {{}}])SH}}
            : (tensor<16x6x{dtype}>, tensor<{size}x3x{dtype}>, tensor<{index}>, tensor<{index}>) -> tensor<16x6x{dtype}>
          return %0 : tensor<16x6x{dtype}>
        }}""",
        {
            "1": (np.arange(1, 3 * size + 1).reshape(size, 3) + 0.5).astype(value),
            "2": np.array(start).astype({"i32": np.int32, "ui8": np.uint8, "i64": np.int64, "ui32": np.uint32}[index]),
            "3": np.array(2).astype({"i32": np.int32, "ui8": np.uint8, "i64": np.int64, "ui32": np.uint32}[index]),
        },
    )


UPDATES = [
    *(_update(start, size) for start in (-3, 0, 1, 5, 8, 13, 15, 100) for size in (1, 3, 9)),
    _update(7, 16),
    _update(255, 3, index="ui8"),
    _update(2**32 - 1, 3, index="ui32"),
    _update(-(2**40), 3, index="i64"),
    _update(2**40, 3, index="i64"),
    _update(6, 5, dtype="bf16"),
    Case(
        "an update across two split dimensions",
        """
        func.func @main(%a: tensor<8x8x2xf32> ARG([{"x"}, {"y"}, {}])ARG, %u: tensor<5x3x1xf32>) -> tensor<8x8x2xf32> {
          %s = stablehlo.constant dense<2> : tensor<i32>
          %t = stablehlo.constant dense<4> : tensor<i32>
          %v = stablehlo.constant dense<1> : tensor<i32>
          %0 = stablehlo.dynamic_update_slice %a, %u, %s, %t, %v {SH([{"x"}, {"y"}, {}])SH}
            : (tensor<8x8x2xf32>, tensor<5x3x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x8x2xf32>
          return %0 : tensor<8x8x2xf32>
        }""",
    ),
    Case(
        "an update split as the tensor beside one across shards",
        """
        func.func @main(%a: tensor<8x8xf32> ARG([{"x"}, {"y"}])ARG, %u: tensor<5x8xf32> ARG([{}, {"y"}])ARG,
                        %s: tensor<i32>) -> tensor<8x8xf32> {
          %0 = stablehlo.dynamic_update_slice %a, %u, %s, %s {SH([{"x"}, {"y"}])SH}
            : (tensor<8x8xf32>, tensor<5x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
          return %0 : tensor<8x8xf32>
        }""",
        {"2": np.array(2, np.int32)},
    ),
]


def _slice(name: str, sharding: str, result: str, sizes: str, reduce: str, starts: np.ndarray, dtype: str) -> Case:
    """A part of an 8x12 table, summed along the axes that split what is cut."""
    part = f"tensor<{sizes}x{dtype}>"
    place = f"tensor<{'ui8' if starts.dtype == np.uint8 else 'i32'}>"
    return Case(
        f"{name}, from {starts.dtype}{starts.tolist()}",
        f"""
        func.func @main(%table: tensor<8x12x{dtype}> ARG({sharding})ARG, %i: {place}, %j: {place}) -> {part} {{
          %0 = stablehlo.dynamic_slice %table, %i, %j, sizes = [{sizes.replace("x", ", ")}]
            {{SH({result}, unreduced={{{reduce}}})SH}} : (tensor<8x12x{dtype}>, {place}, {place}) -> {part}
          %1 = sdy.all_reduce {{{reduce}}} %0 out_sharding=<@mesh, {result}> : {part}
          return %1 : {part}
        }}""",
        {"1": starts[0], "2": starts[1]},
    )


SLICES = [
    made
    for starts in (*np.array([(0, 0), (-5, 7), (2**31 - 1, 4), (6, 5)], np.int32), np.array([3, 255], np.uint8))
    for made in (
        _slice("a row", '[{"y"}, {}]', "[{}, {}]", "1x12", '"y"', starts, "f32"),
        _slice("more rows than a shard has", '[{"y", "x"}, {}]', "[{}, {}]", "5x12", '"x", "y"', starts, "i32"),
        _slice("a row of which each device has some", '[{"x"}, {"y"}]', '[{}, {"y"}]', "1x12", '"x"', starts, "bf16"),
        _slice("a corner", '[{"x"}, {"y"}]', "[{}, {}]", "2x7", '"x", "y"', starts, "f32"),
        _slice("columns of split rows", '[{"y"}, {"x"}]', '[{"y"}, {}]', "8x3", '"x"', starts, "i1"),
    )
]

CASES = [*GATHERS, *SCATTERS, *UPDATES, *SLICES]


@pytest.fixture(scope="module")
def by_case() -> dict[str, str]:
    return problems(CASES)


def test_names_are_unique() -> None:
    for family in (GATHERS, SCATTERS, UPDATES, SLICES):
        assert len({case.name for case in family}) == len(family)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_lookup_gives_what_one_device_computes(by_case: dict[str, str], number: int) -> None:
    name = CASES[number].name
    assert name not in by_case, by_case[name]


def test_an_update_of_few_rows_touches_as_many_of_a_shard() -> None:
    """A row of a cache that is split along its rows, as decoding writes one every step."""
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%cache: tensor<4096x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                    %row: tensor<1x8xf32>, %at: tensor<i32>, %zero: tensor<i32>) -> tensor<4096x8xf32> {
      %0 = stablehlo.dynamic_update_slice %cache, %row, %at, %zero
          : (tensor<4096x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4096x8xf32>
      return %0 : tensor<4096x8xf32>
    }
    """
    local = sw.load(text).plan().partition().module("local")
    touching = [line for line in local.splitlines() if "tensor<1024x8xf32>" in line]
    assert [line.split("stablehlo.")[-1].split()[0] for line in touching if "stablehlo." in line] == [
        "dynamic_slice",
        "dynamic_update_slice",
    ]


def test_a_scatter_into_a_split_dimension_does_nothing_with_indices_but_to_shift_them() -> None:
    """StableHLO drops what does not fit into a shard, so nothing has to be asked of an index."""
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%table: tensor<4096x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                    %at: tensor<64x2xi32>, %new: tensor<64xf32>) -> tensor<4096x8xf32> {
      %0 = "stablehlo.scatter"(%table, %at, %new) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
      ^bb0(%old: tensor<f32>, %one: tensor<f32>):
        stablehlo.return %one : tensor<f32>
      }) : (tensor<4096x8xf32>, tensor<64x2xi32>, tensor<64xf32>) -> tensor<4096x8xf32>
      return %0 : tensor<4096x8xf32>
    }
    """
    local = sw.load(text).plan().partition().module("local")
    elementwise = [name for name in ("add", "and", "compare", "select", "subtract") if f"stablehlo.{name} " in local]
    assert elementwise == ["subtract"]


def test_a_row_of_a_split_stack_is_all_that_is_sent() -> None:
    """As a loop over layers takes it, the stack of which is split along its layers."""
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%stack: tensor<64x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>},
                    %at: tensor<i32>, %zero: tensor<i32>) -> tensor<1x8x8xf32> {
      %0 = stablehlo.dynamic_slice %stack, %at, %zero, %zero, sizes = [1, 8, 8]
          : (tensor<64x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      return %0 : tensor<1x8x8xf32>
    }
    """
    spmd = sw.load(text).plan().partition()
    assert list(spmd.traffic.kinds) == ["all_reduce"]
    assert spmd.traffic.total.executed_bytes == 2 * 3 / 4 * 8 * 8 * 4

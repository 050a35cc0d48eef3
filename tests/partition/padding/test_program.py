"""What a padded program looks like: which values are padded, where padding is masked, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read
from shardwright.partition import check, localize, materialize
from shardwright.partition.padding import pad_uneven
from shardwright.propagation import propagate

ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
SEVEN = "tensor<7x6xf32>"


def program(*lines: str, result: str = SEVEN, arguments: str = f"%a: {SEVEN} {ROWS}", mesh: str = '"x"=4') -> str:
    body = "\n  ".join(lines)
    return f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func @main({arguments}) -> {result} {{\n  {body}\n}}"


def partition(text: str) -> sw.Spmd:
    return sw.load(text).plan().partition()


def padded(text: str) -> Graph:
    return pad_uneven(propagate(read(load_module(text)))).graph


def names(graph: Graph) -> Counter[str]:
    return Counter(op.name.removeprefix("stablehlo.") for op in graph.walk())


def test_a_program_that_divides_is_left_as_it_is() -> None:
    graph = propagate(read(load_module(program(f"return %a : {SEVEN}", mesh='"x"=7'))))
    assert pad_uneven(graph).graph is graph


def test_elements_are_masked_nowhere() -> None:
    spmd = partition(program(f"%0 = stablehlo.tanh %a : {SEVEN}", f"return %0 : {SEVEN}"))
    assert names(spmd.explicit) == Counter(constant=1, pad=1, tanh=1, slice=1) + Counter({"func.return": 1})
    assert spmd.traffic.total.static == 0


def test_what_is_reduced_is_masked_once_for_each_kind() -> None:
    zero = "%z = stablehlo.constant dense<0.0> : tensor<f32>"
    low = "%l = stablehlo.constant dense<0xFF800000> : tensor<f32>"
    across = f"across dimensions = [0] : ({SEVEN}, tensor<f32>) -> tensor<6xf32>"
    text = program(
        f"%0 = stablehlo.exponential %a : {SEVEN}",
        zero,
        low,
        f"%1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add {across}",
        f"%2 = stablehlo.reduce(%0 init: %z) applies stablehlo.add {across}",
        f"%3 = stablehlo.reduce(%0 init: %l) applies stablehlo.maximum {across}",
        "%4 = stablehlo.add %1, %2 : tensor<6xf32>",
        "%5 = stablehlo.add %3, %4 : tensor<6xf32>",
        "return %5 : tensor<6xf32>",
        result="tensor<6xf32>",
    )
    assert names(partition(text).explicit)["select"] == 2


@pytest.mark.parametrize(("op", "masks"), [("transpose %a, dims = [1, 0]", 0), ("transpose %e, dims = [1, 0]", 2)])
def test_what_is_contracted_is_masked_unless_it_is_known_to_be_zero(op: str, masks: int) -> None:
    """An argument is padded with zeros, which a transpose keeps; its exponentials are none."""
    other = "%a" if masks == 0 else "%e"
    text = program(
        f"%e = stablehlo.exponential %a : {SEVEN}",
        f"%t = stablehlo.{op} : ({SEVEN}) -> tensor<6x7xf32>",
        f"%0 = stablehlo.dot_general %t, {other}, contracting_dims = [1] x [0] "
        f": (tensor<6x7xf32>, {SEVEN}) -> tensor<6x6xf32>",
        "return %0 : tensor<6x6xf32>",
        result="tensor<6x6xf32>",
    )
    assert names(partition(text).explicit)["select"] == masks


def test_seven_rows_over_four_devices_are_two_rows_of_work_and_send_nothing() -> None:
    text = program(
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({SEVEN}, tensor<6x5xf32>) -> tensor<7x5xf32>",
        "return %0 : tensor<7x5xf32>",
        result="tensor<7x5xf32>",
        arguments=f"%a: {SEVEN} {ROWS}, %b: tensor<6x5xf32>",
    )
    spmd = partition(text)
    (product,) = (op for op in spmd.local.walk() if op.name == "stablehlo.dot_general")
    assert [type.dims for type in product.signature.operands] == [(2, 6), (6, 5)]
    assert spmd.traffic.total.static == 0
    assert spmd.notes == ()


def test_values_carried_round_a_loop_stay_split() -> None:
    spmd = partition(
        program(
            "%c = stablehlo.constant dense<3> : tensor<i32>",
            f"%1:2 = stablehlo.while(%i = %c, %s = %a) : tensor<i32>, {SEVEN}",
            "cond { %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>",
            "stablehlo.return %p : tensor<i1> }",
            f"do {{ %n = stablehlo.add %i, %c : tensor<i32>\n %t = stablehlo.tanh %s : {SEVEN}",
            f"stablehlo.return %n, %t : tensor<i32>, {SEVEN} }}",
            f"return %1#1 : {SEVEN}",
        )
    )
    (loop,) = (op for op in spmd.local.walk() if op.name == "stablehlo.while")
    assert [type.dims for type in loop.signature.results] == [(), (2, 6)]
    assert spmd.traffic.total.static == 0


def test_a_table_that_does_not_divide_is_looked_up_and_scattered_to_as_one_that_does() -> None:
    """The vocabulary of GPT-2 over four devices: as much work, and as many bytes, as of three words more."""

    def loss(table: Any, words: Any) -> Any:
        logits = table[words] @ table.T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), words[:, None], 1).mean()

    cost = []
    for count in (50257, 50260):
        table = jax.ShapeDtypeStruct((count, 8), "float32")
        program = sw.from_jax(jax.grad(loss), table, jax.ShapeDtypeStruct((16,), "int32"))
        spmd = program.shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
        assert spmd.notes == ()
        products = [op.signature.operands for op in spmd.local.walk() if op.name == "stablehlo.dot_general"]
        cost.append((spmd.traffic.total, products))
    assert cost[0] == cost[1]


def test_an_explicit_program_is_read_again_as_it_is() -> None:
    columns = ROWS.replace('{"x"}, {}', '{}, {"x"}')
    spmd = partition(
        program(f"%0 = stablehlo.tanh %a : {SEVEN}", f"return %0 : {SEVEN}", result=f"({SEVEN} {columns})")
    )
    again = partition(spmd.module("explicit"))
    assert again.in_shardings == spmd.in_shardings
    assert names(again.explicit) == names(spmd.explicit)
    assert names(again.local) == names(spmd.local)


def test_a_program_without_collectives_is_read_again_as_it_is() -> None:
    """Nothing tells that it is explicit: it is partitioned once more, and nothing is padded twice."""
    spmd = partition(program(f"%0 = stablehlo.tanh %a : {SEVEN}", f"return %0 : {SEVEN}"))
    again = partition(spmd.module("explicit"))
    assert names(again.local) == names(spmd.local)
    assert (again.in_shardings, again.out_shardings) == (spmd.in_shardings, spmd.out_shardings)


def test_no_other_op_reads_an_uneven_argument() -> None:
    made = read(load_module(program(f"%0 = stablehlo.tanh %a {ROWS_OF_VALUE} : {SEVEN}", f"return %0 : {SEVEN}")))
    with pytest.raises(ShardingError, match="does not divide"):
        check(made)
    with pytest.raises(ShardingError, match="into equal parts"):
        localize(made)


ROWS_OF_VALUE = '{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}'


def test_padding_that_moves_rows_is_no_way_in() -> None:
    """Padded by two rows, or in front, the shards of the wider tensor are others."""
    for low, high in ((0, 5), (1, 0)):
        wider = f"tensor<{7 + low + high}x6xf32>"
        made = read(
            load_module(
                program(
                    "%z = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>} dense<0.0> : tensor<f32>",
                    f"%0 = stablehlo.pad %a, %z, low = [{low}, 0], high = [{high}, 0], interior = [0, 0] "
                    f"{ROWS_OF_VALUE} : ({SEVEN}, tensor<f32>) -> {wider}",
                    f"return %0 : {wider}",
                    result=wider,
                )
            )
        )
        with pytest.raises(ShardingError, match="does not divide"):
            check(made)


def test_a_shard_is_filled_up_with_the_padding_value() -> None:
    text = program(
        "%o = stablehlo.constant dense<2.0> : tensor<f32>",
        f"%0 = stablehlo.pad %a, %o, low = [0, 0], high = [1, 0], interior = [0, 0] : ({SEVEN}, tensor<f32>) -> tensor<8x6xf32>",
        "return %0 : tensor<8x6xf32>",
        result=f"(tensor<8x6xf32> {ROWS})",
    )
    spmd = partition(text)
    assert spmd.traffic.total.static == 0
    spmd.verify().require()


def test_decisions_about_a_padded_program_are_those_of_an_even_one() -> None:
    """What is decided of seven rows is what is decided of eight, and at the boundary nothing is sent."""
    lines = (
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<{n}x6xf32>, tensor<{n}x6xf32>) -> tensor<6x6xf32>",
        "%1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0] : (tensor<{n}x6xf32>, tensor<6x6xf32>) -> tensor<{n}x6xf32>",
        "return %1 : tensor<{n}x6xf32>",
    )
    sent = []
    for rows in (7, 8):
        type = f"tensor<{rows}x6xf32>"
        text = program(*[line.format(n=rows) for line in lines], result=type, arguments=f"%a: {type} {ROWS}")
        sent.append(partition(text).traffic.total)
    assert sent[0] == sent[1]


def test_a_result_that_is_asked_for_along_another_dimension_is_exchanged() -> None:
    """Seven rows and ten columns over four devices: an all_to_all of 8x12, and nothing is gathered."""
    ten = "tensor<7x10xf32>"
    columns = ROWS.replace('{"x"}, {}', '{}, {"x"}')
    text = program(
        f"%0 = stablehlo.tanh %a : {ten}",
        f"return %0 : {ten}",
        result=f"({ten} {columns})",
        arguments=f"%a: {ten} {ROWS}",
    )
    spmd = partition(text)
    assert [repr(one) for one in (*spmd.in_shardings, *spmd.out_shardings)] == ["[{x}, {}]", "[{}, {x}]"]
    assert set(spmd.traffic.kinds) == {"all_to_all"}
    assert spmd.traffic.total.executed_bytes == 3 / 4 * 2 * 12 * 4
    spmd.verify().require()


def test_a_materialized_program_alone_keeps_what_divides() -> None:
    """Without the program that was annotated, arguments lie as propagation left them, and are split behind."""
    graph = propagate(read(load_module(program(f"%0 = stablehlo.tanh %a : {SEVEN}", f"return %0 : {SEVEN}"))))
    explicit = materialize(graph).graph
    check(explicit)
    (argument,) = explicit.main.block.arguments
    assert repr(explicit.shardings[argument]) == "[{}, {}]"
    (tanh,) = (op for op in explicit.walk() if op.name == "stablehlo.tanh")
    assert tanh.signature.results[0].dims == (8, 6)


@pytest.mark.parametrize(
    ("lines", "result", "expected"),
    [
        ((f"%0 = stablehlo.slice %a [1:7, 0:6] : ({SEVEN}) -> tensor<6x6xf32>",
          f"%1 = stablehlo.slice %a [0:1, 0:6] : ({SEVEN}) -> tensor<1x6xf32>",
          f"%r = stablehlo.concatenate %0, %1, dim = 0 : (tensor<6x6xf32>, tensor<1x6xf32>) -> {SEVEN}"), SEVEN, 3),  # one of padding
        ((f"%r = stablehlo.slice %a [0:7:2, 0:6] : ({SEVEN}) -> tensor<4x6xf32>",), "tensor<4x6xf32>", 0),
        (("%z = stablehlo.constant dense<0.0> : tensor<f32>",
          f"%r = stablehlo.pad %a, %z, low = [0, 0], high = [0, 0], interior = [1, 0] "
          f": ({SEVEN}, tensor<f32>) -> tensor<13x6xf32>"), "tensor<13x6xf32>", 0),
    ],
    ids=["a roll", "every other row", "a row between any two"],
)  # fmt: skip
def test_of_seven_rows_those_are_sent_that_cross(lines: tuple[str, ...], result: str, expected: int) -> None:
    spmd = partition(program(*lines, f"return %r : {result}", result=f"({result} {ROWS})"))
    assert spmd.traffic.total.executed_bytes == expected * 6 * 4
    assert spmd.notes == ()


def test_of_whole_tensors_that_are_stacked_nothing_is_selected() -> None:
    """Two of them over three devices: each was padded by itself, and one of both selected."""
    pair, row = "tensor<2x6xf32>", "tensor<1x6xf32>"
    text = program(
        f"%0 = stablehlo.concatenate %a, %b, dim = 0 : ({row}, {row}) -> {pair}",
        f"return %0 : {pair}",
        result=f"({pair} {ROWS})",
        arguments=f"%a: {row}, %b: {row}",
        mesh='"x"=3',
    )
    spmd = partition(text)
    assert names(spmd.explicit)["concatenate"] == 1
    assert not names(spmd.explicit)["select"]
    assert spmd.traffic.total.static == 0
    assert spmd.verify().ok


def test_kernels_of_seven_features_by_themselves_are_two_on_each_device() -> None:
    image, kernel = "tensor<2x9x9x7xf32>", "tensor<3x3x1x7xf32>"
    text = program(
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 7 : i64} "
        f": ({image}, {kernel}) -> {image}",
        f"return %0 : {image}",
        result=f'({image} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{}}, {{"x"}}]>}})',
        arguments=f'%a: {image} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{}}, {{"x"}}]>}}, %b: {kernel}',
    )
    spmd = partition(text)
    (made,) = (op for op in spmd.local.walk() if op.name == "stablehlo.convolution")
    assert (made.signature.get("feature_group_count"), made.signature.results[0].dims[3]) == (2, 2)
    assert spmd.traffic.total.static == 0


def _windows(kind: str, image: Any, kernel: Any) -> Any:
    if kind == "convolution":
        return jax.lax.conv(image, kernel, (1, 1), "SAME")
    if kind == "pooling":
        return jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 1, 1), "SAME")
    return jax.lax.reduce_window(image, 0.0, jax.lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


@pytest.mark.parametrize(("kind", "rows"), [("convolution", 2), ("pooling", 2), ("beside", 3)])
def test_windows_of_an_uneven_image_send_a_halo(kind: str, rows: int) -> None:
    """Of 65 or 66 rows over four devices, 17 on each: a row of each neighbour; or those that 9 windows of two take."""
    size = 66 if kind == "beside" else 65
    image = jax.ShapeDtypeStruct((2, 3, size, 128), "float32")
    kernel = jax.ShapeDtypeStruct((4, 3, 3, 3), "float32")
    program = sw.from_jax(lambda image, kernel: _windows(kind, image, kernel), image, kernel)
    spmd = program.shard(sw.Mesh(x=4), args={0: "-,-,x,-"}).partition(strict=True)
    assert set(spmd.traffic.kinds) == {"collective_permute"}
    assert spmd.traffic.total.executed_bytes == rows * 2 * 3 * 128 * 4
    assert spmd.notes == ()


def test_windows_along_what_is_on_one_device_are_as_those_of_what_is_whole() -> None:
    """A sharding on a single device has no dimensions."""
    image, kernel = "tensor<1x1x7xf32>", "tensor<1x1x3xf32>"
    dims = "dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[1, 1]]}"
    groups = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    text = program(
        f"%0 = stablehlo.convolution(%a, %k) {dims} {groups} : ({image}, {kernel}) -> {image}",
        f"return %0 : {image}",
        result=f'({image} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{"x"}}]>}})',
        arguments=f"%a: {image} {{sdy.sharding = #sdy.sharding<mesh<[], device_ids=[2]>, []>}}, %k: {kernel}",
    )
    partition(text).verify().require()


def test_rows_of_what_is_on_one_device_are_concatenated() -> None:
    """Six rows over eight devices, of a value whose sharding has no dimensions."""
    rows = "tensor<2xi32>"
    text = program(
        f"%0 = stablehlo.concatenate %a, %a, %a, dim = 0 : ({rows}, {rows}, {rows}) -> tensor<6xi32>",
        "return %0 : tensor<6xi32>",
        result='(tensor<6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})',
        arguments=f"%a: {rows} {{sdy.sharding = #sdy.sharding<mesh<[], device_ids=[2]>, []>}}",
    )
    partition(text).verify().require()


@pytest.mark.parametrize("columns", [12, 11])
@pytest.mark.parametrize("kind", ["sort", "fft", "largest"])
def test_what_is_sorted_along_an_uneven_dimension_is_split_along_another(kind: str, columns: int) -> None:
    """An all_to_all there and one back, of 12 columns also where there are 11, and nothing is computed twice."""
    functions = {
        "sort": lambda a: jnp.sort(a, 0),
        "fft": lambda a: jnp.fft.fft(a, axis=0).real,
        "largest": lambda a: jax.lax.top_k(a.T, 3)[0],
    }
    rows = jax.ShapeDtypeStruct((130, columns), "float32")
    spmd = sw.from_jax(functions[kind], rows).shard(sw.Mesh(x=4), args={0: "x,-"}).partition(strict=True)
    (made,) = (op for op in spmd.local.walk() if op.name.split(".")[1] in ("sort", "fft", "top_k"))
    assert sorted(made.signature.operands[0].dims) == [3, 130]
    assert spmd.traffic.kinds["all_to_all"].executed_bytes % (132 * 3 * 4 * 3 // 4) == 0
    spmd.verify().require()


def test_of_what_is_sorted_on_one_device_no_axes_go_elsewhere() -> None:
    text = program(
        '%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({',
        "^bb0(%l: tensor<f32>, %r: tensor<f32>):",
        "%p = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        f"stablehlo.return %p : tensor<i1> }}) : ({SEVEN}) -> {SEVEN}",
        f"return %0 : {SEVEN}",
        result=f"({SEVEN} {ROWS})",
        arguments=f"%a: {SEVEN} {{sdy.sharding = #sdy.sharding<mesh<[], device_ids=[2]>, []>}}",
    )
    partition(text).verify().require()


def test_rows_of_nothing_are_sorted() -> None:
    rows = jax.ShapeDtypeStruct((7, 0), "float32")
    spmd = sw.from_jax(lambda a: jnp.sort(a, 0), rows).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    spmd.verify().require()

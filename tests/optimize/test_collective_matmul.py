"""Products that go round rings with their collectives: on which meshes, of which products, and which stay."""

from __future__ import annotations

import pytest

from shardwright.analysis.traffic import collectives, summarize
from shardwright.cost.hardware import Hardware
from shardwright.memo import Session
from shardwright.optimize import optimize
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import block_seconds
from shardwright.partition import localize
from tests.optimize.explicit import MESH, NO_LATENCY, Better, better, function, names, run_all
from tests.optimize.test_scheduling import explicit_of

_NAME = "collective-matmul"
_DOT = "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
_BATCHED = "(tensor<8x32x32xf32>, tensor<8x32x32xf32>) -> tensor<8x32x32xf32>"


def _gathered(axes: str, mesh: str = MESH, dtype: str = "f32") -> str:
    """Rows that are gathered along axes, and multiplied."""
    return function(
        [f"a: tensor<64x64x{dtype}> [{{{axes}}}, {{}}]", f"b: tensor<64x64x{dtype}> [{{}}, {{}}]"],
        f"tensor<64x64x{dtype}> [{{}}, {{}}]",
        f"""
        %0 = sdy.all_gather [{{{axes}}}, {{}}] %a «[{{}}, {{}}]» : tensor<64x64x{dtype}>
        %1 = stablehlo.dot %0, %b «[{{}}, {{}}]» : {_DOT.replace("f32", dtype)}
        return %1 : tensor<64x64x{dtype}>
        """,
        mesh,
    )


def _rung(text: str, exact: bool = False) -> Better:
    made = better(text, _NAME, exact=exact, hardware=NO_LATENCY)
    before, after = (summarize(collectives(localize(graph))).total for graph in (made.before, made.after))
    assert after.executed_bytes == before.executed_bytes
    return made


_REVERSED = MESH.replace("]>", "], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>")

RUNG = {
    "along both axes": _gathered('"x", "y"'),
    "along both axes, the minor first": _gathered('"y", "x"'),
    "along a part of an axis": _gathered('"y":(2)2'),
    "devices in another order": _gathered('"y"', _REVERSED),
    "with what is partial along another axis": function(
        ['a: tensor<64x64xf32> [{"y"}, {"x"}]', 'b: tensor<64x64xf32> [{"x"}, {}]'],
        "tensor<64x64xf32> [{}, {}]",
        f"""
        %0 = sdy.all_gather [{{"y"}}, {{}}] %a «[{{}}, {{"x"}}]» : tensor<64x64xf32>
        %1 = stablehlo.dot %0, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
        %2 = sdy.all_reduce {{"x"}} %1 «[{{}}, {{}}]» : tensor<64x64xf32>
        return %2 : tensor<64x64xf32>
        """,
    ),
    "with batches": function(
        ['a: tensor<8x32x32xf32> [{"x"}, {"y"}, {}]', 'b: tensor<8x32x32xf32> [{"x"}, {}, {}]'],
        'tensor<8x32x32xf32> [{"x"}, {}, {}]',
        f"""
        %0 = sdy.all_gather [{{}}, {{"y"}}, {{}}] %a «[{{"x"}}, {{}}, {{}}]» : tensor<8x32x32xf32>
        %1 = stablehlo.dot_general %0, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] «[{{"x"}}, {{}}, {{}}]» : {_BATCHED}
        return %1 : tensor<8x32x32xf32>
        """,
    ),
    "scattered along a batch": function(
        ['a: tensor<8x32x32xf32> [{}, {}, {"y"}]', 'b: tensor<8x32x32xf32> [{}, {"y"}, {"x"}]'],
        'tensor<8x32x32xf32> [{"y"}, {}, {"x"}]',
        f"""
        %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] «[{{}}, {{}}, {{"x"}}], unreduced={{"y"}}» : {_BATCHED}
        %1 = sdy.reduce_scatter [{{"y"}}, {{}}, {{}}] %0 «[{{"y"}}, {{}}, {{"x"}}]» : tensor<8x32x32xf32>
        return %1 : tensor<8x32x32xf32>
        """,
    ),
    "one behind the other": function(
        ['a: tensor<64x64xf32> [{"y"}, {}]', 'b: tensor<64x64xf32> [{}, {"y"}]', 'c: tensor<64x64xf32> [{"y"}, {}]'],
        'tensor<64x64xf32> [{"y"}, {}]',
        f"""
        %0 = sdy.all_gather [{{"y"}}, {{}}] %a «[{{}}, {{}}]» : tensor<64x64xf32>
        %1 = stablehlo.dot %0, %b «[{{}}, {{"y"}}]» : {_DOT}
        %2 = stablehlo.dot %1, %c «[{{}}, {{}}], unreduced={{"y"}}» : {_DOT}
        %3 = sdy.reduce_scatter [{{"y"}}, {{}}] %2 «[{{"y"}}, {{}}]» : tensor<64x64xf32>
        return %3 : tensor<64x64xf32>
        """,
    ),
}


def test_products_around_rings_compute_the_same_and_send_the_same_bytes() -> None:
    run_all((name, _rung(text)) for name, text in RUNG.items())


def test_of_a_layer_both_products_go_round() -> None:
    """What Megatron's sequence parallelism has: gathered before the first product, scattered behind the second."""
    made = _rung(RUNG["one behind the other"])
    assert names(made.after).count("manual_computation") == 2
    assert names(made.after).count("collective_permute") == 6


def test_of_whole_numbers_it_is_exact() -> None:
    run_all([("integers", _rung(_gathered('"y"', dtype="i32"), exact=True))], bits=True)
    better(_gathered('"y"'), _NAME, exact=True, hardware=NO_LATENCY, changes=False)


def _left(body: str, result: str = "tensor<64x64xf32> [{}, {}]") -> str:
    arguments = ['a: tensor<64x64xf32> [{"y"}, {}]', "b: tensor<64x64xf32> [{}, {}]"]
    return function(arguments, result, f"{_GATHER}\n{body}")


_GATHER = '%0 = sdy.all_gather [{"y"}, {}] %a «[{}, {}]» : tensor<64x64xf32>'
_LEFT = {
    "somebody else reads what is gathered": _left(
        f"""
        %1 = stablehlo.dot %0, %b «[{{}}, {{}}]» : {_DOT}
        %2 = stablehlo.subtract %1, %0 «[{{}}, {{}}]» : tensor<64x64xf32>
        return %2 : tensor<64x64xf32>
        """
    ),
    "both operands are what is gathered": _left(
        f"%1 = stablehlo.dot %0, %0 «[{{}}, {{}}]» : {_DOT}\nreturn %1 : tensor<64x64xf32>"
    ),
    "devices that hold the same would add in other orders": _left(
        f"%1 = stablehlo.dot %b, %0 «[{{}}, {{}}]» : {_DOT}\nreturn %1 : tensor<64x64xf32>"
    ),
    "it is no product": _left("%1 = stablehlo.tanh %0 «[{}, {}]» : tensor<64x64xf32>\nreturn %1 : tensor<64x64xf32>"),
}


@pytest.mark.parametrize("name", _LEFT)
def test_it_is_left(name: str) -> None:
    better(_LEFT[name], _NAME, hardware=NO_LATENCY, changes=False)


def test_where_starts_cost_more_than_is_hidden_it_is_left() -> None:
    """Of a product of 64³ multiply-adds, and of 16 KiB that are sent."""
    turns = {}
    for start in (1e-9, 1e-7, 1e-4):
        with Session(hardware=Hardware("a box", 1e11, start, 64**3 / 2e-7, peaks=(("f32", 2 * 64**3 / 2e-7),))):
            turns[start] = len(optimize(explicit_of(_gathered('"y"')), [_NAME]).improvements)
    assert turns == {1e-9: 1, 1e-7: 0, 1e-4: 0}


def test_where_parts_of_products_lose_more_than_is_hidden_it_is_left() -> None:
    """Sent is 0.16 µs of 0.36 in all; of the product's 0.2 µs, parts lose some."""
    turns, of_f32 = {}, (("f32", 2 * 64**3 / 2e-7),)
    for lost in (0.1, 0.5, 0.9):
        box = Hardware("a box", 1e11, 1e-9, 64**3 / 2e-7, None, 1e15, of_f32, lost_in_parts=lost)
        with Session(hardware=box):
            turns[lost] = len(optimize(explicit_of(_gathered('"y"')), [_NAME]).improvements)
    assert turns == {0.1: 1, 0.5: 1, 0.9: 0}


def test_what_is_hidden_already_is_left() -> None:
    text = _left(
        f"""
        %1 = stablehlo.dot %b, %b «[{{}}, {{}}]» : {_DOT}
        %2 = stablehlo.dot %0, %1 «[{{}}, {{}}]» : {_DOT}
        return %2 : tensor<64x64xf32>
        """
    )
    better(text, _NAME, hardware=Hardware("a box", 1e15, 1e-9, 64**3 / 2e-7), changes=False)


def test_long_rings_are_left() -> None:
    long, longer = (f'sdy.mesh @mesh = <["x"=2, "y"={size}]>' for size in (16, 32))
    with Session(hardware=NO_LATENCY):
        assert optimize(explicit_of(_gathered('"y"', long)), [_NAME]).improvements
        assert not optimize(explicit_of(_gathered('"y"', longer)), [_NAME]).improvements


def test_the_log_says_what_the_block_takes_less() -> None:
    with Session(hardware=NO_LATENCY):
        graph = explicit_of(RUNG["one behind the other"])
        made = optimize(graph, [_NAME])
        seconds = [block_seconds(ExplicitProgram(one), one.main.block.ops) for one in (graph, made.graph)]
    assert sum(one.seconds_saved for one in made.improvements) == pytest.approx(seconds[0] - seconds[1])
    assert {one.bytes_saved for one in made.improvements} == {0.0}


def test_all_passes_together_compute_the_same() -> None:
    run_all((name, better(text, hardware=NO_LATENCY)) for name, text in RUNG.items())

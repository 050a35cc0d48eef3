"""What is held beside arguments and results, once compilers have made kernels of it."""

from __future__ import annotations

import pytest

from shardwright.analysis.fusion import fusion_of
from shardwright.analysis.memory import memory
from shardwright.analysis.temporaries import temporary_bytes
from shardwright.ir.context import load_module
from shardwright.notation.modules import read

BIG = "tensor<16x16xf32>"
KIB = 1024
DOT = f"({BIG}, {BIG}) -> {BIG}"


def held(body: str, results: int = 1, arguments: str = f"%x: {BIG}, %w: {BIG}") -> int:
    types = ", ".join([BIG] * results)
    graph = read(load_module(f"func.func @main({arguments}) -> ({types}) {{\n{body}\n}}"))
    assert temporary_bytes(graph) <= memory(graph).peak
    return temporary_bytes(graph)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(f"%0 = stablehlo.negate %x : {BIG}\n return %0 : {BIG}", 0, id="a result is none"),
        pytest.param(
            f"""%0 = stablehlo.dot %x, %w : {DOT}
            %1 = stablehlo.dot %0, %w : {DOT}
            return %1 : {BIG}""",
            KIB,
            id="what a product takes is whole",
        ),
        pytest.param(
            f"""%0 = stablehlo.dot %x, %w : {DOT}
            %1 = stablehlo.negate %0 : {BIG}
            %2 = stablehlo.dot %1, %w : {DOT}
            return %2 : {BIG}""",
            KIB,
            id="and is written in place of what it is computed of",
        ),
        pytest.param(
            f"""%0 = stablehlo.dot %x, %w : {DOT}
            %1 = stablehlo.negate %0 : {BIG}
            %2 = stablehlo.abs %0 : {BIG}
            %3 = stablehlo.add %1, %2 : {BIG}
            return %3 : {BIG}""",
            KIB,
            id="of one kernel nothing but its result is, which it writes beside what it reads",
        ),
        pytest.param(
            f"""%0 = stablehlo.dot %x, %w : {DOT}
            %1 = stablehlo.negate %0 : {BIG}
            %2 = stablehlo.dot %x, %0 : {DOT}
            %3 = stablehlo.add %1, %2 : {BIG}
            return %3 : {BIG}""",
            2 * KIB,
            id="what a kernel reads is held until it runs",
        ),
        pytest.param(
            f"""%0 = stablehlo.exponential %x : {BIG}
            %1 = stablehlo.add %0, %w : {BIG}
            %2 = stablehlo.multiply %0, %1 : {BIG}
            %3 = stablehlo.dot %2, %x : {DOT}
            %4 = stablehlo.dot %0, %3 : {DOT}
            return %4 : {BIG}""",
            3 * KIB,
            id="what a product takes whole is computed once",
        ),
        pytest.param(
            f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
            %0 = stablehlo.dot %x, %w : {DOT}
            %1 = stablehlo.multiply %0, %0 : {BIG}
            %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1]
                : ({BIG}, tensor<f32>) -> tensor<f32>
            %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> {BIG}
            %4 = stablehlo.dot %3, %w : {DOT}
            return %4 : {BIG}""",
            KIB + 4,
            id="a reduction reads what it is computed of",
        ),
        pytest.param(
            f"""%0 = stablehlo.negate %x : {BIG}
            %1 = stablehlo.optimization_barrier %0 : {BIG}
            %2 = stablehlo.dot %1, %w : {DOT}
            %3 = stablehlo.add %2, %1 : {BIG}
            return %3 : {BIG}""",
            KIB,
            id="a barrier takes what is whole",
        ),
    ],
)
def test_what_is_held(body: str, expected: int) -> None:
    assert held(body) == expected


def test_a_loop_computes_what_does_not_change_where_it_is_read() -> None:
    loop = """
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1:3 = stablehlo.while(%i = %n, %y = %x, %m = %0) : tensor<i32>, tensor<16x16xf32>, tensor<16x16xf32>
    cond {
      %again = stablehlo.compare NE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %again : tensor<i1>
    } do {
      %z = stablehlo.MADE
      stablehlo.return %i, %z, MASK : tensor<i32>, tensor<16x16xf32>, tensor<16x16xf32>
    }
    return %1#1 : tensor<16x16xf32>"""
    made = loop.replace("MADE", "add %y, %m : tensor<16x16xf32>")
    same, changed = made.replace("MASK", "%m"), made.replace("MASK", "%y")
    assert held(changed) - held(same) == KIB


def test_kernels_read_a_bounded_number_of_tensors() -> None:
    arguments = ", ".join(f"%a{n}: {BIG}" for n in range(40))
    ops = [f"%s{n} = stablehlo.add %{f's{n - 1}' if n > 1 else 'a0'}, %a{n} : {BIG}" for n in range(1, 40)]
    body = "\n".join([*ops, f"return %s39 : {BIG}"])
    graph = read(load_module(f"func.func @main({arguments}) -> {BIG} {{\n{body}\n}}"))
    sources = fusion_of(graph.main.block).sources
    assert max(map(len, sources.values())) == 32
    assert len(sources) < 38


@pytest.mark.parametrize("op", ["exponential", "abs"])
@pytest.mark.parametrize("second", ["%0", "%w"])
def test_kernels_compute_anew_what_several_read_whatever_it_costs(op: str, second: str) -> None:
    body = f"""%0 = stablehlo.{op} %x : {BIG}
    %1 = stablehlo.add %0, {second} : {BIG}
    return %1 : {BIG}"""
    block = read(load_module(f"func.func @main(%x: {BIG}, %w: {BIG}) -> {BIG} {{\n{body}\n}}")).main.block
    assert block.ops[0].results[0] in fusion_of(block).sources


def test_a_softmax_holds_what_it_reads_and_what_it_writes() -> None:
    """Of attention: what scores are computed of, and their shares, in neither of which a kernel of f32 is."""
    scores, row = "tensor<16x16xbf16>", "tensor<16xf32>"
    body = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot %x, %w : ({BIG}, {BIG}) -> {scores}
    %1 = stablehlo.convert %0 : ({scores}) -> {BIG}
    %2 = stablehlo.exponential %1 : {BIG}
    %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [1] : ({BIG}, tensor<f32>) -> {row}
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : ({row}) -> {BIG}
    %5 = stablehlo.divide %2, %4 : {BIG}
    %6 = stablehlo.convert %5 : ({BIG}) -> {scores}
    %7 = stablehlo.dot %6, %w : ({scores}, {BIG}) -> {BIG}
    return %7 : {BIG}"""
    assert held(body) == 2 * 16 * 16 * 2 + 16 * 4


def test_what_is_put_together_is_a_part_of_what_reads_it() -> None:
    half = "tensor<8x16xf32>"
    body = f"""%0 = stablehlo.slice %x [0:8, 0:16] : ({BIG}) -> {half}
    %1 = stablehlo.slice %x [8:16, 0:16] : ({BIG}) -> {half}
    %2 = stablehlo.concatenate %1, %0, dim = 0 : ({half}, {half}) -> {BIG}
    %3 = stablehlo.add %2, %x : {BIG}
    return %3 : {BIG}"""
    assert held(body) == 0

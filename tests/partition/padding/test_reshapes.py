"""Reshapes of dimensions that do not divide: the merged and the split ones are padded together, and nothing is gathered."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition.padding.sizes import padded_shapes


def program(before: str, after: str, split: tuple[str, str], parts: int = 4) -> str:
    """A tensor reshaped between two ops."""
    lying = [f"{{sdy.sharding = #sdy.sharding<@m, [{axes}]>}}" for axes in split]
    return f"""sdy.mesh @m = <["x"={parts}, "y"=2]>
        func.func @main(%a: tensor<{before}xf32> {lying[0]}) -> (tensor<{after}xf32> {lying[1]}) {{
          %0 = stablehlo.multiply %a, %a : tensor<{before}xf32>
          %1 = stablehlo.reshape %0 : (tensor<{before}xf32>) -> tensor<{after}xf32>
          %2 = stablehlo.add %1, %1 : tensor<{after}xf32>
          return %2 : tensor<{after}xf32>
        }}
        """


@pytest.mark.parametrize(
    ("before", "after", "split", "sent"),
    [
        ("130x8", "1040", ('{"x"}, {}', '{"x"}'), 48),  # 12 of 260 rows of a device are another's: 33 of 8 are 264
        ("1040", "130x8", ('{"x"}', '{"x"}, {}'), 48),
        ("130x8x6", "1040x6", ('{"x"}, {}, {}', '{"x"}, {}'), 288),
        ("130x8", "260x4", ('{"x"}, {}', '{"x"}, {}'), 48),
        ("3x130x8", "3x1040", ('{}, {"x"}, {}', '{}, {"x"}'), 144),
        ("4x1040", "4x130x2x4", ('{}, {"x"}', '{}, {"x"}, {}, {}'), 192),
        ("7x6", "42", ('{"x"}, {}', "{}"), 144),  # what is asked for whole: three times 2 of 8 rows of 6
    ],
)
def test_no_device_needs_more_than_what_it_holds_less(
    before: str, after: str, split: tuple[str, str], sent: int
) -> None:
    spmd = sw.load(program(before, after, split)).plan().partition(effort="fast")
    assert spmd.verify().ok
    assert spmd.traffic.total.executed_bytes == sent
    assert [note for note in spmd.notes if note.op == "stablehlo.reshape"] == []


def shapes(*lines: str) -> dict[str, tuple[int, ...]]:
    """The shapes of what is padded, by what is reshaped in a row from %a on."""
    body = "\n".join([f"          {line}" for line in lines])
    graph = read(
        load_module(f"""sdy.mesh @m = <["x"=4]>
        func.func @main(%a: tensor<6x7xf32>) {{
{body}
          return
        }}""")
    )
    padded = padded_shapes(graph)
    values = [value for op in graph.main.block.ops for value in op.results]
    return {str(graph.types[value].dims): padded.get(value, graph.types[value].dims) for value in values}


def reshaped(result: str, operand: str, before: str, after: str, axes: str) -> str:
    stated = f"{{sdy.sharding = #sdy.sharding_per_value<[<@m, [{axes}]>]>}}"
    return f"{result} = stablehlo.reshape {operand} {stated} : (tensor<{before}xf32>) -> tensor<{after}xf32>"


def test_sizes_keep_the_ratio_of_what_is_merged() -> None:
    made = shapes(
        "reshape".join(("%0 = stablehlo.", ' %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}'))
        + " : (tensor<6x7xf32>) -> tensor<42xf32>",
        reshaped("%1", "%0", "42", "6x7x1", '{"x"}, {}, {}'),
    )
    assert made == {"(42,)": (56,), "(6, 7, 1)": (8, 7, 1)}


def test_sizes_of_ratios_that_leave_few_to_take_do_not_go_together() -> None:
    """With 2 rows of 21, and these with 42, the next number of rows that 4 devices divide is twice as many."""
    made = shapes(reshaped("%0", "%a", "6x7", "42", '{"x"}'), reshaped("%1", "%0", "42", "2x21", '{"x"}, {}'))
    assert made == {"(42,)": (44,), "(2, 21)": (2, 21)}

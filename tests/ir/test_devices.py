"""The numbers of partitions and replicas that modules state."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.mesh import MOST_PARTITIONS
from shardwright.notation.conversion import convert_module
from shardwright.notation.modules import LARGE


def _module(key: str, count: str) -> str:
    return f"""
module attributes {{mhlo.{key} = {count}}} {{
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = stablehlo.tanh %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}
"""


@pytest.mark.parametrize("key", ["num_partitions", "num_replicas"])
@pytest.mark.parametrize(
    "count",
    [
        "-1 : i64",
        "0 : i32",
        f"{MOST_PARTITIONS + 1} : i64",
        "18446744073709551615 : ui64",
        '"x"',
        "1.0 : f32",
        "true",
        "unit",
        "dense<1> : tensor<i32>",
    ],
)
def test_what_is_no_number_of_devices_is_refused_at_its_line(key: str, count: str) -> None:
    text = _module(key, count)
    for reader in (sw.load, lambda text: convert_module(text, "mhlo")):
        with pytest.raises(ShardingError, match=f"mhlo.{key} is ") as raised:
            reader(text)
        assert raised.value.diagnostic.location == "-:2"


@pytest.mark.parametrize("count", ["1 : i32", f"{MOST_PARTITIONS} : i64", "2 : index", "3 : ui32"])
def test_any_number_of_32_bits_is_read(count: str) -> None:
    assert sw.load(_module("num_partitions", count)).graph.attributes["mhlo.num_partitions"] == count


def test_a_large_text_is_no_exception() -> None:
    line = "    %0 = stablehlo.tanh %a : tensor<8xf32>\n"
    text = _module("num_partitions", "0 : i32")
    more = "".join(line.replace("%0", f"%v{number}") for number in range(LARGE // len(line)))
    with pytest.raises(ShardingError, match=r"mhlo\.num_partitions is 0"):
        sw.load(text.replace(line, more + line))

"""What devices lay out anew for collectives, and what that takes where it takes anything."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from shardwright.cost.copies import copied_bytes
from shardwright.cost.hardware import hardware, preset_names, sheet_of
from shardwright.cost.price import price
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.edges import edge_cost
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, ReduceScatter, Step

MESH = Mesh(x=2, y=4)
X, Y = ((MESH.axis(name),) for name in MESH.sizes)
DIMS, BYTES = (16, 16, 16), 4
WHOLE = 16**3 * 4


def lying(*axes: str, partial: str = "") -> TensorSharding:
    return TensorSharding.of(MESH, [list(one) for one in axes], partial=list(partial))


@pytest.mark.parametrize(
    ("step", "before", "copied"),
    [
        (AllGather((X, (), ())), lying("x", "", ""), 0),
        (AllGather(((), X, ())), lying("", "x", ""), WHOLE),
        (AllGather(((), X, ())), lying("y", "x", ""), WHOLE // 4),
        (AllGather((Y, X, ())), lying("y", "x", ""), WHOLE),  # two collectives, one of them along the first
        (AllGather(((), X, Y)), lying("", "x", "y"), 2 * WHOLE),
        (ReduceScatter((X, (), ()), "sum"), lying("", "", "", partial="x"), 0),
        (ReduceScatter(((), (), X), "sum"), lying("", "", "", partial="x"), WHOLE),
        (AllToAll(((X, 2, 0),)), lying("", "", "x"), WHOLE // 2),  # put together behind it
        (AllToAll(((X, 0, 2),)), lying("x", "", ""), WHOLE // 2),  # cut before it
        (AllToAll(((X, 2, 1),)), lying("", "", "x"), WHOLE),
        (AllReduce(X, "sum"), lying("", "", "", partial="x"), 0),
        (AllSlice(((), X, ())), lying("", "", ""), WHOLE // 2),  # cut out
        (AllSlice((X, (), ())), lying("", "y", ""), WHOLE // 8),
        (CollectivePermute(lying("", "", "y")), lying("", "y", ""), 0),
    ],
)
def test_what_is_not_along_the_outermost_dimension_is_copied(step: Step, before: TensorSharding, copied: int) -> None:
    assert copied_bytes(step, before, DIMS, BYTES) == copied


def test_dimensions_of_one_row_on_a_device_are_not_before_others() -> None:
    gather = AllGather(((), X, ()))
    assert copied_bytes(gather, lying("", "x", ""), (1, 16, 16), BYTES) == 0
    assert copied_bytes(gather, lying("y", "x", ""), (4, 16, 16), BYTES) == 0
    assert copied_bytes(gather, lying("y", "x", ""), (8, 16, 16), BYTES) == 2 * 16 * 16 * BYTES


def test_copies_take_time_on_gpus_and_what_is_sent_the_same_everywhere() -> None:
    type = TensorType((64, 64, 64), "f32")
    split, first, second = lying("", "", "y"), lying("y", "", ""), lying("", "y", "")
    for name in preset_names():
        there = hardware(name)
        rows, columns = (edge_cost(type, split, target, there) for target in (first, second))
        assert (rows.bytes_sent, rows.starts) == (columns.bytes_sent, columns.starts)
        assert (rows.bytes_copied, columns.bytes_copied) == (type.bytes / 4, type.bytes / 2)
        if math.isfinite(there.copied_bytes_per_second):
            assert there.copied_bytes_per_second == (there.memory_bytes_per_second or 0) / 2
            assert price(rows, there) < price(columns, there)
        else:
            assert price(rows, there) == price(columns, there)
    on_gpus = {name for name in preset_names() if math.isfinite(hardware(name).copied_bytes_per_second)}
    assert on_gpus == {"a100", "h100", "h200", "b200", "gb200", "mi300x"}


def test_a_sheet_without_them_is_of_a_hardware_where_they_take_nothing(tmp_path: Path) -> None:
    text = sheet_of("h100").text()
    assert "[copies]" in text
    (tmp_path / "mine.toml").write_text(text[: text.index("[copies]")])
    assert hardware(tmp_path / "mine.toml").copied_bytes_per_second == math.inf

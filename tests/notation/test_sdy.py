"""The sdy dialect's attributes, read and printed; what we print is what MLIR prints."""

from __future__ import annotations

import pytest

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.context import parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import (
    parse_axes,
    parse_axis_lists,
    parse_mesh,
    parse_moves,
    parse_sharding,
    parse_shardings,
    print_mesh,
    print_sharding,
    print_shardings,
)
from shardwright.sharding import Partial, TensorSharding

MESH = Mesh(x=2, y=4, z=8)
MESHES = {"mesh": MESH}

TEXTS = [
    "#sdy.sharding<@mesh, []>",
    '#sdy.sharding<@mesh, [{"x"}, {}]>',
    '#sdy.sharding<@mesh, [{"x", "y"}, {?}]>',
    '#sdy.sharding<@mesh, [{"y", ?}p1, {"x"}p0]>',
    '#sdy.sharding<@mesh, [{"z":(1)2}, {"z":(4)2, ?}]>',
    '#sdy.sharding<@mesh, [{}], replicated={"x", "y":(1)2}>',
    '#sdy.sharding<@mesh, [{"x"}], replicated={"z"}, unreduced={"y"}>',
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_to_model_to_the_same_text(text: str) -> None:
    assert str(parse_attribute(text)) == text
    assert print_sharding(parse_sharding(text, MESHES)) == text


def test_per_value_shardings() -> None:
    text = '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{?}, {"y"}]>]>'
    assert str(parse_attribute(text)) == text
    assert print_shardings(parse_shardings(text, MESHES)) == text


@pytest.mark.parametrize(
    "text", ['#sdy.mesh<["x"=2, "y"=4]>', "#sdy.mesh<[]>", '#sdy.mesh<["x"=2], device_ids=[1, 0]>']
)
def test_meshes(text: str) -> None:
    assert str(parse_attribute(text)) == text
    assert print_mesh(parse_mesh(text)) == text


def test_collective_parameters() -> None:
    x, y = MESH.axis("x"), AxisRef("y", 2, 2)
    assert parse_axes('#sdy<axis_ref_list{"x", "y":(2)2}>', MESH) == (x, y)
    assert parse_axis_lists('#sdy<list_of_axis_ref_lists[{"x"}, {}]>', MESH) == ((x,), ())
    assert parse_moves('#sdy<all_to_all_param_list[{"x"}: 0->1]>', MESH) == (((x,), 0, 1),)


def test_an_unknown_axis_names_those_there_are() -> None:
    with pytest.raises(ShardingError, match="'w'") as error:
        parse_sharding('#sdy.sharding<@mesh, [{"w"}]>', MESHES)
    assert "'x', 'y', 'z'" in str(error.value)


@pytest.mark.parametrize(
    "text", ["#sdy.sharding<@mesh, [{x]>", "#sdy.sharding<@gone, []>", "#sdy.sharding<>", "<@mesh"]
)
def test_malformed_text_is_a_diagnostic(text: str) -> None:
    with pytest.raises(ShardingError):
        parse_sharding(text, MESHES)


@pytest.mark.usefixtures("sums_only")
def test_what_sdy_cannot_say_is_refused() -> None:
    partial = TensorSharding.of(MESH, [["x"]], partial=["y"], kind="max")
    with pytest.raises(ShardingError, match="max"):
        print_sharding(partial)
    assert partial.partial == (Partial(MESH.axis("y"), "max"),)


@pytest.mark.parametrize(
    "text",
    [
        '#sdy.sharding<mesh<["x"=2',
        '#sdy.sharding<@mesh, [{"x"}]> junk',
        f'#sdy.sharding<@mesh, [{{"y":({"9" * 5000})2}}]>',
        f'#sdy.sharding<mesh<["x"={"9" * 5000}]>, [{{"x"}}]>',
    ],
)
def test_text_that_goes_on_or_stops_too_early_is_a_diagnostic_at_once(text: str) -> None:
    with pytest.raises(ShardingError):
        parse_sharding(text, MESHES)

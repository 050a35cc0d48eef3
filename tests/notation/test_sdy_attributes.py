"""Every attribute of the sdy dialect, text both ways; what we print is what jaxlib prints."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.names import quoted, symbol_name, symbol_text, unquoted
from shardwright.notation.sdy import sharding as sdy
from shardwright.notation.sdy.attributes import (
    parse_manual_axes,
    parse_mesh_axis,
    parse_sub_axis,
    parse_tensor_mapping,
    print_axis_list_attribute,
    print_axis_lists_attribute,
    print_axis_ref,
    print_dimension_sharding,
    print_manual_axes,
    print_mesh_axis,
    print_move,
    print_moves,
    print_sub_axis,
    print_tensor_mapping,
)
from shardwright.notation.sdy.edges import AxisFlow, EdgeValue, PropagationStep, parse_edges, print_edges
from shardwright.notation.sdy.factors import factor_symbol
from shardwright.sharding import DimSharding, TensorSharding

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
sizes = st.integers(1, 10**9)


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    axes = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    return Mesh([(axis, draw(st.sampled_from([2, 3, 4, 8, 12]))) for axis in axes], name=draw(names | st.just("")))


def axis_of(draw: st.DrawFn, mesh: Mesh) -> AxisRef:
    name, size = draw(st.sampled_from(mesh.axes))
    pre = draw(st.sampled_from([pre for pre in range(1, size) if size % pre == 0]))
    widths = [width for width in range(2, size // pre + 1) if (size // pre) % width == 0]
    return AxisRef(name, pre, draw(st.sampled_from(widths)))


@st.composite
def axis_lists(draw: st.DrawFn) -> tuple[Mesh, tuple[Axes, ...]]:
    mesh = draw(meshes())
    lengths = draw(st.lists(st.integers(0, 3), max_size=4))
    return mesh, tuple(tuple(axis_of(draw, mesh) for _ in range(length)) for length in lengths)


def same(text: str) -> str:
    """The text, which jaxlib must print as it is."""
    assert str(parse_attribute(text)) == text
    return text


@given(names)
def test_strings_and_symbols_are_escaped_as_mlir_does(name: str) -> None:
    assert unquoted(same(quoted(name))) == name
    assert symbol_name(same(symbol_text(name))) == name


@given(names)
def test_a_string_that_mlir_escapes_is_the_name_it_stands_for(name: str) -> None:
    from shardwright.ir.context import context

    assert unquoted(str(ir.StringAttr.get(name, context=context()))) == name


@pytest.mark.parametrize(
    ("text", "name"), [(r'"a\nb"', "a\nb"), (r'"\\"', "\\"), (r'"\""', '"'), (r'"\C3\A9"', "é"), ('"é"', "é")]
)
def test_escapes(text: str, name: str) -> None:
    assert unquoted(text) == name


@given(axis_lists())
@settings(deadline=None)
def test_axes_alone_and_in_lists(case: tuple[Mesh, tuple[Axes, ...]]) -> None:
    mesh, lists = case
    assert sdy.parse_axis_lists(same(print_axis_lists_attribute(lists, mesh)), mesh) == lists
    for axes in lists:
        assert sdy.parse_axes(same(print_axis_list_attribute(axes, mesh)), mesh) == axes
        for axis in axes:
            assert sdy.parse_axis(same(print_axis_ref(axis, mesh)), mesh) == axis


@given(axis_lists(), st.lists(st.integers(0, 5), min_size=8, max_size=8))
@settings(deadline=None)
def test_moves_of_an_all_to_all(case: tuple[Mesh, tuple[Axes, ...]], dims: list[int]) -> None:
    mesh, lists = case
    moves = tuple((axes, dims[2 * n], dims[2 * n + 1]) for n, axes in enumerate(axes for axes in lists if axes))
    assert sdy.parse_moves(same(print_moves(moves, mesh)), mesh) == moves
    for move in moves:
        assert sdy.parse_move(same(print_move(move, mesh)), mesh) == move


@given(axis_lists(), st.lists(st.booleans(), min_size=4, max_size=4), st.none() | st.integers(0, 99))
@settings(deadline=None)
def test_dimensions_and_whole_shardings(
    case: tuple[Mesh, tuple[Axes, ...]], open_: list[bool], priority: int | None
) -> None:
    mesh, lists = case
    dims = tuple(DimSharding(axes, o, priority) for axes, o in zip(lists, open_, strict=False))
    for dim in dims:
        assert sdy.parse_dimension(same(print_dimension_sharding(dim, mesh)), mesh) == dim
    sharding = TensorSharding(mesh, dims, replicated=lists[0] if lists else ())
    assert sdy.parse_sharding(same(sdy.print_sharding(sharding)), {mesh.name: mesh}) == sharding
    several = (sharding, sharding)
    assert sdy.parse_shardings(same(sdy.print_shardings(several)), {mesh.name: mesh}) == several


@given(meshes(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_meshes_with_their_device_order(mesh: Mesh, random: object) -> None:
    ids = list(range(mesh.size))
    getattr(random, "shuffle")(ids)  # noqa: B009 (hypothesis does not export the type)
    for made in (mesh, Mesh(mesh.axes, device_ids=ids, name=mesh.name)):
        assert sdy.parse_mesh(same(sdy.print_mesh(made)), mesh.name) == made


@given(names, sizes, sizes)
def test_parts_and_axes_of_meshes(name: str, pre: int, size: int) -> None:
    assert parse_sub_axis(same(print_sub_axis((pre, size)))) == (pre, size)
    assert parse_mesh_axis(same(print_mesh_axis((name, size)))) == (name, size)


@given(st.lists(names, max_size=4))
def test_manual_axes(axes: list[str]) -> None:
    assert parse_manual_axes(same(print_manual_axes(axes))) == tuple(axes)


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple), max_size=4).map(tuple))
def test_factors_of_the_dimensions_of_a_tensor(mapping: tuple[tuple[int, ...], ...]) -> None:
    assert parse_tensor_mapping(same(print_tensor_mapping(mapping))) == mapping
    assert [factor_symbol(factor) for factor in (0, 17, 18)] == ["i", "z", "z_1"]


def test_a_dimension_without_factors_is_a_star() -> None:
    text = "#sdy<tensor_mapping[ij, *]>"
    assert parse_tensor_mapping(text) == ((0, 1), ())
    assert print_tensor_mapping(((0, 1), ())) == text


values = st.builds(EdgeValue, st.sampled_from(["operand", "result"]), st.integers(0, 99))
parts = st.none() | st.tuples(st.integers(1, 64), st.integers(2, 64))


@st.composite
def flows(draw: st.DrawFn) -> AxisFlow:
    source, *targets = draw(st.lists(values, min_size=2, max_size=4, unique=True))
    return AxisFlow(draw(names), draw(parts), source, tuple(targets))


steps = st.builds(PropagationStep, st.integers(0, 99), st.lists(flows(), min_size=1, max_size=3).map(tuple))


@given(st.lists(steps, min_size=1, max_size=3, unique_by=lambda step: step.number).map(tuple))
def test_propagation_edges(edges: tuple[PropagationStep, ...]) -> None:
    assert parse_edges(same(print_edges(edges))) == edges


@pytest.mark.parametrize(
    "text",
    [
        "#sdy.propagation_edges<",
        "#sdy.propagation_edges<[{step-x = []}]>",
        '#sdy.propagation_edges<[{step-1 = [{"x" = operand -> []}]}]>',
        '#sdy.propagation_edges<[{step-1 = [{"x" = operand-1 -> [operand-1 result-1]}]}]>',
        '#sdy.propagation_edges<[{step-1 = [{"x":(1) = operand-1 -> []}]}]>',
        "#sdy.propagation_edges<[]> and more",
        '{"x"}',
        "",
    ],
)
def test_malformed_edges_are_a_diagnostic(text: str) -> None:
    with pytest.raises(ShardingError, match="malformed propagation edges"):
        parse_edges(text)


@pytest.mark.parametrize("parse", [parse_sub_axis, parse_mesh_axis, parse_manual_axes, parse_tensor_mapping])
@pytest.mark.parametrize("text", ["", "#sdy<", "#sdy<sub_axis_info(1)>", f"#sdy<sub_axis_info({'9' * 5000})2>", "3"])
def test_malformed_attributes_are_a_diagnostic(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ShardingError, match="malformed attribute"):
        parse(text)


def test_all_spellings_of_one_attribute_are_read() -> None:
    assert parse_sub_axis("#sdy.sub_axis_info<(1)2>") == parse_sub_axis("#sdy<sub_axis_info (1)2>") == (1, 2)
    mesh = Mesh(x=2, y=4)
    lists = sdy.parse_axis_lists('#sdy.list_of_axis_ref_lists<[{"x"}, {}]>', mesh)
    assert lists == sdy.parse_axis_lists('#sdy<list_of_axis_ref_lists[{"x"}, {}]>', mesh)
    assert math.prod(axis.size for axes in lists for axis in axes) == 2

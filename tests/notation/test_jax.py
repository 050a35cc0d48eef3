"""JAX's `PartitionSpec` and the type text of sharded arrays."""

from __future__ import annotations

from dataclasses import replace

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import parse_text, print_text
from shardwright.sharding import DimSharding, TensorSharding
from tests.notation.test_rfc import PROPERTY, is_value_or_diagnostic, layouts, mangled, slices

MESH = Mesh(x=2, y=4, z=2)
UnreducedKind = getattr(jax.sharding, "UnreducedKind", None)
"""JAX has kinds of reduction since 0.11."""
KIND = "unreduced_kind"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PartitionSpec('x', None, ('y', 'z'))", "[{x}, {}, {y, z}]"),
        ("P('x')", "[{x}, {}, {}]"),
        ("P('x',)", "[{x}, {}, {}]"),
        ("P()", "[{}, {}, {}]"),
        ('jax.P(None, "y")', "[{}, {y}, {}]"),
        ("jax.sharding.PartitionSpec(('z',), ())", "[{z}, {}, {}]"),
        ("P(P.UNCONSTRAINED, 'x')", "[{?}, {x}, {}]"),
        ("P(UNCONSTRAINED,)", "[{?}, {}, {}]"),
        ("P('x', unreduced={'z', 'y'})", "[{x}, {}, {}] partial=sum{y, z}"),
        ("P('x', unreduced=frozenset({'y'}), reduced={'z'})", "[{x}, {}, {}] replicated={z} partial=sum{y}"),
        ("f32[8@x,4@(y,z),16]", "[{x}, {y, z}, {}]"),
        ("float32<host>[8@z,4,16]{U:x, R:y}", "[{z}, {}, {}] replicated={y} partial=sum{x}"),
        ("bf16[8, 4, 16]{U:(x,y)}", "[{}, {}, {}] partial=sum{x, y}"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert repr(parse_text(text, shape=(8, 4, 16), mesh=MESH)) == expected


def test_without_a_shape_there_is_a_dimension_per_entry() -> None:
    assert repr(parse_text("P('x', None)", mesh=MESH)) == "[{x}, {}]"
    assert repr(parse_text("f32[]", mesh=MESH)) == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "P()",
        "P('x')",
        "P('x', None, ('y', 'z'))",
        "P(P.UNCONSTRAINED, ('z', 'x'))",
        "P(None, unreduced={'x', 'y'}, reduced={'z'})",
        "P(unreduced={'x'})",
    ],
)
def test_canonical_text_to_model_to_the_same_text(text: str) -> None:
    assert print_text(parse_text(text, mesh=MESH), "jax") == text


@pytest.mark.parametrize(
    "spec",
    [
        PartitionSpec(),
        PartitionSpec("x"),
        PartitionSpec("x", None, ("y", "z")),
        PartitionSpec(PartitionSpec.UNCONSTRAINED, ("z", "x")),
        PartitionSpec("x", unreduced={"y", "z"}),
        PartitionSpec("x", unreduced={"y"}, reduced={"z"}),
        *(PartitionSpec("x", unreduced={"y"}, **{KIND: kind}) for kind in UnreducedKind or ()),
    ],
)
def test_what_jax_prints_is_read_and_what_we_print_jax_evaluates(spec: PartitionSpec) -> None:
    sharding = parse_text(repr(spec), mesh=MESH)
    assert eval(print_text(sharding, "jax"), {"P": PartitionSpec, "UnreducedKind": UnreducedKind}) == spec


@pytest.mark.parametrize(
    "text",
    [
        "P('x', None, unreduced={'y'}, unreduced_kind=max)",
        "P('x', None, unreduced_kind=jax.sharding.UnreducedKind.max, unreduced={'y'})",
        "f32[8@x,4]{U_max:y}",
    ],
)
def test_kinds_of_reduction_that_newer_versions_have(text: str) -> None:
    sharding = parse_text(text, mesh=MESH)
    assert sharding == TensorSharding.of(MESH, [["x"], []], partial=["y"], kind="max")
    assert print_text(sharding, "jax") == "P('x', None, unreduced={'y'}, unreduced_kind=UnreducedKind.max)"


def test_other_kinds_of_reduction_are_refused() -> None:
    with pytest.raises(ShardingError, match="expected a kind of reduction; got 'mean'"):
        parse_text("P('x', unreduced={'y'}, unreduced_kind=mean)", mesh=MESH)
    with pytest.raises(ShardingError, match="several kinds, or by others"):
        print_text(TensorSharding.of(MESH, [["x"]], partial=["y"], kind="product"), "jax")


@PROPERTY
@given(layouts(), st.data())
def test_model_to_text_to_the_same_model(case: tuple[TensorSharding, Shape], data: st.DataObject) -> None:
    sharding, shape = case
    dims = tuple(replace(dim, open=not dim.axes and data.draw(st.booleans())) for dim in sharding.dims)
    sharding = replace(sharding, dims=dims)
    text = print_text(sharding, "jax", shape=shape)
    back = parse_text(text, shape=shape, mesh=sharding.mesh)
    assert back == sharding
    assert slices(back, shape) == slices(sharding, shape)
    short = text if sharding.partial else text.replace(", None)", ")")
    assert parse_text(short, shape=shape, mesh=sharding.mesh) == sharding


@PROPERTY
@given(layouts())
def test_the_type_text_says_the_same(case: tuple[TensorSharding, Shape]) -> None:
    sharding, shape = case

    def entry(size: int, dim: DimSharding) -> str:
        names = [axis.name for axis in dim.axes]
        return f"{size}@({','.join(names)})" if len(names) > 1 else f"{size}@{names[0]}" if names else str(size)

    text = f"f32[{','.join(map(entry, shape, sharding.dims))}]"
    if sharding.partial:
        text += f"{{U:({','.join(axis.name for axis in sharding.partial_axes)})}}"
    assert parse_text(text, mesh=sharding.mesh) == sharding


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P('w')", "unknown mesh axis 'w'"),
        ("P('x', 'x')", "used twice"),
        ("P('x', unreduced={'x'})", "used twice"),
        ("P('x', None, None)", "3 entries"),
        ("P('x'", "the text ends"),
        ("P(x)", "in quotes"),
        ("P('x' 'y')", "column 7"),
        ("P(unreduced={'x'}, 'y')", "no entries may follow"),
        ("P(unreduced={'x'}, unreduced={'y'})", "given twice"),
        ("P('x') + P('y')", "end of the text"),
        ("f32[8@x,5]", "has the shape"),
        ("f32[8@x,4]{V:y}", "shard_map"),
    ],
)
def test_what_is_no_partition_spec(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_text(text, shape=(8, 4), mesh=MESH)


def test_a_mesh_is_asked_for() -> None:
    with pytest.raises(ShardingError, match="give the mesh"):
        parse_text("P('x')")


X = MESH.axis("x")


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (TensorSharding.of(MESH, [[AxisRef("y", 1, 2)]]), "parts of a mesh axis"),
        (TensorSharding.of(MESH, [["x"]], open=True), "already split"),
        (TensorSharding.of(MESH, [[]], partial=["x"], kind="or"), "by several kinds, or by others than sum"),
        (TensorSharding(MESH, (DimSharding((X,), priority=1),)), "priorities"),
        (TensorSharding(MESH, (DimSharding((X,)),), offsets=((0, 1, 4),)), "offsets or halos"),
        (TensorSharding(MESH, (DimSharding((X,)),), halos=((1, 1),)), "offsets or halos"),
        (TensorSharding.of(Mesh([("a\n", 2)]), [["a\n"]]), "axis name"),
    ],
)
def test_what_a_partition_spec_cannot_say_is_refused(sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        print_text(sharding, "jax")


@PROPERTY
@given(
    st.sampled_from(["P('x', None, ('y', 'z'), unreduced={'y'})", "f32<host>[8@x,4@(y,z)]{U:x, R:(y,z)}"]).flatmap(
        mangled
    ),
    st.sampled_from([None, (), (8,), (8, 4, 4)]),
)
def test_malformed_text_is_a_diagnostic(text: str, shape: Shape | None) -> None:
    is_value_or_diagnostic("jax", text, shape, MESH)

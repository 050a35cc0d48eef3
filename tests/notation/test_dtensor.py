"""DTensor placements against `torch.chunk` and `_StridedShard` as torch defines them, redone here on lists."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.axes import AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import parse_text, print_text
from shardwright.sharding import DimSharding, TensorSharding
from tests.notation.test_rfc import PROPERTY, attempt, is_value_or_diagnostic, layouts, mangled, slices
from tests.reshard.strategies import meshes, shardings

MESH = Mesh(a=2, b=4, c=2)
GRID = Mesh(a=2, b=2)


def chunk(held: list[int], pieces: int) -> list[list[int]]:
    """`torch.chunk`, with empty pieces where it returns fewer."""
    length = -(-len(held) // pieces)
    return [held[index * length : (index + 1) * length] for index in range(pieces)]


def torch_local(text: str, mesh: Mesh, shape: Shape, position: int) -> list[list[int]]:
    """Per dimension, the indices that DTensor leaves to one device, by its definition of the placements."""
    held = [list(range(size)) for size in shape]
    coordinates = mesh.coordinates(position)
    placements = re.findall(r"(\w+)\(([^)]*)\)", text)
    for (kind, inner), (name, size) in zip(placements, mesh.axes, strict=True):
        numbers = [int(word) for word in re.findall(r"\d+", inner)]
        if kind == "Shard":
            held[numbers[0]] = chunk(held[numbers[0]], size)[coordinates[name]]
        elif kind == "_StridedShard":
            dim, factor = numbers
            pieces = chunk(held[dim], size * factor)
            held[dim] = [index for piece in pieces[coordinates[name] :: size] for index in piece]
    return held


def local(sharding: TensorSharding, shape: Shape, position: int) -> list[list[int]]:
    return [list(range(n))[cut] for n, cut in zip(shape, sharding.device_slice(shape, position), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Shard(0), Replicate(), Partial(sum)]", "[{a}, {}] partial=sum{c}"),
        ("(Shard(dim=0), Replicate(), Partial())", "[{a}, {}] partial=sum{c}"),
        ("[S(1), R, P(max)]", "[{}, {a}] partial=max{c}"),
        ("[P(avg), P('avg'), S(-1)]", "[{}, {c}] partial=average{a, b}"),
        ("[Shard(0), Shard(0), Shard(1)]", "[{a, b}, {c}]"),
        ("[_StridedShard(dim=0, sf=4), Shard(0), Replicate()]", "[{b, a}, {}]"),
        ("[_StridedShard(0, split_factor=8), Shard(0), S(0),]", "[{b, c, a}, {}]"),
        ("[_StridedShard(0, 8), _StridedShard(0, sf=2), Shard(0)]", "[{c, b, a}, {}]"),
        ("[_StridedShard(dim=0, sf=2), Shard(0), R]", "[{b:(1)2, a, b:(2)2}, {}]"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert repr(parse_text(text, shape=(16, 16), mesh=MESH)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[Shard(0), Replicate(), Partial(sum)]",
        "[_StridedShard(dim=0, sf=8), _StridedShard(dim=0, sf=2), Shard(0)]",
        "[_StridedShard(dim=1, sf=2), Shard(1), Shard(0)]",
        "[Partial(avg), Partial(product), Partial(band)]",
        "[Replicate(), Replicate(), Replicate()]",
    ],
)
def test_canonical_text_to_model_to_the_same_text(text: str) -> None:
    sharding = parse_text(text, shape=(16, 16), mesh=MESH)
    assert print_text(sharding, "dtensor", shape=(16, 16)) == text
    assert print_text(sharding, "dtensor") == text
    for position in range(MESH.size):
        assert local(sharding, (16, 16), position) == torch_local(text, MESH, (16, 16), position)


def test_uneven_chunks_of_one_axis_are_the_models_own() -> None:
    sharding = parse_text("[Replicate(), Shard(0), Replicate()]", shape=(5,), mesh=MESH)
    assert sharding.offsets is None
    assert [part[0] for part in slices(sharding, (5,))[:8:2]] == [slice(0, 2), slice(2, 4), slice(4, 5), slice(5, 5)]


def test_chunks_of_uneven_chunks_are_offsets() -> None:
    sharding = parse_text("[Shard(0), Shard(0)]", shape=(5,), mesh=GRID)
    assert sharding.offsets == ((0, 2, 3, 4, 5),)
    assert print_text(sharding, "dtensor", shape=(5,)) == "[Shard(0), Shard(0)]"
    assert print_text(sharding, "dtensor") == "[Shard(0), Shard(0)]"
    with pytest.raises(ShardingError, match="uneven shards of dimension 0"):
        print_text(TensorSharding.of(GRID, [["a", "b"]]), "dtensor", shape=(5,))


@PROPERTY
@given(layouts(("sum", "max", "min", "product", "and", "or", "xor", "average"), widest=6), st.booleans())
def test_model_to_text_to_the_same_model(case: tuple[TensorSharding, Shape], even: bool) -> None:
    sharding, shape = case
    if even:
        shape = tuple(n * axes_size(dim.axes) for n, dim in zip(shape, sharding.dims, strict=True))
    text, refusal = attempt(lambda: print_text(sharding, "dtensor", shape=shape))
    if text is None:
        assert "uneven" in refusal or "do not divide" in refusal
        assert not sharding.divides(shape)
        return
    back = parse_text(text, shape=shape, mesh=sharding.mesh)
    assert slices(back, shape) == slices(sharding, shape)
    assert set(back.partial) == set(sharding.partial)
    assert print_text(back, "dtensor", shape=shape) == text
    for position in range(sharding.mesh.size):
        if all(shape):
            assert local(sharding, shape, position) == torch_local(text, sharding.mesh, shape, position)


@PROPERTY
@given(st.data())
def test_parts_of_axes_are_said_exactly_or_refused(data: st.DataObject) -> None:
    sharding = data.draw(shardings(data.draw(meshes()), 2, ("sum",)))
    shape = tuple(2 * axes_size(dim.axes) for dim in sharding.dims)
    text, refusal = attempt(lambda: print_text(sharding, "dtensor", shape=shape))
    if text is None:
        assert "DTensor cannot" in refusal or "strides" in refusal or "nest" in refusal
        return
    for position in range(sharding.mesh.size):
        assert local(sharding, shape, position) == torch_local(text, sharding.mesh, shape, position)


@st.composite
def placements(draw: st.DrawFn) -> tuple[Mesh, str]:
    """Any placements, most strided shards among them not expressible."""
    mesh = draw(meshes())
    one = st.one_of(
        st.just("Replicate()"),
        st.just("Partial(sum)"),
        st.integers(0, 1).map("Shard({})".format),
        st.tuples(st.integers(0, 1), st.sampled_from([1, 2, 2, 3, 4, 8])).map(
            lambda pair: f"_StridedShard(dim={pair[0]}, sf={pair[1]})"
        ),
    )
    return mesh, f"[{', '.join(draw(one) for _ in mesh.axes)}]"


@PROPERTY
@given(
    placements(), st.tuples(st.integers(1, 24), st.integers(1, 24)) | st.sampled_from([(16, 16), (48, 48), (24, 64)])
)
def test_any_placements_mean_what_torch_means_or_are_refused(case: tuple[Mesh, str], shape: Shape) -> None:
    mesh, text = case
    sharding, _ = attempt(lambda: parse_text(text, shape=shape, mesh=mesh))
    if sharding is None:
        return
    for position in range(mesh.size):
        assert local(sharding, shape, position) == torch_local(text, mesh, shape, position)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Shard(0)]", "1 placements are given on a mesh of 3 axes"),
        ("[Shard(2), R, R]", "no tensor dimension 2"),
        ("[Shard(-3), R, R]", "no tensor dimension -3"),
        ("[Shard(x), R, R]", "expected a number"),
        ("[Shard(0), R, Partial(median)]", "no such kind"),
        ("[Shard(0) R, R]", "column 11"),
        ("[Shard(0), R, R", "the text ends"),
        ("[_StridedShard(dim=0, sf=0), R, R]", "below 1"),
        ("[_StridedShard(dim=0, sf=2), R, R]", "several runs"),
        ("[_StridedShard(dim=0, sf=3), Shard(0), R]", "nest"),
    ],
)
def test_what_are_no_placements(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_text(text, shape=(8, 4), mesh=MESH)


def test_strides_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ShardingError, match="strides that do not divide"):
        parse_text("[_StridedShard(dim=0, sf=2), Shard(0)]", shape=(6,), mesh=GRID)


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(ShardingError, match="give the mesh"):
        parse_text("[Shard(0)]", shape=(4,))
    with pytest.raises(ShardingError, match="give the shape"):
        parse_text("[Shard(0)]", mesh=Mesh(x=2))


A = MESH.axis("a")


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (TensorSharding.of(MESH, [["a"]], open=True), "open dimensions"),
        (TensorSharding.of(MESH, [[AxisRef("b", 1, 2)]]), "parts of mesh axes"),
        (TensorSharding.of(MESH, [["a"]], partial=["b"], kind="generic"), "generic"),
        (replace(TensorSharding.of(MESH, [["a"]]), halos=((1, 1),)), "halos"),
        (TensorSharding(MESH, (DimSharding((A,)),), offsets=((0, 1, 8),)), "uneven shards"),
        (TensorSharding.of(Mesh(x=1 << 32), [["x"]]), "uneven"),
    ],
)
def test_what_placements_cannot_say_is_refused(sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        print_text(sharding, "dtensor", shape=(8,))


@PROPERTY
@given(
    mangled("[_StridedShard(dim=0, sf=4), Shard(0), Partial(sum)]") | mangled("[S(0), R, P(max)]"),
    st.sampled_from([None, (), (8,), (8, 4)]),
)
def test_malformed_text_is_a_diagnostic(text: str, shape: Shape | None) -> None:
    is_value_or_diagnostic("dtensor", text, shape, MESH)

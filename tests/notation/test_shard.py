"""Upstream's `shard.sharding`, `mesh.sharding` and `#mesh.shard<…, partial = …>`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.axes import AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation, notations, parse_text, print_text
from shardwright.notation.shard.sharding import print_sharding
from shardwright.sharding import DimSharding, TensorSharding
from tests.notation.test_rfc import PROPERTY, is_value_or_diagnostic, layouts, mangled, slices

MESH0 = Mesh([("a", 2), ("b", 2), ("c", 4)], name="mesh0")
GRID = Mesh([("a", 2), ("b", 2)], name="g")
LINE = Mesh([("a", 4)], name="mesh1d_4")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mesh.sharding @mesh0 split_axes = [[]]", "[{}, {}]"),
        ("%sharding1 = mesh.sharding @mesh0 split_axes = [[0]]", "[{a}, {}]"),
        ("mesh.sharding @mesh0 split_axes = [[0]] partial = sum[1]", "[{a}, {}] partial=sum{b}"),
        ("mesh.sharding @mesh0 split_axes = [[0]] partial = max[1]", "[{a}, {}] partial=max{b}"),
        ("#mesh.shard<@mesh0, [[0]], partial = max[1]>", "[{a}, {}] partial=max{b}"),
        ("#mesh.shard<@mesh0, [[0]], partial = bitwise_xor [2, 1]>", "[{a}, {}] partial=xor{b, c}"),
        ("#mesh.shard<@mesh0, split_axes = [[], [2]]>", "[{}, {c}]"),
        ("%s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding", "[{a}, {b}]"),
        ("@g split_axes = [[], [0, 1]]", "[{}, {a, b}]"),
        ("split_axes = [[2, 0]]", "[{c, a}, {}]"),
    ],
)
def test_texts_of_every_generation(text: str, expected: str) -> None:
    assert repr(parse_text(text, shape=(16, 16), mesh=MESH0)) == expected


def test_document_001_offsets_in_two_dimensions() -> None:
    text = "shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 20, 32]"
    sharding = parse_text(text, shape=(32, 32, 32), mesh=GRID)
    shapes = [tuple(cut.stop - cut.start for cut in part) for part in slices(sharding, (32, 32, 32))]
    # the document's second device, 8x12x32, is device (1, 1)
    assert shapes == [(24, 20, 32), (24, 12, 32), (8, 20, 32), (8, 12, 32)]
    starts = [tuple(cut.start for cut in part) for part in slices(sharding, (32, 32, 32))]
    assert starts == [(0, 0, 0), (0, 20, 0), (24, 0, 0), (24, 20, 0)]
    full = text.replace("[[0], [1]]", "[[0], [1], []]")
    assert print_text(sharding, "shard", shape=(32, 32, 32)) == full


def test_document_001_offsets_of_four_sizes() -> None:
    text = "mesh.sharding @mesh1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14]"
    sharding = parse_text(text, shape=(4, 14), mesh=LINE)
    assert [part[1] for part in slices(sharding, (4, 14))] == [slice(0, 2), slice(2, 5), slice(5, 9), slice(9, 14)]
    assert all(part[0] == slice(0, 4) for part in slices(sharding, (4, 14)))
    assert print_sharding(sharding, (4, 14), "mesh") == text


def test_document_001_halos() -> None:
    text = "mesh.sharding @mesh0 split_axes = [[0], []] halo_sizes = [1, 2]"
    sharding = parse_text(text, shape=(4, 8), mesh=MESH0)
    assert sharding.halos == ((1, 2), None)
    assert sharding.local_shape((4, 8)) == (5, 8)
    assert print_sharding(sharding, (4, 8), "mesh") == text
    both = parse_text("@m split_axes = [[0], [], [1]] halo_sizes = [1, 2, 2, 3]", shape=(4, 8, 4), mesh=MESH0)
    assert both.halos == ((1, 2), None, (2, 3))


def test_the_last_shards_take_the_remainder_here() -> None:
    sharding = parse_text("shard.sharding @g split_axes = [[0]]", shape=(15,), mesh=LINE)
    assert sharding.offsets == ((0, 3, 7, 11, 15),)
    ceil = TensorSharding.of(LINE, [["a"]])
    text = print_text(ceil, "shard", shape=(15,))
    assert text == "shard.sharding @mesh1d_4 split_axes = [[0]] sharded_dims_offsets = [0, 4, 8, 12, 15]"
    assert parse_text(text, shape=(15,), mesh=LINE) == ceil


@pytest.mark.parametrize(
    "text",
    [
        "shard.sharding @g split_axes = [[0], []]",
        "shard.sharding @g split_axes = [[1, 0], []] sharded_dims_offsets = [0, 3, 4, 4, 8]",
        "mesh.sharding @g split_axes = [[], [1]] partial = max [0]",
        "mesh.sharding @g split_axes = [[], []] partial = sum [0, 1]",
        "mesh.sharding @g split_axes = [[1], []] partial = product [0] halo_sizes = [2, 0]",
    ],
)
def test_canonical_text_to_model_to_the_same_text(text: str) -> None:
    assert print_text(parse_text(text, shape=(8, 8), mesh=GRID), "shard", shape=(8, 8)) == text


@pytest.mark.parametrize(
    ("dialect", "text"),
    [("shard", "shard.sharding @g split_axes = [[]]"), ("mesh", "mesh.sharding @g split_axes = [[]]")],
)
def test_scalars(dialect: str, text: str) -> None:
    scalar = TensorSharding.of(GRID, [])
    assert print_sharding(scalar, (), dialect) == text
    assert parse_text(text, shape=(), mesh=GRID) == scalar
    assert parse_text(text.replace("[[]]", "[]"), shape=(), mesh=GRID) == scalar


def test_equal_offsets_and_no_halos_say_nothing() -> None:
    plain = parse_text("@g split_axes = [[0]]", shape=(8,), mesh=GRID)
    assert parse_text("@g split_axes = [[0]] sharded_dims_offsets = [0, 4, 8]", shape=(8,), mesh=GRID) == plain
    assert parse_text("@g split_axes = [[0]] halo_sizes = [0, 0]", shape=(8,), mesh=GRID) == plain


def upstream_slices(text: str, sharding: TensorSharding, shape: Shape) -> list[tuple[range, ...]]:
    """What each device holds by the dialect's definition: printed offsets, or the remainder to the last shards."""
    _, _, listed = text.partition("sharded_dims_offsets = ")
    offsets = [int(word) for word in listed.strip("[]").split(",")] if listed else []
    cuts: list[list[int]] = []
    for size, dim in zip(shape, sharding.dims, strict=True):
        count = axes_size(dim.axes)
        if dim.axes and offsets:
            cuts.append(offsets[: count + 1])
            del offsets[: count + 1]
        else:
            lengths = [size // count + (index >= count - size % count) for index in range(count)]
            cuts.append([sum(lengths[:index]) for index in range(count + 1)])
    held: list[tuple[range, ...]] = []
    for position in range(sharding.mesh.size):
        index = [sharding.mesh.index(dim.axes, position) for dim in sharding.dims]
        held.append(tuple(range(cut[i], cut[i + 1]) for cut, i in zip(cuts, index, strict=True)))
    return held


@PROPERTY
@given(layouts(("sum", "max", "min", "product", "and", "or", "xor", "average")), st.data())
def test_model_to_text_to_the_same_model(case: tuple[TensorSharding, Shape], data: st.DataObject) -> None:
    sharding, shape = case
    counts = [(n, axes_size(dim.axes) - 1) for n, dim in zip(shape, sharding.dims, strict=True)]
    if data.draw(st.booleans()):
        inner = [st.lists(st.integers(0, n), min_size=count, max_size=count) for n, count in counts]
        rows = [data.draw(row) for row in inner]
        cuts = tuple((0, *sorted(row), n) for row, n in zip(rows, shape, strict=True))
        offsets = tuple(cut if dim.axes else None for cut, dim in zip(cuts, sharding.dims, strict=True))
        sharding = replace(sharding, offsets=offsets)
    text = print_text(sharding, "shard", shape=shape)
    back = parse_text(text, shape=shape, mesh=sharding.mesh)
    assert (back.dims, back.partial) == (sharding.dims, sharding.partial)
    assert slices(back, shape) == slices(sharding, shape)
    by_definition = upstream_slices(text, sharding, shape)
    for part, held in zip(slices(sharding, shape), by_definition, strict=True):
        assert [range(n)[cut] for n, cut in zip(shape, part, strict=True)] == list(held)
    assert print_text(back, "shard", shape=shape) == text


@PROPERTY
@given(layouts(widest=8), st.data())
def test_halos_round_trip(case: tuple[TensorSharding, Shape], data: st.DataObject) -> None:
    sharding, chunks = case
    shape = tuple(n * axes_size(dim.axes) for n, dim in zip(chunks, sharding.dims, strict=True))
    pair = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda halo: halo if any(halo) else None)
    halos = tuple(data.draw(pair) if dim.axes else None for dim in sharding.dims)
    sharding = replace(sharding, halos=halos if any(halos) else None)
    text = print_text(sharding, "shard", shape=shape)
    back = parse_text(text, shape=shape, mesh=sharding.mesh)
    assert back == sharding
    assert back.local_shape(shape) == sharding.local_shape(shape)


def test_without_a_shape_dimensions_are_taken_to_divide() -> None:
    sharding = TensorSharding.of(GRID, [["a"], ["b"]])
    text = "shard.sharding @g split_axes = [[0], [1]]"
    assert print_text(sharding, "shard") == text
    assert parse_text(text, mesh=GRID) == sharding
    with pytest.raises(ShardingError, match="give the shape"):
        print_text(replace(sharding, offsets=((0, 1, 4), None)), "shard")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shard.sharding @g split_axes = [[2]]", "no mesh axis 2"),
        ("shard.sharding @g split_axes = [[-1]]", "no mesh axis -1"),
        ("shard.sharding @g split_axes = [[0], [0]]", "given twice"),
        ("mesh.sharding @g split_axes = [[0]] partial = sum [0]", "given twice"),
        ("shard.sharding @g split_axes = [[0], [], [1]]", "3 lists of split axes"),
        ("shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] sharded_dims_offsets = [0, 3, 8]", "one of the two"),
        ("shard.sharding @g split_axes = [[0]] halo_sizes = [1]", "two sizes"),
        ("shard.sharding @g split_axes = [[0]] halo_sizes = [1, -2]", "at least 0"),
        ("shard.sharding @g split_axes = [[0]] halo_sizes = [1, %h]", "run time"),
        ("shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, ?, 8]", "run time"),
        ("shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 8]", "3 are needed"),
        ("shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 9, 8]", "none be smaller"),
        ("shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [1, 4, 8]", "begin at 0"),
        ("shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 4, 9]", "end at 9"),
        ("shard.sharding @g split_axes = [[0]] partial = max [1]", "no partial axes"),
        ("mesh.sharding @g split_axes = [[0]] partial = generic [1]", "no such kind"),
        ("mesh.sharding @g split_axes = [[0]] partial = max [1] partial = max [1]", "once each"),
        ("shard.sharding @g split_axes = [[0] : !shard.sharding", "column 37"),
        ("shard.sharding @g split_axes = [[0]] : !mesh.sharding", "expected 'shard.sharding'"),
    ],
)
def test_what_the_verifier_refuses(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_text(text, shape=(8, 8), mesh=GRID)


def test_a_halo_on_an_uneven_dimension_is_refused() -> None:
    with pytest.raises(ShardingError, match="do not divide"):
        parse_text("@g split_axes = [[0]] halo_sizes = [1, 1]", shape=(7,), mesh=GRID)
    sharding = replace(TensorSharding.of(GRID, [["a"]]), halos=((1, 1),))
    with pytest.raises(ShardingError, match="cannot express halos"):
        print_text(sharding, "shard", shape=(7,))


def test_meshes_that_are_missing_or_have_no_axes() -> None:
    with pytest.raises(ShardingError, match="the mesh @g is not known"):
        parse_text("shard.sharding @g split_axes = [[0]]")
    with pytest.raises(ShardingError, match="no axes"):
        parse_text("shard.sharding @g split_axes = [[]]", mesh=Mesh(()))


A = DimSharding((GRID.axis("a"),))


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (TensorSharding.of(GRID, [["a"]], open=True), "open dimensions"),
        (TensorSharding.of(Mesh(x=4), [[AxisRef("x", 1, 2)]]), "parts of a mesh axis"),
        (TensorSharding.of(GRID, [["a"]], partial=["b"], kind="generic"), "partial by generic"),
        (TensorSharding.of(Mesh(()), [[]]), "no axes"),
        (TensorSharding.of(Mesh(x=1 << 32), [["x"]]), "uneven shards"),
    ],
)
def test_what_the_dialect_cannot_say_is_refused(sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        print_text(sharding, "shard", shape=(7,))


def test_two_kinds_of_partial_are_refused() -> None:
    left, right = (
        TensorSharding.of(GRID, [[]], partial=[axis], kind=kind) for axis, kind in (("a", "sum"), ("b", "max"))
    )
    with pytest.raises(ShardingError, match="max and sum"):
        print_text(replace(left, partial=left.partial + right.partial), "shard", shape=(8,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("#mesh.shard<@m, [[0]], partial = max[1]>", "shard"),
        ("#mesh.shard<@m, split_axes = [[0]]>", "shard"),
        ("#mesh.shard<@m, [[0]]>", "rfc"),
        ("#mesh.shard<[[2, 0], [], [1]]>", "rfc"),
        ("mesh.sharding @m split_axes = [[0]]", "shard"),
        ("split_axes = [[0]]", "shard"),
        ("P('x', None)", "jax"),
        ("jax.sharding.PartitionSpec('x')", "jax"),
        ("f32[8@X,4@(Y,Z)]", "jax"),
        ("[Shard(0), Replicate()]", "dtensor"),
        ("[P(sum), R]", "dtensor"),
        ('#sdy.sharding<@mesh, [{"x"}]>', "sdy"),
    ],
)
def test_notations_are_told_apart(text: str, name: str) -> None:
    assert [entry.name for entry in notations() if entry.looks_like(text)] == [name]


@PROPERTY
@given(
    st.sampled_from(
        [
            "%s = shard.sharding @g split_axes = [[0], []] halo_sizes = [1, 2] : !shard.sharding",
            "mesh.sharding @g split_axes = [[0], []] partial = max [1] sharded_dims_offsets = [0, 3, 8]",
            "#mesh.shard<@m, [[0]], partial = max[1]>",
        ]
    ).flatmap(mangled),
    st.sampled_from([None, (), (8,), (8, 8)]),
)
def test_malformed_text_is_a_diagnostic(text: str, shape: Shape | None) -> None:
    is_value_or_diagnostic("shard", text, shape, GRID)
    assert notation("shard").looks_like(text) in (True, False)

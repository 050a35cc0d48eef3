"""The RFC's `#mesh.shard<…>`, the partial axes in the list past the last dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwright.axes import AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation import dtensor, jax, rfc, sdy, shard  # noqa: F401  # makes them known
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation, parse_text, print_text
from shardwright.sharding import DimSharding, Partial, TensorSharding
from tests.reshard.strategies import meshes

T = TypeVar("T")

PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
MESH0 = Mesh([("a", 2), ("b", 2)], name="mesh0")
CUBE = Mesh(a=2, b=2, c=2)
MALFORMED = [
    "",
    " ",
    "[",
    "]]",
    "<",
    "#",
    "@",
    "'",
    '"',
    "%",
    "-1",
    "9" * 5000,
    "[[[[[[[",
    "\0",
    "é",
    "?",
    "=",
    ":",
    "{",
]


@st.composite
def layouts(draw: st.DrawFn, kinds: Sequence[str] = ("sum",), widest: int = 20) -> tuple[TensorSharding, Shape]:
    """A closed sharding over whole axes in any order, and a shape that need not divide."""
    mesh, rank = draw(meshes()), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(kinds))
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    partial: list[Partial] = []
    for name in draw(st.permutations([name for name, _ in mesh.axes])):
        place = draw(st.integers(-2, rank - 1))
        if place >= 0:
            dims[place].append(mesh.axis(name))
        elif place == -2:
            partial.append(Partial(mesh.axis(name), kind))
    partial.sort(key=lambda p: mesh.sort_key(p.axis))
    sharding = TensorSharding(mesh, tuple(DimSharding(tuple(axes)) for axes in dims), partial=tuple(partial))
    return sharding, tuple(draw(st.integers(0, widest)) for _ in range(rank))


def slices(sharding: TensorSharding, shape: Shape) -> list[tuple[slice, ...]]:
    """What each device holds."""
    return [sharding.device_slice(shape, position) for position in range(sharding.mesh.size)]


def attempt(action: Callable[[], T]) -> tuple[T | None, str]:
    """What `action` returns, or in which words it is refused."""
    try:
        return action(), ""
    except ShardingError as error:
        return None, str(error)


def mangled(text: str) -> st.SearchStrategy[str]:
    """`text` with a stretch of it replaced by something that does not belong there."""
    cuts = st.tuples(st.integers(0, len(text)), st.integers(0, 6), st.sampled_from(MALFORMED + list(",()<>0aRPS")))
    return cuts.map(lambda cut: text[: cut[0]] + cut[2] + text[cut[0] + cut[1] :])


def is_value_or_diagnostic(name: str, text: str, shape: Shape | None, mesh: Mesh | None) -> None:
    """Any text is read or refused in words."""
    sharding, refusal = attempt(lambda: notation(name).parse(text, shape, mesh))
    if sharding is not None:
        sharding.check(shape)
    else:
        assert 0 < len(refusal) < 2000


def test_the_slides_example_element_by_element() -> None:
    sharding = parse_text("#mesh.shard<@mesh0, [[0]]>", shape=(4,), mesh=MESH0)
    assert sharding.mesh.name == "mesh0"
    assert slices(sharding, (4,)) == [(slice(0, 2),), (slice(0, 2),), (slice(2, 4),), (slice(2, 4),)]


def test_the_order_of_axes_matters_and_the_list_past_the_rank_is_partial() -> None:
    sharding = parse_text("#mesh.shard<[[2, 0], [], [1]]>", shape=(4, 8), mesh=CUBE)
    assert repr(sharding) == "[{c, a}, {}] partial=sum{b}"
    rows = [part[0] for part in slices(sharding, (4, 8))]  # device (a, b, c) holds row 2 * c + a
    assert rows == [slice(2 * c + a, 2 * c + a + 1) for a in (0, 1) for _ in (0, 1) for c in (0, 1)]


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("#mesh.shard<[[0], [], [1]]>", (4, 8), "[{a}, {}] partial=sum{b}"),
        ("#mesh.shard<[[0]]>", (4, 8), "[{a}, {}]"),
        ("#mesh.shard<[[0]]>", (), "[] partial=sum{a}"),
        ("#mesh.shard<[]>", (2,), "[{}]"),
        ("#mesh.shard<[[], [1, 0]]>", (2, 4), "[{}, {b, a}]"),
        ("#mesh.shard<[[], [], [], [0, 1]]>", (2, 4, 8), "[{}, {}, {}] partial=sum{a, b}"),
        ("#mesh.shard<[[], [], [1, 0]]>", (2, 4), "[{}, {}] partial=sum{a, b}"),
    ],
)
def test_snippets_of_the_documents(text: str, shape: Shape, expected: str) -> None:
    assert repr(parse_text(text, shape=shape, mesh=MESH0)) == expected


@pytest.mark.parametrize(
    "text", ["#mesh.shard<[[2, 0], [], [1]]>", "#mesh.shard<@grid, [[0], []]>", "#mesh.shard<[[], []]>"]
)
def test_canonical_text_to_model_to_the_same_text(text: str) -> None:
    sharding = parse_text(text, shape=(4, 8), mesh=CUBE)
    assert print_text(sharding, "rfc", shape=(4, 8)) == text


@PROPERTY
@given(layouts())
def test_model_to_text_to_the_same_model(case: tuple[TensorSharding, Shape]) -> None:
    sharding, shape = case
    text = print_text(sharding, "rfc", shape=shape)
    back = parse_text(text, shape=shape, mesh=sharding.mesh)
    assert back == sharding
    for position, part in enumerate(slices(back, shape)):
        for dim, cut in enumerate(part):  # brute force: ceil-sized chunks, counted along the axes in the text
            index = 0
            for axis in sharding.dims[dim].axes:
                index = index * axis.size + sharding.mesh.coordinates(position)[axis.name]
            chunk = -(-shape[dim] // axes_size(sharding.dims[dim].axes))
            held = range(shape[dim])[index * chunk : (index + 1) * chunk]
            assert list(range(shape[dim]))[cut] == list(held)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#mesh.shard<[[0], [], [1], []]>", "4 lists"),
        ("#mesh.shard<[[3]]>", "no mesh axis 3"),
        ("#mesh.shard<[[-1]]>", "no mesh axis -1"),
        ("#mesh.shard<[[0], [0]]>", "given twice"),
        ("#mesh.shard<[[0, 0]]>", "given twice"),
        ("#mesh.shard<[[[]], [0]]>", "column 15"),
        ("#mesh.shard<[[0]]", "the text ends"),
        ("#mesh.shard<@, [[0]]>", "name of a mesh"),
        ("#mesh.shard<[[0]]> x", "end of the text"),
    ],
)
def test_what_is_no_rfc_sharding(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_text(text, shape=(4, 8), mesh=CUBE)


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(ShardingError, match="give the shape"):
        parse_text("#mesh.shard<[[0]]>", mesh=CUBE)
    with pytest.raises(ShardingError, match="the mesh @m is not known"):
        parse_text("#mesh.shard<@m, [[0]]>", shape=(4,))


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (TensorSharding.of(CUBE, [["a"]], partial=["b"], kind="max"), "partial by max"),
        (TensorSharding.of(CUBE, [["a"]], open=True), "open dimensions"),
        (TensorSharding.of(Mesh(x=4), [[AxisRef("x", 2, 2)]]), "parts of a mesh axis"),
        (TensorSharding(CUBE, (DimSharding((CUBE.axis("a"),)),), offsets=((0, 1, 4),)), "offsets or halos"),
        (TensorSharding(CUBE, (DimSharding((CUBE.axis("a"),)),), halos=((1, 1),)), "offsets or halos"),
    ],
)
def test_what_the_rfc_cannot_say_is_refused(sharding: TensorSharding, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        print_text(sharding, "rfc", shape=(4,))


@PROPERTY
@given(mangled("#mesh.shard<@mesh0, [[2, 0], [], [1]]>"), st.sampled_from([None, (), (4,), (4, 8)]))
def test_malformed_text_is_a_diagnostic(text: str, shape: Shape | None) -> None:
    is_value_or_diagnostic("rfc", text, shape, CUBE)

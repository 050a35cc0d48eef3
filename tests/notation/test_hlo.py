"""`mhlo.sharding` text: the format page's examples, every form, canonical printing, what is refused and where."""

from __future__ import annotations

import contextlib
import time

import pytest

import shardwright.notation.hlo
from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.sharding import from_hlo, named_hlo, parse_hlo, parse_sharding, print_sharding, to_hlo
from shardwright.notation.registry import notation, parse_text, print_text
from shardwright.sharding import DimSharding, Partial, TensorSharding

MESH = Mesh(x=2, y=4)


def held(text: str, shape: tuple[int, ...], mesh: Mesh | None = None) -> dict[int, tuple[tuple[int, int], ...]]:
    """Device → the start and end along each dimension of what it holds."""
    sharding = parse_text(text, shape=shape, mesh=mesh)
    own = sharding.mesh
    return {
        own.device_id(position): tuple((s.start, s.stop) for s in sharding.device_slice(shape, position))
        for position in range(own.size)
    }


@pytest.mark.parametrize("mesh", [None, Mesh(x=2)])
def test_two_rows_of_tiles(mesh: Mesh | None) -> None:
    assert held("{devices=[2,1]0,1}", (4, 3), mesh) == {0: ((0, 2), (0, 3)), 1: ((2, 4), (0, 3))}


@pytest.mark.parametrize("mesh", [None, MESH, Mesh(x=8), Mesh(y=2, x=2, z=2)])
def test_eight_tiles_of_three_by_two_by_one(mesh: Mesh | None) -> None:
    text = "{devices=[1,2,4]0,1,2,3,4,5,6,7}"
    bounds = held(text, (3, 4, 4), mesh)
    assert bounds == {d: ((0, 3), (d // 4 * 2, d // 4 * 2 + 2), (d % 4, d % 4 + 1)) for d in range(8)}
    assert parse_sharding(text, (3, 4, 4), mesh).local_shape((3, 4, 4)) == (3, 2, 1)


def test_replicated() -> None:
    assert held("{replicated}", (4, 3), MESH) == dict.fromkeys(range(8), ((0, 4), (0, 3)))


@pytest.mark.parametrize("mesh", [None, MESH])
def test_partial_replication_as_the_documents_text_says(mesh: Mesh | None) -> None:
    # Written [1,2,4] there, but said to give devices 0 to 3 the upper half of the rows: so the tiles are [2,1,4].
    text = "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
    assert held(text, (4, 3), mesh) == {d: ((d // 4 * 2, d // 4 * 2 + 2), (0, 3)) for d in range(8)}
    as_written = held("{devices=[1,2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", (4, 3), mesh)
    assert as_written == {d: ((0, 4), ((0, 2), (2, 3))[d // 4]) for d in range(8)}


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("{devices=[2,4]<=[8]}", "[{x}, {y}]"),
        ("{devices=[4,2]<=[2,4]T(1,0)}", "[{y}, {x}]"),
        ("{devices=[8,1]<=[8]}", "[{x, y}, {}]"),
        ("{devices=[8,1]<=[2,4]T(1,0)}", "[{y, x}, {}]"),
        ("{devices=[2,2,2]<=[8] last_tile_dim_replicate}", "[{x}, {y:(1)2}]"),
        ("{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}", "[{x}, {y:(2)2}]"),
        ("{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}", "[{x}, {}] partial=sum{y}"),
        ("{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={unreduced, replicated}}", "[{}, {}] partial=sum{y}"),
        ("{unreduced}", "[{}, {}] partial=sum{x, y}"),
        ("{replicated}", "[{}, {}]"),
    ],
)
def test_tiles_are_axes_and_back(text: str, model: str) -> None:
    sharding = parse_sharding(text, (8, 8), MESH)
    assert repr(sharding) == model
    assert print_sharding(sharding, (8, 8)) == text
    assert parse_sharding(print_sharding(sharding), (8, 8), MESH) == sharding


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("{ devices=[ 2,1 ] 0,1 }", "{devices=[2,1]0,1}"),
        ("{devices=[2,2]<=[2,1,2]T(2,1,0)}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        ("{devices=[8]<=[2,2,2]T(2,0,1)}", "{devices=[8]<=[4,2]T(1,0)}"),
        ("{last_tile_dim_replicate devices=[2,2]<=[4]}", "{devices=[2,2]<=[4] last_tile_dim_replicate}"),
        (
            "{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}",
        ),
        ("{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"),
        ("{devices=[2,2,1]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}"),
        ("{devices=[1,1,4]<=[4] last_tile_dims={manual}}", "{manual}"),
        (
            "{devices=[1,2,2,2]<=[8] last_tile_dims={replicated, manual}}",
            "{devices=[1,2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}",
        ),
        ("{maximal device=3}", "{maximal device=3}"),
        ("{manual unknown}", "{manual}"),
        ("{unreduced shard_like 9223372036854775807}", "{unreduced shard_like 9223372036854775807}"),
        (
            '{metadata={{op_name="a}"},{op_name="b"}} devices=[2,1]0,1 shard_as 3}',
            '{devices=[2,1]0,1 shard_as 3 metadata={{op_name="a}"},{op_name="b"}}}',
        ),
        ("{}", "{}"),
        (
            "{{replicated},{manual},{unknown},{replicated},{replicated},{devices=[2]0,1}}",
            "{{replicated}, {manual}, {unknown}, {replicated}, {replicated}, /*index=5*/{devices=[2]0,1}}",
        ),
        ("{{mesh['a'=2], [{'a'}]}, {devices=[2]<=[2]}}", "{{mesh['a'=2], [{'a'}]}, {devices=[2]<=[2]}}"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_hlo(text).canonical()) == canonical
    assert str(parse_hlo(canonical).canonical()) == canonical


@pytest.mark.parametrize(
    ("quoted", "unquoted"),
    [
        ("{mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2}]}", "{mesh[a=2,b=4], [{a}, {b:(2)2}]}"),
        ("{mesh['a'=2,'b'=4], replicated}", "{mesh[a=2,b=4], replicated}"),
        (
            "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a', ?}, {}], replicated={'b':(1)2}, unreduced={'b':(2)2}}",
            "{mesh[a=2,b=4], device_ids=([4,2]T(1,0)), [{a, ?}, {}], replicated={b:(1)2}, unreduced={b:(2)2}}",
        ),
        (
            "{mesh['a'=2], device_ids=(1,0), [{}], unreduced=max{'a'}, metadata={{op_name=\"x\"}}}",
            '{mesh[a=2], device_ids=(1,0), [{}], unreduced=max{a}, metadata={{op_name="x"}}}',
        ),
        ("{mesh[], replicated}", "{mesh[], replicated}"),
        ("{mesh['a'=2,'b'=2], [{}], manual={'a'}}", "{mesh[a=2,b=2], [{}], manual={a}}"),
    ],
)
def test_named_form_in_its_spellings(quoted: str, unquoted: str) -> None:
    assert parse_hlo(quoted) == parse_hlo(unquoted)
    assert parse_hlo(quoted).text() == parse_hlo(quoted).text("newest") == quoted
    assert parse_hlo(quoted).text("unquoted") == unquoted


def test_one_device_in_three_spellings() -> None:
    texts = ["{maximal device=5}", "{maximal_mesh[device_id=5]}", "{single_device[device_id=5]}"]
    assert len({parse_hlo(text) for text in texts}) == 1
    assert parse_hlo(texts[0]).text("newest") == texts[2]
    sharding = parse_sharding(texts[1], (4, 4))
    assert sharding.mesh == Mesh(device_ids=[5])
    assert print_sharding(sharding) == texts[0]
    assert parse_sharding(texts[0], (4, 4), Mesh(device_ids=[5])) == sharding
    with pytest.raises(ShardingError, match="one device of"):
        parse_sharding(texts[0], (4, 4), MESH)


def test_named_form_on_its_own_mesh_and_on_another() -> None:
    text = "{mesh['a'=2,'b'=4], [{'b', ?}, {'a'}]}"
    own = parse_sharding(text)
    assert own == TensorSharding(
        Mesh(a=2, b=4), (DimSharding((AxisRef("b", 1, 4),), True), DimSharding((AxisRef("a", 1, 2),)))
    )
    assert str(named_hlo(own)) == text
    assert repr(parse_sharding(text, (8, 8), MESH)) == "[{y}, {x}]"
    maximum = replace_kind(own)
    assert from_hlo(named_hlo(maximum)) == maximum


def replace_kind(sharding: TensorSharding) -> TensorSharding:
    return TensorSharding(sharding.mesh, (DimSharding(),), partial=(Partial(AxisRef("a", 1, 2), "max"),))


def test_a_list_that_no_axes_count_becomes_a_mesh_with_that_order() -> None:
    text = "{devices=[2,2]0,3,1,2}"
    sharding = parse_sharding(text, (4, 4))
    assert sharding.mesh == Mesh(a=2, b=2, device_ids=[0, 3, 1, 2])
    assert print_sharding(sharding) == text
    with pytest.raises(ShardingError, match="never approximated"):
        parse_sharding(text, (4, 4), Mesh(x=2, y=2))
    counted = parse_sharding("{devices=[3,2]<=[2,3]T(1,0)}")
    assert counted.mesh == Mesh(a=2, b=3)
    assert repr(counted) == "[{b}, {a}]"


def test_a_mesh_with_an_order_of_its_own_prints_as_a_list() -> None:
    mesh = Mesh(x=2, y=2, device_ids=[3, 1, 0, 2])
    sharding = TensorSharding.of(mesh, [["y"], ["x"]])
    assert print_sharding(sharding) == "{devices=[2,2]3,0,1,2}"
    assert parse_sharding("{devices=[2,2]3,0,1,2}", (4, 4), mesh) == sharding


def test_what_propagation_may_do_is_not_said() -> None:
    sharding = TensorSharding.of(MESH, [["x"], []], open=True)
    assert print_sharding(sharding) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"


@pytest.mark.parametrize(
    ("sharding", "what"),
    [
        (TensorSharding.of(MESH, [[]], partial=["x"], kind="max"), "partial by max"),
        (TensorSharding(MESH, (DimSharding((), False, 1),)), "priorities"),
        (TensorSharding(MESH, (DimSharding((MESH.axis("x"),)),), halos=((1, 1),)), "halos"),
        (TensorSharding(MESH, (DimSharding((MESH.axis("x"),)),), offsets=((0, 1, 4),)), "offsets"),
    ],
)
def test_what_cannot_be_printed_is_refused_by_name(sharding: TensorSharding, what: str) -> None:
    with pytest.raises(ShardingError, match=what):
        print_sharding(sharding)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{manual}", "manual says of no device"),
        ("{unknown}", "unknown says of no device"),
        ("{devices=[2,1]0,1 shard_as 1}", "shard_as ties tensors"),
        ("{replicated shard_like 1}", "shard_like ties tensors"),
        ("{devices=[2,1,4]<=[8] last_tile_dims={manual}}", "manual subgroups"),
        ("{{replicated}, {replicated}}", "a tuple of 2"),
        ("{}", "a tuple of 0"),
        ("{mesh['x'=2], manual}", "manual axes"),
        ("{devices=[2]<=[2]}", "tiles of 1 dimension for a tensor of 2"),
        ("{devices=[2,1]<=[2]}", "it has 2 devices"),
        ("{devices=[1,8]0,3,1,2,4,5,6,7}", "no axes or sub-axes"),
        ("{devices=[1,8]8,1,2,3,4,5,6,7}", "no axes or sub-axes"),
    ],
)
def test_what_the_model_has_no_notion_of_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(ShardingError, match=why):
        parse_sharding(text, (8, 8), MESH)


@pytest.mark.parametrize("text", ["{replicated}", "{maximal device=1}", "{unreduced}", "{mesh[a=2], replicated}"])
def test_a_text_without_dimensions_needs_a_shape(text: str) -> None:
    with pytest.raises(ShardingError, match=r"give the (shape|mesh)"):
        parse_sharding(text)


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("", 1, "expected '{'"),
        ("{replicated", 12, "expected a word"),
        ("{replicated} x", 14, "goes on"),
        ("{,replicated}", 2, "expected a word"),
        ("{replicate}", 2, "unknown item"),
        ("{devices=[2,1]0,0}", 2, "listed twice"),
        ("{devices=[2,1]0,1,2}", 2, "2 tiles for 3 devices"),
        ("{devices=[2,1]<=[4]}", 2, "2 tiles for 4 devices"),
        ("{devices=[2,2]<=[2,2]}", 22, "expected 'T'"),
        ("{devices=[2]<=[2]T(0)}", 18, "unknown item"),
        ("{devices=[2,2]<=[2,2]T(1,1)}", 17, "no permutation"),
        ("{devices=[2,2]<=[2,2]T(0,2)}", 17, "no permutation"),
        ("{devices=[1]0}", 2, "more than one device"),
        ("{devices=[0]<=[0]}", 2, "more than one device"),
        ("{devices=[]}", 11, "expected a number"),
        ("{devices=[2]0,}", 15, "expected a number"),
        ("{devices=[-2]0,1}", 11, "expected a number"),
        ("{devices=[9999999999999999999]0}", 11, "expected a number"),
        ("{devices=[999999999999,999999999999]0}", 11, "multiply"),
        ("{devices=[" + "9" * 6000 + "]0}", 11, "expected a number"),
        ("{unknown shard_as 9223372036854775808}", 19, "expected a number"),
        ("{devices=[2]0,1 last_tile_dims={foo}}", 33, "unknown subgroup"),
        ("{devices=[2]0,1 last_tile_dims={manual,replicated}}", 1, "2 subgroups"),
        ("{devices=[2,2]<=[4] last_tile_dims={replicated} last_tile_dim_replicate}", 49, "twice"),
        ("{maximal}", 1, "names one device"),
        ("{device=3}", 1, "no tiles"),
        ("{manual devices=[2]0,1}", 1, "names no devices"),
        ("{replicated metadata=x}", 22, "braces"),
        ("{replicated metadata={x}", 25, "expected a word"),
        ("{replicated metadata={", 23, "braces"),
        ("{{replicated},}", 15, "expected '{'"),
        ("{{replicated} {replicated}}", 15, "expected ','"),
        ("{{{replicated}}}", 3, "expected a word"),
        ("{mesh['a'=2]}", 2, "layout"),
        ("{mesh['a'=2,'a'=2], replicated}", 2, "twice"),
        ("{mesh['a'=0], replicated}", 2, "size 0"),
        ("{mesh['a'=2], [{'b'}]}", 17, "unknown mesh axis"),
        ("{mesh['a'=2], [{'a'}, {'a'}]}", 15, "used twice"),
        ("{mesh['a'=4], [{'a':(1)3}]}", 17, "does not fit"),
        ("{mesh['a'=2], [{?, 'a'}]}", 20, "not last"),
        ("{mesh['a'=2], [{}], unreduced=foo{'a'}}", 31, "reduction kind"),
        ("{mesh['a'=2], [{'a'}], unreduced={'a'}}", 24, "used twice"),
        ("{mesh['a'=2], replicated, unreduced={'a'}}", 27, "unexpected"),
        ("{mesh['a'=2], device_ids=(0,1,2), replicated}", 15, "3 device ids"),
        ("{mesh['a'=2], device_ids=(0,0), replicated}", 15, "do not name each"),
        ("{mesh[a, replicated}", 8, "expected '='"),
        ("{single_device[device_id=]}", 26, "expected a number"),
    ],
)
def test_malformed_text_is_refused_with_its_column(text: str, column: int, what: str) -> None:
    with pytest.raises(ShardingError, match=what) as raised:
        parse_hlo(text)
    assert raised.value.diagnostic.location == f"column {column}"
    assert raised.value.diagnostic.remedy or raised.value.diagnostic.cause


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[4294967296]<=[4294967296]}",
        "{devices=[65536,65536]<=[65536,65536]T(1,0)}",
        "{devices=[65536,65536]<=[65536,65536]T(1,0) last_tile_dim_replicate}",
        "{mesh['a'=65536,'b'=65536], [{'a':(4)16}, {'b', 'a':(1)4}]}",
    ],
)
def test_orders_that_count_are_never_written_out(text: str) -> None:
    start = time.perf_counter()
    sharding = parse_sharding(text)
    assert sharding.mesh.size == 1 << 32
    assert parse_sharding(print_sharding(sharding), None, sharding.mesh) == sharding
    assert time.perf_counter() - start < 1


def test_a_huge_order_that_would_have_to_be_written_out_is_refused() -> None:
    with pytest.raises(ShardingError, match="written out"):
        parse_sharding("{devices=[3000000,2]<=[3,2000000]T(1,0)}")


def test_long_texts_of_nothing_are_read_in_time() -> None:
    start = time.perf_counter()
    for text in (
        "{devices=[2]<=[2," + "1," * 50_000 + "1]T(" + ",".join(map(str, range(50_002))) + ")}",
        "{devices=[" + "1," * 50_000 + "2]<=[2]}",
        "{" * 50_000,
        "{mesh[" + "a=1," * 50_000,
        "{replicated metadata=" + "{" * 50_000,
    ):
        with contextlib.suppress(ShardingError):
            parse_sharding(text, (2,))
    assert time.perf_counter() - start < 5


def test_the_notation_is_registered() -> None:
    assert notation("mhlo").parse is shardwright.notation.hlo.parse_sharding
    sharding = parse_text("{devices=[2,1]<=[2]}", shape=(4, 4))
    assert print_text(sharding, "mhlo", shape=(4, 4)) == "{devices=[2,1]<=[2]}"
    assert not notation("mhlo").looks_like("{x, y}")
    assert to_hlo(sharding).data_tile == (2, 1)

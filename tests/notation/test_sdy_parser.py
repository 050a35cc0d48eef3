"""The grammar of sdy's shardings: what jaxlib's parser refuses is refused, at a column, and nothing else is."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.notation.registry import parse_text
from shardwright.notation.sdy import sharding as sdy
from tests.jaxlib_differences import applies

MESH = Mesh([("x", 2), ("y", 4), ("z", 8), ("", 2), ("a b", 2), ('"\\', 2), ("é", 2)])
NAMES = ["m", "mesh", "m_1$.b", "a b", "a-b", "1", 'q"\\', "é", "\n"]
MESHES = {name: Mesh(MESH.axes, name=name) for name in NAMES}

WHOLE = [
    "#sdy.sharding<@m, []>",
    '#sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1, {?}, {}p0]>',
    '#sdy.sharding<@m, [{"z":(2)4}], replicated={"x"}, unreduced={"y", "z":(1)2}>',
    '#sdy.sharding<@m, [{"x"}], unreduced={"y"}, replicated={"z"}>',
    '#sdy.sharding<@"a b", [{"a b"}, {"\\22\\\\", ""}]>',
    '#sdy.sharding<mesh<["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, [{"x"}, {"y"}p10]>',
    "#sdy.sharding<mesh<[], device_ids=[3]>, [{}]>",
    '#sdy.sharding_per_value<[<@m, [{"x"}]>, <mesh<["x"=2]>, [{"x", ?}]>]>',
    "#sdy.sharding_per_value<[]>",
]
PIECES = [
    ",", ", ", "?", ", ?", "[", "]", "{", "}", "<", ">", "(", ")", ":", "=", "@", '"', "#", "@m", '@""', '@"a b"', "@a-b", "@1",
    '"x"', '""', "x", "p1", "p01", "p", "q1", "p1.5", "sum", "max", "mesh", "mesh<[]>", "replicated", ', replicated={"x"}',
    ", replicated={}", 'replicated=foo{"x"}', ', unreduced={"y"}', "0", "1", "2", "01", "-1", "٢", "²", "é", " ", "\n", "\t",
    "\f", "\u00a0", "->", "-", "\\", '"\\q"', '"\\41"', '"\\n"', '"a\nb"', "'x'", "//", ";", "$", "device_ids=[]", "<@m, []>",
]  # fmt: skip
KIND = re.compile(r"unreduced\s*=\s*(?:sum|max)\b")
UNREAD = re.compile(
    r"0x|-\s*[0-9]|[0-9]{19}|true|false|//|@\s*$" + (r"|unreduced\s*\w*\s*\{" if applies("assignment") else "")
)
"""Numbers that jaxlib reads and no size or dimension can be, comments, and an `@` at the end, which it passes over."""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|\s+|.', re.DOTALL)


def ours(text: str) -> ShardingError | None:
    with Session():
        try:
            sdy.parse_shardings(text, MESHES)
        except ShardingError as error:
            return error
    return None


def theirs(text: str) -> bool:
    """Whether jaxlib reads it; a mesh without a name, which it reads and prints as invalid, does not count."""
    if re.match(r"[ \t\r\n]*<", text):  # which we read without what stands before it
        per_value = re.match(r"[ \t\r\n]*<[ \t\r\n]*\[", text)
        text = ("#sdy.sharding_per_value" if per_value else "#sdy.sharding") + text.lstrip(" \t\r\n")
    try:
        (read,) = ir.ArrayAttr(parse_attribute(f"[{text}]"))  # which looks closely at what follows
        return str(read).startswith("#sdy.sharding") and "INVALID EMPTY SYMBOL" not in str(read)
    except (ir.MLIRError, ValueError):
        return False


def compare(text: str) -> bool:
    """Whether the text is read, where jaxlib reads it and only there; a refusal says a column."""
    error = ours(text)
    if error is None:
        assert KIND.search(text) or theirs(text), f"jaxlib refuses {text!r}"
        return True
    assert re.match(r"column [0-9]+: ", error.diagnostic.cause), error
    if error.diagnostic.message.startswith("malformed"):
        assert UNREAD.search(text) or not theirs(text), f"jaxlib reads {text!r}: {error}"
    return False


@pytest.mark.parametrize("text", WHOLE)
def test_whole_texts_are_read_and_printed_as_jaxlib_prints_them(text: str) -> None:
    assert compare(text)
    shardings = sdy.parse_shardings(text, MESHES)
    printed = sdy.print_shardings(shardings) if "per_value" in text else sdy.print_sharding(shardings[0])
    assert printed == str(parse_attribute(text))


@pytest.mark.parametrize("text", WHOLE)
def test_every_token_left_out_doubled_or_replaced(text: str) -> None:
    tokens = TOKEN.findall(text)
    for at in range(len(tokens) + 1):
        head, tail = "".join(tokens[:at]), tokens[at:]
        for changed in (tail[1:], tail[:1] + tail, [" ", *tail], *([piece, *tail] for piece in PIECES)):
            compare(head + "".join(changed))
        if tail:
            for piece in PIECES:
                compare(head + piece + "".join(tail[1:]))


@given(st.sampled_from(WHOLE), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 6), st.sampled_from(PIECES))))
@settings(max_examples=500, deadline=None)
def test_texts_changed_in_several_places(text: str, changes: list[tuple[int, int, str]]) -> None:
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    compare(text)


@pytest.mark.long
def test_texts_changed_at_length(record_property: Callable[[str, object], None]) -> None:
    rng, read = random.Random(0), 0
    for _ in range(60_000):
        tokens = TOKEN.findall(rng.choice(WHOLE))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(tokens))
            tokens[at : at + rng.randint(0, 2)] = rng.choices(PIECES, k=rng.randint(0, 2))
            tokens = tokens or [""]
        read += compare("".join(tokens))
    assert read > 1000
    record_property("summary", f"sdy: 60000 changed texts, {read} read by us and by jaxlib")


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ('#sdy.sharding<@m, [{"x" "y"}]>', 25, "expected '}'; got '\"y\"'"),
        ("#sdy.sharding<@m, [{}{}]>", 22, "got '{'"),
        ('#sdy.sharding<@m, [{?, "x"}]>', 22, "expected '}'"),
        ('#sdy.sharding<@m, [], replicated=foo{"x"}>', 34, "expected '{'; got 'foo'"),
        ('#sdy.sharding<@m, [{"y":(1)٢}]>', 28, "expected a number"),
        ('#sdy.sharding<@"", []>', 15, "expected the name of a mesh"),
        ("#sdy.sharding<@m, []", 21, "expected '>'; the text ends"),
        ("#sdy.sharding<@gone, []>", 15, "the module has the meshes @m"),
        ('#sdy.sharding<@m, [{"w"}]>', 21, "the mesh has the axes 'x'"),
        ('#sdy.sharding<@m, [{"y":(3)2}]>', 21, ""),
        ('#sdy.sharding<@m, [], unreduced=most{"x"}>', 33, "a kind of reduction"),
        ('#sdy.sharding<@m, [], unreduced=max{"x"}, unreduced=max{"y"}>', 43, "unreduced by max are given twice"),
        ('#sdy.sharding<mesh<["x"=2, "x"=2]>, []>', 20, ""),
        ('#sdy.sharding<mesh<["x"=2 "y"=2]>, []>', 27, "expected ']'"),
    ],
)
def test_the_column_is_where_it_goes_wrong(text: str, column: int, words: str) -> None:
    error = ours(text)
    assert error is not None
    assert error.diagnostic.cause.startswith(f"column {column}: ")
    assert words in error.diagnostic.cause


@pytest.mark.parametrize(
    "text",
    [
        '<["x"=2 "y"=4]>',
        '<["x"=2,]>',
        "<[x=2]>",
        '<["x"=2], device_ids=[1 0]>',
        '<["x"=2], device_ids=[]>',
        '<["x"=2]> and more',
        '<["x"=٢]>',
        '["x"=2]',
        '#sdy.sharding<["x"=2]>',
        "",
    ],
)
def test_malformed_meshes(text: str) -> None:
    with pytest.raises(ShardingError) as error:
        sdy.parse_mesh(text)
    assert error.value.diagnostic.cause.startswith("column ")


@pytest.mark.parametrize("read", [sdy.parse_axes, sdy.parse_axis_lists, sdy.parse_moves, sdy.parse_axis])
@pytest.mark.parametrize(
    "text", ["", "x", '{"x" "y"}', '[{"x"} {"y"}]', '[{"x"}: 0 1]', '"x":1', '{"x", ?}', '[{"x"}] y']
)
def test_malformed_parameters_of_collectives(read: Callable[[str, Mesh], object], text: str) -> None:
    with pytest.raises(ShardingError) as error:
        read(text, MESH)
    assert error.value.diagnostic.cause.startswith("column ")


def test_kinds_that_newer_versions_have_are_read() -> None:
    text = '#sdy.sharding<@m, [{}], unreduced=max{"x"}, unreduced={"y"}>'
    (sharding,) = sdy.parse_shardings(text, MESHES)
    assert [(p.axis.name, p.kind) for p in sharding.partial] == [("x", "max"), ("y", "sum")]


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_a_mesh_of_any_name_is_printed_so_that_it_is_read_again(name: str) -> None:
    (sharding,) = sdy.parse_shardings("#sdy.sharding<" + str(ir_symbol(name)) + ', [{"x"}]>', MESHES)
    printed = sdy.print_sharding(sharding)
    assert sharding.mesh.name == name
    assert str(parse_attribute(printed)) == printed
    assert parse_text(printed, mesh=MESH) == sharding


def ir_symbol(name: str) -> object:
    from shardwright.ir.context import context

    return ir.FlatSymbolRefAttr.get(name, context=context())


def test_a_name_that_is_not_text_is_refused_in_words() -> None:
    sharding = parse_text('<@"a\ud800", [{"x"}]>', mesh=MESH)
    with pytest.raises(ShardingError, match="surrogates"):
        sdy.print_sharding(sharding)


def test_long_texts_cost_little() -> None:
    start = time.process_time()
    for text in [
        "#sdy.sharding<@m, [" + "{}, " * 50_000 + "]>",
        "#sdy.sharding<" * 50_000,
        "<@m, [{" + '"x", ' * 50_000,
    ]:
        assert ours(text) is not None
    assert time.process_time() - start < 2

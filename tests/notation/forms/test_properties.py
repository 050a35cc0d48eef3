"""Random ops of every form, built from the table, and mutated texts."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.notation.forms import kinds
from shardwright.notation.forms.assembly import index_lists
from shardwright.notation.forms.form import AttributeKind, OpText
from shardwright.notation.forms.texts import ops, respell, to_custom, to_generic
from shardwright.notation.forms.write import custom, generic
from shardwright.notation.shard.dialect.tables import SHARD
from tests.notation.forms.programs import OPS, module

FORMS = [form for form in SHARD.forms.values() if not form.renamed] + [SHARD.forms["mesh.sharding"]]
TYPES = st.sampled_from([
    "tensor<4x8xf32>", "tensor<?x1xbf16, #x.y<[1, 2]>>", "memref<2xf32, affine_map<(d0) -> (d0 + 1)>>", "index", "i64",
    "tuple<index, tensor<2xi8>>", "vector<4xi1>", "f8E4M3FN", '!other.type<"a>b">', "!other.plain", "complex<f32>", "tensor<f32>",
])  # fmt: skip
NAMES = st.from_regex(r"%[a-z0-9_.$]{1,5}(#[0-9])?", fullmatch=True)
I64 = st.integers(-(2**63) + 1, 2**63 - 1)
AXES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
SYMBOLS = st.one_of(
    st.from_regex(r"[A-Za-z_][\w.$]{0,5}", fullmatch=True).filter(str.isascii), st.just("a b"), st.just("0 %x")
)
VALUES = {
    "a symbol": SYMBOLS,
    "the name of a symbol": SYMBOLS,
    "a number": I64,
    "a list of axes": AXES,
    "a list of axes for each dimension": st.lists(AXES, max_size=3).map(tuple),
    "a reduction kind": st.sampled_from(kinds.REDUCTIONS),
    "sizes, as in 2x?x4": st.lists(st.one_of(st.integers(0, 10**17), st.just(kinds.DYNAMIC)), max_size=3).map(tuple),
    "a mark": st.booleans(),
    "a string": st.text(st.characters(codec="ascii"), max_size=6),
}
EXTRA = st.dictionaries(
    st.sampled_from(["zz", "a.b", "with space", "_x"]),
    st.sampled_from([None, "1 : i32", '"%a // x"', "[1, {a = 2}]", "#x.y<a -> b>", "dense<[[1]]> : tensor<1x1xi64>"]),
    max_size=2,
)


@st.composite
def op_texts(draw: Any) -> OpText:
    form = draw(st.sampled_from(FORMS))
    lists = dict(index_lists(form))
    attributes = {}
    for attribute in form.attributes:
        if attribute.name in lists.values():
            value = tuple(draw(st.lists(st.one_of(I64, st.just(kinds.DYNAMIC)), max_size=3)))
        else:
            value = draw(VALUES[attribute.kind.name])
        attributes[attribute.name] = None if attribute.optional and draw(st.booleans()) else value
    if form.name == "mesh.sharding":
        attributes["partial_type"] = draw(VALUES["a reduction kind"])
        attributes["partial_axes"] = draw(AXES.filter(bool))
    operands = {}
    for operand in form.operands:
        count = 1 if operand.count == "one" else draw(st.integers(0, 3))
        if operand.name in lists:
            count = (attributes[lists[operand.name]] or ()).count(kinds.DYNAMIC)
        operands[operand.name] = tuple(draw(st.lists(NAMES, min_size=count, max_size=count)))
    results = tuple(
        t for name in form.results for t in ([draw(TYPES)] if name[-1] != "*" else draw(st.lists(TYPES, max_size=3)))
    )
    types = []
    for operand in form.operands:
        same = results[0] if operand.type == "$result" else operand.type or draw(TYPES)
        types += [same] * len(operands[operand.name])
    return OpText(form, (), operands, attributes, tuple(types), results, draw(EXTRA))


@settings(max_examples=300, deadline=None)
@given(op_texts())
def test_what_is_printed_reads_as_the_same_op(op: OpText) -> None:
    for write in (custom, generic):
        (again,) = ops(write(op), [SHARD])
        assert replace(again, position="", form=op.form) == op
        assert again.form.name == op.form.name
        assert write(again) == write(op)


@settings(max_examples=150, deadline=None)
@given(st.lists(op_texts(), min_size=1, max_size=4))
def test_custom_syntax_comes_back_from_the_generic_form(op_list: list[OpText]) -> None:
    lines = "".join(f"  %{n} = {custom(op)}\n" for n, op in enumerate(op_list))
    plain = "".join(f"  %{n} = {generic(op)}\n" for n, op in enumerate(op_list))
    assert to_custom(plain, [SHARD]) == lines
    mesh = to_custom(plain, [SHARD], "mesh")
    assert to_custom("".join(f"  %{n} = {generic(op)}\n" for n, op in enumerate(ops(mesh, [SHARD]))), [SHARD]) == lines


TOKENS = ["%0", "@g", "[", "]", "(", ")", "{", "}", "<", ">", ",", ":", "=", "->", "?", "-1", "99999999999999999999999", "[[0]]", '"', "//", "\n", " ",
          "index", "tensor<4xf32>", "shard.", "mesh.shard", "shard.sharding", "!mesh.sharding", "loc(", "x", "#", "array<i16: 0>", "0x", "é", "\0", "%", "٣"]  # fmt: skip


@st.composite
def mutated(draw: Any) -> str:
    text = module(draw(st.sampled_from(OPS)))
    if draw(st.booleans()):
        text = to_generic(text, [SHARD])
    start = text.index("%arg11: memref<4x4xf32>")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(start, len(text)))
        end = draw(st.one_of(st.just(at), st.integers(at, min(at + 12, len(text)))))
        text = text[:at] + draw(st.one_of(st.just(""), st.sampled_from(TOKENS), st.text(max_size=3))) + text[end:]
        start = min(start, len(text))
    return text


def _only_refused(text: str) -> int:
    refusals = 0
    for rewrite in (to_generic, to_custom, ops, lambda text, dialects: respell(text, dialects, "mesh")):
        try:
            assert rewrite(text, [SHARD]) is not None
        except ShardingError as error:
            refusals += 1
            assert error.diagnostic.message
    return refusals


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_a_mutated_module_is_read_or_refused(text: str) -> None:
    assert _only_refused(text) in range(5)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(mutated())
def test_many_mutated_modules_are_read_or_refused(text: str) -> None:
    assert _only_refused(text) in range(5)


KINDS = [getattr(kinds, name) for name in kinds.__all__ if isinstance(getattr(kinds, name), AttributeKind)]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(KINDS), st.one_of(st.text(max_size=8), st.lists(st.sampled_from(TOKENS), max_size=6).map(" ".join))
)
def test_any_text_is_a_value_of_a_kind_or_refused(kind: AttributeKind, text: str) -> None:
    value = None
    with contextlib.suppress(ShardingError):
        value = kind.decode(text)
    if value is not None:
        assert kind.decode(kind.generic(value)) == value

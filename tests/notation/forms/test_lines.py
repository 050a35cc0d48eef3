"""Ops that have their lines to themselves are written by what was read of others like them: never otherwise than alone."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.notation.forms.texts import ops, to_custom, to_generic
from shardwright.notation.notation import mentions
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.shard.dialect.tables import SHARD

TYPE = "tensor<4xf32>"
LINES = (
    f"  %1 = mesh.annotate %0 {{sharding = [[0]]}} : {TYPE}\n",
    f"  %2 = mesh.annotate %r#1 {{sharding = [[0]]}} : {TYPE}\n",
    f"  %2 = mesh.annotate %1 {{sharding = [[0]]}} : {TYPE} // mesh.annotate %3\n",
    f'  %4 = "mesh.annotate"(%2) {{sharding = [[0]]}} : ({TYPE}) -> {TYPE}\n',
    f"  %5 = mesh.annotate %4\n    {{sharding = []}} : {TYPE}\n",
    f'  %6 = mesh.annotate %4 {{note = "mesh.annotate %1 \\"", sharding = []}} : {TYPE}\n',
    f"  %7 = mesh.annotate %4 {{sharding = []}} : {TYPE} %8 = mesh.annotate %7 {{sharding = [[0]]}} : {TYPE}\n",
    '  "test.op"() {text = "mesh.annotate %0 : T", mesh.annotate} : () -> ()\n',
    "  // mesh.annotate %0 {sharding = [[0]]} : T\n",
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_lines_together_are_written_as_each_alone(lines: list[str]) -> None:
    alone = [to_generic(line, [RFC]) for line in lines]
    assert to_generic("".join(lines), [RFC]) == "".join(alone)
    assert to_custom("".join(alone), [RFC]) == "".join(to_custom(line, [RFC]) for line in alone)


def test_values_stand_where_the_form_has_them() -> None:
    text = "".join(f"  %x{n} = shard.shard %a{n} to %s{n} annotate_for_users : {TYPE}\n" for n in range(3))
    generic = to_generic(text, [SHARD])
    assert re.findall(r'"shard.shard"\((.*?)\)', generic) == ["%a0, %s0", "%a1, %s1", "%a2, %s2"]
    assert to_custom(generic, [SHARD]) == text


def test_strings_and_comments_hold_no_ops() -> None:
    assert [op.position for op in ops("".join(LINES[5:]), [RFC])] == ["-:1:8", "-:2:8", "-:2:62"]


def test_a_type_is_kept_in_strings_and_comments() -> None:
    text = '"test.op"() {a = "!mesh.sharding"} : () -> () // !mesh.sharding\n'
    assert to_generic(f"{text}func.func private @f(!mesh.sharding)\n", [SHARD]).startswith(f"{text}func.func")


def test_a_type_is_renamed_beside_and_within_ops() -> None:
    text = (
        "func.func private @f(!mesh.sharding)\n"
        f"%1 = mesh.shard %0 to %s : {TYPE}\n"
        "%2 = mesh.get_sharding %1 : tensor<4xf32> -> !mesh.sharding\n"
    )
    generic = to_generic(text, [SHARD])
    assert "!mesh.sharding" not in generic
    assert generic.count("!shard.sharding") == 3


@pytest.mark.parametrize("between", ["\n", " "])
def test_many_ops_take_time_by_their_number(between: str, uncollected: None) -> None:
    def seconds(count: int) -> float:
        text = between.join(f"%{n + 1} = mesh.annotate %{n} {{sharding = [[0]]}} : {TYPE}" for n in range(count))
        start = time.process_time()
        to_generic(text, [RFC])
        return time.process_time() - start

    assert min(seconds(4000) for _ in range(3)) < 20 * max(min(seconds(500) for _ in range(3)), 0.002)


@pytest.fixture
def uncollected() -> Generator[None]:
    """No collector, so that what the tests before have left is not gone through while something is measured."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_the_name_of_a_generic_op_is_found_and_a_string_is_not() -> None:
    mark = re.compile(r"mesh\.cluster\b")
    assert mentions(mark, '"mesh.cluster"() {sym_name = "m"} : () -> ()')
    assert not mentions(mark, '"test.op"() {a = "mesh.cluster", b = "x"} : () -> () // "mesh.cluster"')

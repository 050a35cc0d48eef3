from typing import Any

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import parse_attribute
from shardwright.notation.forms import kinds
from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.form import AttributeKind

CASES = [
    (kinds.SYMBOL, "g", "@g", "@g"),
    (kinds.SYMBOL, "a b", '@"a b"', '@"a b"'),
    (kinds.SYMBOL_NAME, "g", "@g", '"g"'),
    (kinds.INDEX, -1, "-1", "-1 : index"),
    (kinds.I64, 2, "2", "2 : i64"),
    (kinds.I16_ARRAY, (0, 1), "[0, 1]", "array<i16: 0, 1>"),
    (kinds.I16_ARRAY, (), "[]", "array<i16>"),
    (kinds.I64_ARRAY, (-3, 1 << 40), "[-3, 1099511627776]", "array<i64: -3, 1099511627776>"),
    (kinds.AXES, ((0,), (), (1, 2)), "[[0], [], [1, 2]]", "#shard<axisarray[[0], [], [1, 2]]>"),
    (kinds.MESH_AXES, ((),), "[[]]", "#mesh<axisarray[[]]>"),
    (kinds.REDUCTION, "bitwise_and", "bitwise_and", "#shard<partial bitwise_and>"),
    (kinds.MESH_REDUCTION, "max", "max", "#mesh<partial max>"),
    (kinds.DIMS, (2, kinds.DYNAMIC, 4), "2x?x4", "array<i64: 2, -9223372036854775808, 4>"),
    (kinds.DIMS, (), "[]", "array<i64>"),
    (kinds.BOOL, False, "false", "false"),
    (kinds.STRING, 'a"\\\n', '"a\\22\\\\\\0A"', '"a\\22\\\\\\0A"'),
    (kinds.I64_LISTS, ((), (0, 2)), "[[], [0, 2]]", "[[], [0, 2]]"),
]


@pytest.mark.parametrize(("kind", "value", "custom", "generic"), CASES)
def test_a_value_has_one_custom_and_one_generic_text(
    kind: AttributeKind, value: Any, custom: str, generic: str
) -> None:
    assert (kind.print(value), kind.generic(value)) == (custom, generic)
    assert (kind.read(Cursor(custom)), kind.decode(generic)) == (value, value)
    assert kind.decode(str(parse_attribute(generic))) == value


def test_both_dialects_are_read() -> None:
    assert kinds.AXES.decode("#mesh.axisarray<[[0]]>") == kinds.MESH_AXES.decode("#shard.axisarray<[[0]]>")
    assert kinds.AXES.decode("#shard<axisarray[[0], []]>") == ((0,), ())
    assert kinds.REDUCTION.decode("#shard<partial max>") == "max"
    assert kinds.REDUCTION.decode("#mesh.partial<max>") == kinds.REDUCTION.decode("<max>") == "max"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (kinds.SYMBOL, "@"),
        (kinds.SYMBOL, "@a::@b"),
        (kinds.SYMBOL, "g"),
        (kinds.INDEX, "1 : i64"),
        (kinds.I64, "9223372036854775808"),
        (kinds.I64, "1" * 5000),
        (kinds.I16_ARRAY, "array<i64: 0>"),
        (kinds.I16_ARRAY, "[40000]"),
        (kinds.I16_ARRAY, "[0 1]"),
        (kinds.AXES, "[0]"),
        (kinds.AXES, "#shard.axisarray<[[0]]"),
        (kinds.REDUCTION, "mean"),
        (kinds.DIMS, "[0.5]"),
        (kinds.UNIT, "true"),
        (kinds.BOOL, "1"),
        (kinds.STRING, "g"),
        (kinds.STRING, '"'),
        (kinds.I64_LISTS, "[[0]] x"),
    ],
)
def test_a_text_of_another_kind_is_refused(kind: AttributeKind, text: str) -> None:
    with pytest.raises(ShardingError) as caught:
        kind.decode(text)
    assert caught.value.diagnostic.cause or caught.value.diagnostic.remedy

"""Files that are no text, and strings that stand for bytes that are none."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from tests.ir.contained import read_contained

_PLAIN = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
_TWICE = 'func.func private @"\\FF\\FE"()\nfunc.func private @"\\FF\\FE"()\n' + _PLAIN
_ATTRIBUTE = _PLAIN.replace("  return", '  "my.op"() {config = "\\08\\FF\\\\"} : () -> ()\n  return')
_BAD = {
    "a function": _TWICE,
    "its name in an attribute": '"func.func"() <{function_type = () -> (), sym_name = "\\FF"}> ({}) : () -> ()\n'
    + _PLAIN,
    "an axis": 'sdy.mesh @mesh = <["\\FF"=2]>\n' + _PLAIN,
    "an attribute": _PLAIN.replace("  return", '  "my.op"() {"\\FF" = 1} : () -> ()\n  return'),
    "an op": _PLAIN.replace("  return", '  "my.\\FF"() : () -> ()\n  return'),
}


def test_names_that_are_no_text_are_refused_at_their_line() -> None:
    answers = dict(zip(_BAD, read_contained(list(_BAD.values())), strict=True))
    for name, answer in answers.items():
        assert answer.startswith("f.mlir:"), name
        assert "is not UTF-8 text" in answer, name


def test_bytes_in_attributes_are_kept() -> None:
    assert 'config = "\\08\\FF\\\\"' in module_text(load_module(_ATTRIBUTE))


def test_a_diagnostic_may_quote_bytes() -> None:
    wrong = _PLAIN.replace("  return", '  "stablehlo.custom_call"() {api_version = "\\FF"} : () -> ()\n  return')
    (answer,) = read_contained([wrong])
    assert answer.startswith("f.mlir:2:")
    assert "failed to satisfy constraint" in answer


@pytest.mark.parametrize("text", ["\ufeff" + _PLAIN, b"\xef\xbb\xbf" + _PLAIN.encode()])
def test_a_byte_order_mark_is_no_part_of_a_module(text: str | bytes) -> None:
    assert module_text(load_module(text)) == module_text(load_module(_PLAIN))


@pytest.mark.parametrize(
    "content",
    [_PLAIN + "\0", _PLAIN.encode("utf-16"), _PLAIN.encode("utf-16-le"), b"\x7fELF\x02\x00", _PLAIN + "\udcff"],
)
def test_what_is_no_text_is_refused(content: str | bytes) -> None:
    with pytest.raises(ShardingError) as error:
        load_module(content, "f.bin")
    told = error.value.diagnostic
    assert told.message == "the file is neither MLIR text nor MLIR bytecode"
    assert told.location == "f.bin"
    assert "UTF-8" in told.cause or "NUL" in told.cause
    assert "sw.load_exported" in told.remedy  # what `shardwright export` wrote is no text either

"""What would end the process that parses it, or keep it busy, is refused at its line before MLIR sees it."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from tests.ir.contained import read_contained

_BRACKETS = "regions or brackets are nested more than 800 deep"
_AFFINE = "the operators of an affine expression are nested more than 800 deep"
_ALIASES = "aliases are nested more than 800 deep"


def _attribute(text: str, before: str = "") -> str:
    return f"""{before}func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  "my.op"() {{a = {text}}} : () -> ()
  return %x : tensor<4xf32>
}}
"""


def _brackets(opened: str, closed: str, inner: str = "") -> str:
    return _attribute(opened * 30000 + inner + closed * 30000)


def _chain(first: str, following: str, count: int, sign: str = "#") -> str:
    lines = [
        f"{sign}a0 = {first}",
        *(f"{sign}a{n + 1} = {following.replace('@', f'{sign}a{n}')}" for n in range(count)),
    ]
    return _attribute(f"{sign}a{count}", "\n".join(lines) + "\n")


_DEEP = {
    "regions": ("func.func @main() {" + '"a.b"() ({' * 3000 + "}) : () -> ()" * 3000 + "return }", _BRACKETS),
    "mixed": (_attribute("[{a=" * 1500 + "1" + "}]" * 1500), _BRACKETS),
    "arrays": (_brackets("[", "]"), _BRACKETS),
    "dictionaries": (_brackets("{a=", "}", "1"), _BRACKETS),
    "tuples": (_brackets("tuple<", ">"), _BRACKETS),
    "functions": (_attribute("(" * 30000 + ") -> ()" * 30000), _BRACKETS),
    "call sites": (_attribute("loc(" + 'callsite("a" at ' * 30000 + '"b"' + ")" * 30001), _BRACKETS),
    "fused": (_attribute("loc(" + "fused[" * 30000 + '"b"' + "]" * 30000 + ")"), _BRACKETS),
    "encodings": (_brackets("tensor<1xi32, ", ">", "1"), _BRACKETS),
    "in one line": (_brackets("[", "]").replace("\n", " ") + "\n", _BRACKETS),
    "minus": (_attribute(f"affine_map<(d0) -> ({'- ' * 30000}d0)>"), _AFFINE),
    "mod": (_attribute(f"affine_map<(d0)[s0] -> (d0{' floordiv s0 mod s0' * 30000})>"), _AFFINE),
    "sets": (_attribute(f"affine_set<(d0) : (d0 >= 0, {'-' * 30000} d0 >= 0)>"), _AFFINE),
    "aliases": (_chain("1", "[@]", 30000), _ALIASES),
    "type aliases": (_chain("i32", "tuple<@>", 30000, "!"), _ALIASES),
    "location aliases": (_chain('loc("x")', 'loc(callsite("a" at @))', 30000), _ALIASES),
    "alias bomb": (_chain("[1, 1]", "[@, @]", 40), "written out, with all that it names"),
    "type alias bomb": (_chain("i32", "tuple<@, @>", 40, "!"), "written out, with all that it names"),
    "alias bomb in a line": (
        _chain("[1, 1]", "[@, @]", 40).replace("\n#", " #"),
        "written out, with all that it names",
    ),
    "alias bomb with strings": (_chain("[1, 1]", '["#x =",\n @, @]', 40), "written out, with all that it names"),
}


def test_what_goes_too_deep_is_refused_at_its_line() -> None:
    answers = dict(zip(_DEEP, read_contained([text for text, _ in _DEEP.values()]), strict=True))
    for name, (_, message) in _DEEP.items():
        assert message in answers[name], name
        assert answers[name].startswith("f.mlir:"), name


@pytest.mark.parametrize(
    "text",
    [
        _attribute("[" * 300 + "]" * 300),
        _attribute(f"affine_map<(d0) -> ({'- ' * 300}d0)>"),
        _attribute(f"affine_set<(d0) : ({', '.join(f'd0 - {n} >= 0' for n in range(900))})>"),
        _attribute('"' + "[" * 5000 + '"'),
        _attribute('"a\\"' + "[" * 5000 + '"'),
        "// " + "[" * 5000 + "\n" + _attribute("1"),
        _chain("1", "[@, 2]", 300),
        _chain('loc("x")', 'loc("f(("(@))', 300),
        _attribute("[#b, #b]", "".join(f"#a{n} = [1, 2]\n" for n in range(2000)) + "#b = [#a1, #a2]\n"),
    ],
)
def test_what_is_only_long_or_moderately_deep_is_read(text: str) -> None:
    load_module(text)


def _nested(depth: int) -> str:
    opened = "".join(f'%r{n} = "stablehlo.if"(%p) ({{\n' for n in range(depth))
    closed = "".join(
        f"stablehlo.return %{'a' if n == depth - 1 else f'r{n + 1}'} : tensor<4xf32>\n"
        "}, {\nstablehlo.return %a : tensor<4xf32>\n}) : (tensor<i1>) -> tensor<4xf32>\n"
        for n in reversed(range(depth))
    )
    head = "func.func @main(%p: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {\n"
    return f"{head}{opened}{closed}return %r0 : tensor<4xf32>\n}}\n"


def test_regions_deeper_than_what_works_on_them_are_refused_at_the_op() -> None:
    load_module(_nested(64))
    with pytest.raises(ShardingError) as error:
        load_module(_nested(65), "f.mlir")
    told = error.value.diagnostic
    assert (told.message, told.op) == ("regions are nested more than 64 deep", "stablehlo.if")
    assert told.location.startswith("f.mlir:66:")

import time
from collections.abc import Callable

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.form import Attribute, Dialect, Operand, OpForm
from shardwright.notation.forms.kinds import BOOL, I64_LISTS, STRING
from shardwright.notation.forms.texts import ops, to_custom, to_generic
from shardwright.notation.shard.dialect.tables import SHARD

GRID = '"shard.grid"() {shape = array<i64: 2>, sym_name = "g"} : () -> ()'


def test_text_without_ops_of_the_dialect_is_returned_as_it_is() -> None:
    text = 'module @m {\n  sdy.mesh @mesh = <["x"=2]> // %0 = all_gather "\n}\n'
    assert to_generic(text, [SHARD]) is text
    assert to_custom(text, [SHARD]) is text


@pytest.mark.parametrize(
    "text",
    [
        '%0 = "foo.op"() {a = "shard.grid @g(shape = 2)"} : () -> i32',
        "// shard.grid @g(shape = 2)",
        '  return // it is "shard.grid" (see shard.grid)',
        '#loc1 = loc("mesh.py":1:2)\n#loc2 = loc("jax/mesh.shard"("x"))',
        "module attributes {shard.grid = 1 : i32, mesh.shard, x.shard.grid} {}",
        "module attributes {\n  shard.grid\n , mesh.mesh =\n 2\n} {}",
        "func.func @shard.grid(%shard.grid: !shard.grid<1>, %b: #mesh.mesh<x>) { call @mesh.mesh() : () -> () }",
        'call @"shard.grid"() : () -> ()',
        'foo.shard.grid my-shard.grid "a\\"shard.grid @g" shard.',
    ],
)
def test_strings_comments_and_names_are_no_ops(text: str) -> None:
    assert to_generic(text, [SHARD]) == text
    assert to_custom(text, [SHARD]) == text
    assert ops(text, [SHARD]) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shard.grid @g(shape = 2)", GRID),
        (f"shard.grid @g(shape = {2**63 - 1})", GRID.replace(": 2>", f": {2**63 - 1}>")),
        ("\t shard.grid\t@g ( shape=2 )\t// x", f"\t {GRID}\t// x"),
        ("shard.grid @g // why\n // and\n (shape = 2) loc(#loc1)\r\n", f"{GRID}\n\n loc(#loc1)\r\n"),
        ("shard.grid @g(shape = 2) loc(#loc1)", f"{GRID} loc(#loc1)"),
        ("module { shard.grid @g(shape = 2) }", f"module {{ {GRID} }}"),
        ('module attributes {a = "}//"} { shard.grid @g(shape = 2) } // {', f'module attributes {{a = "}}//"}} {{ {GRID} }} // {{'),
        ("shard.grid @g(shape = 2) shard.grid @g(shape = 2)", f"{GRID} {GRID}"),
        ('shard.grid "public" @g(shape = 2) {a = "\\22", "b c" = [1, {d}], e}', GRID.replace("}", ', sym_visibility = "public"}').replace("{", '{a = "\\22", "b c" = [1, {d}], e, ')),
        ('shard.grid @g(shape = 2) {sym_visibility = "private"}', GRID.replace("}", ', sym_visibility = "private"}')),
        (GRID.replace("{", "<{").replace("}", "}>"), GRID),
        ('"shard.grid" () <{sym_name = "g"}> {shape = array<i64: 2>} : () -> ()', GRID),
    ],
)  # fmt: skip
def test_only_the_op_itself_is_rewritten(text: str, expected: str) -> None:
    assert to_generic(text, [SHARD]) == expected
    assert to_generic(expected, [SHARD]) == expected


def test_every_op_stays_on_its_line() -> None:
    text = (
        "shard.grid @g(shape = 2x4)\nfunc.func @f(%a: tensor<4xf32>) {\n  %0 = shard.all_reduce\n    %a on @g\n"
        "    : tensor<4xf32>\n -> tensor<4xf32>\n  %1 = shard.all_reduce %0 on @g : tensor<4xf32>\n   -> tensor<4xf32>\n"
        "  return\n}\n"
    )
    generic = to_generic(text, [SHARD])
    assert generic.count("\n") == text.count("\n")
    assert [n for n, line in enumerate(generic.split("\n"), 1) if "all_reduce" in line] == [3, 7]
    assert load_module(generic) is not None


def test_operands_that_look_like_text_are_kept() -> None:
    text = "shard.grid @g(shape = 2)\n" + "".join(
        f'%x{n} = shard.all_reduce %a{n}#{n} on @g {{s = "%d %x{n} 50%", t = "%%"}} : tensor<4xf32> -> tensor<4xf32>\n'
        for n in range(3)
    )
    lines = to_generic(text, [SHARD]).splitlines()[1:]
    assert lines == [
        f'%x{n} = "shard.all_reduce"(%a{n}#{n}) {{grid = @g, s = "%d %x{n} 50%", t = "%%"}} : (tensor<4xf32>) -> tensor<4xf32>'
        for n in range(3)
    ]


def test_named_types_are_looked_up() -> None:
    text = (
        "!t = tensor<3xf32>\n!s = !mesh.sharding\nshard.grid @g(shape = 3)\n"
        "%s = shard.sharding @g split_axes = [[0]] : !s\n%0 = shard.all_gather %a on @g gather_axis = 0 : !t -> !t\n"
    )
    lines = to_generic(text, [SHARD]).splitlines()
    assert lines[1] == "!s = !shard.sharding"
    assert lines[3].endswith("() -> !shard.sharding")
    assert lines[4].endswith("(tensor<3xf32>) -> tensor<3xf32>")


def _long(count: int, distinct: int) -> str:
    lines = ["module {", "  shard.grid @g(shape = 2x4)", "  func.func @f(%0: tensor<2x8xf32>) {"]
    for n in range(count):
        kind = n % distinct
        lines.append(
            f"    %{n + 1} = shard.all_reduce %{n} on @g grid_axes = [1] reduction = max {{k = {kind} : i64}} : tensor<2x8xf32> -> tensor<2x8xf32>"
        )
    return "\n".join([*lines, "    return", "  }", "}", ""])


def test_a_module_of_22815_ops_is_rewritten_at_once(record_property: Callable[[str, object], None]) -> None:
    text = _long(22_815, 200)
    start = time.perf_counter()
    generic = to_generic(text, [SHARD])
    there = time.perf_counter() - start
    start = time.perf_counter()
    back = to_custom(generic, [SHARD])
    again = time.perf_counter() - start
    assert back == text
    assert there + again < 10  # a loaded machine; by far less when idle
    record_property("summary", f"22,815 shard ops to generic form in {there:.2f} s, back in {again:.2f} s")


def test_text_of_3_mb_without_such_ops_costs_one_scan(record_property: Callable[[str, object], None]) -> None:
    text = '  %0 = stablehlo.add %1, %2 : tensor<4xf32> loc("x.py":1:2)\n' * 50_000
    start = time.perf_counter()
    assert to_generic(text, [SHARD]) is text
    seconds = time.perf_counter() - start
    assert seconds < 1
    record_property("summary", f"3 MB of text without shard ops passed in {seconds * 1000:.1f} ms")


def test_a_module_on_one_line_takes_time_in_proportion() -> None:
    count = 4_000
    text = "shard.grid @g(shape = 2) " + "%1 = shard.all_reduce %0 on @g : tensor<4xf32> -> tensor<4xf32> " * count
    start = time.perf_counter()
    assert to_generic(text, [SHARD]).count('"shard.all_reduce"') == count
    assert time.perf_counter() - start < 20


def test_locations_survive_printing() -> None:
    text = 'shard.grid @g(shape = 2)\nfunc.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = shard.all_reduce %a on @g : tensor<4xf32> -> tensor<4xf32> loc("x.py":3:4)\n  return %0 : tensor<4xf32>\n}\n'
    printed = module_text(load_module(to_generic(text, [SHARD])), locations=True)
    custom = to_custom(printed, [SHARD])
    assert "shard.all_reduce %arg0 on @g : tensor<4xf32> -> tensor<4xf32> loc(#loc" in custom
    assert module_text(load_module(to_generic(custom, [SHARD])), locations=True) == printed


HOUSE = Dialect(
    "house",
    "a dialect of this test",
    {
        "house.annotate": OpForm(
            "house.annotate",
            "$input attr-dict `:` type($input) (`->` type($result)^)?",
            doc="",
            operands=(Operand("input"),),
            results=("result",),
            result_types=("$input",),
            attributes=(
                Attribute("sharding", I64_LISTS, optional=True),
                Attribute("encoding", STRING, optional=True),
                Attribute("required", BOOL, default=True),
            ),
            nameless="sharding",
        )
    },
)


@pytest.mark.parametrize(
    ("text", "generic", "custom"),
    [
        ("house.annotate %0 {sharding = [[], [0]], required = false} : i8 -> i8", '"house.annotate"(%0) {required = false, sharding = [[], [0]]} : (i8) -> i8', "house.annotate %0 {required = false, sharding = [[], [0]]} : i8"),
        ("house.annotate %0 {required = true} : i8 -> i32", '"house.annotate"(%0) : (i8) -> i32', "house.annotate %0 : i8 -> i32"),
        ("house.annotate %0 : i8\n  -> i32", '"house.annotate"(%0) : (i8) -> i32\n', "house.annotate %0 : i8 -> i32\n"),
    ],
)  # fmt: skip
def test_types_may_be_inferred_and_attributes_stand_in_the_dictionary(text: str, generic: str, custom: str) -> None:
    assert to_generic(text, [HOUSE]) == generic
    assert to_custom(generic, [HOUSE]) == custom


def test_an_attribute_without_a_name_needs_a_form_that_expects_it() -> None:
    with pytest.raises(ShardingError, match="is not a list of lists of numbers"):
        to_generic("house.annotate %0 {#x.y<[[0]]>} : i8", [HOUSE])
    with pytest.raises(ShardingError, match="without a name"):
        to_generic("shard.grid @g(shape = 2) {#x.y<[[0]]>}", [SHARD])

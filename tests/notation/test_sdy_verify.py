"""Every constraint of the sdy dialect: refused by jaxlib's verifier or by our own checks, with the line of the op."""

from __future__ import annotations

from typing import Any

import pytest

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.diagnose import explain
from shardwright.ir.context import context, load_module
from shardwright.notation import modules
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify

MESHES = (
    'sdy.mesh @m = <["a"=2, "b"=2, "c"=4, "d"=2]>\n'
    'sdy.mesh @order = <["a"=2, "b"=2, "c"=4, "d"=2], device_ids=[' + ", ".join(map(str, range(31, -1, -1))) + "]>\n"
    'sdy.mesh @other = <["a"=4, "b"=8]>\n'
    "sdy.mesh @empty = <[]>\n"
    "sdy.mesh @third = <[], device_ids=[3]>\n"
)
TYPE = "tensor<8x8x8xf32>"
LINE = MESHES.count("\n") + 2
"""The line of the op in `program`; the function is one line above."""


def program(body: str, sharding: str = "[{}, {}, {}]", mesh: str = "@m", type: str = TYPE) -> str:
    body = body if " : " in body else f"{body} : {type}"
    return (
        f"{MESHES}func.func @main(%x: {type} {{sdy.sharding = #sdy.sharding<{mesh}, {sharding}>}}) -> {type} {{\n"
        f"{body}\n  return %r : {type}\n}}\n"
    )


def check(text: str) -> None:
    """What reading a module comes to; a failure is what the user sees."""
    prepared = prepare(text, "f.mlir")
    handler: Any = context().attach_diagnostic_handler(lambda _: True)
    try:
        module = load_module(prepared, "f.mlir")
        verify(module, "f.mlir", prepared)
        modules.read(module, "f.mlir")
    finally:
        handler.detach()


def refused(text: str) -> Diagnostic:
    with pytest.raises(ShardingError) as error:
        check(text)
    return explain(error.value.diagnostic, text, "f.mlir")


def line(diagnostic: Diagnostic) -> int:
    name, number = diagnostic.location.split(":")[:2]
    assert name == "f.mlir"
    return int(number)


SHARDINGS = {
    "an empty, closed dimension with a priority": "[{}p1, {}, {}]",
    "an axis in two dimensions": '[{"a"}, {"a"}, {}]',
    "an axis twice in a dimension": '[{"a", "a"}, {}, {}]',
    "a split axis that is replicated": '[{"a"}, {}, {}], replicated={"a"}',
    "a split axis that is unreduced": '[{"a"}, {}, {}], unreduced={"a"}',
    "an axis replicated and unreduced": '[{}, {}, {}], replicated={"a"}, unreduced={"a"}',
    "a whole axis and a part of it": '[{"c":(1)2}, {"c"}, {}]',
    "parts that can be merged": '[{"c":(1)2, "c":(2)2}, {}, {}]',
    "replicated parts that can be merged": '[{}, {}, {}], replicated={"c":(1)2, "c":(2)2}',
    "replicated axes out of order": '[{}, {}, {}], replicated={"b", "a"}',
    "unreduced axes out of order": '[{}, {}, {}], unreduced={"b", "a"}',
    "a pre-size of 0": '[{"c":(0)2}, {}, {}]',
    "a part of size 1": '[{"c":(2)1}, {}, {}]',
    "a part beyond its axis": '[{"c":(2)4}, {}, {}]',
    "a part that does not divide": '[{"c":(3)2}, {}, {}]',
    "a part as large as its axis": '[{"c":(1)4}, {}, {}]',
    "an unknown axis": '[{"q"}, {}, {}]',
    "another rank": '[{"a"}, {}]',
}


@pytest.mark.parametrize("sharding", SHARDINGS.values(), ids=SHARDINGS)
@pytest.mark.parametrize(
    "where",
    [
        "argument",
        "%r = stablehlo.tanh %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, {}>]>}}",
        "%r = sdy.sharding_constraint %x <@m, {}>",
        "%r = sdy.reshard %x <@m, {}>",
        "%e = stablehlo.tanh %x : tensor<8x8x8xf32>\n%r = sdy.data_flow_edge %e sharding=<@m, {}>",
        "%r = sdy.collective_permute %x out_sharding=<@m, {}>",
    ],
    ids=["argument", "op", "constraint", "reshard", "edge", "collective"],
)
def test_every_sharding_is_valid_wherever_it_stands(where: str, sharding: str) -> None:
    text = program("%r = stablehlo.tanh %x", sharding) if where == "argument" else program(where.format(sharding))
    diagnostic = refused(text)
    assert line(diagnostic) == LINE - (where == "argument") + where.count("\n")
    assert diagnostic.message
    assert diagnostic.cause
    assert diagnostic.remedy


MANUAL = '<@m, [{"a"}, {}, {}]>'


def manual(
    inside: str, outside: str = MANUAL, axes: str = '"a"', local: str = "tensor<4x8x8xf32>", body: str = ""
) -> str:
    return (
        f"%r = sdy.manual_computation(%x) in_shardings=[{inside}] out_shardings=[{outside}] manual_axes={{{axes}}} "
        f"(%q: {local}) {{\n{body}  sdy.return %q : {local}\n}} : ({TYPE}) -> {TYPE}"
    )


@pytest.mark.parametrize(
    "op",
    [
        manual(f"{MANUAL}, {MANUAL}"),
        manual(MANUAL, ""),
        manual(MANUAL, axes='"q"'),
        manual(MANUAL, axes='"a", "a"'),
        manual(MANUAL, axes='"a", "q"'),
        manual(MANUAL, "<@m, [{}, {}, {}]>"),
        manual('<@m, [{"b", "a"}, {}, {}]>', '<@m, [{"b", "a"}, {}, {}]>'),
        manual(MANUAL, local="tensor<3x8x8xf32>"),
        manual(MANUAL, '<@m, [{}, {"a"}, {}]>'),
        manual(MANUAL, '<@order, [{"a"}, {}, {}]>'),
        manual('<@m, [{"q"}, {}, {}]>'),
    ],
)
def test_a_manual_computation_fits_its_shardings(op: str) -> None:
    assert line(refused(program(op))) == LINE


def test_manual_axes_do_not_pad() -> None:
    text = program(manual(MANUAL).replace("8x8x8", "7x8x8"), type="tensor<7x8x8xf32>")
    assert "not divisible" in refused(text).message


@pytest.mark.parametrize(
    "inner",
    [
        '%w = sdy.sharding_constraint %q <@m, [{"a"}, {}, {}]> : tensor<4x8x8xf32>\n',
        '%w = stablehlo.tanh %q {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}, {}, {}]>]>} : tensor<4x8x8xf32>\n',
    ],
)
def test_the_body_of_a_manual_computation_leaves_its_axes_alone(inner: str) -> None:
    assert line(refused(program(manual(MANUAL, body=inner)))) == LINE + 1


def named(shardings: str, type: str = TYPE, returned: str = "%q") -> str:
    return (
        f'%r = sdy.named_computation<"f">(%x) {shardings} (%q: {type}) {{\n'
        f"  sdy.return {returned} : {type}\n}} : ({TYPE}) -> {TYPE}"
    )


@pytest.mark.parametrize(
    ("op", "offset"),
    [
        (named("in_shardings=[<@m, [{}]>]"), 0),
        (named("in_shardings=[<@m, [{}, {}, {}]>, <@m, [{}, {}, {}]>]"), 0),
        (named('out_shardings=[<@m, [{"q"}, {}, {}]>]'), 0),
        (named("", "tensor<4x8x8xf32>"), 0),
        (named("", returned="%x"), 1),
    ],
)
def test_a_named_computation_fits_its_operands(op: str, offset: int) -> None:
    assert line(refused(program(op))) == LINE + offset


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (f"%e = stablehlo.tanh %x : {TYPE}\n%f = stablehlo.tanh %e : {TYPE}\n%r = sdy.data_flow_edge %e", 2),
        (f"%e = sdy.sharding_constraint %x <@m, [{{}}, {{}}, {{}}]> : {TYPE}\n%r = sdy.data_flow_edge %e", 1),
        ("%r = sdy.propagation_barrier %x allowed_direction=BOTH", 0),
        ("%r = sdy.propagation_barrier %x allowed_direction=SIDEWAYS", 0),
        ('%r = "sdy.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<8x8x8xf32>', 0),
        ("sdy.mesh @inner = <[]>\n%r = stablehlo.tanh %x", 0),
    ],
)
def test_edges_barriers_constants_and_meshes(body: str, offset: int) -> None:
    text = program(body + f" : {TYPE}" if "->" not in body else body)
    assert line(refused(text)) == LINE + offset


RULES = [
    "([i, j, k], [i])->([i, j, k]) {i=8, j=8, k=8}",
    "([i, j])->([i, j, k]) {i=8, j=8, k=8}",
    "([i, i, k])->([i, j, k]) {i=8, j=8, k=8}",
    "([ii, j, k])->([i, j, k]) {i=8, j=8, k=8}",
    "([il, j, k])->([i, j, k]) {i=8, j=8, k=8, l=1}",
    "([i, j, l])->([i, j, k]) {i=8, j=8, k=8}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8, l=3}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} need_replication={i} permutation={i}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} permutation={i, i}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} permutation={k, i}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} reduction={l}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} reduction={i}",
    "([i, j, k])->([i, j, k]) {i=8, j=8, k=8} blocked_propagation={m}",
    "([i, j, k])->([i, j, k]) {i=-8, j=8, k=8}",
    "([i, j, k])->([i, j, k]) {j=8, i=8, k=8}",
    "()->()",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_sharding_rule_fits_its_op(rule: str) -> None:
    text = program(f"%r = stablehlo.tanh %x {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}}")
    assert line(refused(text)) == LINE


@pytest.mark.parametrize(
    ("type", "sharding", "words"),
    [
        ("!stablehlo.token", '[], replicated={"a"}', "non-shaped"),
        ("!stablehlo.token", "[{}]", "non-shaped"),
        ("tensor<*xf32>", "[]", "ranked"),
    ],
)
def test_shardings_fit_their_types(type: str, sharding: str, words: str) -> None:
    text = f"{MESHES}func.func @main(%x: {type} {{sdy.sharding = #sdy.sharding<@m, {sharding}>}}) {{\n  return\n}}\n"
    diagnostic = refused(text)
    assert words in diagnostic.message
    assert line(diagnostic) == LINE - 1


@pytest.mark.parametrize(
    ("meshes", "number"),
    [
        ('sdy.mesh @x = <["a"=2, "a"=2]>', 1),
        ('sdy.mesh @x = <["a"=0]>', 1),
        ('sdy.mesh @x = <["a"=2], device_ids=[0, 0]>', 1),
        ('sdy.mesh @x = <["a"=2], device_ids=[0]>', 1),
        ("sdy.mesh @x = <[], device_ids=[1, 2]>", 1),
        ("sdy.mesh @x = <[], device_ids=[-1]>", 1),
        ('sdy.mesh @x = <["a"=2]>\nsdy.mesh @x = <["a"=2]>', 2),
        ('sdy.mesh @x = <["a"=9223372036854775807]>', 1),
        ('sdy.mesh @x = <["a"=99999999999999999999]>', 1),
    ],
)
def test_meshes_are_valid(meshes: str, number: int) -> None:
    diagnostic = refused(f"{meshes}\nfunc.func @main() {{\n  return\n}}\n")
    assert line(diagnostic) == number


def test_meshes_that_shardings_spell_out_have_as_many_devices() -> None:
    diagnostic = refused(program('%r = sdy.sharding_constraint %x <mesh<["q"=16]>, [{"q"}, {}, {}]>'))
    assert diagnostic.message == "the module has meshes of different size"
    assert line(diagnostic) == LINE
    check(program('%r = sdy.sharding_constraint %x <mesh<["q"=32]>, [{"q"}, {}, {}]>'))
    check(program("%r = sdy.sharding_constraint %x <mesh<[], device_ids=[5]>, []>"))
    check(program('%r = stablehlo.tanh %x {said = "mesh<[\\22q\\22=16]>"} : tensor<8x8x8xf32> // as in mesh<["q"=16]>'))


@pytest.mark.usefixtures("sums_only")
def test_the_sharding_of_an_op_is_not_that_of_an_argument() -> None:
    text = program('%r = stablehlo.tanh %x {sdy.sharding = #sdy.sharding<@m, [{}, {}, {}], unreduced=max{"a"}>}')
    diagnostic = refused(text)
    assert "argument" in diagnostic.message
    assert line(diagnostic) == LINE


def test_a_collective_in_the_body_of_a_manual_computation_knows_its_free_axes() -> None:
    body = '%w = sdy.all_gather [{"b"}, {}, {}] %q out_sharding=<@m, [{}, {}, {}]> : tensor<4x8x8xf32>\n'
    check(program(manual('<@m, [{"a", "b"}, {}, {}]>', body=body)))
    wrong = body.replace("[{}, {}, {}]>", '[{}, {}, {}], unreduced={"d"}>')
    assert line(refused(program(manual('<@m, [{"a", "b"}, {}, {}]>', body=wrong)))) == LINE + 1

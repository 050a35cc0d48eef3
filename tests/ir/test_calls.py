"""Shardings that calls and the functions they call state: kept in the graph, and propagated as the C++ does it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import load_source
from shardwright.ir.context import ir, load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.notation import modules
from shardwright.notation.conversion import open_module
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings
from shardwright.propagation import propagate
from shardwright.sharding import TensorSharding
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS

MESH = 'sdy.mesh @m = <["a"=2, "b"=2, "c"=2, "d"=4]>\n'
T = "tensor<8x8xf32>"


def stated(dims: str) -> str:
    return f" {{sdy.sharding = #sdy.sharding<@m, {dims}>}}" if dims else ""


def on_call(*dims: str) -> str:
    inner = ", ".join(f"<@m, {one}>" for one in dims)
    return f" {{sdy.sharding = #sdy.sharding_per_value<[{inner}]>}}" if dims else ""


def function(argument: str = "", result: str = "", body: str = "", *, name: str = "f") -> str:
    body = body or f"%0 = stablehlo.tanh %y : {T}"
    return f"func.func private @{name}(%y: {T}{stated(argument)}) -> ({T}{stated(result)}) {{\n {body}\n return %0 : {T}\n}}\n"


def main(body: str, given: str = "", results: str = "%1", types: str = T) -> str:
    return f"{MESH}func.func @main(%x: {T}{stated(given)}) -> ({types}) {{\n {body}\n return {results} : {types}\n}}\n"


def call(attribute: str = "", operand: str = "%x", result: str = "%0", name: str = "f") -> str:
    return f"{result} = func.call @{name}({operand}){attribute} : ({T}) -> {T}"


SINE = f"%1 = stablehlo.sine %0 : {T}"
TWICE = f"%0 = stablehlo.add %y, %y : {T}"
ON_BOTH = [
    ('[{"a"}, {?}]', "", ""),
    ('[{"a", ?}, {}]', "", ""),
    ("", '[{"a"}, {}]', ""),
    ("", '[{?}, {"b", ?}]', ""),
    ("", "", '[{}, {"b"}]'),
    ("", "", '[{?}, {"b", ?}]'),
    ("", '[{"a"}, {}]', '[{}, {"b"}]'),
    ('[{"a"}, {?}]', '[{"a"}, {}]', '[{}, {"b"}]'),
    ('[{}, {"c"}]', '[{"a"}, {?}]', '[{}, {"b"}]'),
    ('[{?}p1, {"c", ?}p1]', '[{"a", ?}p0, {?}]', ""),
    ('[{"d":(1)2}, {}]', '[{"b", "c"}, {}]', ""),
    ('[{}, {}]', '[{}, {}]', '[{}, {}]'),
    ('[{?}, {?}], replicated={"a"}', '[{"b", ?}, {?}], replicated={"c"}', ""),
]  # fmt: skip
CASES = {
    f"call {c or '-'} argument {a or '-'} result {r or '-'} given {g or '-'}": main(
        f"{call(on_call(c) if c else '')}\n {SINE}", g
    )
    + function(a, r)
    for c, a, r in ON_BOTH
    for g in ("", '[{"b"}, {?}]', '[{?}, {"c", ?}]')
}
A = '[{"a"}, {?}]'
A_CLOSED = '[{"a"}, {}]'
B = '[{?}, {"b", ?}]'
B_CLOSED = '[{}, {"b"}]'
B_FIRST = '[{"b"}, {}]'
B_HALF = '[{?}, {"b"}]'
C = '[{"c"}, {?}]'
PARTIAL = '[{}, {}], unreduced=max{"b"}'
CASES |= {
    "two calls of one function": main(
        f"{call(on_call(A))}\n {call('', '%0', '%1')}", "", "%1, %0", f"{T}, {T}"
    )
    + function(B_FIRST),
    "two calls that differ": main(
        f"{call(on_call(A_CLOSED))}\n {call(on_call(B_CLOSED), '%x', '%1')}", "", "%1, %0", f"{T}, {T}"
    )
    + function(),
    "a call within a call": main(f"{call()}\n {SINE}")
    + function(A, "", f"%1 = stablehlo.tanh %y : {T}\n {call(on_call(B_HALF), '%1', name='g')}")
    + function("", C, name="g"),
    "the result of a call is returned": main(call(on_call(A)), "", "%0") + function(),
    "an argument that is returned": main(
        f"%0:2 = call @f(%x){on_call(A, B)} : ({T}) -> ({T}, {T})", "", "%0#0, %0#1", f"{T}, {T}"
    )
    + f"func.func private @f(%y: {T}) -> ({T}, {T}) {{\n return %y, %y : {T}, {T}\n}}\n",
    "some arguments and results only": main(
        f"%2 = stablehlo.cosine %x : {T}\n %0:2 = call @f(%x, %2) : ({T}, {T}) -> ({T}, {T})", "", "%0#0, %0#1", f"{T}, {T}"
    )
    + (
        f"func.func private @f(%y: {T}, %z: {T}{stated(A_CLOSED)}) -> ({T}, {T}{stated(B_CLOSED)}) {{\n"
        f" %0 = stablehlo.tanh %y : {T}\n %1 = stablehlo.sine %z : {T}\n return %0, %1 : {T}, {T}\n}}\n"
    ),
    "an operand used elsewhere": main(f"{call()}\n %1 = stablehlo.add %0, %x : {T}", B)
    + function(A_CLOSED, "", TWICE),
    "in a loop": main(
        f"%i = stablehlo.constant dense<0> : tensor<i32>\n"
        f"%0:2 = stablehlo.while(%k = %i, %v = %x) : tensor<i32>, {T} cond {{\n"
        f"  %p = stablehlo.compare LT, %k, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  stablehlo.return %p : tensor<i1>\n"
        f" }} do {{\n  {call(on_call(A), '%v', '%w')}\n  stablehlo.return %k, %w : tensor<i32>, {T}\n }}",
        "",
        "%0#1",
    )
    + function("", "", TWICE),
    "nothing said": main(f"{call()}\n {SINE}", A) + function(),
}  # fmt: skip
SKIPPED = ("func.return", "stablehlo.return", "sdy.", "stablehlo.constant")

Row = tuple[str, tuple[TensorSharding | None, ...]]


def ours(text: str) -> tuple[list[Row], list[TensorSharding | None]]:
    graph = propagate(modules.read(open_module(text).module))
    rows = [
        (op.name, tuple(graph.shardings[value] for value in op.results))
        for op in graph.walk()
        if not op.name.startswith(SKIPPED)
    ]
    return rows, [*(graph.shardings[value] for value in graph.main.block.arguments), *graph.main.result_shardings]


def theirs(text: str) -> tuple[list[Row], list[TensorSharding | None]]:
    module = load_module(text)
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations}
    meshes = {"m": parse_mesh(str(functions["m"].attributes["mesh"]), "m")}

    def ops(block: Any) -> Iterator[Row]:
        for view in block.operations:
            op = view.operation
            if op.name == "func.call":
                yield from ops(functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value].regions[0].blocks[0])
                continue
            if not op.name.startswith(SKIPPED):
                has = "sdy.sharding" in op.attributes
                shardings = (
                    parse_shardings(str(op.attributes["sdy.sharding"]), meshes) if has else [None] * len(op.results)
                )
                yield op.name, tuple(shardings)
            for region in op.regions:
                yield from ops(region.blocks[0])

    entry = functions["main"]
    block = entry.regions[0].blocks[0]
    returned = list(block.operations)[-1].operands
    sides: list[TensorSharding | None] = []
    for key, count in (("arg_attrs", len(block.arguments)), ("res_attrs", len(returned))):
        rows: Any = entry.attributes[key] if key in entry.attributes else [ir.DictAttr.get({}, module.context)] * count
        named: list[Any] = [ir.DictAttr(row) for row in rows]
        sides += [
            parse_shardings(str(row["sdy.sharding"]), meshes)[0] if "sdy.sharding" in row else None for row in named
        ]
    return list(ops(block)), sides


def same(one: TensorSharding | None, other: TensorSharding | None) -> bool:
    if other is None or other.is_replicated:
        return one is None or one.is_replicated
    return one is not None and one.equivalent(other)


def differences(text: str, answer: str) -> list[str]:
    (one, one_sides), (other, other_sides) = ours(text), theirs(answer)
    assert [name for name, _ in one] == [name for name, _ in other]
    pairs = [
        (name, left, right)
        for (name, ls), (_, rs) in zip(one, other, strict=True)
        for left, right in zip(ls, rs, strict=False)
    ]
    pairs += [("boundary", left, right) for left, right in zip(one_sides, other_sides, strict=True)]
    return [f"{name}: {left}, C++ {right}" for name, left, right in pairs if not same(left, right)]


@pytest.mark.oracle
def test_annotated_calls_propagate_as_in_the_cpp(record_property: Callable[[str, object], None]) -> None:
    answers = run_batch([(text, UP_TO_RESHARDS) for text in CASES.values()])
    wrong = {}
    for (name, text), answer in zip(CASES.items(), answers, strict=True):
        assert not isinstance(answer, ShardyFailure), f"{name}: {answer}"
        unlike = differences(text, answer)
        if unlike:
            wrong[name] = unlike
    assert wrong == {}
    record_property("summary", f"annotated calls: {len(CASES)} modules propagated as the C++ does it")


DIMS = [
    "", "", A, A_CLOSED, B, B_CLOSED, B_FIRST, B_HALF, C, "[{}, {}]", "[{?}, {?}]", '[{"d":(1)2, ?}, {"a"}]', '[{"d"}p1, {?}p2]',
    '[{"c", "d":(2)2}, {?}]', '[{?}p2, {"d":(1)2, "b", ?}p0]', '[{?}, {?}], replicated={"d":(1)2}', '[{"b", ?}, {}], replicated={"a"}',
]  # fmt: skip
BODIES = [
    f"%0 = stablehlo.tanh %y : {T}",
    TWICE,
    f"%0 = stablehlo.transpose %y, dims = [1, 0] : ({T}) -> {T}",
    f"%0 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}",
]
USES = [
    SINE,
    f"%1 = stablehlo.add %0, %x : {T}",
    call("", "%0", "%1"),
    f"%1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}",
]


@pytest.mark.oracle
def test_random_annotations_of_calls_propagate_as_in_the_cpp() -> None:
    rng = random.Random(0)
    texts = []
    for _ in range(150):
        dims = rng.choice(DIMS)
        body = f"{call(on_call(dims) if dims else '')}\n {rng.choice(USES)}"
        texts.append(main(body, rng.choice(DIMS)) + function(rng.choice(DIMS), rng.choice(DIMS), rng.choice(BODIES)))
    for text, answer in zip(texts, run_batch([(text, UP_TO_RESHARDS) for text in texts]), strict=True):
        assert not isinstance(answer, ShardyFailure), f"{text}{answer}"
        assert differences(text, answer) == [], text


def read(text: str) -> Graph:
    return modules.read(open_module(text).module)


def test_an_annotated_call_is_a_named_computation() -> None:
    graph = read(main(f"{call(on_call(A))}\n {SINE}") + function(B_FIRST))
    made, *_ = graph.main.block.ops
    assert made.name == "sdy.named_computation"
    assert made.signature.text("name") == '"f"'
    assert repr(made.signature.boundary.in_shardings) == "([{b}, {}],)"
    assert repr(graph.shardings[made.results[0]]) == "[{a}, {?}]"
    assert [op.name for op in made.regions[0].ops] == ["stablehlo.tanh", "sdy.return"]


def test_a_call_without_annotations_is_its_ops() -> None:
    graph = read(main(f"{call()}\n {SINE}") + function())
    assert [op.name for op in graph.main.block.ops] == ["stablehlo.tanh", "stablehlo.sine", "func.return"]


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_what_is_written_is_read_again(text: str) -> None:
    written = modules.write(read(text))
    assert written.operation.verify()
    assert module_text(modules.write(read(module_text(written)))) == module_text(written)


def test_a_computation_has_the_place_of_its_call_and_its_ops_their_own() -> None:
    graph = read(main(f"{call(on_call(A))}\n {SINE}") + function())
    made = graph.main.block.ops[0]
    assert str(graph.locations[made.location]).endswith(":3")
    assert [str(graph.locations[op.location]).rpartition(":")[2] for op in made.regions[0].ops] == ["8", "9"]


def test_meshes_that_annotations_spell_out_are_named() -> None:
    text = main(f"{call()}\n {SINE}") + function('[{"a"}, {}]').replace("<@m,", '<mesh<["a"=2, "b"=2, "c"=2, "d"=4]>,')
    made = load_source(text).graph.main.block.ops[0]
    (sharding,) = made.signature.boundary.in_shardings or ()
    assert (repr(sharding), sharding.mesh.name) == ("[{a}, {}]", "m")


@pytest.mark.usefixtures("sums_only")
def test_kinds_of_reduction_at_a_call_are_constraints() -> None:
    graph = read(main(f"{call(on_call(PARTIAL))}\n {SINE}") + function(PARTIAL))
    into, tanh, out, _, _ = graph.main.block.ops
    assert [into.name, tanh.name, out.name] == ["sdy.sharding_constraint", "stablehlo.tanh", "sdy.sharding_constraint"]
    for op in (into, out):
        sharding = graph.shardings[op.results[0]]
        assert sharding is not None
        assert [(p.axis.name, p.kind) for p in sharding.partial] == [("b", "max")]
    assert tanh.operands == into.results


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (main(call(" {shardwright.shardings = []}"), "", "%0") + function(), 3, "carriers"),
        (main(call(' {shardwright.shardings = ["nonsense"]}'), "", "%0") + function(), 3, "nonsense"),
        (
            main(call(), "", "%0") + function().replace("%y: " + T, "%y: " + T + " {shardwright.sharding = 3 : i32}"),
            3,
            "carrier",
        ),
    ],
)
def test_malformed_annotations_are_refused_at_the_call(text: str, line: int, words: str) -> None:
    with pytest.raises(ShardingError, match=words) as error:
        modules.read(load_module(text), "f.mlir")
    assert error.value.diagnostic.location == f"f.mlir:{line}"


def test_composites_with_annotations_keep_them() -> None:
    annotation = on_call(A).replace("{", "{decomposition = @f, ", 1)
    graph = read(main(f'%0 = stablehlo.composite "x.y" %x{annotation} : ({T}) -> {T}\n {SINE}') + function(B_FIRST))
    made = graph.main.block.ops[0]
    assert (made.name, made.signature.text("name")) == ("sdy.named_computation", '"f"')
    assert repr(graph.shardings[made.results[0]]) == "[{a}, {?}]"

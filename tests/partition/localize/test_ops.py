"""Ops that speak of sizes, make values, reduce, or hold programs: localized, each gives what one device computes."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.partition.localize import localize
from shardwright.runtime.compare import compare
from shardwright.runtime.execute import Job, run_jobs
from tests.partition.localize.programs import Case, jobs_of, problems


def _simple(name: str, arguments: str, result: str, body: str, **inputs: object) -> Case:
    """A function of one result, the value `%r`."""
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    return Case(name, text, dict(inputs))


A = '%a: tensor<8x8xf32> ARG([{"x"}, {"y"}])ARG'
ALL = "tensor<8x8xf32>"

MADE = [
    _simple(
        "splat",
        A,
        ALL,
        f'%c = stablehlo.constant {{SH([{{"x"}}, {{"y"}}])SH}} dense<0.1> : {ALL} %r = stablehlo.add %a, %c {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}',
    ),
    _simple(
        "sdy constant",
        A,
        ALL,
        f'%c = sdy.constant {{SH([{{"x"}}, {{"y"}}])SH}} dense<0.1> : {ALL} %r = stablehlo.add %a, %c {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}',
    ),
    _simple(
        "small constant",
        "",
        "tensor<2x4xi32>",
        '%r = stablehlo.constant {SH([{"x"}, {"y"}])SH} dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi32>',
    ),
    _simple(
        "large constant",
        "",
        "tensor<16x8xi32>",
        f'%r = stablehlo.constant {{SH([{{"y", "x"}}, {{}}])SH}} dense<{np.arange(128).reshape(16, 8).tolist()}> : tensor<16x8xi32>',
    ),
    _simple(
        "booleans",
        "",
        "tensor<4xi1>",
        '%r = stablehlo.constant {SH([{"y"}])SH} dense<[true, false, false, true]> : tensor<4xi1>',
    ),
    *(
        _simple(
            f"iota of {dtype}",
            "",
            f"tensor<2x2048x{dtype}>",
            f'%r = stablehlo.iota dim = 1 {{SH([{{"x"}}, {{"y"}}])SH}} : tensor<2x2048x{dtype}>',
        )
        for dtype in ("i32", "ui32", "f32", "bf16", "f16", "i64", "i16", "complex<f32>")
    ),
    _simple(
        "iota along another dimension",
        "",
        "tensor<8x8xi32>",
        '%r = stablehlo.iota dim = 1 {SH([{"y"}, {}])SH} : tensor<8x8xi32>',
    ),
    _simple(
        "random bits",
        "%s: tensor<2xui64>",
        "tensor<8x8xui32>",
        "%t, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY "
        '{SH([{}]; [{"x"}, {"y"}])SH} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8x8xui32>)',
    ),
    _simple(
        "size of a dimension",
        A,
        "tensor<i32>",
        f"%r = stablehlo.get_dimension_size %a, dim = 1 : ({ALL}) -> tensor<i32>",
    ),
]

SHAPED = [
    _simple(
        "slice beside a split",
        A,
        "tensor<8x3xf32>",
        f'%g = sdy.all_gather [{{}}, {{"y"}}] %a out_sharding=<@mesh, [{{"x"}}, {{}}]> : {ALL} %r = stablehlo.slice %g [0:8, 1:6:2] {{SH([{{"x"}}, {{}}])SH}} : ({ALL}) -> tensor<8x3xf32>',
    ),
    _simple(
        "slice in steps",
        A,
        "tensor<4x4xf32>",
        f'%r = stablehlo.slice %a [1:8:2, 1:8:2] {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}) -> tensor<4x4xf32>',
    ),
    _simple(
        "pad beside a split",
        A,
        "tensor<8x8xf32>",
        f'%z = stablehlo.constant dense<1.0> : tensor<f32> %g = sdy.all_gather [{{}}, {{"y"}}] %a out_sharding=<@mesh, [{{"x"}}, {{}}]> : {ALL} %r = stablehlo.pad %g, %z, low = [0, -2], high = [0, 2], interior = [0, 0] {{SH([{{"x"}}, {{}}])SH}} : ({ALL}, tensor<f32>) -> {ALL}',
    ),
    _simple(
        "pad between elements",
        A,
        "tensor<16x24xf32>",
        f'%z = stablehlo.constant dense<1.0> : tensor<f32> %r = stablehlo.pad %a, %z, low = [1, 0], high = [0, 2], interior = [1, 2] {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}, tensor<f32>) -> tensor<16x24xf32>',
    ),
    _simple(
        "broadcast",
        '%a: tensor<8xf32> ARG([{"y"}])ARG',
        "tensor<4x8x2xf32>",
        '%r = stablehlo.broadcast_in_dim %a, dims = [1] {SH([{"x"}, {"y"}, {}])SH} : (tensor<8xf32>) -> tensor<4x8x2xf32>',
    ),
    _simple(
        "stretch",
        '%a: tensor<8x1xf32> ARG([{"y"}, {}])ARG',
        "tensor<8x4xf32>",
        '%r = stablehlo.broadcast_in_dim %a, dims = [0, 1] {SH([{"y"}, {"x"}])SH} : (tensor<8x1xf32>) -> tensor<8x4xf32>',
    ),
    _simple(
        "split a dimension",
        '%a: tensor<64xf32> ARG([{"x", "y"}])ARG',
        "tensor<2x4x8xf32>",
        '%r = stablehlo.reshape %a {SH([{"x"}, {"y"}, {}])SH} : (tensor<64xf32>) -> tensor<2x4x8xf32>',
    ),
    _simple(
        "join dimensions",
        '%a: tensor<2x4x8xf32> ARG([{"x"}, {"y":(1)2}, {}])ARG',
        "tensor<64xf32>",
        '%r = stablehlo.reshape %a {SH([{"x", "y":(1)2}])SH} : (tensor<2x4x8xf32>) -> tensor<64xf32>',
    ),
    _simple(
        "split within an axis",
        '%a: tensor<4x16xf32> ARG([{"y"}, {}])ARG',
        "tensor<2x2x16xf32>",
        '%r = stablehlo.reshape %a {SH([{"y":(1)2}, {"y":(2)2}, {}])SH} : (tensor<4x16xf32>) -> tensor<2x2x16xf32>',
    ),
    _simple(
        "reshape without common factors",
        '%a: tensor<6x4x2xf32> ARG([{"x"}, {}, {"y":(1)2}])ARG',
        "tensor<8x3x2xf32>",
        '%r = stablehlo.reshape %a {SH([{"x"}, {}, {"y":(1)2}])SH} : (tensor<6x4x2xf32>) -> tensor<8x3x2xf32>',
    ),
    _simple(
        "dynamic slice",
        f"{A}, %s: tensor<i32>",
        "tensor<8x8xf32>",
        f'%r = stablehlo.dynamic_slice %a, %s, %s, sizes = [8, 8] {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}, tensor<i32>, tensor<i32>) -> {ALL}',
    ),
    _simple(
        "dynamic slice of a part",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG, %s: tensor<i32>',
        "tensor<8x3xf32>",
        f'%r = stablehlo.dynamic_slice %a, %s, %s, sizes = [8, 3] {{SH([{{"y"}}, {{}}])SH}} : ({ALL}, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>',
    ),
    _simple(
        "concatenate",
        '%a: tensor<8x2xf32> ARG([{"y"}, {}])ARG, %b: tensor<8x3xf32> ARG([{"y"}, {}])ARG',
        "tensor<8x5xf32>",
        '%r = stablehlo.concatenate %a, %b, dim = 1 {SH([{"y"}, {}])SH} : (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>',
    ),
    _simple(
        "reverse",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG',
        ALL,
        f'%r = stablehlo.reverse %a, dims = [1] {{SH([{{"y"}}, {{}}])SH}} : {ALL}',
    ),
    _simple(
        "transpose",
        A,
        ALL,
        f'%r = stablehlo.transpose %a, dims = [1, 0] {{SH([{{"y"}}, {{"x"}}])SH}} : ({ALL}) -> {ALL}',
    ),
    _simple(
        "barrier", A, ALL, f'%r = "stablehlo.optimization_barrier"(%a) {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}) -> {ALL}'
    ),
    _simple(
        "top-k",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG',
        "tensor<8x3xi32>",
        '%v, %r = chlo.top_k(%a, k = 3) {SH([{"y"}, {}]; [{"y"}, {}])SH} : tensor<8x8xf32> -> (tensor<8x3xf32>, tensor<8x3xi32>)',
    ),
    _simple(
        "fft",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG',
        "tensor<8x5xcomplex<f32>>",
        '%r = stablehlo.fft %a, type = RFFT, length = [8] {SH([{"y"}, {}])SH} : (tensor<8x8xf32>) -> tensor<8x5xcomplex<f32>>',
    ),
    _simple(
        "sort",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG',
        ALL,
        f"""%r = "stablehlo.sort"(%a) <{{dimension = 1 : i64, is_stable = true}}> ({{
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        }}) {{SH([{{"y"}}, {{}}])SH}} : ({ALL}) -> {ALL}""",
    ),
]


def _reduce(kind: str, initial: str) -> Case:
    return _simple(
        f"initial value {initial} of a {kind}",
        A,
        "tensor<8xf32>",
        f"""%i = stablehlo.constant dense<{initial}> : tensor<f32>
        %p = stablehlo.reduce(%a init: %i) applies stablehlo.{kind} across dimensions = [1]
          {{SH([{{"x"}}], unreduced={{"y"}})SH}} : ({ALL}, tensor<f32>) -> tensor<8xf32>
        %r = sdy.all_reduce {{"y"}} %p out_sharding=<@mesh, [{{"x"}}]> : tensor<8xf32>""",
    )


def _running_sum(name: str, layout: str, result: str = "", combine: str = "add") -> Case:
    return _simple(
        name,
        f"%a: {ALL} ARG({layout})ARG",
        ALL,
        f"""%i = stablehlo.constant dense<0.0> : tensor<f32>
        %r = "stablehlo.reduce_window"(%a, %i) <{{window_dimensions = array<i64: 1, 8>,
          padding = dense<[[0, 0], [7, 0]]> : tensor<2x2xi64>}}> ({{
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %c = stablehlo.{combine} %p, %q : tensor<f32>
            stablehlo.return %c : tensor<f32>
        }}) {{SH({result or layout})SH}} : ({ALL}, tensor<f32>) -> {ALL}""",
    )


REDUCED = [
    _reduce("add", "3.5"),
    _reduce("add", "0.0"),
    _simple(
        "variadic reduction of whole dimensions",
        '%a: tensor<8x8xf32> ARG([{"y"}, {}])ARG, %b: tensor<8x8xi32> ARG([{"y"}, {}])ARG',
        "tensor<8xi32>",
        """%i = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %j = stablehlo.constant dense<0> : tensor<i32>
        %v, %r = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [1] {SH([{"y"}]; [{"y"}])SH}
          : (tensor<8x8xf32>, tensor<8x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
          reducer(%p: tensor<f32>, %q: tensor<f32>) (%s: tensor<i32>, %t: tensor<i32>) {
            %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %d = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>
            %e = stablehlo.select %c, %s, %t : tensor<i1>, tensor<i32>
            stablehlo.return %d, %e : tensor<f32>, tensor<i32>
          }""",
    ),
    _running_sum("running sum beside a split", '[{"y"}, {}]'),
    _running_sum("running sum along a split", '[{}, {"y"}]'),
]

CONVOLUTION = (
    "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{pad = [[1, 1]]}} "
    "{{batch_group_count = {batch} : i64, feature_group_count = {groups} : i64, SH({result})SH}}"
)


def _convolution(
    name: str, image: str, kernel: str, result: str, groups: int = 1, batch: int = 1, reduce: str = ""
) -> Case:
    inputs = 8 // groups
    out = 8 // batch
    numbers = CONVOLUTION.format(
        groups=groups, batch=batch, result=result + (f", unreduced={{{reduce}}}" if reduce else "")
    )
    types = f"(tensor<8x6x8xf32>, tensor<3x{inputs}x8xf32>) -> tensor<{out}x6x8xf32>"
    end = (
        f"%r = sdy.all_reduce {{{reduce}}} %p out_sharding=<@mesh, {result}> : tensor<{out}x6x8xf32>" if reduce else ""
    )
    return _simple(
        f"convolution, {name}",
        f"%a: tensor<8x6x8xf32> ARG({image})ARG, %k: tensor<3x{inputs}x8xf32> ARG({kernel})ARG",
        f"tensor<{out}x6x8xf32>",
        f"%{'p' if reduce else 'r'} = stablehlo.convolution(%a, %k) {numbers} : {types}\n{end}",
    )


CONVOLVED = [
    _convolution("batch and outputs split", '[{"x"}, {}, {}]', '[{}, {}, {"y"}]', '[{"x"}, {}, {"y"}]'),
    _convolution("inputs split", '[{"x"}, {}, {"y"}]', '[{}, {"y"}, {}]', '[{"x"}, {}, {}]', reduce='"y"'),
    _convolution("windows split", '[{}, {"x"}, {}]', "[{}, {}, {}]", '[{}, {"x"}, {}]'),
    _convolution("groups split", '[{"x"}, {}, {"y"}]', '[{}, {}, {"y"}]', '[{"x"}, {}, {"y"}]', groups=4),
    _convolution("fewer groups, split", '[{}, {}, {"x"}]', '[{}, {}, {"x"}]', '[{}, {}, {"x"}]', groups=4),
    _convolution("batch groups split", '[{"y"}, {}, {}]', '[{}, {}, {"y"}]', '[{}, {}, {"y"}]', batch=4),
    _convolution(
        "outputs of a group split", '[{}, {}, {"x"}]', '[{}, {}, {"x", "y"}]', '[{}, {}, {"x", "y"}]', groups=2
    ),
    _convolution(
        "inputs of a group split",
        '[{}, {}, {"x", "y"}]',
        '[{}, {"y"}, {"x"}]',
        '[{}, {}, {"x"}]',
        groups=2,
        reduce='"y"',
    ),
    _convolution("batch of a group split", '[{"x", "y"}, {}, {}]', '[{}, {}, {"x"}]', '[{"y"}, {}, {"x"}]', batch=2),
    _convolution(
        "batch groups and inputs split",
        '[{"x"}, {}, {"y"}]',
        '[{}, {"y"}, {"x"}]',
        '[{}, {}, {"x"}]',
        batch=4,
        reduce='"y"',
    ),
]

FLOW = [
    _simple(
        "while",
        '%a: tensor<8x8xf32> ARG([{"x"}, {"y"}])ARG, %w: tensor<8x8xf32> ARG([{"y"}, {}])ARG',
        ALL,
        f"""%zero = stablehlo.constant dense<0> : tensor<i32>
        %r, %n, %v = stablehlo.while(%x = %a, %i = %zero, %u = %w) : {ALL}, tensor<i32>, {ALL}
          attributes {{SH([{{"x"}}, {{"y"}}]; []; [{{"y"}}, {{}}])SH}}
        cond {{
          %three = stablehlo.constant dense<3> : tensor<i32>
          %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %one = stablehlo.constant dense<1> : tensor<i32>
          %p = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] {{SH([{{"x"}}, {{}}], unreduced={{"y"}})SH}}
            : ({ALL}, {ALL}) -> {ALL}
          %q = sdy.reduce_scatter [{{}}, {{"y"}}] %p out_sharding=<@mesh, [{{"x"}}, {{"y"}}]> : {ALL}
          %e = stablehlo.iota dim = 0 {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
          %f = stablehlo.add %q, %e {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %f, %j, %u : {ALL}, tensor<i32>, {ALL}
        }}""",
    ),
    *(
        _simple(
            f"case {index}, values from outside",
            f"{A}, %i: tensor<i32>",
            ALL,
            f"""%r = "stablehlo.case"(%i) ({{
              %p = stablehlo.negate %a {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
              stablehlo.return %p : {ALL}
            }}, {{
              %p = stablehlo.iota dim = 1 {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
              %q = stablehlo.add %a, %p {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
              stablehlo.return %q : {ALL}
            }}) {{SH([{{"x"}}, {{"y"}}])SH}} : (tensor<i32>) -> {ALL}""",
            **{"1": np.array(index, np.int32)},
        )
        for index in (0, 1)
    ),
    _simple(
        "if",
        f"{A}, %i: tensor<i1>",
        ALL,
        f"""%r = "stablehlo.if"(%i) ({{
          %p = stablehlo.negate %a {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}
          stablehlo.return %p : {ALL}
        }}, {{
          stablehlo.return %a : {ALL}
        }}) {{SH([{{"x"}}, {{"y"}}])SH}} : (tensor<i1>) -> {ALL}""",
    ),
]

CASES = [*MADE, *SHAPED, *REDUCED, *CONVOLVED, *FLOW]


@pytest.fixture(scope="module")
def by_case() -> dict[str, str]:
    return problems(CASES)


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_op_gives_what_one_device_computes(by_case: dict[str, str], name: str) -> None:
    assert name not in by_case, by_case[name]


def test_manual_computation_is_inlined_with_fresh_handles() -> None:
    """On one device it has no meaning, so the reference is written by hand: every row is the sum of its group."""
    body = """
        %{0} = sdy.manual_computation(%{1}) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
          out_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>] manual_axes={{"x", "y"}} (%b: tensor<4x2xf32>) {{
          %c = "stablehlo.all_reduce"(%b) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}}> ({{
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %s = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }}) : (tensor<4x2xf32>) -> tensor<4x2xf32>
          sdy.return %c : tensor<4x2xf32>
        }} : (tensor<8x8xf32>) -> tensor<8x8xf32>"""
    text = f"func.func @main({A}) -> {ALL} {{ {body.format('m', 'a')} {body.format('r', 'm')} return %r : {ALL} }}"
    graph = Case("manual", text).graph()
    local = localize(graph)
    assert "sdy.manual_computation" not in {op.name for op in local.walk()}
    handles = [op.signature.text("channel_handle") for op in local.walk() if op.name == "stablehlo.all_reduce"]
    assert len(set(handles)) == 2
    job = _local_job(graph, np.arange(64, dtype=np.float32).reshape(8, 8))
    (result,) = run_jobs([job])[0].outputs
    whole = job.inputs[0].reshape(8, 4, 2).sum(axis=1, keepdims=True) * 4
    assert compare([np.broadcast_to(whole, (8, 4, 2)).reshape(8, 8)], [result], ["r"])[0].ok


def _local_job(graph: object, value: np.ndarray) -> Job:
    from shardwright.ir.context import module_text
    from shardwright.ir.graph import Graph
    from shardwright.notation import modules
    from tests.partition.localize.programs import layouts

    assert isinstance(graph, Graph)
    ins, outs = layouts(graph)
    types = tuple(graph.types[v] for v in graph.main.block.terminator.operands)
    text = module_text(modules.write(localize(graph), shardings=False))
    return Job(text, (value,), graph.mesh, ins, outs, types)


REFUSED = {
    "slice of a part": (
        "split alike",
        _simple(
            "1",
            A,
            "tensor<8x4xf32>",
            f'%r = stablehlo.slice %a [0:8, 0:4] {{SH([{{"x"}}, {{}}])SH}} : ({ALL}) -> tensor<8x4xf32>',
        ),
    ),
    "padding": (
        "split alike",
        _simple(
            "2",
            A,
            "tensor<8x12xf32>",
            f'%z = stablehlo.constant dense<1.0> : tensor<f32> %r = stablehlo.pad %a, %z, low = [0, 2], high = [0, 2], interior = [0, 0] {{SH([{{"x"}}, {{}}])SH}} : ({ALL}, tensor<f32>) -> tensor<8x12xf32>',
        ),
    ),
    "reshape": (
        "cannot turn",
        _simple(
            "3", A, "tensor<64xf32>", f'%r = stablehlo.reshape %a {{SH([{{"x", "y"}}])SH}} : ({ALL}) -> tensor<64xf32>'
        ),
    ),
    "reshape, uncommon factors": (
        "cannot turn",
        _simple(
            "4",
            '%a: tensor<6x4xf32> ARG([{}, {"x"}])ARG',
            "tensor<8x3xf32>",
            '%r = stablehlo.reshape %a {SH([{"x"}, {}])SH} : (tensor<6x4xf32>) -> tensor<8x3xf32>',
        ),
    ),
    "reverse": (
        "split alike",
        _simple("5", A, ALL, f'%r = stablehlo.reverse %a, dims = [1] {{SH([{{"x"}}, {{}}])SH}} : {ALL}'),
    ),
    "concatenate": (
        "split alike",
        _simple(
            "6",
            A,
            "tensor<8x16xf32>",
            f'%r = stablehlo.concatenate %a, %a, dim = 1 {{SH([{{"x"}}, {{}}])SH}} : ({ALL}, {ALL}) -> tensor<8x16xf32>',
        ),
    ),
    "dynamic slice": (
        "whole",
        _simple(
            "7",
            f"{A}, %s: tensor<i32>",
            "tensor<8x4xf32>",
            f'%r = stablehlo.dynamic_slice %a, %s, %s, sizes = [8, 4] {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>',
        ),
    ),
    "left constraint": (
        "materialize",
        _simple("8", A, ALL, f"%r = sdy.sharding_constraint %a <@mesh, [{{}}, {{}}]> : {ALL}"),
    ),
    "left reshard": ("materialize", _simple("9", A, ALL, f"%r = sdy.reshard %a <@mesh, [{{}}, {{}}]> : {ALL}")),
    "uneven": (
        "equal parts",
        _simple(
            "10",
            '%a: tensor<6xf32> ARG([{"y"}])ARG',
            "tensor<6xf32>",
            '%r = stablehlo.negate %a {SH([{"y"}])SH} : tensor<6xf32>',
        ),
    ),
    "partition id": ("no meaning", _simple("11", "", "tensor<ui32>", "%r = stablehlo.partition_id : tensor<ui32>")),
    "variadic reduction": (
        "computation of its own leaves no contributions",
        Case(
            "12",
            REDUCED[2]
            .text.replace('ARG([{"y"}, {}])ARG', 'ARG([{}, {"y"}])ARG')
            .replace('[{"y"}]; [{"y"}]', '[{}], unreduced={"y"}; [{}], unreduced={"y"}'),
        ),
    ),
    "spatial split": ("spatial", _convolution("x", "[{}, {}, {}]", "[{}, {}, {}]", '[{}, {"x"}, {}]')),
    "groups split, kernel whole": (
        "4 groups cannot",
        _convolution("14", '[{}, {}, {"y"}]', "[{}, {}, {}]", "[{}, {}, {}]", groups=4),
    ),
    "outputs of whole groups split": (
        "4 groups cannot",
        _convolution("15", "[{}, {}, {}]", '[{}, {}, {"y"}]', '[{}, {}, {"y"}]', groups=4),
    ),
    "inputs of shared groups split": (
        "4 groups cannot",
        _convolution("16", '[{}, {}, {"x"}]', '[{}, {"x"}, {}]', "[{}, {}, {}]", groups=4, reduce='"x"'),
    ),
    "batch groups split, batch too": (
        "4 groups cannot",
        _convolution("17", '[{"y", "x"}, {}, {}]', '[{}, {}, {"y"}]', '[{}, {}, {"y"}]', batch=4),
    ),
    "windows of a convolution": (
        "convolution cannot be computed in parts of spatial dimensions",
        _convolution("17", '[{}, {"x"}, {}]', "[{}, {}, {}]", "[{}, {}, {}]"),
    ),
    "inputs split in the image alone": (
        "convolution cannot be computed in parts of features",
        _convolution("18", '[{}, {}, {"y"}]', "[{}, {}, {}]", "[{}, {}, {}]"),
    ),
    "batch split in the image alone": (
        "convolution cannot be computed in parts of a batch",
        _convolution("19", '[{"x"}, {}, {}]', "[{}, {}, {}]", "[{}, {}, {}]"),
    ),
    "running difference": ("dimension 1 whole", _running_sum("13", '[{}, {"y"}]', combine="subtract")),
    "running sum split otherwise": ("split alike", _running_sum("13", '[{}, {"y"}]', '[{"y"}, {}]')),
    "loop carries another layout": (
        "flows into",
        Case(
            "14",
            FLOW[0]
            .text.replace("return %f, %j, %u", "return %a, %j, %u")
            .replace('SH([{"x"}, {"y"}]; []', 'SH([{"x"}, {}]; []'),
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_computed_in_parts_is_refused_at_its_line(what: str) -> None:
    message, case = REFUSED[what]
    with pytest.raises(ShardingError, match=message) as caught:
        localize(case.graph())
    assert what == "uneven" or (caught.value.diagnostic.op and caught.value.diagnostic.location)


def test_missing_sharding_is_refused() -> None:
    graph = MADE[0].graph()
    graph.shardings[graph.main.block.ops[0].results[0]] = None
    with pytest.raises(ShardingError, match="no sharding"):
        localize(graph)


def test_index_arithmetic_is_written_once() -> None:
    """Two offsets along the same axes share the partition id and the digits."""
    case = _simple(
        "two iotas",
        "",
        "tensor<8xi32>",
        '%a = stablehlo.iota dim = 0 {SH([{"y"}])SH} : tensor<8xi32> %b = stablehlo.iota dim = 0 {SH([{"y"}])SH} '
        ': tensor<8xi32> %r = stablehlo.add %a, %b {SH([{"y"}])SH} : tensor<8xi32>',
    )
    names = [op.name for op in localize(case.graph()).walk()]
    assert names.count("stablehlo.partition_id") == names.count("stablehlo.remainder") == 1


def test_device_ids_stay_out_of_the_module() -> None:
    case = Case(
        "ids",
        'sdy.mesh @mesh = <["x"=2], device_ids=[1, 0]> func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }',
    )
    assert "device_ids" not in jobs_of(case)[1].module


@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8"])
def test_positions_are_rounded_once(dtype: str) -> None:
    """In `bf16` 256 + 1 is 256, so counting must not happen there."""
    text = f'%r = stablehlo.iota dim = 0 {{SH([{{"y"}}])SH}} : tensor<4096x{dtype}>'
    reference, local = run_jobs(jobs_of(_simple("iota", "", f"tensor<4096x{dtype}>", text)))
    assert reference.outputs[0].tobytes() == local.outputs[0].tobytes()


def test_channel_handles_are_unique_across_regions() -> None:
    loop = FLOW[0].text.replace(
        "return %r",
        f'%g = sdy.all_gather [{{"x"}}, {{"y"}}] %r out_sharding=<@mesh, [{{}}, {{}}]> : {ALL}\nreturn %g',
    )
    handles = [
        op.signature.text("channel_handle")
        for op in localize(Case("loop", loop).graph()).walk()
        if op.signature.text("channel_handle")
    ]
    assert len(handles) == len(set(handles)) == 3


def test_axes_of_one_device_change_nothing() -> None:
    case = Case(
        "one",
        """
        sdy.mesh @mesh = <["x"=2, "one"=1]>
        func.func @main(%a: tensor<4x4xf32> ARG([{"one", "x"}, {}])ARG) -> tensor<4x4xf32> {
          %0 = sdy.all_gather [{"one", "x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<4x4xf32>
          %1 = sdy.all_slice [{}, {"one"}] %0 out_sharding=<@mesh, [{}, {"one"}]> : tensor<4x4xf32>
          %2 = stablehlo.transpose %1, dims = [1, 0] {SH([{}, {}])SH} : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %3 = stablehlo.reverse %2, dims = [0] {SH([{"one"}, {}])SH} : tensor<4x4xf32>
          return %3 : tensor<4x4xf32>
        }""",
    )
    assert problems([case]) == {}


def test_one_device_needs_no_collectives() -> None:
    case = Case(
        "single",
        """
        sdy.mesh @mesh = <["x"=1]>
        func.func @main(%a: tensor<4xf32> ARG([{"x"}])ARG) -> tensor<4xf32> {
          %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<4xf32>
          return %0 : tensor<4xf32>
        }""",
    )
    assert problems([case]) == {}
    assert [op.name for op in localize(case.graph()).walk()] == ["func.return"]


UNDECLARED = {
    "product": f'%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {{SH([{{"x"}}, {{}}])SH}} : ({ALL}, {ALL}) -> {ALL}',
    "reduction": f"%i = stablehlo.constant dense<0.0> : tensor<f32> %s = stablehlo.reduce(%a init: %i) applies stablehlo.add across "
    f'dimensions = [1] {{SH([{{"x"}}])SH}} : ({ALL}, tensor<f32>) -> tensor<8xf32> %r = stablehlo.negate %a {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}',
    "reduction of another kind": f"%i = stablehlo.constant dense<0.0> : tensor<f32> %s = stablehlo.reduce(%a init: %i) applies "
    f'stablehlo.maximum across dimensions = [1] {{SH([{{"x"}}], unreduced={{"y"}})SH}} : ({ALL}, tensor<f32>) -> tensor<8xf32> '
    f'%r = stablehlo.negate %a {{SH([{{"x"}}, {{"y"}}])SH}} : {ALL}',
    "gather": f"""%at = stablehlo.constant {{SH([{{"y"}}])SH}} dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32>
      %r = "stablehlo.gather"(%b, %at) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 8>, indices_are_sorted = false}}>
        {{SH([{{"y"}}, {{}}])SH}} : ({ALL}, tensor<8xi32>) -> {ALL}""",
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_contributions_must_be_declared(what: str) -> None:
    case = _simple(what, f'{A}, %b: {ALL} ARG([{{"y"}}, {{}}])ARG', ALL, UNDECLARED[what])
    with pytest.raises(ShardingError, match="leaves contributions to a"):
        localize(case.graph())


def test_operands_of_a_product_are_split_alike() -> None:
    body = f'%r = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] {{SH([{{"x"}}, {{"y"}}])SH}} : ({ALL}, {ALL}) -> {ALL}'
    with pytest.raises(ShardingError, match="split alike"):
        localize(_simple("dot", A, ALL, body).graph())

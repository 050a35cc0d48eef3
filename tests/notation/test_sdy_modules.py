"""All of the sdy dialect in modules: each op and example is parsed, verified, read, and written as MLIR prints it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from shardwright.ir.context import load_module, module_text
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.sdy.meshes import lift_inlined_meshes
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify
from shardwright.sharding import TensorSharding

EXAMPLES = Path(__file__).parents[2] / "examples"
MESHES = (
    'sdy.mesh @m = <["a"=2, "b"=2, "c"=4, "d"=2]>\n'
    'sdy.mesh @order = <["a"=2, "b"=2, "c"=4, "d"=2], device_ids=[' + ", ".join(map(str, range(31, -1, -1))) + "]>\n"
    "sdy.mesh @empty = <[]>\n"
    "sdy.mesh @third = <[], device_ids=[3]>\n"
)
TYPE = "tensor<8x8x8xf32>"
TANH = f'%0 = stablehlo.tanh %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{"a"}}, {{}}, {{}}]>]>}} : {TYPE}\n'


def program(body: str, sharding: str = "<@m, [{}, {}, {}]>", type: str = TYPE) -> str:
    return (
        f"{MESHES}func.func public @main(%x: {type} {{sdy.sharding = #sdy.sharding{sharding}}}) -> {type} {{\n"
        f"{body}\nreturn %r : {type}\n}}\n"
    )


BODIES = {
    "all_gather": (
        f'%r = sdy.all_gather [{{"b", "c"}}, {{}}, {{"d"}}] %x out_sharding=<@m, [{{"a"}}, {{}}, {{}}]> : {TYPE}',
        '<@m, [{"a", "b", "c"}, {}, {"d"}]>',
    ),
    "all_reduce": (
        f'%r = sdy.all_reduce {{"b"}} %x out_sharding=<@m, [{{"a"}}, {{}}, {{}}]> : {TYPE}',
        '<@m, [{"a"}, {}, {}], unreduced={"b"}>',
    ),
    "all_slice": (
        '%r = sdy.all_slice [{"b", "c"}, {}, {"d"}] %x '
        f'out_sharding=<@m, [{{"a", "b", "c"}}, {{}}, {{"d"}}]> : {TYPE}',
        '<@m, [{"a"}, {}, {}]>',
    ),
    "collective_permute": (
        f'%r = sdy.collective_permute %x out_sharding=<@m, [{{"c":(1)2, "b"}}, {{"a"}}, {{"d"}}]> : {TYPE}',
        '<@m, [{"c"}, {"d"}, {"b"}]>',
    ),
    "collective_permute to another order": (
        f'%r = sdy.collective_permute %x out_sharding=<@order, [{{"b"}}, {{}}, {{}}]> : {TYPE}',
        '<@m, [{"a"}, {}, {}]>',
    ),
    "reduce_scatter": (
        f'%r = sdy.reduce_scatter [{{"b"}}, {{}}, {{}}] %x out_sharding=<@m, [{{"a", "b"}}, {{}}, {{}}]> : {TYPE}',
        '<@m, [{"a"}, {}, {}], unreduced={"b"}>',
    ),
    "constant": f"%r = sdy.constant dense<1.0> : {TYPE}",
    "constant with a sharding": (
        f'%r = sdy.constant {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{"a"}}, {{}}, {{}}]>]>}} '
        f"dense<1.0> : {TYPE}"
    ),
    "data_flow_edge": f"{TANH}%r = sdy.data_flow_edge %0 : {TYPE}",
    "data_flow_edge with a sharding": f"{TANH}%r = sdy.data_flow_edge %0 sharding=<@m, [{{}}, {{}}, {{?}}]> : {TYPE}",
    "data_flow_edge of an argument": f"%r = sdy.data_flow_edge %x : {TYPE}",
    "propagation_barrier NONE": f"%r = sdy.propagation_barrier %x allowed_direction=NONE : {TYPE}",
    "propagation_barrier FORWARD": f"%r = sdy.propagation_barrier %x allowed_direction=FORWARD : {TYPE}",
    "propagation_barrier BACKWARD": f"%r = sdy.propagation_barrier %x allowed_direction=BACKWARD : {TYPE}",
    "reshard": f'%r = sdy.reshard %x <@m, [{{}}, {{"a"}}, {{?}}]> : {TYPE}',
    "sharding_constraint": f'%r = sdy.sharding_constraint %x <@m, [{{}}, {{"a"}}, {{?}}p3]> : {TYPE}',
    "sharding_constraint without uses": (
        f'sdy.sharding_constraint %x <@m, [{{}}, {{"b", ?}}, {{?}}]> : {TYPE}\n%r = stablehlo.tanh %x : {TYPE}'
    ),
    "sharding_group": (
        f"sdy.sharding_group %x group_id=5 : {TYPE}\n%r = stablehlo.tanh %x : {TYPE}\n"
        f"sdy.sharding_group %r group_id=5 : {TYPE}"
    ),
    "named_computation": (
        f'%r = sdy.named_computation<"foo">(%x) (%y: {TYPE}) {{\n  sdy.return %y : {TYPE}\n}} : ({TYPE}) -> {TYPE}'
    ),
    "named_computation with shardings": (
        '%r = sdy.named_computation<"foo">(%x) in_shardings=[<@m, [{"a"}, {}, {}]>] '
        f'out_shardings=[<@m, [{{"a"}}, {{}}, {{?}}]>] (%y: {TYPE}) {{\n  sdy.return %y : {TYPE}\n'
        f"}} {{foo = 3 : i32}} : ({TYPE}) -> {TYPE}"
    ),
    "manual_computation": (
        '%r = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", "b"}, {}, {}]>] '
        'out_shardings=[<@m, [{"a"}, {}, {}], replicated={"b"}>] manual_axes={"a"} (%y: tensor<4x8x8xf32>) {\n'
        '%2 = stablehlo.tanh %y {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"b"}, {}, {?}]>]>} : '
        f"tensor<4x8x8xf32>\n  sdy.return %2 : tensor<4x8x8xf32>\n}} : ({TYPE}) -> {TYPE}"
    ),
    "manual_computation in a manual_computation": (
        '%r = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", ?}, {}, {}]>] '
        'out_shardings=[<@m, [{"a", ?}, {}, {}]>] manual_axes={"a"} (%y: tensor<4x8x8xf32>) {\n'
        '  %1 = sdy.manual_computation(%y) in_shardings=[<@m, [{}, {"c"}, {}]>] '
        'out_shardings=[<@m, [{}, {"c"}, {}]>] manual_axes={"c"} (%z: tensor<4x2x8xf32>) {\n'
        "    sdy.return %z : tensor<4x2x8xf32>\n  } : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>\n"
        f"  sdy.return %1 : tensor<4x8x8xf32>\n}} : ({TYPE}) -> {TYPE}"
    ),
    "manual_computation of nothing": (
        '%r = sdy.manual_computation() in_shardings=[] out_shardings=[<@m, [{"a"}, {}, {}]>] manual_axes={"a"} () {\n'
        "  %1 = stablehlo.constant dense<1.0> : tensor<4x8x8xf32>\n  sdy.return %1 : tensor<4x8x8xf32>\n"
        f"}} : () -> {TYPE}"
    ),
    "manual_computation with a token": (
        "%t = stablehlo.create_token : !stablehlo.token\n"
        '%0:2 = sdy.manual_computation(%x, %t) in_shardings=[<@m, [{"a"}, {}, {}]>, <@m, []>] '
        'out_shardings=[<@m, [{"a"}, {}, {}]>, <@m, []>] manual_axes={"a"} '
        "(%y: tensor<4x8x8xf32>, %z: !stablehlo.token) {\n"
        "  sdy.return %y, %z : tensor<4x8x8xf32>, !stablehlo.token\n"
        f"}} : ({TYPE}, !stablehlo.token) -> ({TYPE}, !stablehlo.token)\n%r = stablehlo.tanh %0#0 : {TYPE}"
    ),
    "a mesh spelt out": f'%r = sdy.reshard %x <mesh<["x"=16, "y"=2]>, [{{"y"}}, {{"x"}}, {{?}}p3]> : {TYPE}',
    "two meshes spelt out": (
        f'%0 = sdy.reshard %x <mesh<["x"=32]>, [{{"x"}}, {{}}, {{}}]> : {TYPE}\n'
        f'%r = sdy.reshard %0 <mesh<["x"=4, "y"=8]>, [{{"y"}}, {{"x"}}, {{}}]> : {TYPE}'
    ),
    "a device spelt out": (f"%r = sdy.reshard %x <mesh<[], device_ids=[5]>, []> : {TYPE}", "<mesh<[]>, [{?}, {}, {}]>"),
    "a single device": (
        f"%0 = stablehlo.tanh %x {{sdy.sharding = #sdy.sharding_per_value<[<@third, []>]>}} : {TYPE}\n"
        f"%r = sdy.sharding_constraint %0 <@third, []> : {TYPE}"
    ),
    "the empty mesh": (
        f"%r = sdy.sharding_constraint %x <@empty, [{{}}, {{?}}, {{}}]> : {TYPE}",
        "<@empty, [{?}, {}, {}]>",
    ),
    "the rule of an add": (
        "%r = stablehlo.add %x, %x {sdy.sharding_rule = #sdy.op_sharding_rule<"
        f"([i, j, k], [i, j, k])->([i, j, k]) {{i=8, j=8, k=8}}>}} : {TYPE}"
    ),
    "a rule of a user": (
        "%r = stablehlo.custom_call @foo(%x) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m]) "
        "{i=8, j=8, k=8, l=8, m=8} reduction={j} need_replication={k} permutation={l} blocked_propagation={i, k}, "
        f"custom>}} : ({TYPE}) -> {TYPE}"
    ),
    "propagation edges and origins": (
        "%r = stablehlo.tanh %x {sdy.propagation_edges = #sdy.propagation_edges<[{step-2 = [{"
        '"a" = operand-0 -> [result-0]}]}]>, sdy.sharding_origins = {a = "input: 0"}} : ' + TYPE
    ),
    "what is empty is split": (
        '%r = sdy.reshard %x <@m, [{}, {"a"}]> : tensor<0x8xf32>',
        '<@m, [{}, {"a"}]>',
        "tensor<0x8xf32>",
    ),
    "all kinds of parts": (
        f'%r = sdy.reshard %x <@m, [{{"c":(1)2, "a", ?}}p0, {{?}}p1, {{"c":(2)2}}], replicated={{"b"}}, '
        f'unreduced={{"d"}}> : {TYPE}'
    ),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_each_op_and_attribute_is_kept(body: str | tuple[str, ...]) -> None:
    same(program(body) if isinstance(body, str) else program(*body))


def same(text: str) -> None:
    """Read and written is what MLIR prints."""
    prepared = prepare(text, "f.mlir")
    assert prepared is text
    module = load_module(prepared, "f.mlir")
    verify(module, "f.mlir", prepared)
    graph = modules.read(module, "f.mlir")
    written = modules.write(graph)
    assert written.operation.verify()
    assert module_text(written) == module_text(module)
    assert module_text(modules.write(modules.read(load_module(module_text(written))))) == module_text(module)


def test_the_example_of_an_all_to_all_with_the_dimension_that_its_text_leaves_out() -> None:
    type = "tensor<8x8x4x4x32xf32>"
    body = (
        '%r = sdy.all_to_all [{"b"}: 0->2, {"c"}: 1->3] %x '
        f'out_sharding=<@m, [{{"a"}}, {{}}, {{"b"}}, {{"c"}}, {{}}]> : {type}'
    )
    same(program(body, '<@m, [{"a", "b"}, {"c"}, {}, {}, {}]>', type))


def test_the_example_of_a_collective_permute() -> None:
    text = (
        'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4, "d"=2, "e"=2, "f"=2]>\n'
        f"func.func public @main(%0: {TYPE}) -> {TYPE} {{\n"
        "%1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, "
        f'[{{"a", "c"}}, {{"f"}}, {{"d", "e"}}]>]>}} : {TYPE}\n'
        f'%2 = sdy.collective_permute %1 out_sharding=<@mesh, [{{"c":(1)2, "b", "f"}}, {{"a"}}, {{"e", "d"}}]> : {TYPE}\n'
        f"return %2 : {TYPE}\n}}\n"
    )
    same(text)


def test_tokens_scalars_and_results() -> None:
    same(
        MESHES + "func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@empty, [{?}]>}, "
        "%t: !stablehlo.token {sdy.sharding = #sdy.sharding<@m, []>}, "
        "%u: tensor<f32> {sdy.sharding = #sdy.sharding<@third, []>}) -> "
        '(tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}, !stablehlo.token) {\n'
        "return %x, %t : tensor<8xf32>, !stablehlo.token\n}\n"
    )


def test_loops_and_branches_hold_all_of_it() -> None:
    same(
        MESHES + "func.func public @main(%p: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "%0 = stablehlo.while(%i = %x) : tensor<8xf32> "
        'attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>}\n'
        "cond { %c = stablehlo.constant dense<true> : tensor<i1>\nstablehlo.return %c : tensor<i1> }\n"
        'do { %1 = sdy.sharding_constraint %i <@m, [{"b"}]> : tensor<8xf32>\nstablehlo.return %1 : tensor<8xf32> }\n'
        '%2 = "stablehlo.case"(%p) ({ %3 = sdy.reshard %0 <@m, [{"c"}]> : tensor<8xf32>\n'
        "stablehlo.return %3 : tensor<8xf32> }, { stablehlo.return %x : tensor<8xf32> }) "
        '{sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : (tensor<i32>) -> tensor<8xf32>\n'
        "return %2 : tensor<8xf32>\n}\n"
    )


@pytest.mark.parametrize("mesh", ["my mesh", "my-mesh", "a\\22b", "\\C3\\A9", "mesh.1"])
@pytest.mark.parametrize("axis", ["a b", "a\\22]>, {", "\\C3\\A9", "<[", "a\\5Cb"])
def test_names_of_meshes_and_axes_may_be_any_text(mesh: str, axis: str) -> None:
    same(
        f'sdy.mesh @"{mesh}" = <["{axis}"=2, "y"=2]>\n'
        f'func.func public @main(%x: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@"{mesh}", [{{"{axis}"}}, {{}}]>}})'
        f' -> tensor<8x8xf32> {{\n%0 = sdy.all_gather [{{"{axis}"}}, {{}}] %x out_sharding=<@"{mesh}", [{{}}, {{}}]>'
        " : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>\n}\n"
    )


@pytest.mark.parametrize("name", ["mlp", "gpt2", "decode"])
def test_examples_need_no_preparation_and_pass(name: str) -> None:
    text = (EXAMPLES / f"{name}.mlir").read_text()
    assert prepare(text) is text
    module = load_module(text)
    verify(module)
    assert modules.read(module).op_count >= 8


INLINED = """sdy.mesh @mesh_0 = <["q"=4]>
sdy.mesh @first = <["x"=2, "y"=2]>
func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=4]>, [{"x"}, {}]>}, %t: tensor<f32>
    {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[3]>, []>}) -> (tensor<8x8xf32>
    {sdy.sharding = #sdy.sharding<mesh<["z"=2, "a"=2]>, [{"z"}, {}]>}) {
  %0 = sdy.sharding_constraint %x <mesh<["x"=2, "y"=2]>, [{"x"}, {}]> : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <mesh<["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>, [{"x"}, {}]> : tensor<8x8xf32>
  %2 = sdy.sharding_constraint %1 <mesh<[]>, [{?}, {}]> : tensor<8x8xf32>
  %3 = sdy.manual_computation(%2) in_shardings=[<mesh<["a"=2, "b"=2]>, [{"a"}, {}]>]
      out_shardings=[<mesh<["a"=2, "b"=2]>, [{"a"}, {}]>] manual_axes={"a"} (%y: tensor<4x8xf32>) {
    sdy.return %y : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
"""


def test_meshes_that_are_spelt_out_are_lifted_as_shardy_does() -> None:
    graph = modules.read(load_module(INLINED))
    lift_inlined_meshes(graph)
    ours = module_text(modules.write(graph))
    theirs = re.sub(r" \{stablehlo\.mesh = .*\}$", "", lifted_by_shardy(INLINED), flags=re.MULTILINE)
    meshes = dict(re.findall(r"sdy\.mesh (@\S+) = (.*)", theirs))
    assert dict(re.findall(r"sdy\.mesh (@\S+) = (.*)", ours)).keys() == meshes.keys()
    assert by_value(ours) == by_value(theirs)


def by_value(text: str) -> list[str]:
    """The lines of a module with every mesh spelt out: Shardy numbers those of a function's attributes in its order."""
    meshes = dict(re.findall(r"sdy\.mesh (@\S+) = (<.*>)", text))
    return [
        re.sub(r"@\w*mesh\w*|@first", lambda match: meshes.get(match[0], match[0]), line)
        for line in text.splitlines()
        if line and "sdy.mesh" not in line
    ]


def lifted_by_shardy(text: str) -> str:
    script = (
        "import sys\nfrom shardwright.ir.context import context, load_module, module_text, passmanager\n"
        "module = load_module(sys.stdin.read())\n"
        "with context():\n"
        "    manager = passmanager.PassManager.parse('builtin.module(sdy-lift-inlined-meshes)')\n"
        "    manager.run(module.operation)\n"
        "print(module_text(module))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_lifting_leaves_named_meshes_alone() -> None:
    mesh = Mesh(x=2, name="m")
    text = 'sdy.mesh @m = <["x"=2]>\nfunc.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) {return}\n'
    graph = modules.read(load_module(text))
    lift_inlined_meshes(graph)
    assert graph.meshes == {"m": mesh}
    assert graph.shardings == [TensorSharding.of(mesh, [["x"]])]

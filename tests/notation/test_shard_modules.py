"""Modules in upstream's `shard` dialect: what becomes what in sdy and back, and what is refused, at which line."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.texts import to_custom
from shardwright.notation.shard.dialect.tables import SHARD
from shardwright.notation.shard.modules import export_module
from tests.notation.shard_texts import ANNOTATED, STRUCTURED, exported, imported, in_module


@pytest.mark.parametrize("text", [ANNOTATED, STRUCTURED], ids=["annotations", "structure"])
def test_canonical_text_goes_through_sdy_unchanged(text: str) -> None:
    assert exported(imported(text)) == text


def test_a_grid_may_have_a_name_in_quotes() -> None:
    text = ANNOTATED.replace("@g", '@"my grid"')
    assert exported(imported(text)) == text


def test_annotations_become_what_sdy_calls_them() -> None:
    text = imported(ANNOTATED)
    assert "shard." not in text.replace("!shard", "")
    assert 'sdy.mesh @g = <["axis_0"=2, "axis_1"=4]>' in text
    assert '%arg0: tensor<4x8xf32> {shardwright.sharding = "mesh.sharding @g split_axes = [[0], []] halo_sizes' in text
    assert "%arg2: tensor<f32> {sdy.sharding = #sdy.sharding<@g, []>}" in text
    assert '-> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}, {"axis_1"}]>}' in text
    assert '<@g, [{"axis_0"}, {"axis_1", ?}]>' in text
    assert "unreduced=max" in text


def test_what_loses_its_op_at_import_is_gone_and_constants_are_folded() -> None:
    text = imported(
        """
        shard.grid @g(shape = 4)
        shard.grid @unknown(shape = 2x?)
        func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
          %one = arith.constant 1 : i64
          %s = shard.sharding @g split_axes = [[0]] halo_sizes = [%one, %one] : !shard.sharding
          %unused = shard.sharding @g split_axes = [[]] : !shard.sharding
          %0 = shard.shard %a to %s : tensor<8xf32>
          %again = shard.shard %0 to %s : tensor<8xf32>
          %q = shard.get_sharding %again : tensor<8xf32> -> !shard.sharding
          %1 = stablehlo.negate %again : tensor<8xf32>
          %2 = shard.shard %1 to %q : tensor<8xf32>
          %3 = stablehlo.negate %2 : tensor<8xf32>
          return %3 : tensor<8xf32>
        }
        """
    )
    assert "arith.constant" not in text
    assert 'shard.sharding"' not in text
    assert text.count("halo_sizes = [1, 1]") == 2
    assert '"shard.grid"' in text  # of unknown size, and nobody asks for it


def test_an_argument_of_a_region_is_constrained_for_all_its_users() -> None:
    text = imported(
        """
        shard.grid @g(shape = 2)
        func.func @main(%a: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
          %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
          %0:2 = stablehlo.while(%x = %a, %c = %p) : tensor<4xf32>, tensor<i1>
          cond {
            stablehlo.return %c : tensor<i1>
          } do {
            %n = stablehlo.negate %x : tensor<4xf32>
            %1 = shard.shard %x to %s : tensor<4xf32>
            %m = stablehlo.add %1, %n : tensor<4xf32>
            stablehlo.return %m, %c : tensor<4xf32>, tensor<i1>
          }
          return %0#0 : tensor<4xf32>
        }
        """
    )
    constraint, negate, add = [line.strip() for line in text.splitlines() if 'axis_0"}' in line or "%3" in line][:3]
    assert constraint == '%1 = sdy.sharding_constraint %iterArg <@g, [{"axis_0"}]> : tensor<4xf32>'
    assert (negate, add) == (
        "%3 = stablehlo.add %1, %2 : tensor<4xf32>",
        "stablehlo.return %3, %iterArg_0 : tensor<4xf32>, tensor<i1>",
    )


def test_a_program_of_one_device_is_left_as_it_is() -> None:
    text = in_module(
        """\
shard.grid @g(shape = 2x4)
func.func @main(%arg0: tensor<2x3xf32>) -> tensor<2x12xf32> {
  %0 = shard.all_gather %arg0 on @g grid_axes = [1] gather_axis = 1 : tensor<2x3xf32> -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}"""
    )
    assert to_custom(imported(text), [SHARD]) == text


def test_what_a_called_function_returns_is_constrained_where_it_is_computed() -> None:
    text = imported(
        """
        shard.grid @g(shape = 2)
        func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
          %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
          %0 = shard.shard %a to %s annotate_for_users : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
          %0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
          %1 = shard.shard %0 to %s annotate_for_users : tensor<4xf32>
          return %1, %1 : tensor<4xf32>, tensor<4xf32>
        }
        """
    )
    assert text.count("sdy.sharding_constraint %arg0") == 1
    result = 'tensor<4xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}]>}'
    assert f"-> ({result}, {result}) {{" in text


def test_ops_of_several_results_and_unknown_sizes_are_annotated() -> None:
    text = imported(
        """
        shard.grid @g(shape = 2)
        func.func @main(%a: tensor<4xf32>, %b: tensor<?x4xf32>) -> tensor<4xf32> {
          %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
          %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
          %b1 = shard.shard %b to %s : tensor<?x4xf32>
          %0:2 = "stablehlo.optimization_barrier"(%a, %b1) : (tensor<4xf32>, tensor<?x4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>)
          %1 = shard.shard %0#1 to %s : tensor<?x4xf32>
          %2:2 = "user.op"() : () -> (tensor<4xf32>, i32)
          %3 = shard.shard %2#0 to %h : tensor<4xf32>
          %4 = stablehlo.add %0#0, %3 : tensor<4xf32>
          return %4 : tensor<4xf32>
        }
        """
    )
    assert '%arg1: tensor<?x4xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}, {}]>}' in text
    assert 'sdy.sharding = #sdy.sharding_per_value<[<@g, [{?}]>, <@g, [{"axis_0"}, {}]>]>' in text
    assert '["mesh.sharding @g split_axes = [[0]] halo_sizes = [1, 1]", "#sdy.sharding<@g, []>"]' in text


def in_main(body: str, grid: str = "shard.grid @g(shape = 2x4)") -> str:
    return (
        f"{grid}\nfunc.func @main(%a: tensor<8x12xf32>, %h: i64, %v: !shard.sharding) -> tensor<8x12xf32> {{\n"
        f"{body}\nreturn %a : tensor<8x12xf32>\n}}\n"
    )


S = "%s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
T = "%t = shard.sharding @g split_axes = [[1]] : !shard.sharding\n"
TO = ": tensor<8x12xf32>"


@pytest.mark.parametrize(
    ("text", "message", "cause", "op", "line"),
    [
        (
            in_main(f"{S}{T}%1 = shard.shard %a to %s {TO}\n%2 = shard.shard %1 to %t {TO}"),
            "two shardings are given to one value",
            "[{axis_0}, {}] at program.mlir:5, [{axis_1}, {}] at program.mlir:6",
            "shard.shard",
            6,
        ),
        (
            in_main(S + f"%1 = shard.shard %a to %s {TO}", "shard.grid @g(shape = 2x?)"),
            "the sizes of grid @g are not known",
            "known at run time only",
            "shard.sharding",
            3,
        ),
        (
            in_main("%s = shard.sharding @g split_axes = [[0]] halo_sizes = [1, %h] : !shard.sharding"),
            "halo_sizes are known at run time only",
            "made by an argument",
            "shard.sharding",
            3,
        ),
        (
            in_main(f"%1 = shard.shard %a to %v {TO}"),
            "the sharding is not known where the module is read",
            "no result of shard.sharding",
            "shard.shard",
            3,
        ),
        (
            in_main("%q = shard.get_sharding %a : tensor<8x12xf32> -> !shard.sharding"),
            "the sharding that shard.get_sharding asks for is not known",
            "no shard.shard before it",
            "shard.get_sharding",
            3,
        ),
        (
            in_main(f"{S}%1 = shard.shard %a to %s {TO}\n%i = shard.process_linear_index on @g : index"),
            "the module has both shard.shard and shard.process_linear_index",
            "shard.shard at program.mlir:4",
            "shard.process_linear_index",
            5,
        ),
        (
            in_main(S + '"user.op"(%s) : (!shard.sharding) -> ()'),
            "user.op uses a sharding as a value",
            "made at program.mlir:3",
            "user.op",
            4,
        ),
        (
            in_main(f"%s = shard.sharding @g split_axes = [[], [], [0]] : !shard.sharding\n%1 = shard.shard %a to %s {TO}"),
            "3 lists of split axes are given to a tensor of 2 dimensions",
            "",
            "shard.shard",
            4,
        ),
        (
            in_main(
                "%s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 3, 9] : !shard.sharding\n"
                f"%1 = shard.shard %a to %s {TO}"
            ),
            "offsets of dimension 0 end at 9, its size is 8",
            "",
            "shard.shard",
            4,
        ),
        (
            in_main(f"{S}%1 = shard.shard %a to %s {{open = array<i64: 2>}} {TO}"),
            "open = [2] on a shard.shard",
            "",
            "shard.shard",
            4,
        ),
        (
            in_main(f"{S}%1 = shard.shard %a to %s {{replicated = array<i64: 0>}} {TO}"),
            "mesh axis 'axis_0' is used twice",
            "",
            "shard.shard",
            4,
        ),
        (
            in_main(f"%s = shard.sharding @g split_axes = [[], [0, 1]] : !shard.sharding\n"
                    f"%1 = shard.shard %a to %s {{open}} {TO}"),
            "cannot express open dimensions",
            "offsets={1: [0, 1,",
            "shard.shard",
            4,
        ),
        (
            in_main('%b = "user.op"() : () -> tensor<?x7xf32>\n%s = shard.sharding @g split_axes = [[], [0]] : '
                    "!shard.sharding\n%1 = shard.shard %b to %s : tensor<?x7xf32>"),
            "dimension 1 of tensor<?x7xf32> does not split evenly",
            "",
            "shard.shard",
            5,
        ),
        (in_main("", 'shard.grid @g(shape = 2x4) {axis_names = ["x"]}'), "do not name 2 axes", "", "shard.grid", 1),
(
            in_main("", r'shard.grid @"a\22b"(shape = 2)'),
            "cannot be written in a sharding",
            "",
            "shard.grid",
            1,
        ),
        (
            in_main(f"{S}%0 = stablehlo.negate %a {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{}}, {{}}]>]>}} {TO}\n"
                    f"%1 = shard.shard %0 to %s {TO}",
                    'shard.grid @g(shape = 2x4) sdy.mesh @m = <["x"=8]>'),
            "stablehlo.negate has a sharding of its own already",
            "it stands at program.mlir:4",
            "shard.shard",
            5,
        ),
    ],
)  # fmt: skip
def test_import_refuses_with_op_and_line(text: str, message: str, cause: str, op: str, line: int) -> None:
    with pytest.raises(ShardingError) as caught:
        imported(text)
    diagnostic = caught.value.diagnostic
    assert message in diagnostic.message
    assert cause in diagnostic.cause
    assert (diagnostic.op, diagnostic.location) == (op, f"program.mlir:{line}")
    assert diagnostic.remedy


def of_sdy(body: str = "", argument: str = "", mesh: str = '<["x"=4, "y"=2]>') -> str:
    note = f" {{sdy.sharding = #sdy.sharding<{argument}>}}" if argument else ""
    return (
        f"sdy.mesh @m = {mesh}\nfunc.func @main(%a: tensor<8x8xf32>{note}) -> tensor<8x8xf32> {{\n"
        f"{body}\nreturn %a : tensor<8x8xf32>\n}}\n"
    )


MANUAL = (
    '%0 = sdy.manual_computation(%a) in_shardings=[<@m, [{"x"}, {}]>] out_shardings=[<@m, [{"x"}, {}]>] '
    'manual_axes={"x"} (%b: tensor<2x8xf32>) { sdy.return %b : tensor<2x8xf32> } : (tensor<8x8xf32>) -> tensor<8x8xf32>'
)
NAMED = (
    '%0 = sdy.named_computation<"f">(%a) (%b: tensor<8x8xf32>) { sdy.return %b : tensor<8x8xf32> } '
    ": (tensor<8x8xf32>) -> tensor<8x8xf32>"
)


@pytest.mark.parametrize(
    ("text", "message", "op", "line"),
    [
        (of_sdy(mesh="<[], device_ids=[3]>"), "the mesh @m without axes", "sdy.mesh", 1),
        (of_sdy(mesh='<["x"=2], device_ids=[1, 0]>'), "the device order of the mesh @m", "sdy.mesh", 1),
        (of_sdy(argument='@m, [{"x":(1)2}, {}]'), "parts of a mesh axis", "func.func", 2),
        (of_sdy(argument='@m, [{?}, {}], replicated={"x":(2)2}'), "parts of a mesh axis", "func.func", 2),
        (of_sdy(argument='@m, [{"x"}p1, {}]'), "priorities", "func.func", 2),
        (of_sdy(argument='mesh<["x"=4]>, [{"x"}, {}]'), "a mesh without a name", "func.func", 2),
        (of_sdy(MANUAL), "cannot express sdy.manual_computation", "sdy.manual_computation", 3),
        (of_sdy(NAMED), "cannot express sdy.named_computation", "sdy.named_computation", 3),
        (of_sdy("sdy.sharding_group %a group_id=1 : tensor<8x8xf32>"), "sdy.sharding_group", "sdy.sharding_group", 3),
        (
            of_sdy("%0 = sdy.propagation_barrier %a allowed_direction=NONE : tensor<8x8xf32>"),
            "sdy.propagation_barrier",
            "sdy.propagation_barrier",
            3,
        ),
        (
            of_sdy(
                "%0 = stablehlo.optimization_barrier %a : tensor<8x8xf32>\n%1 = sdy.data_flow_edge %0 : tensor<8x8xf32>"
            ),
            "sdy.data_flow_edge",
            "sdy.data_flow_edge",
            4,
        ),
        (
            'sdy.mesh @m = <["x"=2]>\nfunc.func private @f(tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>})\n',
            "a function without a body has shardings",
            "func.func",
            2,
        ),
    ],
)
def test_export_refuses_with_op_and_line_and_changes_nothing(text: str, message: str, op: str, line: int) -> None:
    module = load_module(text, "program.mlir")
    before = module_text(module)
    with pytest.raises(ShardingError) as caught:
        export_module(module, "program.mlir")
    diagnostic = caught.value.diagnostic
    assert message in diagnostic.message
    assert (diagnostic.op, diagnostic.location) == (op, f"program.mlir:{line}")
    assert diagnostic.cause
    assert diagnostic.remedy
    assert module_text(module) == before


def test_collectives_between_ops_become_annotations_for_users() -> None:
    text = exported(
        'sdy.mesh @m = <["axis_0"=2]>\n'
        'func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0"}, {}]>}) -> tensor<8x8xf32> {\n'
        '  %0 = sdy.all_gather [{"axis_0"}, {}] %a out_sharding=<@m, [{}, {}]> : tensor<8x8xf32>\n'
        "  %1 = stablehlo.negate %0 : tensor<8x8xf32>\n"
        '  %2 = sdy.all_slice [{}, {"axis_0"}] %1 out_sharding=<@m, [{}, {"axis_0"}]> : tensor<8x8xf32>\n'
        "  %3 = stablehlo.negate %2 : tensor<8x8xf32>\n"
        "  return %3 : tensor<8x8xf32>\n}\n"
    )
    assert "sdy." not in text
    assert text.count("annotate_for_users") == 2
    assert text.count("= shard.sharding") == 3

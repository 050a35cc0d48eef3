"""Programs come from every encoding, and each way of being wrong ends in a diagnostic with a position."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.load import load_source, parse_source
from shardwright.ir.context import context, load_module, stablehlo
from shardwright.notation import modules

MESH = '\nsdy.mesh @mesh = <["data"=2, "model"=4]>\n'

PROGRAM = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}
"""


def refused(content: str | bytes) -> Diagnostic:
    with pytest.raises(ShardingError) as caught:
        parse_source(content, "step.mlir")
    return caught.value.diagnostic


def sharded(sharding: str) -> str:
    return PROGRAM.replace('[{"data"}, {}]', sharding)


def bytecode(text: str) -> bytes:
    file = io.BytesIO()
    load_module(text).operation.write_bytecode(file)
    return file.getvalue()


def artifact(text: str) -> bytes:
    with context():
        return bytes(stablehlo.serialize_portable_artifact(load_module(text), "1.9.0", True))


@pytest.mark.parametrize("encode", [str.encode, bytecode, artifact])
def test_every_encoding_gives_the_same_program(encode: Callable[[str], bytes], tmp_path: Path) -> None:
    file = tmp_path / "step.mlir"
    file.write_bytes(encode(PROGRAM))
    graph = load_source(file).graph
    assert [op.name for op in graph.walk()] == ["stablehlo.dot_general", "func.return"]
    assert repr(graph.shardings[graph.main.block.arguments[0]]) == "[{data}, {}]"


def test_a_string_with_a_line_break_is_text_and_any_other_a_path() -> None:
    assert load_source(PROGRAM).name == "-"
    with pytest.raises(ShardingError, match=r"there is no file 'module \{\}'"):
        load_source("module {}")


def test_arguments_have_the_names_that_the_text_gives_them() -> None:
    assert load_source(PROGRAM).graph.main.argument_names == ["x", "w"]


def test_numbered_arguments_are_called_by_position() -> None:
    numbered = PROGRAM.replace("%x", "%7").replace("%w", "%x")
    assert load_source(numbered).graph.main.argument_names == ["arg0", "x"]


def test_names_in_locations_win_over_those_of_the_text() -> None:
    located = PROGRAM.replace("%w: tensor<64x64xf32>", "%w: tensor<64x64xf32> loc(\"params['w']\")")
    assert load_source(located).graph.main.argument_names == ["arg0", "params/w"]


def test_the_content_is_kept_untouched() -> None:
    assert load_source(PROGRAM).content == PROGRAM


def test_a_missing_file() -> None:
    with pytest.raises(ShardingError) as caught:
        load_source(Path("no/such/file.mlir"))
    diagnostic = caught.value.diagnostic
    assert (diagnostic.location, diagnostic.cause) == ("no/such/file.mlir", "No such file or directory")
    assert diagnostic.remedy


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ShardingError, match="cannot read"):
        load_source(tmp_path)


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"ML\xefR and no more", "\n"])
def test_what_is_no_program(content: str | bytes) -> None:
    diagnostic = refused(content)
    assert diagnostic.location.startswith("step.mlir")
    assert diagnostic.cause
    assert diagnostic.remedy


def test_nothing_is_printed_while_reading_fails(capfd: pytest.CaptureFixture[str]) -> None:
    refused(b"ML\xefR and no more")
    assert capfd.readouterr() == ("", "")


def test_malformed_text_says_where_the_parser_stopped() -> None:
    diagnostic = refused(PROGRAM.replace("dot_general", "dot_generally"))
    assert diagnostic.location == "step.mlir:6:8"
    assert "stablehlo.dot_generally" in diagnostic.message


def test_nesting_deeper_than_the_parser_survives() -> None:
    diagnostic = refused("func.func @main() {\n" + '"a.b"() ({\n' * 5000)
    assert diagnostic.message == "regions or brackets are nested more than 800 deep"
    assert diagnostic.location.startswith("step.mlir:")


def test_an_unknown_mesh() -> None:
    diagnostic = refused(PROGRAM.replace("<@mesh,", "<@mash,"))
    assert (diagnostic.message, diagnostic.location) == ("unknown mesh @mash", "step.mlir:4:5")
    assert diagnostic.op == "argument 0 of func.func"
    assert "@mesh" in diagnostic.cause


def test_an_unknown_axis_comes_with_the_one_that_was_meant() -> None:
    diagnostic = refused(sharded('[{"modle"}, {}]'))
    assert (diagnostic.message, diagnostic.location) == ("unknown mesh axis 'modle'", "step.mlir:4:5")
    assert diagnostic.remedy == "did you mean 'model'?"


def test_an_axis_used_twice() -> None:
    diagnostic = refused(sharded('[{"model"}, {"model"}]'))
    assert diagnostic.message == 'mesh axis "model" is used twice in one sharding'
    assert diagnostic.location == "step.mlir:4:5"
    assert diagnostic.cause
    assert diagnostic.remedy


def test_more_entries_than_dimensions() -> None:
    diagnostic = refused(sharded('[{"model"}, {"data"}, {}]'))
    assert diagnostic.message == "a sharding of 3 dimensions is given to a tensor of 2"
    assert diagnostic.location == "step.mlir:4:5"
    assert diagnostic.remedy == "give 2 entries"


def test_the_second_argument_is_found_on_its_own_line() -> None:
    other = PROGRAM.replace("%w: tensor<64x64xf32>", "%w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, []>}")
    assert refused(other).location == "step.mlir:5:5"


def test_an_op_with_a_python_location_is_found_in_the_module() -> None:
    constraint = (
        '  %z = sdy.sharding_constraint %y <@mesh, [{"nope"}, {}]> : tensor<16x64xf32> loc(#loc3)\n'
        "  return %z : tensor<16x64xf32>\n}\n"
        '#loc1 = loc("train (\\").py":3:4)\n#loc3 = loc("jit(f)/(a)"(#loc1))\n'
    )
    diagnostic = refused(PROGRAM.replace("  return %y : tensor<16x64xf32>\n}\n", constraint))
    assert (diagnostic.message, diagnostic.location) == ("unknown mesh axis 'nope'", "step.mlir:8:8")


def test_dynamic_shapes() -> None:
    diagnostic = refused("\nfunc.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> { return %x : tensor<?x4xf32> }")
    assert "tensor<?x4xf32> is not a tensor of static shape" in diagnostic.message
    assert diagnostic.location == "step.mlir:2"
    assert diagnostic.remedy == "lower the program with concrete shapes"


OTHER = 'sdy.mesh @other = <["x"=3]>\n'


def test_two_meshes_of_different_size() -> None:
    named = "  %z = sdy.sharding_constraint %y <@other, [{}, {}]> : tensor<16x64xf32>\n  return %z"
    diagnostic = refused(PROGRAM.replace(MESH, MESH + OTHER).replace("  return %y", named))
    assert diagnostic.message == "the module has meshes of different size"
    assert diagnostic.location == "step.mlir:3"
    assert diagnostic.cause == "devices: @mesh of 8, @other of 3"
    assert diagnostic.remedy


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("text", [PROGRAM.replace(MESH, MESH + OTHER), OTHER + PROGRAM], ids=["behind", "in front"])
def test_a_mesh_of_another_size_that_nothing_names_does_not_count(
    monkeypatch: pytest.MonkeyPatch, text: str, large: bool
) -> None:
    if large:
        monkeypatch.setattr(modules, "LARGE", 100)
    source = parse_source(text, "step.mlir")
    assert [*source.graph.meshes] == ["mesh"]
    assert "@other" not in str(source.content)


def test_a_mesh_of_the_same_size_that_nothing_names_stays() -> None:
    source = parse_source(PROGRAM.replace(MESH, MESH + OTHER.replace("3", "8")), "step.mlir")
    assert [*source.graph.meshes] == ["mesh", "other"]


def test_a_mesh_that_a_collective_names_counts() -> None:
    groups = '#stablehlo.replica_group_mesh_axes<mesh = @other, axes = [#stablehlo.axis_ref<name = "x">]>'
    gather = f"""  %z = "stablehlo.all_gather"(%y) <{{all_gather_dim = 0 : i64, replica_groups = {groups},
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}>
      : (tensor<16x64xf32>) -> tensor<48x64xf32>
  return %y"""
    diagnostic = refused(PROGRAM.replace(MESH, MESH + OTHER).replace("  return %y", gather))
    assert diagnostic.message == "the module has meshes of different size"


def test_of_meshes_none_of_which_is_named_any_may_be_meant() -> None:
    text = MESH + OTHER + "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"
    assert refused(text).message == "the module has meshes of different size"


def test_a_diagnostic_is_aligned_text() -> None:
    assert str(refused(sharded('[{"modle"}, {}]'))) == textwrap.dedent("""\
        step.mlir:4:5: error: unknown mesh axis 'modle'
          op:     argument 0 of func.func
          why:    @mesh has data, model
          change: did you mean 'model'?""")

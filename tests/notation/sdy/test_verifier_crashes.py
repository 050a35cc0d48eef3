"""What jaxlib's verifier dies of, in every way to write it; and what only looks like it."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.notation.sdy.verifier_crashes import refuse_verifier_crashes
from tests.notation.sdy.wrong import MARK, MESHES, TYPE, body
from tests.oracles.shardy import ShardyFailure, run_batch

_PART = '"c":(4294967296)4294967296'
_REGION = f"({{\n  ^bb0(%q: {TYPE}):\n    sdy.return %q : {TYPE}\n  }}) : ({TYPE}) -> {TYPE}"
_MANUAL = f"(%q: {TYPE}) {{\n    sdy.return %q : {TYPE}\n  }} : ({TYPE}) -> {TYPE}"
_ONE = "#sdy.sharding_per_value<[<@one, []>]>"

_WAYS = {
    "a part in a constraint": f"  %0 = sdy.sharding_constraint %x <@mesh, [{{{_PART}}}, {{}}]> : {TYPE}",
    "a part of a replicated axis": f"  %0 = sdy.sharding_constraint %x <@mesh, [{{}}, {{}}], replicated={{{_PART}}}> : {TYPE}",
    "a part with spaces": f'  %0 = sdy.reshard %x <@mesh, [{{"c" : ( 4294967296 ) 4294967296}}, {{}}]> : {TYPE}',
    "a part below a part": f'  %0 = sdy.reshard %x <@mesh, [{{"c":(1)2, "c":(8589934592)2147483648}}, {{}}]> : {TYPE}',
    "a mesh spelt out": '  %0 = sdy.manual_computation(%x) in_shardings=[<mesh<["p"=4294967296, "q"=4294967296]>, [{"p", "q"}, {}]>]'
    f' {MARK}\n      out_shardings=[<mesh<["p"=4294967296, "q"=4294967296]>, [{{"p", "q"}}, {{}}]>] manual_axes={{"p", "q"}} {_MANUAL}',
    "one device, results alone": "  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@one, []>]"
    f" {MARK}\n      manual_axes={{}} {_MANUAL}",
    "one device over several lines": f"  %0 = sdy.manual_computation(%x) {MARK}\n      in_shardings=[<@one, []>]\n"
    f"      out_shardings=[<@one, []>]\n      manual_axes={{}} {_MANUAL}",
    "one device in generic form": f'  %0 = "sdy.manual_computation"(%x) <{{in_shardings = {_ONE}, manual_axes = #sdy<manual_axes{{}}>, {MARK}\n'
    f"      out_shardings = {_ONE}}}> {_REGION}",
    "one device by an alias": f'  %0 = "sdy.manual_computation"(%x) <{{in_shardings = #one, manual_axes = #sdy<manual_axes{{}}>, {MARK}\n'
    f"      out_shardings = #one}}> {_REGION}",
    "a slice in generic form": '  %0 = "sdy.all_slice"(%x) <{out_sharding = #sdy.sharding<@one, []>, '
    f"slicing_axes = #sdy<list_of_axis_ref_lists[]>}}> : ({TYPE}) -> {TYPE}",
    "a slice onto a device spelt out": f"  %0 = sdy.all_slice [] %x out_sharding=<mesh<[], device_ids=[5]>, []> : {TYPE}",
}


def _wrong(lines: str) -> tuple[str, int]:
    wrong = body(lines, "")
    return f"#one = {_ONE} {wrong.text}", wrong.line


@pytest.mark.parametrize("lines", _WAYS.values(), ids=_WAYS)
def test_it_is_refused_at_its_line(lines: str) -> None:
    text, line = _wrong(lines)
    with pytest.raises(ShardingError) as error:
        refuse_verifier_crashes(text, "f.mlir")
    diagnostic = error.value.diagnostic
    assert diagnostic.location == f"f.mlir:{line}"
    assert diagnostic.cause
    assert diagnostic.remedy


@pytest.mark.oracle
def test_the_peer_dies_of_each() -> None:
    answers = run_batch([(_wrong(lines)[0], "builtin.module()") for lines in _WAYS.values()])
    alive = [
        f"{way}: {answer}"
        for way, answer in zip(_WAYS, answers, strict=True)
        if not isinstance(answer, ShardyFailure) or not answer.message.startswith("exit -")
    ]
    assert not alive


_GENERIC_MESH = """\
"builtin.module"() ({
  "sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "the one"}> : () -> ()
  "func.func"() <{function_type = (tensor<8xf32>) -> (), sym_name = "main"}> ({
  ^bb0(%x: tensor<8xf32>):
    %0 = "sdy.all_slice"(%x) <{out_sharding = #sdy.sharding<@"the one", []>, slicing_axes = #sdy<list_of_axis_ref_lists[]>}>
        : (tensor<8xf32>) -> tensor<8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_a_mesh_of_one_device_is_known_in_generic_form() -> None:
    with pytest.raises(ShardingError, match="one device"):
        refuse_verifier_crashes(_GENERIC_MESH)


@pytest.mark.parametrize(
    "line",
    [
        f"  // sdy.reshard along {_PART}",
        f'  %0 = stablehlo.custom_call @f(%x) {{backend_config = "{{\\"c\\":(4294967296)4294967296}}"}} : ({TYPE}) -> {TYPE}',
        '  // <["a"=4294967296, "b"=4294967296]>',
        "  // sdy.all_slice [] %x out_sharding=<@one, []>",
        f'  %0 = stablehlo.custom_call @f(%x) {{backend_config = "sdy.all_slice <@one, []>"}} : ({TYPE}) -> {TYPE}',
        f"  %0 = sdy.sharding_constraint %x <@one, []> : {TYPE}",
        f'  %0 = sdy.all_slice [{{"a"}}, {{}}] %x out_sharding=<@mesh, [{{"a"}}, {{}}]> : {TYPE} // <@one, []>',
        "  %0 = sdy.all_slice [] %x out_sharding=<@one, [",
    ],
)
def test_other_text_is_left_alone(line: str) -> None:
    refuse_verifier_crashes(f"{MESHES}func.func @main(%x: {TYPE}) {{\n{line}\n  return\n}}\n")

"""Where the passes before propagation refuse a module, or do otherwise than the C++ ones: docs/differences.md."""

from __future__ import annotations

import re

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes import call_graph, import_func_calls
from shardwright.passes.pipeline import parse_pipeline, run_step
from tests.passes.import_programs import hand_written

_T = "tensor<8xf32>"
_MAIN = f"func.func @main(%a: {_T}) -> {_T} {{\n  %0 = call @f(%a) : ({_T}) -> {_T}\n  return %0 : {_T}\n}}\n"
_RING = (
    _MAIN
    + f"func.func private @f(%a: {_T}) -> {_T} {{\n  %0 = call @g(%a) : ({_T}) -> {_T}\n  return %0 : {_T}\n}}\n"
    + f"func.func private @g(%a: {_T}) -> {_T} {{\n  %0 = call @f(%a) : ({_T}) -> {_T}\n  return %0 : {_T}\n}}\n"
)


def _run(text: str, passes: str) -> str:
    module = load_module(text)
    for step in parse_pipeline(f"builtin.module({passes})"):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


@pytest.mark.parametrize("name", ["sdy-flatten-call-graph", "sdy-import-func-calls"])
def test_recursion_is_refused_at_the_call(name: str) -> None:
    with pytest.raises(ShardingError, match="is recursive") as caught:
        _run(_RING, name)
    assert re.fullmatch(r"-:\d+:\d+", caught.value.diagnostic.location)
    assert caught.value.diagnostic.op == "func.call"
    assert caught.value.diagnostic.remedy


def test_recursive_functions_are_ordered_all_the_same() -> None:
    assert re.findall(r"func\.func (?:private )?@(\w+)", _run(_RING, "sdy-pre-order-funcs")) == ["main", "f", "g"]


def _doubling(levels: int) -> str:
    """Each function calls the next one twice."""
    functions = [
        f"func.func @f{level}(%a: {_T}) -> {_T} {{\n  %0 = call @f{level + 1}(%a) : ({_T}) -> {_T}\n"
        f"  %1 = call @f{level + 1}(%0) : ({_T}) -> {_T}\n  return %1 : {_T}\n}}"
        for level in range(levels)
    ]
    return "\n".join([*functions, f"func.func @f{levels}(%a: {_T}) -> {_T} {{\n  return %a : {_T}\n}}"])


def test_calls_that_double_at_every_level_are_refused_before_memory_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_graph, "_MOST_COPIES", 200)
    with pytest.raises(ShardingError, match="more than 200 copies"):
        _run(_doubling(40), "sdy-flatten-call-graph")
    monkeypatch.setattr(import_func_calls, "_MOST_OPS", 2_000)
    with pytest.raises(ShardingError, match="ops with those of all that it calls"):
        _run(_doubling(40), "sdy-import-func-calls")


def test_a_chain_of_calls_too_deep_for_nesting_is_refused() -> None:
    functions = [
        f"func.func @f{level}(%a: {_T}) -> {_T} {{\n  %0 = call @f{level + 1}(%a) : ({_T}) -> {_T}\n  return %0 : {_T}\n}}"
        for level in range(400)
    ]
    text = "\n".join([*functions, f"func.func @f400(%a: {_T}) -> {_T} {{\n  return %a : {_T}\n}}"])
    with pytest.raises(ShardingError, match="nested more than 300 deep"):
        _run(text, "sdy-import-func-calls")


def test_calls_of_declared_functions_stay_calls() -> None:
    text = _run(_MAIN + f"func.func private @f({_T}) -> {_T}\n", "sdy-import-func-calls")
    assert "call @f(" in text
    assert "func.func private @f(" in text


def test_a_declared_function_is_no_constant_expression() -> None:
    declared = f"func.func private @f({_T}) -> {_T}\n"
    main = _MAIN.replace("%0 = call @f(%a)", f"%c = stablehlo.constant dense<1.0> : {_T}\n  %0 = call @f(%c)")
    used_twice = main.replace(
        f"return %0 : {_T}", f"%1 = stablehlo.add %0, %a : {_T}\n  %2 = stablehlo.add %0, %1 : {_T}\n  return %2 : {_T}"
    )
    assert _run(used_twice + declared, "sdy-constant-or-scalar-splitter").count("call @f(") == 1


def test_a_function_that_a_composite_names_stays_when_its_calls_are_imported() -> None:
    main = _MAIN.replace(
        f"  return %0 : {_T}",
        f'  %1 = stablehlo.composite "my.op" %0 {{decomposition = @f}} : ({_T}) -> {_T}\n  return %1 : {_T}',
    )
    function = f"func.func private @f(%a: {_T}) -> {_T} {{\n  %0 = stablehlo.abs %a : {_T}\n  return %0 : {_T}\n}}\n"
    text = _run(main + function, "sdy-import-func-calls")
    assert text.count("stablehlo.abs") == 2
    assert 'sdy.named_computation<"f">' in text
    assert "func.func private @f(" in text


def test_edges_are_added_once() -> None:
    text = hand_written("edges")
    once = _run(text, "sdy-add-data-flow-edges")
    assert _run(once, "sdy-add-data-flow-edges") == once
    assert "sdy.data_flow_edge" in once
    called = _run(hand_written("calls"), "sdy-add-func-data-flow-edges")
    assert _run(called, "sdy-add-func-data-flow-edges") == called


def test_edges_of_functions_need_an_entry() -> None:
    text = _RING.replace("@main", "@first")
    with pytest.raises(ShardingError, match="no function called main"):
        _run(text, "sdy-add-func-data-flow-edges")


def test_a_mesh_that_replica_groups_name_stays_inlined() -> None:
    text = _run(hand_written("meshes"), "sdy-inline-meshes")
    assert re.findall(r"sdy\.mesh @(\w+)", text) == ["mesh_1"]
    assert "<@mesh" not in text


def test_meshes_of_replica_groups_are_lifted_to_the_mesh_there_is_and_keep_their_devices() -> None:
    text = """
sdy.mesh @m = <["a"=2]>
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<
    mesh = #stablehlo.mesh<axes=[<name = "a", size = 2>]>, axes = [#stablehlo.axis_ref<name = "a">]>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>
    : (tensor<8xf32>) -> tensor<16xf32>
  %1 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<
    mesh = #stablehlo.mesh<axes=[<name = "a", size = 2>], device_ids=dense<[1, 0]> : tensor<2xi64>>,
    axes = [#stablehlo.axis_ref<name = "a">]>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>
    : (tensor<8xf32>) -> tensor<16xf32>
  return %a : tensor<8xf32>
}"""
    lifted = _run(text, "sdy-lift-inlined-meshes")
    assert 'sdy.mesh @mesh = <["a"=2], device_ids=[1, 0]>' in lifted
    assert lifted.count("sdy.mesh @") == 2
    assert re.findall(r"<mesh = (@\w+),", lifted) == ["@m", "@mesh"]


_CARRIED = """
sdy.mesh @m = <["a"=2, "b"=2]>
sdy.mesh @n = <["a"=2, "b"=2]>
func.func @f(%a: tensor<8xf32> {shardwright.sharding = "#sdy.sharding<@n, [{\\22a\\22}], unreduced=max{\\22b\\22}>"}) {
  return
}"""


def test_carriers_keep_a_mesh_that_there_is() -> None:
    lifted = _run(_CARRIED, "sdy-lift-inlined-meshes")
    assert re.findall(r"sdy\.mesh @(\w+)", lifted) == ["m"]
    assert "@n" not in lifted
    assert "sdy.sharding<@m, [{" in lifted
    assert re.findall(r"sdy\.mesh @(\w+)", _run(_CARRIED, "sdy-inline-meshes")) == ["m", "n"]


_GROUPED = """
sdy.mesh @mesh = <["a"=2]>
func.func @f(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {{
  sdy.sharding_group %a group_id=7 : tensor<8xf32>
  {0}
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"a"}}]>] out_shardings=[<@mesh, [{{"a"}}]>]
      manual_axes={{"a"}} (%i: tensor<4xf32>) {{
    {1}
    sdy.return %i : tensor<4xf32>
  }} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}"""


@pytest.mark.parametrize(
    ("outside", "inside", "message"),
    [
        ("sdy.sharding_group %b group_id=7 : tensor<4xf32>", "", "values must have the same shape for groupId: 7"),
        ("", "sdy.sharding_group %i group_id=7 : tensor<4xf32>", "cannot cross ManualComputationOp boundaries"),
    ],
)
def test_groups_that_cannot_be_are_refused_at_the_op(outside: str, inside: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as caught:
        _run(_GROUPED.format(outside, inside), "sdy-sharding-group-import")
    assert caught.value.diagnostic.location == f"-:{5 if outside else 8}:{3 if outside else 5}"


def test_a_constraint_on_the_argument_of_a_reductions_body_is_left_alone() -> None:
    text = """
sdy.mesh @mesh = <["a"=2]>
func.func @f(%a: tensor<8xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %c = sdy.sharding_constraint %x <@mesh, []> : tensor<f32>
    %s = stablehlo.add %c, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }
  return %0 : tensor<f32>
}"""
    assert _run(text, "sdy-apply-sharding-constraints") == module_text(load_module(text))


def test_manual_computations_over_different_meshes_are_refused() -> None:
    text = """
sdy.mesh @mesh = <["a"=2]>
sdy.mesh @other = <["a"=4]>
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}]>] out_shardings=[<@other, [{}]>] manual_axes={}
      (%i: tensor<8xf32>) {
    sdy.return %i : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    with pytest.raises(ShardingError, match="different meshes"):
        _run(text, "sdy-manual-axes-cleanup")


_NAMES = (
    "sdy-add-data-flow-edges",
    "sdy-add-func-data-flow-edges",
    "sdy-apply-sharding-constraints",
    "sdy-constant-or-scalar-splitter",
    "sdy-flatten-call-graph",
    "sdy-import-func-calls",
    "sdy-inline-meshes",
    "sdy-lift-inlined-meshes",
    "sdy-manual-axes-cleanup",
    "sdy-pre-order-funcs",
    "sdy-propagate-sharding-from-func-to-call",
    "sdy-remove-size-one-axes",
    "sdy-sharding-group-import",
)
_ODD = (
    "",
    "func.func private @declared(tensor<8xf32>) -> tensor<8xf32>",
    "module { module @inner { func.func @f() { return } } }",
    "func.func @f(%a: !stablehlo.token, %b: tensor<?x4xf32>, %c: tensor<*xf32>) -> tensor<?x4xf32> {\n"
    '  %0:2 = "some.op"(%a, %b, %c) ({\n  ^bb0(%i: index):\n    "some.end"(%i) : (index) -> ()\n  }) {k = "v"}'
    " : (!stablehlo.token, tensor<?x4xf32>, tensor<*xf32>) -> (tensor<?x4xf32>, memref<4xf32>)\n"
    "  return %0#0 : tensor<?x4xf32>\n}",
    "func.func @f(%a: i1) {\n  cf.cond_br %a, ^bb1, ^bb2\n^bb1:\n  return\n^bb2:\n  return\n}",
)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("text", _ODD)
def test_a_module_with_nothing_for_the_pass_stays_as_it_is(name: str, text: str) -> None:
    assert _run(text, name) == module_text(load_module(text))

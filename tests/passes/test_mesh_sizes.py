"""Values on meshes of different size in one program: kept apart, pass by pass, as in the C++."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import shardwright as sw
import shardwright.passes.all
from shardwright.cost.hardware import TPU_V5P
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.partition import materialize
from shardwright.partition.recognize import recognize
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.mesh_runs import explicit_by_mesh
from shardwright.passes.pipeline import parse_pipeline, run_step
from tests.optimize.explicit import Better, run_all
from tests.oracles.shardy import run_batch

_MESHES = """sdy.mesh @two = <["x"=2]>
sdy.mesh @four = <["x"=2, "y"=2]>
"""
_HEAD = """func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}, {}]>},
    %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@four, [{"x"}, {"y"}]>})"""
_BETWEEN = f"""{_MESHES}{_HEAD} -> (tensor<8x16xf32>, tensor<8x16xf32>) {{
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  %1 = stablehlo.tanh %b : tensor<8x16xf32>
  %2 = sdy.sharding_constraint %1 <@two, [{{"x"}}, {{?}}]> : tensor<8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<8x16xf32>
  %4 = stablehlo.add %3, %1 : tensor<8x16xf32>
  return %3, %4 : tensor<8x16xf32>, tensor<8x16xf32>
}}
"""
_BESIDE = f"""{_MESHES}{_HEAD} -> (tensor<16x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {{
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0]
    : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %1 = stablehlo.tanh %b : tensor<8x16xf32>
  %2 = sdy.sharding_constraint %1 <@four, [{{}}, {{"x"}}]> : tensor<8x16xf32>
  return %0, %2, %a : tensor<16x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}}
"""
_PROPAGATED = "sdy-propagation-pipeline"
_FULL = "func.func(sdy-insert-explicit-reshards{enable-full-version=true})"
_COLLECTIVES = "func.func(sdy-reshard-to-collectives)"
_LOCAL = "sdy-convert-global-to-local"


def _made(text: str, *passes: str) -> str:
    module = load_module(text)
    for step in parse_pipeline(f"builtin.module({','.join(passes)})"):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


_BEFORE = ("sdy-import-pipeline", "sdy-basic-propagate", "sdy-user-priority-propagate", _PROPAGATED)


@pytest.mark.oracle
def test_propagation_and_what_stands_between_meshes_are_those_of_shardy() -> None:
    jobs: list[tuple[str, tuple[str, ...]]] = [(text, (name,)) for text in (_BETWEEN, _BESIDE) for name in _BEFORE]
    jobs += [(_BETWEEN, (_PROPAGATED, _FULL)), (_BETWEEN, (_PROPAGATED, _FULL, _COLLECTIVES))]
    answers = run_batch([(text, f"builtin.module({','.join(passes)})") for text, passes in jobs])
    for (text, passes), theirs in zip(jobs, answers, strict=True):
        assert _made(text, *passes) == theirs, passes


def test_each_part_gets_its_communication_and_ops_between_stay() -> None:
    on_two = '{sdy.sharding = #sdy.sharding_per_value<[<@two, [{"x"}, {}]>]>}'
    on_four = '{sdy.sharding = #sdy.sharding_per_value<[<@four, [{"x"}, {"y"}]>]>}'
    text = f"""{_MESHES}{_HEAD} -> (tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@four, [{{"x"}}, {{"y"}}]>}}) {{
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] {on_two}
    : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %1 = stablehlo.dot_general %b, %0, contracting_dims = [1] x [0] {on_four}
    : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %2 = sdy.reshard %a <@four, [{{"x"}}, {{}}]> : tensor<8x16xf32>
  %3 = stablehlo.add %1, %2 {on_four} : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}}
"""
    made = _made(text, _FULL)
    assert re.findall(r"= ((?:sdy|stablehlo)\.\w+) ", made) == [
        "stablehlo.dot_general",
        "sdy.reduce_scatter",
        "stablehlo.dot_general",
        "sdy.reshard",
        "sdy.all_slice",
        "stablehlo.add",
    ]
    assert f"{on_four} : (tensor<8x16xf32>, tensor<16x16xf32>)" in made


def test_parts_beside_one_another_are_local_each_on_its_mesh() -> None:
    made = _made(_BESIDE, _PROPAGATED, _LOCAL, "sdy-drop-sharding-and-mesh")
    assert (
        "(%arg0: tensor<4x16xf32>, %arg1: tensor<4x8xf32>) -> (tensor<16x16xf32>, tensor<8x8xf32>, tensor<4x16xf32>)"
        in made
    )
    assert "dense<[[0, 1]]> : tensor<1x2xi64>" in made, "between two devices"
    assert "tensor<2x2xi64>" in made, "between four"
    handles = re.findall(r"handle = (\d+), type = 1", made)
    assert len(handles) > 1
    assert len(set(handles)) == len(handles)


def test_what_nobody_reads_may_end_a_part() -> None:
    text = _BESIDE.replace("  return ", "  %3 = stablehlo.abs %b : tensor<8x16xf32>\n  return ").replace(
        "%0, %2, %a : tensor<16x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>", "%a : tensor<8x16xf32>"
    )
    made = _made(
        text.replace("-> (tensor<16x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>)", "-> tensor<8x16xf32>"), _LOCAL
    )
    assert "(%arg0: tensor<4x16xf32> " in made
    assert "%arg1: tensor<4x8xf32> " in made


def test_no_device_has_a_program_with_a_value_between_meshes() -> None:
    module = load_module(_BETWEEN)
    for step in parse_pipeline(f"builtin.module({_PROPAGATED})"):
        run_step(module, step)
    before = module_text(module)
    (step,) = parse_pipeline(f"builtin.module({_LOCAL})")
    with pytest.raises(ShardingError, match="function @main uses meshes of different size") as caught:
        run_step(module, step)
    assert module_text(module) == before
    found = caught.value.diagnostic
    assert found.op == "sdy.reshard"
    assert (found.location or "").startswith("-:7")
    assert found.remedy


def test_the_command_refuses_them_at_the_mesh() -> None:
    with pytest.raises(ShardingError, match="the module has meshes of different size") as caught:
        sw.load(_BETWEEN)
    assert (caught.value.diagnostic.location or "").startswith("-:2")
    assert caught.value.diagnostic.remedy


_UNALIGNED = """sdy.mesh @one = <["x"=2, "y"=3]>
sdy.mesh @other = <["a"=3, "b"=2]>
func.func @main(%a: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>},
    %b: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@other, [{"a"}, {"b"}]>}) -> tensor<6x6xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@one, [{"x"}, {}]>]>} : tensor<6x6xf32>
  %1 = stablehlo.add %0, %b {sdy.sharding = #sdy.sharding_per_value<[<@one, [{}, {}]>]>} : tensor<6x6xf32>
  return %1 : tensor<6x6xf32>
}
"""


def test_the_mesh_by_which_two_of_one_size_are_said_is_in_the_module() -> None:
    made = _made(_UNALIGNED, _FULL)
    assert "sdy.mesh @common = " in made
    assert "<@common, " in made


def test_a_mesh_of_that_name_that_is_another_is_refused() -> None:
    with pytest.raises(ShardingError, match="another @common than the mesh that a program was given"):
        _made('sdy.mesh @common = <["z"=6]>\n' + _UNALIGNED, _FULL)


def _on(mesh: str, result: str, layout: str) -> str:
    return f"{result} {{sdy.sharding = #sdy.sharding_per_value<[<@{mesh}, {layout}>]>}}"


def _two_sums(mesh: str, one: str, other: str, into: str) -> str:
    """Two products that are summed over an axis each, and what they come to."""
    product, sums = "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>", '[{}, {}], unreduced={"x"}'
    whole, type = f"<@{mesh}, [{{}}, {{}}]>", "tensor<8x8xf32>"
    return f"""
  {_on(mesh, f"%p{into} = stablehlo.dot %{one}, %{other}", sums)} : {product}
  %q{into} = sdy.all_reduce {{"x"}} %p{into} out_sharding={whole} : {type}
  {_on(mesh, f"%r{into} = stablehlo.dot %{one}, %{other}", sums)} : {product}
  %s{into} = sdy.all_reduce {{"x"}} %r{into} out_sharding={whole} : {type}
  {_on(mesh, f"%{into} = stablehlo.add %q{into}, %s{into}", "[{}, {}]")} : {type}"""


def _argument(mesh: str, name: str, layout: str) -> str:
    return f"%{name}: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@{mesh}, {layout}>}}"


def _sliced(mesh: str, value: str, into: str) -> str:
    layout = '[{}, {"x"}]'
    return f"\n  %{into} = sdy.all_slice {layout} %{value} out_sharding=<@{mesh}, {layout}> : tensor<8x8xf32>"


_SUMMED = f"""{_MESHES}func.func @main(
    {_argument("two", "a", '[{}, {"x"}]')}, {_argument("two", "b", '[{"x"}, {}]')},
    {_argument("four", "c", '[{}, {"x"}]')}, {_argument("four", "d", '[{"x"}, {}]')})
    -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@two, [{{}}, {{}}]>}},
        tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@four, [{{}}, {{"x"}}]>}}) {{
  {_two_sums("two", "a", "b", "0")}{_sliced("two", "0", "1")}
  {_two_sums("four", "c", "d", "2")}{_sliced("four", "2", "3")}
  {_two_sums("two", "1", "b", "4")}
  return %4, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}}
"""


def _parts(text: str) -> list[Graph]:
    """The explicit programs that the parts of a program are, those of ops alone."""
    parts: list[Graph] = []

    def keep(graph: Graph) -> Graph:
        parts.append(materialize(recognize(graph)).graph)
        return graph

    rewrite_entries(load_module(text), keep, several=explicit_by_mesh)
    return [part for part in parts if len(part.main.block.ops) > 1]


@pytest.mark.parametrize("exact", [False, True])
def test_collectives_of_each_part_become_fewer_and_compute_what_they_did(exact: bool) -> None:
    memory_is_free = replace(TPU_V5P, memory_bytes_per_second=None)  # a product so small gains nothing in parts else
    with sw.Session(hardware=memory_is_free):
        made = _made(_SUMMED, f"optimize-collectives{{exact={str(exact).lower()}}}")
    assert _SUMMED.count("sdy.all_reduce") == 6
    assert len(re.findall(r"sdy\.(?:all_reduce|reduce_scatter|manual_computation)", made)) == 3
    handles = re.findall(r"handle = (\d+)", made)
    assert len(set(handles)) == len(handles) == (0 if exact else 2)
    before, after = _parts(_SUMMED), _parts(made)
    assert [part.mesh.size for part in after] == [2, 4, 2]
    run_all([(f"part {n}", Better(*pair, ())) for n, pair in enumerate(zip(before, after, strict=True))])


def test_what_stands_between_meshes_stays_where_collectives_become_fewer() -> None:
    explicit = _made(_BETWEEN, _PROPAGATED, _FULL)
    assert _made(explicit, "optimize-collectives") == explicit

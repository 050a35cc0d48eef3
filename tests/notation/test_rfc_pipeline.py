"""Clusters that tensors are sent between are stages: they have different devices, and a program runs on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardwright as sw
from shardwright.ir.context import load_module, module_text
from shardwright.ir.sub_meshes import sub_meshes
from shardwright.notation.conversion import convert_module
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.modules import read
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.modules import export_module, import_module


def on(cluster: str, lists: str) -> str:
    return f"tensor<8x8xf32, #mesh.shard<@{cluster}, {lists}>>"


def permuted(value: str, one: str, other: str) -> str:
    return f"mesh.collective_permute {value} : {on(one, '[[0], [1]]')} -> {on(other, '[[0], [1]]')}"


CLUSTERS = "\n".join(f"mesh.cluster @{name}(rank = 2, dim_sizes = [2, 2])" for name in "abc")
PIPELINE = f"""{CLUSTERS}
func.func @main(%x: {on("a", "[[0], [1]]")}) -> {on("c", "[[0], [1]]")} attributes {{mesh_cluster = @a}} {{
  %0 = mhlo.tanh %x : {on("a", "[[0], [1]]")}
  %1 = {permuted("%0", "a", "b")}
  %2 = mhlo.negate %1 : {on("b", "[[0], [1]]")}
  %3 = {permuted("%2", "b", "c")}
  %4 = mhlo.cosine %3 : {on("c", "[[0], [1]]")}
  return %4 : {on("c", "[[0], [1]]")}
}}
"""


def imported(text: str) -> str:
    module = load_module(to_generic(text, [RFC], "a.mlir"), "a.mlir")
    import_module(module, "a.mlir")
    assert module.operation.verify()
    return module_text(module)


def test_each_stage_has_its_devices_and_the_others_hold_the_same() -> None:
    graph = read(load_module(imported(PIPELINE)))
    assert {mesh.name: devices for mesh, devices in sub_meshes(graph).items()} == {
        "a": (0, 1, 2, 3),
        "b": (4, 5, 6, 7),
        "c": (8, 9, 10, 11),
    }
    for number, (mesh, devices) in enumerate(sub_meshes(graph).items()):
        assert mesh.axes == (("axis_0", 2), ("axis_1", 2), ("stage", 3))
        assert mesh.device_ids is not None
        assert tuple(mesh.device_ids[::3]) == devices
        assert mesh.device_ids[1] == 4 * ((number + 1) % 3)


def test_it_comes_back_as_it_was() -> None:
    hub = imported(PIPELINE)
    module = load_module(hub)
    export_module(module, "a.mlir")
    text = to_custom(str(module), [RFC])
    assert text.count("dim_sizes = [2, 2]") == 3
    assert text.count("mesh.collective_permute") == 2
    assert "stage" not in text
    assert imported(text) == hub


def test_it_runs_and_equals_the_program_of_one_device(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.mlir"
    path.write_text(PIPELINE)
    spmd = sw.load(path).plan().partition()
    assert spmd.mesh.size == 12
    assert spmd.traffic.total.executed == 0  # the next stage has computed what it is sent
    assert spmd.verify().ok
    assert any("devices 4, 5, 6 and 7 alone" in note.message for note in spmd.notes)


def test_stages_are_alike() -> None:
    text = PIPELINE.replace("@c(rank = 2, dim_sizes = [2, 2])", "@c(rank = 2, dim_sizes = [4, 1])")
    with pytest.raises(sw.ShardingError, match="joins @a and @c, which are unlike") as refused:
        imported(text)
    assert refused.value.diagnostic.location.startswith("a.mlir:")
    assert "dim_sizes = [4, 1]" not in refused.value.diagnostic.message
    assert "[4, 1]" in refused.value.diagnostic.cause


def test_clusters_that_nothing_is_sent_between_have_the_same_devices() -> None:
    text = f"""{CLUSTERS}
func.func @f(%x: {on("a", "[[0], [1]]")}, %y: {on("b", "[[0], [1]]")}) attributes {{mesh_cluster = @a}} {{
  return
}}
"""
    assert "stage" not in imported(text)
    assert convert_module(text, to="sdy")

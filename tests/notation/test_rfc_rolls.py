"""A `mesh.collective_permute` along an axis: each device hands its shard to the next, the last one to the first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.notation.conversion import convert_module
from shardwright.runtime.execute import Execution, try_jobs
from tests.partition.compare import make_case


def tensor(lists: str, shape: str = "8x4") -> str:
    return f"tensor<{shape}xf32, #mesh.shard<{lists}>>"


def permuting(lists: str, axis: int, sizes: str = "[2, 2]", shape: str = "8x4") -> str:
    """A function that permutes along an axis of what lies so."""
    type = tensor(lists, shape)
    return (
        f"mesh.cluster @m(rank = {sizes.count(',') + 1}, dim_sizes = {sizes})\n"
        f"func.func @main(%0: {type}) -> {type} attributes {{mesh_cluster = @m}} {{\n"
        f"  %1 = mesh.collective_permute %0 {{mesh_axis = {axis} : i64}} : {type} -> {type}\n  return %1 : {type}\n}}\n"
    )


BESIDE = f"""mesh.cluster @m(rank = 2, dim_sizes = [2, 4])
func.func @main(%0: {tensor("[[1], [0]]")}) -> {tensor("[[], [0]]")} attributes {{mesh_cluster = @m}} {{
  %1 = mesh.collective_permute %0 {{mesh_axis = 1}} : {tensor("[[1], [0]]")} -> {tensor("[[1], [0]]")}
  %2 = mhlo.add %0, %1 : {tensor("[[1], [0]]")}
  %3 = mesh.collective_permute %2 {{mesh_axis = 0}} : {tensor("[[1], [0]]")} -> {tensor("[[1], [0]]")}
  %4 = mesh.all_gather %3 {{mesh_axis = [[1]]}} : {tensor("[[1], [0]]")} -> {tensor("[[], [0]]")}
  return %4 : {tensor("[[], [0]]")}
}}
"""


def loaded(text: str, tmp_path: Path) -> sw.Program:
    path = tmp_path / "permute.mlir"
    path.write_text(text)
    return sw.load(path)


def test_each_device_has_what_the_one_before_it_had(tmp_path: Path) -> None:
    spmd = loaded(BESIDE, tmp_path).plan().partition()
    assert spmd.traffic.kinds["collective_permute"].executed == 2
    job = make_case(convert_module(BESIDE, "sdy"), seed=0).local
    (done,) = try_jobs([job])
    assert isinstance(done, Execution)
    (x,), (result,) = job.inputs, done.outputs
    summed = x + np.roll(x, 2, axis=0)
    np.testing.assert_allclose(result, np.roll(summed, 2, axis=1), rtol=1e-6)
    assert spmd.verify().ok


@pytest.mark.parametrize("text", [BESIDE, permuting("[[0]]", 0), permuting("[[1, 0]]", 1), permuting("[[], [1]]", 1)])
def test_it_goes_to_sdy_and_back(text: str) -> None:
    hub = convert_module(text, "sdy")
    assert "collective_permute" not in hub
    again = convert_module(hub, "rfc")
    assert again.count("mesh.collective_permute") == text.count("mesh.collective_permute")
    assert convert_module(again, "sdy") == hub


def test_along_the_axis_that_splits_first_parts_of_parts_go_together(tmp_path: Path) -> None:
    spmd = loaded(permuting("[[1, 0]]", 1), tmp_path).plan().partition()
    assert spmd.traffic.kinds["collective_permute"].executed == 1
    assert spmd.verify().ok


def test_contributions_to_a_sum_and_a_single_device_change_nothing() -> None:
    for text in (permuting("[[], [], [1]]", 1), permuting("[[0]]", 0, sizes="[1, 2]")):
        hub = convert_module(text, "sdy")
        assert "return %arg0" in hub


def test_slices_that_were_joined_by_hand_stay_what_they_are() -> None:
    hub = convert_module(permuting("[[0]]", 0), "sdy")
    other = hub.replace(", shardwright.permuted = 0 : i64", "")
    assert other != hub
    assert "mesh.collective_permute" not in convert_module(other, "rfc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (permuting("[[1, 0]]", 0), "neighbours along axis 0 exchange shards of dimension 0, which axis 1 splits first"),
        (permuting("[[0]]", 0, sizes="[3]"), "3 devices along axis 0 cannot hand on equal parts of dimension 0"),
        (permuting("[[0]]", 1), "the types of mesh.collective_permute do not agree with its attributes"),
    ],
)
def test_what_rolls_no_dimension_is_refused_at_its_line(text: str, message: str) -> None:
    with pytest.raises(ShardingError) as refused:
        convert_module(text, "sdy")
    told = refused.value.diagnostic
    assert told.message.startswith(message)
    assert told.op == "mesh.collective_permute"
    assert told.location.startswith("-:3")
    assert told.remedy

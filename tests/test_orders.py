"""`sw.axis_orders` and `shardwright tune --orders`: which axes of a mesh go from node to node."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.program.ordering import in_order
from tests.models.large.clusters import CLUSTERS

NODES = replace(sw.hardware("h100"), node_devices=4)
MEGATRON = """
sdy.mesh @m = <["model"=4, "data"=2]>
func.func @main(%x: tensor<16x512xf32> {sdy.sharding = #sdy.sharding<@m, [{"data"}, {}]>},
    %up: tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"model"}]>},
    %down: tensor<2048x512xf32> {sdy.sharding = #sdy.sharding<@m, [{"model"}, {}]>}) -> tensor<16x512xf32> {
  %0 = stablehlo.dot %x, %up : (tensor<16x512xf32>, tensor<512x2048xf32>) -> tensor<16x2048xf32>
  %1 = stablehlo.tanh %0 : tensor<16x2048xf32>
  %2 = stablehlo.dot %1, %down : (tensor<16x2048xf32>, tensor<2048x512xf32>) -> tensor<16x512xf32>
  return %2 : tensor<16x512xf32>
}
"""


def test_what_is_summed_most_goes_least_far() -> None:
    plan = sw.load(MEGATRON).plan()
    with sw.Session(hardware=NODES):
        ordered = sw.axis_orders(plan)
        best, worst = ordered.orders
        assert (best.axes, worst.axes) == (("data", "model"), ("model", "data"))
        assert worst.outcome == ordered.outcome
        assert best.outcome.seconds < worst.outcome.seconds
        assert best.outcome.bytes_sent == worst.outcome.bytes_sent
        best.plan.partition().verify().require()


def test_orders_are_partitioned_as_the_plan_is(tmp_path: Path) -> None:
    """What a saved plan says of that counts for all of them."""
    path = tmp_path / "plan.toml"
    with sw.Session(hardware=NODES):
        sw.load(MEGATRON).plan().partition(effort="default", optimize="all").save(path)
        ordered = sw.axis_orders(sw.load(MEGATRON).apply(path))
    made = [one.plan.partition().partitioning for one in ordered.orders]
    assert [one and (one.effort, one.optimize) for one in made] == [("default", "all")] * 2


def test_every_order_is_of_all_devices_with_the_same_axes() -> None:
    mesh = sw.Mesh(a=2, b=3, c=4)
    for axes in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):
        other = in_order(mesh, axes)
        assert other.axes == mesh.axes
        grid = np.arange(mesh.size) if other.device_ids is None else np.array(other.device_ids)
        assert sorted(grid.tolist()) == list(range(mesh.size))
        step = np.moveaxis(grid.reshape([2, 3, 4]), "abc".index(axes[-1]), -1)
        assert (np.diff(step, axis=-1) == 1).all()  # devices along the last one are in a row
    assert in_order(mesh, ("a", "b", "c")) == mesh


@pytest.mark.parametrize(
    ("name", "order", "part"),
    [
        ("llama.fsdp_and_tensor", ("data", "model"), 0.7),  # as people have it: tensors in parts within nodes
        ("experts.fsdp", ("expert", "data"), 0.5),  # what is gathered within nodes, what is exchanged between them
    ],
)
def test_the_best_order_takes_much_less_than_the_worst(name: str, order: tuple[str, ...], part: float) -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        best, *_, worst = sw.axis_orders(CLUSTERS[name](False)).orders
    assert best.axes == order
    assert best.outcome.seconds < part * worst.outcome.seconds


def test_on_a_torus_axes_lie_on_more_links_in_one_order_than_in_another() -> None:
    """Of sixteen chips, 2×2×4: what all talk along is on three lines in one order, and on two in the other."""
    text = MEGATRON.replace('"model"=4', '"model"=8')
    with sw.Session(hardware=sw.hardware("tpu_v5p")):
        best, worst = sw.axis_orders(sw.load(text).plan()).orders
    assert (best.axes, worst.axes) == (("model", "data"), ("data", "model"))
    assert best.outcome.seconds < worst.outcome.seconds
    assert best.outcome.bytes_sent == worst.outcome.bytes_sent


def told(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["tune", "-", "--orders", *arguments], input=MEGATRON)
    assert result.exit_code == 0, result.output
    return result.stdout


def sheet(folder: Path) -> str:
    path = folder / "four.toml"
    text = CliRunner().invoke(cli, ["hardware", "h100"]).stdout
    path.write_text(text.replace("devices = 8.0", "devices = 4.0"))
    return str(path)


def test_the_command_prints_them_and_json_has_device_ids(tmp_path: Path) -> None:
    page = told("--hardware", sheet(tmp_path))
    assert "2 orders of the axes" in page
    assert page.index("data, model") < page.index("model, data")
    summary = json.loads(told("--hardware", sheet(tmp_path), "--json"))
    assert [one["axes"] for one in summary["orders"]] == [["data", "model"], ["model", "data"]]
    assert summary["orders"][0]["device_ids"] == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hardware", "h100"], "stand in one node"),
        (["--hardware", "h100", "x"], "leave these out"),
    ],
)
def test_where_there_is_nothing_to_order_that_is_said(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, ["tune", "-", *arguments, "--orders"], input=MEGATRON)
    assert result.exit_code != 0
    assert words in result.output
    assert "Traceback" not in result.output

"""Modules in the `sdy` dialect, written with `mhlo.sharding` and read again: every device holds the same."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable

import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation import modules
from shardwright.notation.hlo.modules import export_module, import_module
from shardwright.sharding import TensorSharding
from tests.notation.test_hlo_modules import exported, imported
from tests.notation.test_hlo_properties import modelled
from tests.propagation.programs import random_program


def pairs(left: Block, right: Block) -> list[tuple[Op, Op]]:
    paired: list[tuple[Op, Op]] = []
    for one, other in zip(left.ops, right.ops, strict=True):
        paired.append((one, other))
        for inner, outer in zip(one.regions, other.regions, strict=True):
            paired += pairs(inner, outer)
    return paired


def held(sharding: TensorSharding | None, shape: tuple[int, ...]) -> object:
    """Per device its slices and with whom it shares them; `None` where nothing is said."""
    if sharding is None or not (sharding.partial or any(dim.axes for dim in sharding.dims)):
        return None
    return modelled(sharding, shape)


def assert_alike(left: Graph, right: Graph) -> int:
    """Both have the same ops, and every device holds the same of every value."""
    compared = 0

    def compare(one: int, other: int) -> None:
        nonlocal compared
        assert left.types[one] == right.types[other]
        shape = left.types[one].dims
        expected = held(left.shardings[one], shape)
        assert held(right.shardings[other], shape) == expected
        compared += expected is not None

    for one, other in zip(left.main.block.arguments, right.main.block.arguments, strict=True):
        compare(one, other)
    for first, second in pairs(left.main.block, right.main.block):
        assert first.signature.name.replace("reshard", "sharding_constraint") == second.signature.name
        for one, other in zip(first.results, second.results, strict=True):
            compare(one, other)
        if first.signature.name == "sdy.manual_computation":
            stated = first.signature.boundary.shardings, second.signature.boundary.shardings
            for at, its, value in zip(*stated, (*first.operands, *first.results), strict=True):
                shape = left.types[value].dims
                assert held(at, shape) == held(its, shape)
                assert [dim.open for dim in at.dims] == [dim.open for dim in its.dims]
    for mine, theirs, value in zip(
        left.main.result_shardings, right.main.result_shardings, left.main.block.terminator.operands, strict=True
    ):
        assert held(mine, left.types[value].dims) == held(theirs, left.types[value].dims)
    return compared


def expressible(seed: int) -> str:
    """A random program without priorities and barriers; one in four on a mesh whose devices are in another order."""
    text = random_program(seed)
    text = re.sub(r"sdy.propagation_barrier (\S+) allowed_direction=\S+", r"stablehlo.optimization_barrier \1", text)
    text = re.sub(r"\}p\d", "}", text)
    if seed % 4:
        return text
    count = int(np.prod([int(size) for size in re.findall(r"=(\d+)", text[: text.index("\n")])]))
    return text.replace("]>", f"], device_ids={random.Random(seed).sample(range(count), count)}>", 1)


def round_trips(seeds: range) -> tuple[int, int]:
    programs = compared = 0
    for seed in seeds:
        text = expressible(seed)
        original = load_module(text)
        if not original.operation.verify():
            continue
        version = ("V2", "V1", "named")[seed % 3]
        written = exported(text, version)
        try:
            again = imported(written)
        except ShardingError as error:  # parts of axes that do not nest, and devices in an order of their own
            assert "device_ids" in text
            assert "have no common mesh" in error.diagnostic.message
            continue
        compared += assert_alike(modules.read(original), modules.read(load_module(again)))
        programs += 1
    return programs, compared


def test_random_programs_survive_the_way_there_and_back(record_property: Callable[[str, object], None]) -> None:
    programs, compared = round_trips(range(120))
    assert programs >= 118
    assert compared >= 300
    record_property("summary", f"mhlo modules: {programs} random programs sdy → mhlo → sdy, {compared} shardings alike")


@pytest.mark.long
def test_many_random_programs_survive_the_way_there_and_back() -> None:
    programs, _ = round_trips(range(1000, 4000))
    assert programs >= 2990


def test_a_large_module_converts_quickly(record_property: Callable[[str, object], None]) -> None:
    count = 22_815
    texts = itertools.cycle(
        ["{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "{replicated}"]
    )
    lines = [
        f'  %{n + 1} = stablehlo.tanh %{n} {{mhlo.sharding = "{text}"}} : tensor<8x16xf32>'
        for n, text in zip(range(count), texts, strict=False)
    ]
    module = load_module(
        "\n".join(
            [
                "func.func @main(%0: tensor<8x16xf32>) -> tensor<8x16xf32> {",
                *lines,
                f"  return %{count} : tensor<8x16xf32>",
                "}",
            ]
        )
    )
    start = time.perf_counter()
    import_module(module)
    middle = time.perf_counter()
    export_module(module)
    end = time.perf_counter()
    assert module.operation.verify()
    assert end - start < 3
    record_property("summary", f"mhlo modules: {count} ops in {middle - start:.3f} s, out in {end - middle:.3f} s")


def test_the_device_that_holds_a_value_alone_is_one_of_the_partitions() -> None:
    text = """
    sdy.mesh @one = <[], device_ids=[3]>
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      stablehlo.custom_call @log(%a) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}
          : (tensor<4xf32>) -> ()
      return %a : tensor<4xf32>
    }
    """
    written = sw.convert(text, to="mhlo")
    assert "mhlo.num_partitions = 4 : i32" in written
    assert "device_ids=[3]" in sw.convert(written, to="sdy")


def test_devices_of_meshes_that_shardings_spell_out_are_counted() -> None:
    text = """
    module attributes {mhlo.num_partitions = 1 : i64} {
      func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %0 = sdy.sharding_constraint %a <mesh<["a"=2, "b"=4]>, [{"b"}, {"a"}]> : tensor<8x8xf32>
        return %0 : tensor<8x8xf32>
      }
    }
    """
    written = sw.convert(text, to="mhlo")
    assert "mhlo.num_partitions = 8 : i32" in written
    assert '[{"b"}, {"a"}]' in sw.convert(written, to="sdy")


def test_a_manual_computation_over_no_axes_is_its_body() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={}
          (%b: tensor<8xf32>) {
        %1 = stablehlo.negate %b : tensor<8xf32>
        sdy.return %1 : tensor<8xf32>
      } : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    """
    written = sw.convert(text, to="mhlo")
    assert "SPMDFullToShardShape" not in written
    assert "stablehlo.negate" in sw.convert(written, to="sdy")

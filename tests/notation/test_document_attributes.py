"""Shardings of the founding documents that are attributes by themselves: a program of one op lies so, and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardwright as sw
from tests.notation.snippets import Mend
from tests.notation.snippets_attributes import MHLO, PAGE, PAGE_GRIDS
from tests.notation.snippets_sdy import MESHES, REFERENCE


def mended(text: str, mends: tuple[Mend, ...]) -> str:
    for wrong, right, _ in mends:
        text = text.replace(wrong, right)
    return text


def of_mhlo(text: str, type: str) -> str:
    return (
        f"func.func @main(%0: {type}, %1: {type}) -> {type} {{\n"
        f'%2 = stablehlo.add %0, %1 {{mhlo.sharding = "{text}"}} : {type}\nreturn %2 : {type}\n}}'
    )


def of_page(text: str, shape: tuple[int, ...]) -> str:
    """On the grid that it names, of those that the page defines."""
    type = f"tensor<{'x'.join(map(str, shape))}xf32>"
    (grid,) = [line for line in PAGE_GRIDS.splitlines() if text.split()[1] in line]
    return (
        f"{grid}\nfunc.func @main(%0: {type}) -> {type} {{\n%s = {text} : !mesh.sharding\n"
        f"%1 = mesh.shard %0 to %s : {type}\n%2 = stablehlo.negate %1 : {type}\nreturn %2 : {type}\n}}"
    )


def of_page_by_max(text: str) -> str:
    """Of a value that is a maximum: what sdy says of arguments knows sums only."""
    types = "(tensor<4x8x6xf32>, tensor<f32>) -> tensor<4x8xf32>"
    return (
        f"{PAGE_GRIDS.splitlines()[0]}\nfunc.func @main(%0: tensor<4x8x6xf32>, %i: tensor<f32>) -> tensor<4x8xf32> {{\n"
        f"%s = {text} : !mesh.sharding\n"
        f"%1 = stablehlo.reduce(%0 init: %i) applies stablehlo.maximum across dimensions = [2] : {types}\n"
        "%2 = mesh.shard %1 to %s : tensor<4x8xf32>\n%3 = stablehlo.negate %2 : tensor<4x8xf32>\n"
        "return %3 : tensor<4x8xf32>\n}"
    )


def on_mesh(text: str, axes: tuple[tuple[str, int], ...]) -> str:
    type, split = "tensor<12x12xf32>", ", ".join(f'"{name}"' for name, _ in axes)
    return (
        f"sdy.mesh @m = {text}\nfunc.func @main(%x: {type}) -> {type} {{\n"
        f"%0 = stablehlo.negate %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{{split}}}, {{}}]>]>}} : {type}\n"
        f"return %0 : {type}\n}}"
    )


def of_page_entry(text: str, shape: tuple[int, ...]) -> str:
    return of_page_by_max(text) if "max" in text else of_page(text, shape)


PROGRAMS = {
    **{f"000.{n}": of_mhlo(mended(text, mends), f"tensor<{type}>") for n, (text, mends, type, _) in enumerate(MHLO, 1)},
    **{f"001.{n}": of_page_entry(mended(text, mends), shape) for n, (text, mends, shape, _) in enumerate(PAGE, 1)},
    **{f"004.{n}": on_mesh(text, axes) for n, (text, axes, _) in enumerate(MESHES, len(REFERENCE) + 1) if axes},
}
SIZES = {"000.1": 2, "001.6": 4, "004.12": 6, "004.13": 6} | dict.fromkeys((f"001.{n}" for n in range(1, 6)), 16)
"""The devices that a listing names, or its grid; 8 elsewhere."""


@pytest.mark.parametrize("number", PROGRAMS)
def test_an_op_whose_tensor_lies_so_runs_and_equals_the_unsharded_program(number: str, tmp_path: Path) -> None:
    path = tmp_path / "listing.mlir"
    path.write_text(PROGRAMS[number])
    program = sw.load(path)
    plan = program.shard(sw.Mesh(d=8)) if "{replicated}" in PROGRAMS[number] else program.plan()
    spmd = plan.partition()
    assert spmd.mesh.size == SIZES.get(number, 8)
    assert spmd.verify().ok

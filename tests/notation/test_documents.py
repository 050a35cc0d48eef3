"""Every piece of IR in five public texts on shardings, as printed there, mended where the print is wrong, read and run.

The texts: "MHLO sharding format"; MLIR's page on `mesh.sharding`; the slides "Sharding Framework Design for Device
Mesh"; the mesh RFC on LLVM's forum; the reference of the `sdy` dialect.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import shardwright as sw
import shardwright.passes.all
from shardwright.errors import ShardingError
from shardwright.ir.context import ir, load_module, module_text
from shardwright.mesh import Mesh
from shardwright.notation import hlo, modules, shard  # noqa: F401  # makes them known
from shardwright.notation.conversion import convert_module
from shardwright.notation.forms.texts import ops, to_generic
from shardwright.notation.registry import parse_text
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.modules import import_module, looks_like
from shardwright.notation.rfc.options import Loops, loops_of
from shardwright.notation.rfc.reading import ops_of
from shardwright.notation.shard.dialect.tables import SHARD
from shardwright.passes.pipeline import run_step, steps_of
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from tests.notation.documents import idle, listings
from tests.notation.documents import snippet as snippet_of
from tests.notation.snippets import Snippet, on_devices
from tests.notation.snippets_attributes import MHLO, PAGE, PAGE_ARRAY, PAGE_GRIDS, PAGE_MESHES
from tests.notation.snippets_forum import FORUM
from tests.notation.snippets_sdy import MESHES, REFERENCE
from tests.notation.snippets_slides import SLIDES
from tests.partition.compare import assert_equal, make_case
from tools.documents import FILE, main, render

IN_THE_FORM_OF_THE_RFC = [*SLIDES, *FORUM]


def imported(snippet: Snippet) -> ir.Module:
    module = load_module(to_generic(snippet.module, [RFC], "text.mlir"), "text.mlir")
    import_module(module, "text.mlir")
    return module


@pytest.mark.parametrize("snippet", IN_THE_FORM_OF_THE_RFC, ids=lambda snippet: snippet.origin)
def test_it_is_told_from_upstream_reads_and_says_what_it_says(snippet: Snippet) -> None:
    assert looks_like(snippet.module)
    if snippet.refused:
        with pytest.raises(ShardingError) as refused:
            imported(snippet)
        assert snippet.refused in refused.value.diagnostic.message
        assert refused.value.diagnostic.location.startswith("text.mlir:")
        return
    module = imported(snippet)
    assert module.operation.verify()
    text = str(module)
    assert [words for words in snippet.says if words not in text] == [], text


def test_loops_of_the_walkthrough_are_those_that_it_lists() -> None:
    """`(d0, d1, d2, d3) -> (d0, d1, d3)`, `(d3, d2)` and `(d0, d1, d2)` for a product, the last loop a sum."""
    snippet = next(snippet for snippet in FORUM if snippet.origin.endswith("loops"))
    module = imported(snippet)
    function = list(module.body.operations)[-1]
    loops = {name: loops_of(op) for name, op in ops_of(function.operation)}
    assert loops["stablehlo.maximum"] == Loops(3, ((0, 1, 2), (0, 1, 2)))
    assert loops["stablehlo.dot_general"] == Loops(4, ((0, 1, 3), (3, 2)))


@pytest.mark.parametrize(("text", "mends", "shape", "expected"), PAGE, ids=[entry[0] for entry in PAGE])
def test_shardings_of_the_dialect_page(text: str, mends: tuple, shape: tuple[int, ...], expected: str) -> None:
    for wrong, right, reason in mends:
        assert wrong in text, reason
        text = text.replace(wrong, right)
    mesh = PAGE_MESHES[text.split()[1]]
    assert repr(parse_text(text, shape=shape, mesh=mesh)).startswith(expected)


def test_a_halo_of_one_and_two() -> None:
    text = "mesh.sharding @mesh0 split_axes = [[0]] halo_sizes = [1, 2]"
    assert parse_text(text, shape=(4, 8), mesh=PAGE_MESHES["@mesh0"]).halos == ((1, 2), None)


def test_halos_of_two_dimensions_two_sizes_each() -> None:
    text = "mesh.sharding @mesh2d split_axes = [[0], [1]] halo_sizes = [1, 2, 2, 3]"
    assert parse_text(text, shape=(8, 8), mesh=PAGE_MESHES["@mesh2d"]).halos == ((1, 2), (2, 3))


def test_shards_of_two_three_four_and_five() -> None:
    text = "mesh.sharding @mesh1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14]"
    sharding = parse_text(text, shape=(4, 14), mesh=PAGE_MESHES["@mesh1d_4"])
    sizes = [[s.stop - s.start for s in sharding.device_slice((4, 14), device)] for device in range(4)]
    assert sizes == [[4, 2], [4, 3], [4, 4], [4, 5]]


def test_shards_of_unequal_size_in_two_dimensions() -> None:
    """The page gives 24x20x32 to the first device and 8x12x32 to "the second", which is that at (1, 1)."""
    text = "mesh.sharding @mesh2d split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 20, 32]"
    shape = (32, 32, 32)
    sharding = parse_text(text, shape=shape, mesh=PAGE_MESHES["@mesh2d"])
    sizes = [tuple(s.stop - s.start for s in sharding.device_slice(shape, device)) for device in (0, 3)]
    assert sizes == [(24, 20, 32), (8, 12, 32)]


def test_the_examples_of_the_dialect_page_read_as_ops_of_today() -> None:
    lines = [
        PAGE_GRIDS,
        *(f"%s{n} = {text.replace(*PAGE_ARRAY[:2])} : !mesh.sharding" for n, (text, *_) in enumerate(PAGE)),
        "%sharded0 = mesh.shard %arg0 to %s3 : tensor<4x8xf32>",
        "%sharded1 = mesh.shard %arg0 to %s4 : tensor<4x8xf32>",
        "%sharded2 = mesh.shard %arg1 to %s5 : tensor<4x14xf32>",  # of another argument: its type is another
    ]
    names = [op.form.name for op in ops("\n".join(lines), [SHARD])]
    partial = ["shard.sharding", "shard.sharding", "mesh.sharding", "mesh.sharding", "shard.sharding", "shard.sharding"]
    assert names == ["shard.grid", "shard.grid", *partial, "shard.shard", "shard.shard", "shard.shard"]


@pytest.mark.parametrize(("text", "mends", "type", "slices"), MHLO, ids=[entry[0] for entry in MHLO])
def test_annotations_of_mhlo_give_devices_the_parts_that_are_shown(
    text: str, mends: tuple, type: str, slices: dict[int, tuple]
) -> None:
    for wrong, right, reason in mends:
        assert wrong in text, reason
        text = text.replace(wrong, right)
    module = load_module(
        f"func.func @f(%0: tensor<{type}>, %1: tensor<{type}>) {{\n"
        f'%2 = stablehlo.add %0, %1 {{mhlo.sharding = "{text}"}} : tensor<{type}>\nreturn\n}}'
    )
    op = next(iter(module.body.operations[0].regions[0].blocks[0].operations))
    attribute = ir.StringAttr(op.attributes["mhlo.sharding"]).value
    shape = tuple(op.results[0].type.shape)
    mesh = Mesh(d=8) if text == "{replicated}" else None
    sharding = parse_text(attribute, shape=shape, mesh=mesh)
    for device, bounds in slices.items():
        position = list(sharding.mesh.device_ids or range(sharding.mesh.size)).index(device)
        assert tuple((s.start, s.stop) for s in sharding.device_slice(shape, position)) == bounds


@pytest.mark.parametrize("snippet", REFERENCE, ids=lambda snippet: snippet.origin)
def test_examples_of_the_reference_say_what_they_say(snippet: Snippet) -> None:
    text = module_text(load_module(snippet.module))
    assert [words for words in snippet.says if words not in text] == [], text


def test_the_while_of_the_reference_has_an_edge_for_each_value() -> None:
    """The i-th edge is between `x_i`, `return_value_i` and `y_i`, `pred_arg_i`, `body_arg_i`: all lie alike."""
    module = load_module(snippet_of("004.6").module)
    for step in steps_of("sdy-add-data-flow-edges"):
        run_step(module, step)
    edges = [line.strip().partition(" : ")[0] for line in str(module).splitlines() if "sdy.data_flow_edge" in line]
    owners = [re.sub(r"^%\S+ = sdy\.data_flow_edge (%\d+#\d)(?: .*)?$", r"\1", line) for line in edges]
    assert owners == ["%0#0", "%0#1"]
    graph = propagate(modules.read(load_module(snippet_of("004.6").module)))
    (loop,) = [op for op in graph.walk() if op.name == "stablehlo.while"]
    values = [
        (loop.operands[n], loop.results[n], *(region.arguments[n] for region in loop.regions), returned[n])
        for returned in [loop.regions[1].terminator.operands]
        for n in (0, 1)
    ]
    assert [{repr(graph.shardings[value]) for value in tied} for tied in values] == [{"[]"}, {"[{a}]"}]


@pytest.mark.parametrize(("text", "axes", "devices"), MESHES, ids=[text for text, *_ in MESHES])
def test_meshes_of_the_reference(text: str, axes: tuple, devices: tuple[int, ...] | None) -> None:
    rank = "[{}, {}]" if axes else "[]"
    shape = "8x6xf32" if axes else "f32"
    held = load_module(
        f"sdy.mesh @m = {text}\nfunc.func @main(%x: tensor<{shape}>) -> tensor<{shape}> {{\n"
        f"%0 = stablehlo.negate %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, {rank}>]>}} : tensor<{shape}>\n"
        f"return %0 : tensor<{shape}>\n}}"
    )
    (mesh,) = modules.read(held).meshes.values()
    assert (tuple(mesh.sizes.items()), mesh.device_ids) == (axes, devices)


RUN = [snippet for snippet in (*SLIDES, *FORUM, *REFERENCE) if not idle(snippet)]


@pytest.mark.parametrize("devices", [None, 2, 8], ids=["as printed", "2 devices", "8 devices"])
def test_they_are_partitioned_run_and_equal_the_unsharded_programs(devices: int | None) -> None:
    cases = {}
    for snippet in RUN:
        text = snippet.program if devices is None else on_devices(snippet.program, devices)
        cases[snippet.origin] = make_case(convert_module(text, "sdy"), seed=0)
        assert devices in (None, cases[snippet.origin].local.devices), snippet.origin
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    for number, (origin, case) in enumerate(cases.items()):
        assert case.local.out_types, origin
        assert_equal(origin, case, done[2 * number], done[2 * number + 1])


def test_the_program_of_one_device_gives_each_its_part_of_the_perceptron(tmp_path: Path) -> None:
    """The forum's last stage: each device has a part of each tensor, and what they give is put together."""
    snippet = next(snippet for snippet in FORUM if snippet.origin == "RFC, 1-D weight stationary, partitioned")
    path = tmp_path / "listing.mlir"
    path.write_text(snippet.module)
    draw = np.random.default_rng(0)
    x, up, down = (draw.normal(size=shape).astype(np.float32) for shape in ((2, 4, 8), (8, 32), (32, 8)))
    parts = {
        "arg0": np.stack(np.split(x, 2, axis=2)),
        "arg1": np.stack(np.split(up, 2, axis=1)),
        "arg2": np.stack(np.split(down, 2, axis=0)),
    }
    (result,) = sw.load(path).per_device().run(parts).values()
    np.testing.assert_allclose(np.concatenate(list(result), axis=2), np.maximum(x @ up, 0) @ down, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("number", ["002.22", "003.13"])
def test_a_program_that_takes_arguments_whole_slices_its_part_out_of_them(number: str, tmp_path: Path) -> None:
    path = tmp_path / "listing.mlir"
    path.write_text(snippet_of(number).program)
    whole = np.arange(8, dtype=np.float32)
    (result,) = sw.load(path).per_device().run({"arg0": np.stack([whole, whole])}).values()
    np.testing.assert_array_equal(np.concatenate(list(result)), whole)


def test_the_page_of_all_listings_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run python tools/documents.py"
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_the_page_names_tests_that_there_are() -> None:
    names = {listing.test.partition("::")[2].partition("[")[0] for listing in listings()}
    assert names <= set(globals())
    numbers = [listing.number for listing in listings()]
    assert len(set(numbers)) == len(numbers) == len(MHLO) + len(PAGE) + len(SLIDES) + len(FORUM) + 13

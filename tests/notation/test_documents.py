"""Every piece of IR in four public texts on shardings, as printed there, mended where the print is wrong, and read.

The texts: "MHLO sharding format"; MLIR's page on `mesh.sharding`; the slides "Sharding Framework Design for Device
Mesh"; the mesh RFC on LLVM's forum.
"""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, load_module
from shardwright.mesh import Mesh
from shardwright.notation import hlo, shard  # noqa: F401  # makes them known
from shardwright.notation.forms.texts import ops, to_generic
from shardwright.notation.registry import parse_text
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.modules import import_module, looks_like
from shardwright.notation.rfc.options import Loops, loops_of
from shardwright.notation.rfc.reading import ops_of
from shardwright.notation.shard.dialect.tables import SHARD
from tests.notation.snippets import Snippet
from tests.notation.snippets_forum import FORUM
from tests.notation.snippets_slides import SLIDES

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


PAGE_GRIDS = "mesh.mesh @mesh0(shape = 2x2x4)\nmesh.mesh @mesh1d_4(shape = 4)\n"
PAGE_MESHES = {
    "@mesh0": Mesh(axis_0=2, axis_1=2, axis_2=4),
    "@mesh1d_4": Mesh(axis_0=4),
    "@mesh2d": Mesh(axis_0=2, axis_1=2),
}
PAGE_ARRAY = (
    "[[0] split_axes = []]",
    "[[0]]",
    "a keyword within a list: `[[0]]` and the partial axis were run together",
)
PAGE = [
    ("mesh.sharding @mesh0 split_axes = [[]]", (), (4, 8), "[{}, {}]"),
    ("mesh.sharding @mesh0 split_axes = [[0]]", (), (4, 8), "[{axis_0}, {}]"),
    (
        "mesh.sharding @mesh0 split_axes = [[0] split_axes = []] partial = sum[1]",
        (PAGE_ARRAY,),
        (4, 8),
        "[{axis_0}, {}] partial=sum{axis_1}",
    ),
    ("mesh.sharding @mesh0 split_axes = [[0]] partial = max[1]", (), (4, 8), "[{axis_0}, {}] partial=max{axis_1}"),
    ("mesh.sharding @mesh0 split_axes = [[0]] halo_sizes = [1, 2]", (), (4, 8), "[{axis_0}, {}]"),
    (
        "mesh.sharding @mesh1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14]",
        (),
        (4, 14),
        "[{}, {axis_0}]",
    ),
]


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


MHLO = [
    ("{devices=[2,1]0,1}", (), "4x3xi32", {0: ((0, 2), (0, 3)), 1: ((2, 4), (0, 3))}),
    ("{devices=[1,2,4]0,1,2,3,4,5,6,7}", (), "3x4x4xi32", {0: ((0, 3), (0, 2), (0, 1)), 7: ((0, 3), (2, 4), (3, 4))}),
    ("{replicated}", (), "4x3xi32", {0: ((0, 4), (0, 3)), 3: ((0, 4), (0, 3))}),
    (
        "{devices=[1,2,4]0,1,2,3,4,5,6,7} last_tile_dim_replicate}",
        (
            ("7} last", "7 last", "the bracket is closed too early"),
            ("[1,2,4]", "[2,1,4]", "the text gives rows to devices 0 to 3, of shape 2x3"),
        ),
        "4x3xi32",
        {0: ((0, 2), (0, 3)), 3: ((0, 2), (0, 3)), 4: ((2, 4), (0, 3)), 7: ((2, 4), (0, 3))},
    ),
]


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

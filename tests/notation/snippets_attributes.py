"""Shardings in public texts that are attributes or ops by themselves: "MHLO sharding format", and MLIR's `mesh.sharding`."""

from __future__ import annotations

from shardwright.mesh import Mesh

__all__ = ["MHLO", "PAGE", "PAGE_ARRAY", "PAGE_GRIDS", "PAGE_MESHES"]

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
"""The page on `mesh.sharding`: text, mends, a shape, and the layout that it says."""

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
"""The page on `mhlo.sharding`: text, mends, a type, and what devices hold."""

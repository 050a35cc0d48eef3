"""Per-device programs: what the collectives and queries of the `shard` dialect mean, in StableHLO.

A program of this kind is written for one device of a grid already: its tensors have local shapes, it communicates by
`shard.all_gather` and the like, and asks for its place by `shard.process_multi_index` (`mesh.idx` in the mesh RFC).
`lower` turns each of these into StableHLO with replica groups, so that the runtime can run the program on one device
a position of the grid. All other ops stay as they are.

Ops are in MLIR's generic form and the newest spelling. One file per family registers how they are lowered:
`gathers`, `reductions`, `moves`, `halo`, `queries`, `shapes`; `scalars` takes the `arith` and `tensor` ops that
compute with indices. `call` is what such a function works with, `groups` the arithmetic of groups, `program` the walk.

**Groups.** `grid_axes` lists the axes of a group, outer to inner: with `[1, 0]` on 2x4 the members are counted along
axis 0 fastest. No axes make groups of one. A `root`, `source` or `destination` is a multi-index in that order.

**What the dialect leaves open**, and what holds here:

- `gather` and `reduce` give every member of the group what they promise to the root.
- `shift` without `rotate` gives zeros where nothing arrives. A value moves up: device `i` gets that of `i - offset`.
- A `recv` takes the value of the first open `send` before it in its block, on the same grid and axes and of the same
  type: in each group from `source` to `destination`. Elsewhere it gives its own input, as `send` does everywhere.
- `update_halo` works through the dimensions from last to first, each time over the halos of the later dimensions and
  within those of the earlier ones, so corners come from the diagonal neighbour. Where there is no neighbour the
  halo keeps what it holds. Neighbours along several axes are next to each other in the order of the list.
- `shard_shape` gives the remainder to the trailing shards, 15 over 4 as 3, 4, 4, 4.
- An average of integers is their sum divided by the size of the group, rounded towards zero.
- Scalars become tensors of rank 0, `index` becomes `i64`.

`raised` goes the other way: a program that was partitioned, with the collectives of this dialect.

Refused by name: grids of unknown size, reductions of kind `generic`, and roots and halo sizes that are no constants.

Source: MLIR's shard dialect page; its ShardToMPI conversion for halos, neighbours and shard shapes; the mesh RFC on
LLVM's forum for `mesh.idx` and `mesh.size`.
"""

from shardwright.partition.processes import (  # noqa: F401 (imported for what they register)
    gathers,
    halo,
    moves,
    queries,
    reductions,
    scalars,
    shapes,
)
from shardwright.partition.processes.program import lower
from shardwright.partition.processes.raised import raised
from shardwright.partition.processes.stacked import stacked

__all__ = ["lower", "raised", "stacked"]

"""`-shard-partition`: the program of one process, written with the collectives of the `shard` dialect.

Every function gets local shapes and what its processes exchange: the same decisions as those of `shardwright
partition`, so reshards that upstream has no pattern for, or writes wrongly, are whatever takes least. What no
annotation says is not completed: `-sharding-propagation` does that first. Where constants are `arith`'s, they stay so.
Parts of a program that are on grids of different size are partitioned by themselves.

Source: MLIR's `shard` dialect, pass `-shard-partition`.
"""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, module_text
from shardwright.ir.graph import Graph
from shardwright.notation.module_notations import notation_of
from shardwright.partition import localize, materialize
from shardwright.partition.processes import raised
from shardwright.partition.tensor_constants import as_of_arith
from shardwright.passes.entry_programs import rewrite_entries
from shardwright.passes.mesh_runs import local_by_mesh
from shardwright.passes.registry import Options, register
from shardwright.passes.shard_dialect import GRIDS

__all__: list[str] = []


@register("shard-partition", "Writes the program of one process, with the collectives of `shard`.", on="func.func")
def shard_partition(module: ir.Module, options: Options) -> None:
    """Split every program of the module that its annotations split.

    Raises:
        ShardingError: shardings in another notation, an op between grids of different size, or what `materialize` and
            `localize` raise.
    """
    text = module_text(module)
    notation = notation_of(text)
    if notation.name not in GRIDS:
        raise ShardingError(
            f"-shard-partition takes annotations of the shard dialect, these are {notation.name}",
            remedy="convert them with `shardwright convert --to shard`, or use -sdy-convert-global-to-local",
        )
    notation.read(module, "-", text)
    rewrite_entries(module, _of_one_process, shardings=False, several=local_by_mesh)
    notation.write(module)


def _of_one_process(graph: Graph) -> Graph:
    made = raised(localize(materialize(graph).graph, grid=True))
    return as_of_arith(made) if "arith.constant" in graph.op_names() else made

"""Modules annotated with `mhlo.sharding`, as XLA's own partitioner reads them: to the `sdy` dialect and back, in place.

| `mhlo.sharding` | `sdy` |
| --- | --- |
| of an op, argument or function result | `sdy.sharding`, closed; nothing for `{unknown}` |
| of an op with several results: a tuple | `sdy.sharding` per value |
| `custom_call @Sharding`, `unspecified_dims=[1]` | `sdy.sharding_constraint` (or `sdy.reshard`), dimension 1 open |
| `{… shard_as 1}`, `{… shard_like 1}` | `sdy.sharding_group`, written as `shard_as` |
| `@SPMDFullToShardShape` … `@SPMDShardToFullShape` | `sdy.manual_computation`, written with a call between the two |
| `{manual}`, `last_tile_dims={manual}` therein | axes of the manual computation, which are not repeated |
| `{maximal device=3}` | `sdy.mesh @maximal_mesh_3 = <[], device_ids=[3]>` |
| `{devices=[2,1]2,3}` of four devices | `sdy.mesh @sub_mesh = <…> {shardwright.devices = array<i64: 2, 3>}` |
| `metadata={…}` | the attribute `shardwright.metadata` |

*Import.* One mesh serves all shardings of a module, see `notation.hlo.mesh`, or several over the same devices, see
`notation.hlo.several`; next to what is manual there is one. What names a part of the devices is on all of them, see
`notation.hlo.sub_meshes`, and how many these are `mhlo.num_partitions` says, or all shardings together. Nothing is
approximated. A `shard_like` group becomes one
whose members are sharded alike, as XLA itself does where it can.

*Export.* XLA takes what is said of arguments, results and ops as settled, so open dimensions are written as the layout
they have so far, and a sharding that says nothing at all is left out; only `@Sharding` knows unspecified dimensions.
Axes kept `replicated` are written as axes that are not used. The form with a mesh (`version="named"`) keeps both, and
the names of axes. Priorities, barriers, edges, sharding rules, collectives of the `sdy` dialect, and reductions other
than sums are refused. Meshes go, unless replica groups name their axes.

Source: StableHLO's "MHLO sharding format"; JAX's lowering with `jax_use_shardy_partitioner` off; XLA's `HloSharding`.
"""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.memo import uncollected
from shardwright.notation.hlo.exporter import Exporter
from shardwright.notation.hlo.importer import Importer
from shardwright.notation.notation import ModuleNotation

__all__ = ["export_module", "import_module", "looks_like"]


@uncollected
def import_module(module: ir.Module, name: str = "-") -> None:
    """Rewrite `mhlo.sharding` of `module` as `sdy` shardings, in place; diagnostics call it `name`.

    Raises:
        ShardingError: malformed text; a sharding that contradicts the tensor's rank or the number of devices; two
            that no mesh serves both, with the ops or arguments that have them; a manual computation in another form
            than JAX's. The module is then not to be used any more.
    """
    Importer(module, name).run()


@uncollected
def export_module(module: ir.Module, version: str = "V2") -> None:
    """Rewrite the `sdy` shardings of `module` as `mhlo.sharding`, in place, and set `mhlo.num_partitions`.

    Arguments:
        module: A module whose shardings are in the `sdy` dialect.
        version: `V2` counts devices, `V1` lists them, `named` names the axes of the mesh.

    Raises:
        ShardingError: what `mhlo.sharding` cannot express, by name and op. The module is then not to be used any more.
    """
    Exporter(module, version).run()


def looks_like(content: str | bytes) -> bool:
    """Whether a module has an attribute `mhlo.sharding`."""
    return (b"mhlo.sharding" if isinstance(content, bytes) else "mhlo.sharding") in content  # type: ignore[operator]


NOTATION = ModuleNotation(
    "mhlo",
    "`mhlo.sharding` attributes, as XLA's own partitioner reads them",
    looks_like,
    lambda text, _: text,
    lambda module, name, _: import_module(module, name),
    export_module,
    str,
)

"""A per-device program, op by op, to StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.stages import CLUSTER
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local
from shardwright.partition.processes.call import Call, State, lowered_type
from shardwright.partition.processes.registry import process_of
from shardwright.stage import Stage

__all__ = ["lower"]

_KEPT = ("stablehlo.", "chlo.", "mhlo.", "func.return")
_MOST_DEVICES = 1 << 20
"""The pairs of a permutation name every device."""


@uncollected
def lower(graph: Graph, meshes: Mapping[str, Mesh]) -> Graph:
    """The program that the runtime runs on each device of the grid: StableHLO with replica groups.

    Arguments:
        graph: A per-device program (see `ir.stages`), in the newest spelling of the dialect.
        meshes: Its grids by symbol (see `grids`).

    Returns:
        A new graph. Arguments and results have the shapes of `graph`, scalars as tensors of rank 0 and `index` as
        `i64`. Its meshes are the grids that it uses; devices are counted as positions in them.

    Raises:
        ShardingError: an op that is no op of such programs or not a valid one, what only a running program knows
            (roots, halo sizes), grids of different size; at its location.
    """
    return _Lowering(graph, meshes).run()


class _Lowering:
    def __init__(self, graph: Graph, meshes: Mapping[str, Mesh]) -> None:
        self.source = graph
        self.target = graph.skeleton(Stage.LOCAL)
        self.cluster = str(decode(graph.main.attributes.get(CLUSTER, '""')))
        self.meshes = self.used(meshes) or _partitions(graph)

    def used(self, meshes: Mapping[str, Mesh]) -> dict[str, Mesh]:
        """The grids that the program names, or all where it relies on there being one."""
        names = {op.signature.get("grid") for op in self.source.walk()} | {self.cluster}
        grids = {name: mesh for name, mesh in meshes.items() if name in names} or dict(meshes)
        sizes = {mesh.size for mesh in grids.values()}
        listed = ", ".join(f"@{mesh.name} of {mesh.size}" for mesh in grids.values())
        if len(sizes) > 1:
            raise ShardingError(
                "the program uses grids of different size",
                op="shard.grid",
                cause=f"devices: {listed}",
                remedy="use one set of devices for the whole program",
            )
        if max(sizes, default=1) > _MOST_DEVICES:
            raise ShardingError(
                f"the grid has more than {_MOST_DEVICES} devices",
                op="shard.grid",
                cause=f"devices: {listed}",
                remedy="use a smaller grid",
            )
        return grids

    def run(self) -> Graph:
        source, target = self.source, self.target
        mesh = next(iter(self.meshes.values()), Mesh())
        target.meshes = {name: Mesh(mesh.axes, name=name) for name, mesh in self.meshes.items()}
        count = mesh.partitions
        target.attributes |= {"mhlo.num_partitions": f"{count} : i32", "mhlo.num_replicas": "1 : i32"}
        target.main.attributes = {k: text for k, text in source.main.attributes.items() if k != CLUSTER}
        target.main.result_shardings = [None] * len(source.main.result_shardings)
        ops: list[Op] = []
        ctx = Local(target, ops)
        ctx.mesh = mesh
        target.main.block = self.block(source.main.block, State(ctx, self.meshes, self.cluster), ops)
        return target

    def block(self, block: Block, state: State, ops: list[Op]) -> Block:
        """The lowered block, whose ops `state` writes to `ops`."""
        arguments = tuple(self.target.new_value(lowered_type(self.source.types[value])) for value in block.arguments)
        state.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            self.op(op, state)
        self.check_sent(state)
        return Block(arguments, ops)

    def op(self, op: Op, state: State) -> None:
        state.ctx.location = op.location
        try:
            results = self.results(op, state)
        except ShardingError as error:
            raise error.at(op.name, str(self.source.locations[op.location])) from None
        state.values.update(zip(op.results, results, strict=False))

    def results(self, op: Op, state: State) -> Sequence[int]:
        """Write one op; the values of its results, none for a sharding."""
        process = process_of(op.name)
        if process is not None:
            values = process(Call(op, state))
            if op.name != "shard.sharding":
                self.check_results(op, values)
            return values
        if not op.name.startswith(_KEPT):
            raise ShardingError(
                f"{op.name} is no op of a per-device program",
                cause="it is made of StableHLO, of integer arithmetic, and of collectives and queries of its grid",
                remedy="lower it before",
            )
        return self.kept(op, state)

    def kept(self, op: Op, state: State) -> Sequence[int]:
        """An op that stays, at lowered types."""
        call = Call(op, state)
        operands = call.operands
        regions = []
        for region in op.regions:
            ops: list[Op] = []
            regions.append(self.block(region, state.inner(ops), ops))
        signature = _renumbered(op.signature, state.ctx).replace(
            operands=tuple(lowered_type(type) for type in op.signature.operands),
            results=tuple(lowered_type(type) for type in op.signature.results),
        )
        return state.ctx.append(signature, operands, regions=tuple(regions))

    def check_results(self, op: Op, values: Sequence[int]) -> None:
        given = [self.target.types[value] for value in values]
        declared = [lowered_type(type) for type in op.signature.results]
        if given != declared:
            raise ShardingError(
                f"the op gives {_list(given)}, and is said to give {_list(declared)}",
                cause="the type does not follow from the operands, the attributes and the grid",
                remedy="correct the type of the result, or the axes",
            )

    def check_sent(self, state: State) -> None:
        for sent in (sent for waiting in state.sent.values() for sent in waiting):
            raise ShardingError(
                "what is sent is never received",
                op=sent.op.name,
                location=str(self.source.locations[sent.op.location]),
                cause="no shard.recv on the same grid and axes, of the same type, follows in the same block",
                remedy="receive it, or take the send away",
            )


def _partitions(graph: Graph) -> dict[str, Mesh]:
    """The devices of a program without a grid: its mesh where it has one, else as many as it has partitions.

    Raises:
        ShardingError: meshes, which replica groups may name, and none of them of so many devices.
    """
    count = int(decode(graph.attributes.get("mhlo.num_partitions", "1 : i32")))
    meshes = {name: mesh for name, mesh in graph.meshes.items() if mesh.size == count}
    other = next((mesh for mesh in graph.meshes.values() if mesh.axes), None)
    if other is not None and not meshes:
        raise ShardingError(
            f"the program is of {count} partitions, its mesh @{other.name} of {other.size} devices",
            op="sdy.mesh",
            location=graph.locations.source,
            cause="each device of the mesh runs one partition",
            remedy="let mhlo.num_partitions be the size of the mesh",
        )
    return meshes or {"devices": Mesh([("partition", count)], name="devices")}


def _renumbered(signature: Signature, ctx: Local) -> Signature:
    """The handles of the program's own collectives and of ours may coincide."""
    if signature.text("channel_handle") is None or signature.get("channel_handle", {}).get("type") != 1:
        return signature
    return signature.replace(channel_handle=ctx.channel())


def _list(types: Sequence[object]) -> str:
    return ", ".join(map(str, types)) or "nothing"

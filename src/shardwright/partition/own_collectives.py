"""StableHLO collectives that a program for one device states: what they mean, and how they are partitioned.

Such a program runs on every device of the mesh with the same values, so a collective meets copies of one value. A
reduction combines as many as a group has devices, a gather puts them side by side, a permute or broadcast that reaches
every device gives the value itself. What gives each device something else (reduce_scatter, all_to_all, a permute that
leaves devices out) has no meaning as one value.

The op stays a collective, in a manual computation over the axes along which the devices of a group differ: there the
value is whole, along the others it may be split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shardwright.analysis.groups import Table, axes_between, replica_groups, source_target_pairs
from shardwright.boundary import Boundary, without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_tensor
from shardwright.ir.copying import with_ops_replaced
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL, OWN_COLLECTIVES
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.localize.renumber import over_partitions
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage
from shardwright.words import counted

__all__ = ["copies_in", "with_own_collectives"]

_GROUPED = frozenset({"stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter"})
"""Those whose groups are of replicas unless `use_global_device_ids` is said."""
_DIFFERENT = frozenset({"stablehlo.all_to_all", "stablehlo.reduce_scatter"})
_PERMUTE = "stablehlo.collective_permute"
_GLOBAL = "use_global_device_ids"


def with_own_collectives(graph: Graph) -> Graph:
    """A program whose collectives outside of manual computations stand in some. The graph given is left as it is.

    In an explicit program those stay that find values lying otherwise: `check` tells of these.

    Raises:
        ShardingError: one that gives no value, or names devices that there are not, at its line.
    """
    made = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
    written: dict[Op, list[Op]] = {}
    for op in graph.main.block.walk(opaque=(MANUAL,)):
        if op.name in OWN_COLLECTIVES:
            try:
                written[op] = [_enclosed(made, op)]
            except ShardingError as error:
                raise error.at(op.signature.label, str(graph.locations[op.location])) from None
    made.main = replace(graph.main, block=with_ops_replaced(graph.main.block, written))
    return made


def copies_in(signature: Signature, mesh: Mesh, meshes: Mapping[str, Mesh]) -> int:
    """How many copies of a value a collective combines; 1 of those that give the value itself.

    A program whose mesh is not known yet has the devices that the collective names.

    Raises:
        ShardingError: one that gives no value, or names devices that there are not, or all of an unknown mesh.
    """
    if not mesh.axes:
        mesh = Mesh(devices=_named_devices(signature))
    return len(_rows(signature, mesh, meshes)[0]) if signature.name in _GROUPED else 1


def _named_devices(signature: Signature) -> int:
    if over_partitions(signature) and signature.name in _GROUPED and signature.text(_GLOBAL) is None:
        raise ShardingError(
            f"{signature.name} is between all devices, and how many there are is not said",
            op=signature.label,
            remedy="define the mesh in the module, as sdy.mesh, or list devices and say use_global_device_ids",
        )
    is_permute = signature.name == _PERMUTE
    rows = source_target_pairs(signature) if is_permute else replica_groups(signature, {}, 1).rows
    return 1 + max(int(device) for row in rows for device in row)


def _rows(signature: Signature, mesh: Mesh, meshes: Mapping[str, Mesh]) -> Table:
    """The devices of every group, or the pairs of a permute.

    Raises:
        ShardingError: a collective that gives no value, or names devices that there are not.
    """
    if not over_partitions(signature):  # it names the one replica that there is: see `ir.channels`
        return tuple([(device,) for device in range(mesh.listed)])
    if signature.name == _PERMUTE:
        return _pairs(signature, mesh.listed)
    rows: Table = tuple([tuple(map(int, row)) for row in replica_groups(signature, meshes, mesh.listed).rows])
    if signature.name in _GROUPED and signature.text(_GLOBAL) is None and rows == ((0,),):
        rows = (tuple(range(mesh.listed)),)
    members = [device for row in rows for device in row]
    _check_devices(signature, members, mesh.listed)
    if sorted(members) != list(range(mesh.listed)) or len({len(row) for row in rows}) > 1:
        raise _meaningless(signature, "its groups are not of one size, or leave devices out")
    if signature.name in _DIFFERENT and len(rows[0]) > 1:
        raise _meaningless(signature, "each device of a group gets another part of what they combine")
    return rows


def _pairs(signature: Signature, devices: int) -> Table:
    pairs = source_target_pairs(signature)
    _check_devices(signature, [device for pair in pairs for device in pair], devices)
    if {target for _, target in pairs} != set(range(devices)):
        raise _meaningless(signature, "devices that it sends nothing to get zeros, others the value")
    return pairs


def _check_devices(signature: Signature, named: list[int], devices: int) -> None:
    missing = [device for device in named if not 0 <= device < devices]
    if missing:
        raise ShardingError(
            f"{signature.name} names device {missing[0]}",
            op=signature.label,
            cause=f"the mesh has {counted(devices, 'device')}",
            remedy="name devices of the mesh, or shard on a mesh of all of them",
        )


def _meaningless(signature: Signature, cause: str) -> ShardingError:
    return ShardingError(
        f"{signature.name} cannot be partitioned",
        op=signature.label,
        cause=cause,
        remedy="put it inside sdy.manual_computation, whose results say how they lie, or say that by shardings alone",
    )


def _enclosed(graph: Graph, op: Op) -> Op:
    """A collective in a manual computation."""
    mesh, signature = graph.mesh, op.signature
    rows = _rows(signature, mesh, graph.meshes)
    manual = axes_between(rows, mesh) or tuple(name for name, _ in mesh.axes)
    stated = tuple([_layout(graph, value, signature, mesh, manual) for value in op.operands])
    if graph.stage is Stage.EXPLICIT:
        lies = [graph.shardings[value] for value in (*op.operands, *op.results)]
        if lies != [*stated, *stated]:
            return op
    inside = [without_manual_axes(layout, manual) for layout in stated]
    arguments, results = (
        tuple([graph.new_value(type, layout) for type, layout in zip(types, inside, strict=True)])
        for types in (signature.operands, signature.results)
    )
    inner = Op(_with_devices(signature, rows), arguments, results, (), op.location)
    end = Op(Signature("sdy.return", (), signature.results, ()), results, (), (), op.location)
    boundary = Boundary(stated, stated, manual)
    outer = Signature(MANUAL, (), signature.operands, signature.results, boundary=boundary)
    return Op(outer, op.operands, op.results, (Block(arguments, [inner, end]),), op.location)


def _layout(graph: Graph, value: int, signature: Signature, mesh: Mesh, manual: tuple[str, ...]) -> TensorSharding:
    """How a value enters, and what is made of it leaves: whole along manual axes and the dimension that grows."""
    type, sharding = graph.types[value], graph.shardings[value]
    whole = replicated(mesh, type.rank)
    if sharding is None or sharding.mesh != mesh or not sharding.divides(type.dims):
        return whole
    grows = signature.get("all_gather_dim", None)
    axes = [
        tuple([axis for axis in dim if axis.name not in manual]) if number != grows else ()
        for number, dim in enumerate(sharding.axes)
    ]
    return whole.with_axes(axes)


def _with_devices(signature: Signature, rows: Table) -> Signature:
    """A collective between all partitions of a replica, which names that, as one between devices by their ids."""
    if signature.name not in _GROUPED or signature.text(_GLOBAL) is not None or not over_partitions(signature):
        return signature
    return signature.replace(replica_groups=i64_tensor(rows), use_global_device_ids="unit")

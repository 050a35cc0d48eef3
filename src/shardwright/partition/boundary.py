"""Layouts that can be stated in a program and that no local op or collective here keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims
from shardwright.ir.context import reduction_kinds
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.sub_meshes import sub_meshes
from shardwright.ir.types import TensorType
from shardwright.notation.sdy.sharding import has_kinds_of
from shardwright.rules.custom_call import is_python, is_python_label
from shardwright.sharding import TensorSharding
from shardwright.stage import Stage
from shardwright.steps import local_bytes

__all__ = ["Alone", "alone", "check_boundary", "has_bounds"]


def check_boundary(graph: Graph, annotated: Graph | None = None) -> None:
    """Refuse contributions with offsets or halos, arguments that are partial by a kind that the installed sdy lacks,
    results that are so by several or by one without identity, meshes that cannot be one, and effects on one device.

    Arguments:
        graph: The program.
        annotated: The program that it was propagated from: offsets and halos are shown as they are stated there.

    Raises:
        ShardingError: naming the first such argument, op or result.
    """
    main = graph.main
    for name, value in zip(main.argument_names, main.block.arguments, strict=True):
        sharding = graph.shardings[value]
        if sharding is not None and not has_kinds_of(sharding):
            raise _lacking(name, sharding, graph.locations.source)
    for name, sharding in zip(main.result_names, main.result_shardings, strict=True):
        kinds = {p.kind for p in sharding.partial} if sharding is not None else set()
        if len(kinds) > 1 or not kinds <= REDUCTIONS.keys():
            what = f"result {name!r} is partial by {' and '.join(sorted(kinds))}"
            raise _refused(what, sharding, graph.locations.source)
    different = graph.different_shardings
    if len({one.mesh.axes for one in different if one.mesh.axes}) > 1:
        _check_axes(graph)
    for one in (graph,) if annotated is None else (annotated, graph):
        if has_bounds(one):
            _check_bounds(one)
    if any(mesh.is_maximal for mesh in graph.meshes.values()):
        _check_effects(graph)


def has_bounds(graph: Graph) -> bool:
    """Whether some sharding of a program has offsets or halos."""
    return any(one.offsets is not None or one.halos is not None for one in graph.different_shardings)


def _is_on_one_device(sharding: TensorSharding | None) -> bool:
    return sharding is not None and sharding.mesh.is_maximal


def _check_effects(graph: Graph) -> None:
    """Refuse effects that no program of all devices has; of calls of Python `localize.python` makes one."""
    for op in graph.walk():
        alone = op.signature.get("has_side_effect", False) and any(map(_is_on_one_device, _shardings_of(op, graph)))
        if alone and not is_python(op.signature):
            raise ShardingError(
                f"{op.signature.label} is to run on one device alone, and has effects",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause="every device runs every op of its program",
                remedy="take its sharding away if all devices may run it, or leave the module to XLA's partitioner",
            )


def _shardings_of(op: Op, graph: Graph) -> Sequence[TensorSharding | None]:
    """The shardings of an op: of its results, or the one that an op without any has itself."""
    own = () if op.results else op.signature.boundary.out_shardings or ()
    return [*own, *(graph.shardings[value] for value in op.results)]


class _Stated(NamedTuple):
    """What has a sharding: its name as users know it, the sharding, where it stands, in which op, and its type."""

    what: str
    sharding: TensorSharding | None
    where: str
    op: str
    type: TensorType


def _stated(graph: Graph) -> Iterator[_Stated]:
    """Arguments, values and results, in order."""
    main, types = graph.main, graph.types
    for number, (name, value) in enumerate(zip(main.argument_names, main.block.arguments, strict=True)):
        where = graph.argument_location(number)
        yield _Stated(f"argument {name!r}", graph.shardings[value], where, "func.func", types[value])
    for op in graph.walk():
        for value in (*op.results, *(value for block in op.regions for value in block.arguments)):
            where, label = str(graph.locations[op.location]), op.signature.label
            yield _Stated(f"a value of {op.name}", graph.shardings[value], where, label, types[value])
    last = main.block.terminator
    returned = zip(main.result_names, main.result_shardings, last.operands, strict=True)
    for name, sharding, value in returned:
        yield _Stated(f"result {name!r}", sharding, str(graph.locations[last.location]), "func.func", types[value])


class Alone(NamedTuple):
    """What is to be on some of the devices alone.

    Attributes:
        what: Its name as users know it.
        where: Its place in the source.
        devices: Those that are to hold it.
        total: How many there are in all.
        bytes: What each other device holds of it, as it is; 0 where one device was to hold the whole.
    """

    what: str
    where: str
    devices: tuple[int, ...]
    total: int
    bytes: int


def alone(graph: Graph) -> Iterator[Alone]:
    """What is to be on one device alone, or on those of a sub-mesh; not what one device calls Python for, for all."""
    parts = sub_meshes(graph)
    if not parts and not any(mesh.is_maximal for mesh in graph.meshes.values()):
        return
    for what, sharding, where, op, type in _stated(graph):
        if sharding is None or is_python_label(op):
            continue
        mesh = sharding.mesh
        if mesh.is_maximal:
            yield Alone(what, where, (mesh.device_id(0),), graph.mesh.size, 0)
        elif mesh in parts:
            yield Alone(what, where, parts[mesh], mesh.size, _shard_bytes(type, sharding))


def _shard_bytes(type: TensorType, sharding: TensorSharding) -> int:
    """The bytes of the largest shard of a value; 0 of what is no tensor."""
    if not type.is_tensor:
        return 0
    return local_bytes(type.dims, type.bytes // max(1, type.elements), sharding)


def _check_bounds(graph: Graph) -> None:
    """Refuse the first sharding with offsets or halos that no program here keeps, of contributions or in a program that
    is explicit already; values that are gone still have theirs.
    """
    for what, sharding, where, op, _ in _stated(graph):
        if sharding is not None and bounded_dims(sharding) and (sharding.partial or graph.stage is Stage.EXPLICIT):
            has = " of contributions" if sharding.partial else ""
            raise _refused(f"{what} has offsets or halos{has}", sharding, where, op)


def _check_axes(graph: Graph) -> None:
    """Refuse the first sharding on a mesh of other axes than the first; values that are gone still have theirs."""
    stated = [
        (what, sharding.mesh, where, op)
        for what, sharding, where, op, _ in _stated(graph)
        if sharding and sharding.mesh.axes
    ]
    for what, other, where, op in stated:
        first, mesh = stated[0][:2]
        if other.axes != mesh.axes:
            raise ShardingError(
                f"{what} is on {other!r}, {first} on {mesh!r}, and cannot be partitioned together",
                op=op,
                location=where,
                cause="manual computations or collectives name axes of one, by which the other cannot be said",
                remedy='use one mesh for all: its axes can be split into sub-axes, as in "x":(1)2',
            )


def _lacking(name: str, sharding: TensorSharding, where: str) -> ShardingError:
    """What to say of an argument that nothing between ops can reduce in the text of an explicit program."""
    kinds = " and ".join(dict.fromkeys(p.kind for p in sharding.partial))
    known = ", ".join(reduction_kinds())
    return ShardingError(
        f"argument {name!r} is partial by {kinds}, and cannot be partitioned",
        op="func.func",
        location=where,
        cause=f"sharding {sharding!r}; a collective of the installed sdy combines by one of: {known}",
        remedy="let the argument be complete; jax 0.11 and newer have max and min",
    )


def _refused(message: str, sharding: TensorSharding | None, where: str, op: str = "func.func") -> ShardingError:
    return ShardingError(
        f"{message}, and cannot be partitioned",
        op=op,
        location=where,
        cause=f"sharding {sharding!r}; here shards are of one size, without halos",
        remedy="leave offsets and halos out, or let what is partial be complete",
    )

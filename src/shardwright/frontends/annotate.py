"""Shardings given from outside the program: which arguments they are for, and on which mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.selection import Key, select_arguments, select_values
from shardwright.frontends.specs import sharding_of
from shardwright.ir.graph import Graph
from shardwright.ir.ops import COMPUTATIONS, DEVICE_OPS, GRID_OPS, STEPS
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding, replicated

__all__ = ["annotate", "program_mesh", "says_nothing"]

Given = Mapping[Key, Any] | Sequence[Any]

_ON_ITS_MESH = frozenset(STEPS) | COMPUTATIONS | DEVICE_OPS | GRID_OPS
"""Ops that say of the mesh of their program more than how a tensor lies on it."""


def annotate(graph: Graph, mesh: Mesh | None, args: Given, source: str = "-", results: Given = ()) -> Graph:
    """A copy of `graph` on its mesh, with the shardings of `args` on its arguments and of `results` on its results.

    Arguments:
        graph: The program; it is left as it was.
        mesh: The mesh; `None` where the program brings one.
        args: Name, path, index or pattern of arguments (see `select_values`) → what `sharding_of` takes. All of them
            win over what the program says. Or a list, one for each argument, `None` for what is not given.
        source: What diagnostics call the program.
        results: The same of results.

    Raises:
        ShardingError: no mesh or two, no such argument or result, or a sharding that does not fit it, or not what a
            collective does to it.
    """
    mesh = program_mesh(graph, mesh, source)
    copy = _on_mesh(graph, mesh)
    main = copy.main
    for number, (key, spec) in select_arguments(graph, args, source).items():
        value = main.block.arguments[number]
        what = f"argument {number} of @{main.name}: {main.argument_names[number]}, {copy.types[value]}"
        copy.shardings[value] = _sharding(copy.types[value].rank, what, key, spec, mesh)
    for number, (key, spec) in select_values(main.result_names, results, source, "result").items():
        type = copy.types[main.block.terminator.operands[number]]
        what = f"result {number} of @{main.name}: {main.result_names[number]}, {type}"
        main.result_shardings[number] = _sharding(type.rank, what, key, spec, mesh)
    _check_collectives(graph, copy)
    return copy


def _check_collectives(graph: Graph, given: Graph) -> None:
    """Refuse another sharding of an argument than the one that a collective says to change."""
    arguments = graph.main.block.arguments
    for op in graph.walk():
        value = op.operands[0] if op.name in STEPS else None
        if value not in arguments:
            continue
        own, other = graph.shardings[value], given.shardings[value]
        if other is not own and other is not None and (own is None or not other.equivalent(own)):
            number = arguments.index(value)
            raise ShardingError(
                f"argument {graph.main.argument_names[number]!r} cannot be given {other!r}",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause=f"what the collective does is said in terms of the argument's own sharding, {own or 'none'}",
                remedy="leave it as it is, or take the collective out of the program",
            )


def program_mesh(graph: Graph, mesh: Mesh | None, source: str = "-") -> Mesh:
    """The mesh that the program is sharded over: its own, or `mesh` where it has none, or one of a single device.

    Raises:
        ShardingError: neither, or two that differ.
    """
    own = [known for known in graph.meshes.values() if known.axes]
    if mesh is not None and says_nothing(graph):
        own = [known for known in own if known.axes == mesh.axes]
    if mesh is None and not own:
        raise ShardingError(
            "the program has no mesh",
            location=source,
            cause=f"{'all that it is sharded over is one device' if graph.meshes else 'it declares no sdy.mesh'}, "
            "and no mesh was given",
            remedy="give one: --mesh data=2,model=4, or program.shard(sw.Mesh(data=2, model=4))",
        )
    if mesh is None:
        return own[0]
    if not own:
        return mesh
    for known in own:
        if (known.axes, known.device_ids) == (mesh.axes, mesh.device_ids):
            return known
    raise ShardingError(
        f"the program is on {own[0]!r}, {mesh!r} was given",
        location=source,
        cause="its annotations are written for its own mesh",
        remedy="leave the mesh out, or give the program's own",
    )


def says_nothing(graph: Graph) -> bool:
    """Whether no sharding names an axis of more than one device, and no op moves data on a mesh by itself.

    JAX writes such meshes where arrays were made on one, as libraries do that make a mesh of all devices there are.
    """
    stated = filter(None, (*graph.shardings, *graph.main.result_shardings))
    return not graph.op_names() & _ON_ITS_MESH and all(
        sharding.mesh.size == 1 or (sharding.is_replicated and not sharding.replicated) for sharding in stated
    )


def _sharding(rank: int, what: str, key: Key, spec: Any, mesh: Mesh) -> TensorSharding:
    try:
        return sharding_of(spec, mesh, rank)
    except ShardingError as error:
        raise error.replaced(
            op=what,
            location=f"{key}={spec}" if isinstance(spec, str) else f"{key}={spec!r}"[:200],
        ) from None


def _on_mesh(graph: Graph, mesh: Mesh) -> Graph:
    """A copy of the graph on `mesh`, which also takes over what JAX says of scalars and keys on an empty mesh.

    What is said on another mesh of one device leaves open how a tensor lies on this one; on one of several, where no
    sharding names their axes, that it is on all devices.
    """
    leaves_its_own = all(known.axes != mesh.axes for known in graph.meshes.values())  # which says nothing then

    def is_kept(known: Mesh) -> bool:
        return known.is_maximal or known.axes == mesh.axes or (known.size > 1 and not leaves_its_own)

    def moved(sharding: TensorSharding | None) -> TensorSharding | None:
        if sharding is None or is_kept(sharding.mesh):
            return sharding
        is_open = sharding.mesh.axes and sharding.mesh.size == 1
        return replicated(mesh, sharding.rank, open=True) if is_open else TensorSharding(mesh, sharding.dims)

    meshes = {name: known for name, known in graph.meshes.items() if is_kept(known)}
    attributes = {name: row for name, row in graph.mesh_attributes.items() if name in meshes}
    if mesh not in meshes.values():
        meshes[mesh.name] = mesh
    main = replace(
        graph.main,
        result_shardings=[moved(sharding) for sharding in graph.main.result_shardings],
        argument_attributes=[_donor(attributes) for attributes in graph.main.argument_attributes],
    )
    shardings = [moved(sharding) for sharding in graph.shardings]
    return replace(graph, shardings=shardings, main=main, meshes=meshes, mesh_attributes=attributes)


def _donor(attributes: dict[str, str]) -> dict[str, str]:
    """Donation without a fixed result: shardings decide later which result can take the buffer."""
    if "tf.aliasing_output" not in attributes:
        return attributes
    kept = {name: text for name, text in attributes.items() if name != "tf.aliasing_output"}
    return {**kept, "jax.buffer_donor": "true"}

"""Shardings given from outside the program: which arguments they are for, and on which mesh."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.diagnose import close_names
from shardwright.frontends.specs import sharding_of
from shardwright.ir.graph import Graph
from shardwright.ir.locations import pytree_path
from shardwright.ir.ops import STEPS
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.words import counted, kind_of

__all__ = ["annotate", "program_mesh", "select_arguments"]

_EXACT = 1 << 30
"""The closeness of a key that names one argument, longer than any path."""


def annotate(
    graph: Graph, mesh: Mesh | None, args: Mapping[str | int, Any] | Sequence[Any], source: str = "-"
) -> Graph:
    """A copy of `graph` on its mesh, with the shardings of `args` on its arguments.

    Arguments:
        graph: The program; it is left as it was.
        mesh: The mesh; `None` where the program brings one.
        args: Name, path prefix or index of an argument → what `sharding_of` takes. The more specific name wins, and
            all of them win over what the program says. Or a list, one for each argument, `None` for what is not given.
        source: What diagnostics call the program.

    Raises:
        ShardingError: no mesh or two, no such argument, or a sharding that does not fit it, or not what a collective
            does to it.
    """
    mesh = program_mesh(graph, mesh, source)
    copy = _on_mesh(graph, mesh)
    for number, (key, spec) in select_arguments(graph, args, source).items():
        value = copy.main.block.arguments[number]
        copy.shardings[value] = _sharding(copy, number, key, spec, mesh)
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
    """The mesh that the program is sharded over: its own, or `mesh` where it has none.

    Raises:
        ShardingError: neither, or two that differ.
    """
    own = [known for known in graph.meshes.values() if known.axes]
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


def select_arguments(
    graph: Graph, args: Mapping[str | int, Any] | Sequence[Any], source: str = "-"
) -> dict[int, tuple[str | int, Any]]:
    """Argument number → the key of `args` that names it most closely, and its value.

    Raises:
        ShardingError: a key that names no argument, an argument that is named twice, or neither names nor a list.
    """
    names = graph.main.argument_names
    chosen: dict[int, tuple[str | int, Any]] = {}
    closeness: dict[int, int] = {}
    for key, value in _by_key(args, source):
        for number, score in _matches(key, names, source):
            if score == closeness.get(number) == _EXACT:
                raise ShardingError(
                    f"argument {names[number]!r} is given two shardings",
                    location=source,
                    cause=f"{chosen[number][0]!r} and {key!r} both name it",
                    remedy="keep one of them",
                )
            if score >= closeness.get(number, 0):
                chosen[number], closeness[number] = (key, value), score
    return chosen


def _by_key(args: Any, source: str) -> Iterable[tuple[str | int, Any]]:
    """Keys and values; those of a list are the numbers of its entries."""
    if isinstance(args, Mapping):
        return args.items()
    if isinstance(args, (list, tuple)):
        return [(number, value) for number, value in enumerate(args) if value is not None]
    raise ShardingError(
        f"not shardings of arguments: {args!r}"[:200],
        location=source,
        cause=f"it is {kind_of(args)}",
        remedy='name the argument: args={"x": sw.P("data")}, or give a list with one entry an argument',
    )


def _matches(key: str | int, names: Sequence[str], source: str) -> list[tuple[int, int]]:
    """`(argument number, closeness)` for every argument that `key` names; an exact name is the closest."""
    name = key if isinstance(key, str) else ""
    for spelling in (name, pytree_path(name)):
        if spelling in names:
            return [(names.index(spelling), _EXACT)]
    inside = [n for n, known in enumerate(names) if name and known.startswith(pytree_path(name) + "/")]
    if inside:
        return [(number, len(pytree_path(name))) for number in inside]
    index = int(name) if re.fullmatch(r"\d+", name, re.ASCII) else _number(key)
    if index is None:
        raise ShardingError(
            f"the program has no argument {key!r}",
            location=source,
            cause=f"it has {counted(len(names), 'argument')}: {close_names(name, list(names))}",
            remedy="give the name or the index of one of them, or the path that several share",
        )
    if not 0 <= index < len(names):
        raise ShardingError(
            f"the program has no argument number {index}",
            location=source,
            cause=f"it has {counted(len(names), 'argument')}",
            remedy=f"give an index from 0 to {len(names) - 1}, or a name" if names else "leave it out",
        )
    return [(index, _EXACT)]


def _number(key: Any) -> int | None:
    """The index that a key is, numpy's integers included."""
    try:
        return None if isinstance(key, bool) else operator.index(key)
    except TypeError:
        return None


def _sharding(graph: Graph, number: int, key: str | int, spec: Any, mesh: Mesh) -> TensorSharding:
    type = graph.types[graph.main.block.arguments[number]]
    try:
        return sharding_of(spec, mesh, type.rank)
    except ShardingError as error:
        raise error.replaced(
            op=f"argument {number} of @{graph.main.name}: {graph.main.argument_names[number]}, {type}",
            location=f"{key}={spec}" if isinstance(spec, str) else f"{key}={spec!r}"[:200],
        ) from None


def _on_mesh(graph: Graph, mesh: Mesh) -> Graph:
    """A copy of the graph on `mesh`, which also takes over what JAX says of scalars and keys on an empty mesh."""

    def moved(sharding: TensorSharding | None) -> TensorSharding | None:
        if sharding is None or sharding.mesh.axes or sharding.mesh.is_maximal:
            return sharding
        return TensorSharding(mesh, sharding.dims)

    meshes = {name: known for name, known in graph.meshes.items() if known.axes or known.is_maximal}
    if mesh not in meshes.values():
        meshes[mesh.name] = mesh
    main = replace(
        graph.main,
        result_shardings=[moved(sharding) for sharding in graph.main.result_shardings],
        argument_attributes=[_donor(attributes) for attributes in graph.main.argument_attributes],
    )
    return replace(graph, shardings=[moved(sharding) for sharding in graph.shardings], main=main, meshes=meshes)


def _donor(attributes: dict[str, str]) -> dict[str, str]:
    """Donation without a fixed result: shardings decide later which result can take the buffer."""
    if "tf.aliasing_output" not in attributes:
        return attributes
    kept = {name: text for name, text in attributes.items() if name != "tf.aliasing_output"}
    return {**kept, "jax.buffer_donor": "true"}

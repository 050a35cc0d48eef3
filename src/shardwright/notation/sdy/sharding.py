"""The `sdy` dialect's attributes: text ↔ model.

Source: the sdy dialect reference (MeshAttr, TensorShardingAttr, TensorShardingPerValueAttr, AxisRefListAttr, …).
Open dimensions carry `?`, priorities `p1`, sub-axes `"x":(1)2`; the kind of unreduced axes is a sum unless said.
A mesh that a sharding spells out instead of naming it is a `Mesh` without a name, and printed spelt out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.memo import current_session, memoize
from shardwright.mesh import Mesh
from shardwright.notation.names import SYMBOL, quoted, symbol_name, symbol_text
from shardwright.notation.notation import Notation, Shape
from shardwright.notation.sdy.parser import Parser
from shardwright.sharding import DimSharding, TensorSharding

__all__ = [
    "has_kinds_of",
    "parse_axes",
    "parse_axis",
    "parse_axis_lists",
    "parse_dimension",
    "parse_mesh",
    "parse_move",
    "parse_moves",
    "parse_sharding",
    "parse_shardings",
    "print_axes",
    "print_axis",
    "print_axis_lists",
    "print_dimension",
    "print_mesh",
    "print_sharding",
    "print_shardings",
]

_T = TypeVar("_T")
_NAMED = re.compile(rf"(?:#sdy\.sharding)?<[ \t\r\n]*({SYMBOL})")
"""The beginning of a sharding that refers to its mesh."""


def parse_mesh(text: str, name: str = "mesh") -> Mesh:
    """`#sdy.mesh<["x"=2, "y"=4], device_ids=[…]>` (or without the prefix) as a `Mesh` called `name`.

    Raises:
        ShardingError: malformed text, at its column, or axes and ids that make no mesh.
    """
    return Parser(text, {}).whole_mesh(name)


@memoize
def print_mesh(mesh: Mesh) -> str:
    """`#sdy.mesh<["x"=2, "y"=4]>`."""
    axes = ", ".join(f"{quoted(axis)}={size}" for axis, size in mesh.axes)
    ids = f", device_ids={list(mesh.device_ids)}" if mesh.device_ids is not None else ""
    return f"#sdy.mesh<[{axes}]{ids}>"


def parse_sharding(text: str, meshes: Mapping[str, Mesh]) -> TensorSharding:
    """`#sdy.sharding<@mesh, [{"x", ?}p1, {}], replicated={…}, unreduced={…}>`, with or without prefix.

    Raises:
        ShardingError: malformed text, an unknown mesh or axis.
    """
    shardings = parse_shardings(text, meshes)
    if len(shardings) != 1:
        raise ShardingError(f"expected one sharding, got {len(shardings)}: {text!r}")
    return shardings[0]


def parse_shardings(text: str, meshes: Mapping[str, Mesh]) -> tuple[TensorSharding, ...]:
    """One sharding or a `#sdy.sharding_per_value<[<…>, <…>]>`, in order."""
    table = current_session().table(__name__ + ".shardings")
    key = (text, *meshes.values())
    shardings: tuple[TensorSharding, ...] | None = table.get(key)
    if shardings is None:
        shardings = table[key] = tuple(Parser(text, meshes).shardings())
    return shardings


def parse_axes(text: str, mesh: Mesh) -> Axes:
    """`{"x", "y":(1)2}`, or `#sdy<axis_ref_list{"x"}>`, as a list of axes."""
    return _enclosed(text, "{", lambda parser: parser.axes(mesh))


def parse_axis_lists(text: str, mesh: Mesh) -> tuple[Axes, ...]:
    """`[{"x"}, {}]`, or `#sdy<list_of_axis_ref_lists[{"x"}, {}]>`, as axes per dimension."""
    return tuple(_enclosed(text, "[", lambda parser: parser.listed("[", "]", lambda: parser.axes(mesh))))


def parse_moves(text: str, mesh: Mesh) -> tuple[tuple[Axes, int, int], ...]:
    """`[{"x"}: 0->1]`, or `#sdy<all_to_all_param_list[…]>`, as `(axes, source, target)` triples."""
    return tuple(_enclosed(text, "[", lambda parser: parser.listed("[", "]", lambda: parser.move(mesh))))


def parse_move(text: str, mesh: Mesh) -> tuple[Axes, int, int]:
    """`#sdy<all_to_all_param{"x"}: 0->1>`, or what is within, as `(axes, source, target)`."""
    return _enclosed(text, "{", lambda parser: parser.move(mesh))


def parse_axis(text: str, mesh: Mesh) -> AxisRef:
    """`#sdy<axis_ref"x":(1)2>`, or what is within."""
    return _enclosed(text, '"', lambda parser: parser.axis(mesh))


def parse_dimension(text: str, mesh: Mesh) -> DimSharding:
    """`#sdy<dimension_sharding{"x", ?}p1>`, or what is within."""
    return _enclosed(text, "{", lambda parser: parser.dimension(mesh))


def _enclosed(text: str, start: str, read: Callable[[Parser], _T]) -> _T:
    """What `read` takes from the first `start` on; nothing but the bracket of an enclosing attribute may follow."""
    parser = Parser(text, {}, start)
    value = read(parser)
    parser.accept(">")
    parser.end()
    return value


def print_axis(axis: AxisRef, mesh: Mesh) -> str:
    """`"x"` or `"x":(1)2`."""
    return mesh.axis_text(axis, quoted(axis.name))


def print_axes(axes: Iterable[AxisRef], mesh: Mesh) -> str:
    """`{"x", "y":(1)2}`."""
    return "{" + ", ".join(print_axis(axis, mesh) for axis in axes) + "}"


def print_axis_lists(lists: Iterable[Iterable[AxisRef]], mesh: Mesh) -> str:
    """`[{"x"}, {}]`."""
    return "[" + ", ".join(print_axes(axes, mesh) for axes in lists) + "]"


def print_sharding(sharding: TensorSharding) -> str:
    """`#sdy.sharding<@mesh, [{"x"}, {?}]>`.

    Raises:
        ShardingError: offsets, halos, or a kinds of reduction that the installed parser does not know.
    """
    return "#sdy.sharding" + _inner(sharding)


def print_shardings(shardings: Sequence[TensorSharding]) -> str:
    """`#sdy.sharding_per_value<[<@mesh, [{"x"}]>, …]>`."""
    return f"#sdy.sharding_per_value<[{', '.join(map(_inner, shardings))}]>"


@memoize
def _inner(sharding: TensorSharding) -> str:
    if sharding.offsets or sharding.halos:
        raise ShardingError("sdy cannot express offsets or halos", cause=f"sharding {sharding!r}")
    mesh = sharding.mesh
    where = symbol_text(mesh.name) if mesh.name else print_mesh(mesh).removeprefix("#sdy.")
    text = f"<{where}, [{', '.join(print_dimension(dim, mesh) for dim in sharding.dims)}]"
    if sharding.replicated:
        text += f", replicated={print_axes(sharding.replicated, mesh)}"
    if not has_kinds_of(sharding):
        kinds = " and ".join(dict.fromkeys(p.kind for p in sharding.partial))
        raise ShardingError(
            f"this version of sdy cannot express a tensor partial by {kinds}", cause=f"sharding {sharding!r}"
        )
    if sharding.partial:
        kind = sharding.partial[0].kind
        axes = [p.axis for p in sharding.partial]
        text += f", unreduced={kind if kind != 'sum' else ''}{print_axes(axes, mesh)}"
    return text + ">"


def has_kinds_of(sharding: TensorSharding) -> bool:
    """Whether the installed sdy can say how the contributions of a partial tensor combine: by one kind that it has."""
    kinds = {p.kind for p in sharding.partial}
    if kinds <= {"sum"}:
        return True
    from shardwright.ir.context import reduction_kinds  # MLIR, which reading and printing texts does without

    return len(kinds) == 1 and kinds <= set(reduction_kinds())


def print_dimension(dim: DimSharding, mesh: Mesh) -> str:
    """`{"x", ?}p1`."""
    inner = [print_axis(axis, mesh) for axis in dim.axes] + (["?"] if dim.open else [])
    priority = f"p{dim.priority}" if dim.priority is not None else ""
    return "{" + ", ".join(inner) + "}" + priority


def _parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """One attribute; a mesh that it refers to by name is the one given, whatever its name."""
    match = _NAMED.match(text)
    if match is None:
        spelt = parse_sharding(text, {})
        return replace(spelt, mesh=Mesh(spelt.mesh.axes, device_ids=spelt.mesh.device_ids))
    name = symbol_name(match[1])
    if mesh is None:
        raise ShardingError(
            f"the mesh @{name[:200]} is not known",
            cause=f"column {match.start(1) + 1} of the sharding {text[:200]!r} refers to it",
            remedy="give the mesh",
        )
    return parse_sharding(text, {name: Mesh(mesh.axes, device_ids=mesh.device_ids, name=name)})


NOTATION = Notation(
    "sdy",
    'OpenXLA Shardy, `#sdy.sharding<@mesh, [{"x"}, {?}]>`',
    lambda text: text.startswith(("#sdy.sharding<", "<@", "<mesh<")),
    _parse,
    lambda sharding, shape: print_sharding(sharding),
)

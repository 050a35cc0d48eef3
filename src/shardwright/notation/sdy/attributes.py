"""The small attributes of the `sdy` dialect: text ↔ plain values. Shardings and meshes are in `notation.sdy`.

    >>> from shardwright.mesh import Mesh
    >>> print_sub_axis(parse_sub_axis("#sdy<sub_axis_info(1)2>")), parse_manual_axes('#sdy<manual_axes{"x", "y"}>')
    ('#sdy<sub_axis_info(1)2>', ('x', 'y'))
    >>> parse_tensor_mapping("#sdy<tensor_mapping[ij, *]>")
    ((0, 1), ())

Source: the sdy dialect reference (AxisRefAttr, SubAxisInfoAttr, MeshAxisAttr, ManualAxesAttr, AllToAllParamAttr,
DimensionShardingAttr, TensorMappingAttr, DimMappingAttr). Printed is what jaxlib prints, `#sdy<name…>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, quoted, unquoted
from shardwright.notation.sdy.factors import FACTOR, factor_symbol, factors_of
from shardwright.notation.sdy.sharding import print_axes, print_axis, print_axis_lists, print_dimension
from shardwright.sharding import DimSharding

__all__ = [
    "parse_manual_axes",
    "parse_mesh_axis",
    "parse_sub_axis",
    "parse_tensor_mapping",
    "print_axis_list_attribute",
    "print_axis_lists_attribute",
    "print_axis_ref",
    "print_dimension_sharding",
    "print_manual_axes",
    "print_mesh_axis",
    "print_move",
    "print_moves",
    "print_sub_axis",
    "print_tensor_mapping",
]

_NUMBER = r"[0-9]{1,18}"
_SUB_AXIS = re.compile(rf"#sdy[.<]sub_axis_info[\s<]*\(\s*({_NUMBER})\s*\)\s*({_NUMBER})\s*>")
_MESH_AXIS = re.compile(rf"#sdy[.<]mesh_axis[\s<]*({STRING})\s*=\s*({_NUMBER})\s*>")
_MANUAL_AXES = re.compile(rf"#sdy[.<]manual_axes[\s<]*\{{\s*((?:{STRING}\s*,?\s*)*)\}}\s*>")
_DIMENSION = rf"\*|(?:{FACTOR})+"
_MAPPING = re.compile(
    rf"#sdy[.<]tensor_mapping[\s<]*\[\s*((?:{_DIMENSION})(?:\s*,\s*(?:{_DIMENSION}))*)?\s*\]\s*>",
)

Move = tuple[Axes, int, int]
"""Axes, and the dimensions from which and to which they go."""


def parse_sub_axis(text: str) -> tuple[int, int]:
    """`#sdy<sub_axis_info(1)2>` as `(pre-size, size)`.

    Raises:
        ShardingError: the text is something else.
    """
    match = _match(_SUB_AXIS, text, "#sdy<sub_axis_info(1)2>")
    return int(match[1]), int(match[2])


def print_sub_axis(info: tuple[int, int]) -> str:
    """`#sdy<sub_axis_info(1)2>`."""
    return f"#sdy<sub_axis_info({info[0]}){info[1]}>"


def parse_mesh_axis(text: str) -> tuple[str, int]:
    """`#sdy<mesh_axis"x"=2>` as `(name, size)`.

    Raises:
        ShardingError: the text is something else.
    """
    match = _match(_MESH_AXIS, text, '#sdy<mesh_axis"x"=2>')
    return unquoted(match[1]), int(match[2])


def print_mesh_axis(axis: tuple[str, int]) -> str:
    """`#sdy<mesh_axis"x"=2>`."""
    return f"#sdy<mesh_axis{quoted(axis[0])}={axis[1]}>"


def parse_manual_axes(text: str) -> tuple[str, ...]:
    """`#sdy<manual_axes{"x", "y"}>` as names.

    Raises:
        ShardingError: the text is something else.
    """
    match = _match(_MANUAL_AXES, text, '#sdy<manual_axes{"x"}>')
    return tuple(unquoted(axis) for axis in re.findall(STRING, match[1]))


def print_manual_axes(axes: Iterable[str]) -> str:
    """`#sdy<manual_axes{"x", "y"}>`."""
    return f"#sdy<manual_axes{{{', '.join(map(quoted, axes))}}}>"


def parse_tensor_mapping(text: str) -> tuple[tuple[int, ...], ...]:
    """`#sdy<tensor_mapping[ij, *]>` as the factors of every dimension; `*` is a dimension without any.

    Raises:
        ShardingError: the text is something else.
    """
    match = _match(_MAPPING, text, "#sdy<tensor_mapping[i, jk]>")
    return tuple(factors_of(dim) for dim in match[1].split(",")) if match[1] else ()


def print_tensor_mapping(mapping: Iterable[tuple[int, ...]]) -> str:
    """`#sdy<tensor_mapping[ij, k]>`."""
    return f"#sdy<tensor_mapping[{', '.join(''.join(map(factor_symbol, dim)) or '*' for dim in mapping)}]>"


def print_axis_ref(axis: AxisRef, mesh: Mesh) -> str:
    """`#sdy<axis_ref"x":(1)2>`."""
    return f"#sdy<axis_ref{print_axis(axis, mesh)}>"


def print_axis_list_attribute(axes: Iterable[AxisRef], mesh: Mesh) -> str:
    """`#sdy<axis_ref_list{"x", "y":(1)2}>`."""
    return f"#sdy<axis_ref_list{print_axes(axes, mesh)}>"


def print_axis_lists_attribute(lists: Iterable[Iterable[AxisRef]], mesh: Mesh) -> str:
    """`#sdy<list_of_axis_ref_lists[{"x"}, {}]>`."""
    return f"#sdy<list_of_axis_ref_lists{print_axis_lists(lists, mesh)}>"


def print_move(move: Move, mesh: Mesh) -> str:
    """`#sdy<all_to_all_param{"x"}: 0->1>`."""
    return f"#sdy<all_to_all_param{_move(move, mesh)}>"


def print_moves(moves: Iterable[Move], mesh: Mesh) -> str:
    """`#sdy<all_to_all_param_list[{"x"}: 0->1, {"y"}: 2->3]>`."""
    return f"#sdy<all_to_all_param_list[{', '.join(_move(move, mesh) for move in moves)}]>"


def print_dimension_sharding(dim: DimSharding, mesh: Mesh) -> str:
    """`#sdy<dimension_sharding{"x", ?}p1>`."""
    return f"#sdy<dimension_sharding{print_dimension(dim, mesh)}>"


def _move(move: Move, mesh: Mesh) -> str:
    axes, source, target = move
    return f"{print_axes(axes, mesh)}: {source}->{target}"


def _match(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise ShardingError(f"malformed attribute {text[:200]!r}", remedy=f"write {example}")
    return match

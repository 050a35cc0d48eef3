"""Shardings as the frameworks' objects print themselves, and as attributes stand in a module: what is inside them.

    NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=P('x', None), memory_kind=device)
    GSPMDSharding({devices=[2,4]<=[8]}, memory_kind=device)
    DTensorSpec(mesh=DeviceMesh((x=2, y=4), 'cpu', stride=(4, 1)), placements=(Shard(dim=0), Replicate()), …)
    Spec(f32[8, 16](S(0)R))
    mhlo.sharding = "{devices=[2,4]<=[8]}"
    <@grid, [[0], []]>                                    as in LLVM 19's mesh.shard %a to <@grid, [[0], []]>

An object's mesh counts where none is given; where one is, it must have the same axes. Device orders are not printed.

Source: the `repr` and `str` of JAX's `NamedSharding` and `GSPMDSharding` and of PyTorch's `DTensorSpec`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape

__all__ = ["Unwrapped", "unwrap"]

_ATTRIBUTE = re.compile(r'(?:mhlo|sdy)\.sharding\s*=\s*(?P<quote>"?)(?P<text>.*)(?P=quote)$', re.DOTALL)
_CALL = re.compile(r"(?P<name>NamedSharding|GSPMDSharding|DTensorSpec|Spec)\((?P<inside>.*)\)$", re.DOTALL)
_JAX_MESH = re.compile(r"(?:Abstract)?Mesh\((?P<inside>.*)\)$", re.DOTALL)
_JAX_AXIS = re.compile(r"""\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*:\s*([0-9]{1,18})\s*$""")
_TORCH_MESH = re.compile(r"DeviceMesh\(\((?P<axes>[^()]*)\)")
_TORCH_AXIS = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?(?P<size>[0-9]{1,18})\s*$")
_TORCH_SHAPE = re.compile(r"shape=torch\.Size\(\[([0-9, ]*)\]\)")
_COMPACT = re.compile(r"\w+\[(?P<shape>[0-9, ]*)\]\s*\((?P<placements>.*)\)$", re.DOTALL)
_COMPACT_BEFORE = re.compile(r"(?P<placements>.*) on \((?P<shape>[0-9, ]*)\)$", re.DOTALL)
_LLVM_19 = re.compile(r"<@[^\s,]+,\s*\[\s*\[")
_ONE_COMPACT = re.compile(r"(?:_?S|P|MaskP)\([^()]*(?:\([^()]*\)[^()]*)*\)|R")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


class Unwrapped(NamedTuple):
    """What is left: a sharding's own text, and the shape and mesh, if they are known now."""

    text: str
    shape: Shape | None
    mesh: Mesh | None


def unwrap(text: str, shape: Shape | None, mesh: Mesh | None) -> Unwrapped:
    """The sharding inside an object's text; any other text as it is.

    Raises:
        ShardingError: a malformed object, or one whose mesh or shape is not the one given.
    """
    attribute = _ATTRIBUTE.match(text)
    if attribute is not None:
        return Unwrapped(attribute["text"].strip(), shape, mesh)
    if _LLVM_19.match(text):
        return Unwrapped(f"#mesh.shard{text}", shape, mesh)
    call = _CALL.match(text)
    if call is None:
        return Unwrapped(text, shape, mesh)
    parts = _split(call["inside"])
    if call["name"] == "GSPMDSharding":
        return Unwrapped(parts[0], shape, mesh)
    if call["name"] == "Spec":
        return _compact(text, parts, shape, mesh)
    arguments = dict(part.split("=", 1) for part in parts if "=" in part)
    keyword = "spec" if call["name"] == "NamedSharding" else "placements"
    if keyword not in arguments or "mesh" not in arguments:
        raise ShardingError(f"malformed sharding {text[:200]!r}", cause=f"it has no mesh= or no {keyword}=")
    if keyword == "spec":
        return Unwrapped(arguments["spec"], shape, _same(_jax_mesh(arguments["mesh"], text), mesh, text))
    sizes = _TORCH_SHAPE.search(arguments.get("tensor_meta", ""))
    return Unwrapped(
        arguments["placements"],
        _same_shape(sizes[1], shape, text) if sizes else shape,
        _same(_torch_mesh(arguments["mesh"], text), mesh, text),
    )


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for at, mark in enumerate(text):
        depth += _BRACKETS.get(mark, 0)
        if mark == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _jax_mesh(text: str, whole: str) -> Mesh:
    match = _JAX_MESH.match(text)
    parts = _split(match["inside"]) if match else []
    arguments = dict(part.split("=", 1) for part in parts if "=" in part)
    if "axis_sizes" in arguments and "axis_names" in arguments:
        names = re.findall(r"'([^'\\]*)'", arguments["axis_names"])
        sizes = re.findall(r"[0-9]{1,18}", arguments["axis_sizes"])
        if len(names) == len(sizes):
            return Mesh([(name, int(size)) for name, size in zip(names, sizes, strict=True)])
    axes = [_JAX_AXIS.match(part) for part in parts if "=" not in part and part]
    sized = [(axis[1] or axis[2] or "", int(axis[3])) for axis in axes if axis is not None]
    if match is None or len(sized) != len(axes):
        raise ShardingError(f"malformed sharding {whole[:200]!r}", cause=f"its mesh {text[:80]!r} is not understood")
    return Mesh(sized)


def _torch_mesh(text: str, whole: str) -> Mesh:
    match = _TORCH_MESH.match(text)
    axes = [_TORCH_AXIS.match(part) for part in _split(match["axes"]) if part] if match else []
    sized = [axis for axis in axes if axis is not None]
    if match is None or len(sized) != len(axes):
        raise ShardingError(f"malformed sharding {whole[:200]!r}", cause=f"its mesh {text[:80]!r} is not understood")
    return Mesh([(axis["name"] or f"dim_{number}", int(axis["size"])) for number, axis in enumerate(sized)])


def _compact(text: str, parts: list[str], shape: Shape | None, mesh: Mesh | None) -> Unwrapped:
    inside = ", ".join(parts)
    match = _COMPACT.match(inside) or _COMPACT_BEFORE.match(inside)
    placements = _ONE_COMPACT.findall(match["placements"]) if match else []
    if match is None or "".join(placements) != match["placements"].replace("->", ""):
        raise ShardingError(
            f"malformed sharding {text[:200]!r}", cause="expected a type and placements: f32[8, 16](S(0)R)"
        )
    return Unwrapped(f"[{', '.join(placements)}]", _same_shape(match["shape"], shape, text), mesh)


def _same(printed: Mesh, given: Mesh | None, text: str) -> Mesh:
    """The mesh given, which may know more (the order of devices), if its axes are those that are said."""
    if given is None:
        return printed
    if given.axes != printed.axes and not all(name.startswith("dim_") for name in printed.sizes):
        raise ShardingError(
            "the sharding has another mesh than the one given",
            cause=f"{text[:120]!r} is on {printed!r}, given is {given!r}",
            remedy="leave the mesh out, or give the same",
        )
    return given


def _same_shape(text: str, given: Shape | None, whole: str) -> Shape:
    printed = tuple(int(size) for size in re.findall(r"[0-9]{1,18}", text))
    if given is not None and given != printed:
        raise ShardingError(
            "the sharding has another shape than the one given",
            cause=f"{whole[:120]!r} says {list(printed)}, the tensor is {list(given)}",
            remedy="give the shape that the sharding says, or none",
        )
    return printed

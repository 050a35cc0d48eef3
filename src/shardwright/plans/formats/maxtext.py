"""The JSON in which MaxText dumps how the state of a model lies: of each leaf its mesh, its `PartitionSpec`, its shape.

    {".params/['params']/['decoder']/['wo']/['kernel']": {
        "mesh": {"axis_names": ["fsdp", "tensor"], "shape": {"fsdp": 4, "tensor": 2}},
        "partition_spec": ["tensor", null, "fsdp"], "shape": [53248, 126, 16384]}}

`named_shardings.json` is that, `logical_shardings.json` has no mesh, and the names of logical axes in the place of
those of the mesh: `rules` say which are which, in order of precedence, `[["embed", ["fsdp"]], ["mlp", "tensor"]]`; an
axis of the mesh splits one dimension, the first that a rule gives it to. An argument is found by its path, or by the
end of it. Axes of size 1, of which MaxText has many, split nothing and need not be there.

Source: AI-Hypercomputer/maxtext, tests/utils/sharding_dump.py (named_shardings_to_json, partition_specs_to_json) and
sharding_info/ (dumps); flax's `logical_to_mesh_axes` for the rules, and maxtext/utils/sharding.py for axes of size 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.locations import pytree_path
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.formats.format import Converted, PlanFormat, Reading, other_mesh
from shardwright.plans.formats.module_names import parts_of
from shardwright.plans.saved import PlannedTensor, SavedPlan, Unsaid
from shardwright.sharding import DimSharding, TensorSharding
from shardwright.words import counted

__all__ = ["FORMAT"]

_KEYS = ("mesh", "partition_spec", "shape")
_REMEDY = "give what MaxText's sharding_dump writes, as named_shardings.json"
_BETWEEN = re.compile(r"/(?=[\[.])")
_OPEN = ("UNCONSTRAINED", "PartitionSpec.UNCONSTRAINED", "UnconstrainedSingleton")


def _looks_like(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and bool(content)
        and all(
            isinstance(one, Mapping) and "partition_spec" in one and set(one) <= {*_KEYS} for one in content.values()
        )
    )


def _read(content: Mapping[str, Mapping[str, Any]], reading: Reading) -> SavedPlan:
    mesh = _mesh(content, reading)
    rules = _rules(reading)
    tensors: dict[str, PlannedTensor] = {}
    unread: list[Unsaid] = []
    for name, said in content.items():
        argument = _argument(name, reading.arguments)
        if isinstance(argument, Unsaid):
            unread.append(argument)
            continue
        type = reading.arguments[argument]
        sizes = said.get("shape")
        planned = type if sizes is None else TensorType(_shape(sizes, name, reading), type.dtype)
        entries = _entries(said["partition_spec"], rules, mesh, name, reading)
        if len(entries) > planned.rank:
            cause = f"its partition_spec has {counted(len(entries), 'entry')} for {counted(planned.rank, 'dimension')}"
            unread.append(Unsaid(argument, cause, "give at most one for each dimension"))
            continue
        dims = (*entries, *[DimSharding()] * (planned.rank - len(entries)))
        lies = TensorSharding(mesh, dims)
        try:
            lies.check()
        except ShardingError as error:
            unread.append(Unsaid(argument, error.diagnostic.message, "let each axis split one dimension"))
            continue
        tensors[argument] = PlannedTensor(lies, lies, planned)
    return SavedPlan(mesh, tensors, unread=tuple(unread), location=reading.location)


def _mesh(content: Mapping[str, Mapping[str, Any]], reading: Reading) -> Mesh:
    """The mesh that all leaves are on, or the one that is known where none says it."""
    found: dict[Mesh, str] = {}
    for name, said in content.items():
        if (mesh := said.get("mesh")) is None:
            continue
        try:
            sizes = mesh["shape"]
            found.setdefault(Mesh([(axis, sizes[axis]) for axis in mesh["axis_names"]]), name)
        except (KeyError, TypeError):
            raise _malformed(name, f"its mesh is {mesh!r}"[:200], reading) from None
    if len(found) > 1:
        one, other = list(found.items())[:2]
        raise ShardingError(
            "the plan is on several meshes",
            location=reading.location,
            cause=f"{one[1]} is on {one[0]!r}, {other[1]} on {other[0]!r}",
            remedy="give a plan that is on one",
        )
    return next(iter(found)) if found else reading.known_mesh


def _rules(reading: Reading) -> list[tuple[str, list[str]]]:
    """The logical axes and what they are split over, in order of precedence."""
    rules = reading.options.get("rules", ())
    try:
        pairs = [(name, list(axes) if isinstance(axes, tuple) else axes) for name, axes in rules]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(isinstance(name, str) and _is_axes(axes) for name, axes in pairs):
        raise ShardingError(
            f"not rules of logical axes: {rules!r}"[:200],
            location=reading.location,
            remedy='write them as [["embed", ["fsdp"]], ["mlp", "tensor"]]',
        )
    return [(name, [axes] if isinstance(axes, str) else list(axes or ())) for name, axes in pairs]


def _is_axes(entry: Any) -> bool:
    """Whether this is no axis, one, or several."""
    names = entry if isinstance(entry, list) else [] if entry is None else [entry]
    return all(isinstance(name, str) for name in names)


def _argument(name: str, arguments: Mapping[str, TensorType]) -> str | Unsaid:
    """The argument that a leaf is: by its path, or by the end of one."""
    path = pytree_path(_BETWEEN.sub("", name))
    if path in arguments:
        return path
    known = {argument: parts_of(argument) for argument in arguments}
    for parts in (parts_of(path), parts_of(path.removesuffix("/value"))):
        same = [argument for argument, own in known.items() if own == parts]
        ends = same or [argument for argument, own in known.items() if parts and own[-len(parts) :] == parts]
        if len(ends) == 1:
            return ends[0]
        if ends:
            return Unsaid(path, f"several arguments end so: {', '.join(ends[:3])}", "give the whole path")
    return Unsaid(path, "no argument has such a path", "leave it out")


def _entries(
    spec: Any, rules: list[tuple[str, list[str]]], mesh: Mesh, name: str, reading: Reading
) -> list[DimSharding]:
    if not isinstance(spec, list) or not all(map(_is_axes, spec)):
        raise _malformed(name, f"its partition_spec is {spec!r}"[:200], reading)
    names = [[] if entry is None else [entry] if isinstance(entry, str) else entry for entry in spec]
    is_open = [entry in _OPEN for entry in spec]
    assigned = _assigned(spec, rules, mesh) if rules else names
    dims: list[DimSharding] = []
    for axes, may_grow in zip(assigned, is_open, strict=True):
        known = [] if may_grow else axes
        for axis in known:
            if axis not in mesh.sizes and not rules:
                cause = f"it names {axis!r}, and the mesh has {', '.join(mesh.sizes) or 'no axes'}"
                remedy = "say what logical axes are: sw.load_plan(dump, rules=[...])"
                raise ShardingError(f"{name}: {cause}", location=reading.location, remedy=remedy)
        dims.append(DimSharding(tuple(mesh.axis(axis) for axis in known if mesh.sizes.get(axis, 1) > 1), may_grow))
    return dims


def _assigned(spec: list[Any], rules: list[tuple[str, list[str]]], mesh: Mesh) -> list[list[str]]:
    """What each logical axis is split over: by the first rule for it whose axes are all free."""
    chosen: dict[int, list[str]] = {}
    used: set[str] = set()
    for name, axes in rules:
        if name in spec and spec.index(name) not in chosen and used.isdisjoint(axes):
            chosen[spec.index(name)] = axes
            used |= set(axes)
    return [chosen.get(place, []) for place in range(len(spec))]


def _shape(sizes: Any, name: str, reading: Reading) -> tuple[int, ...]:
    if isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes):
        return tuple(sizes)
    raise _malformed(name, f"its shape is {sizes!r}"[:200], reading)


def _malformed(name: str, cause: str, reading: Reading) -> ShardingError:
    return ShardingError(f"malformed entry {name!r}"[:200], location=reading.location, cause=cause, remedy=_REMEDY)


def _write(plan: SavedPlan, options: Mapping[str, Any]) -> Converted:
    mesh = {"axis_names": list(plan.mesh.sizes), "shape": dict(plan.mesh.sizes)}
    said: dict[str, Any] = {}
    unsaid: list[Unsaid] = []
    for name, one in plan.arguments.items():
        lies = one.sharding.closed()
        if lies.partial or lies.offsets or lies.halos or not all(map(plan.mesh.is_full, lies.used_axes)):
            cause = f"it lies {lies!r}, and a PartitionSpec in JSON has whole axes alone"
            unsaid.append(Unsaid(name, cause, "give the mesh an axis for each part, and reduce what is partial"))
            continue
        spec = [[axis.name for axis in axes] if len(axes) > 1 else axes[0].name if axes else None for axes in lies.axes]
        shape = {} if one.type is None else {"shape": list(one.type.dims)}
        said[_key(name)] = {"mesh": mesh, "partition_spec": spec, **shape}
    return Converted(said, tuple(unsaid), other_mesh("MaxText's JSON", plan.mesh))


def _key(name: str) -> str:
    """A path as MaxText writes it, numbers as indices and all else as keys."""
    return "/".join(f"[{part}]" if part.isdigit() else f"[{part!r}]" for part in name.split("/"))


FORMAT = PlanFormat(
    "maxtext",
    """MaxText, `{"['wo']": {"mesh": …, "partition_spec": ["fsdp", null], "shape": [8, 4]}}`""",
    ("rules",),
    _looks_like,
    _read,
    _write,
)

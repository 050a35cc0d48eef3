"""The placements of PyTorch's DTensor: of each argument and result one for every dimension of a `DeviceMesh`.

    {"mesh": {"mesh_dim_names": ["data", "model"], "mesh": [[0, 1], [2, 3]]},
     "arguments": {"w": {"shape": [8, 16], "text": "[Replicate(), Shard(1)]",
                         "placements": [{"type": "Replicate"}, {"type": "Shard", "dim": 1}]}},
     "results": {},
     "modules": {"blocks.0.attn": {"inputs": {"x": {…}}, "outputs": {"result0": {…}}}}}

`modules`, which is there where the program was made of a model, says how what crosses the boundaries of its modules
lies; what does not divide among devices is left to DTensor. Plain data, for which no torch is needed: a placement is a
class of `torch.distributed.tensor.placement_types` and the arguments that make it, and `mesh` the devices as
`DeviceMesh` takes them. PyTorch has no such file; this is ours.

Source: `torch.distributed.tensor`, placement_types.py, and `torch.distributed.device_mesh.DeviceMesh`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.dtensor import Placement, parse, placements_of
from shardwright.plans.formats.format import Converted, PlanFormat, Reading
from shardwright.plans.saved import PlannedModule, PlannedTensor, SavedPlan, Unsaid

__all__ = ["FORMAT"]

_REMEDY = "write it as `shardwright plan --to dtensor` does"
_PLACES = ("arguments", "results")


def _looks_like(content: Any) -> bool:
    mesh = content.get("mesh") if isinstance(content, Mapping) else None
    return isinstance(mesh, Mapping) and "mesh_dim_names" in mesh


def _write(plan: SavedPlan, options: Mapping[str, Any]) -> Converted:
    unsaid: list[Unsaid] = []
    content: dict[str, Any] = {"mesh": _device_mesh(plan.mesh)}
    for place in _PLACES:
        content[place] = _written(getattr(plan, place), unsaid)
    if plan.modules:
        content["modules"] = {call: _module(call, one, unsaid) for call, one in plan.modules.items()}
    return Converted(content, tuple(unsaid))


def _module(call: str, one: PlannedModule, unsaid: list[Unsaid]) -> dict[str, Any]:
    return {
        "inputs": _written(one.inputs, unsaid, f"{call}: input ", _check_even),
        "outputs": _written(one.outputs, unsaid, f"{call}: output ", _check_even),
    }


def _check_even(one: PlannedTensor) -> None:
    """DTensor has few rules for uneven shards, and lays them out as it needs where nobody tells it to."""
    if one.type is not None and not one.sharding.divides(one.type.dims):
        raise ShardingError("it does not divide, and is left to DTensor", remedy="split it over fewer devices")


def _written(
    tensors: Mapping[str, PlannedTensor],
    unsaid: list[Unsaid],
    start: str = "",
    check: Callable[[PlannedTensor], None] = lambda one: None,
) -> dict[str, Any]:
    """How tensors lie, by name; `unsaid` gets those of which placements cannot say it."""
    content: dict[str, Any] = {}
    for name, one in tensors.items():
        try:
            check(one)
            found = placements_of(one.sharding.closed(), None if one.type is None else one.type.dims)
        except ShardingError as error:
            remedy = error.diagnostic.remedy or "let it lie otherwise"
            unsaid.append(Unsaid(f"{start}{name}", f"{error.diagnostic.message}: {one.sharding!r}", remedy))
            continue
        shape = {} if one.type is None else {"shape": list(one.type.dims)}
        text = f"[{', '.join(map(str, found))}]"
        content[name] = {**shape, "text": text, "placements": [_described(each) for each in found]}
    return content


def _device_mesh(mesh: Mesh) -> dict[str, Any]:
    """What makes a `DeviceMesh`: devices nested as its axes are, and their names."""
    devices: list[Any] = [mesh.device_id(position) for position in range(mesh.listed)]
    for size in reversed([size for _, size in mesh.axes][1:]):
        devices = [devices[start : start + size] for start in range(0, len(devices), size)]
    return {"mesh_dim_names": list(mesh.sizes), "mesh": devices}


def _described(placement: Placement) -> dict[str, Any]:
    """The class of a placement, and what makes it."""
    if placement.kind:
        return {"type": "Partial", "reduce_op": placement.reduce_op}
    if placement.dim is None:
        return {"type": "Replicate"}
    if placement.factor > 1:
        return {"type": "_StridedShard", "dim": placement.dim, "split_factor": placement.factor}
    return {"type": "Shard", "dim": placement.dim}


def _read(content: Mapping[str, Any], reading: Reading) -> SavedPlan:
    mesh = _mesh(content["mesh"], reading.location)
    tensors: dict[str, dict[str, PlannedTensor]] = {}
    for place in _PLACES:
        entries = content.get(place, {})
        if not isinstance(entries, Mapping):
            raise _malformed(place, f"it is {entries!r}"[:200], reading.location)
        tensors[place] = {name: _tensor(name, one, mesh, reading) for name, one in entries.items()}
    modules = _modules(content.get("modules", {}), mesh, reading)
    return SavedPlan(mesh, tensors["arguments"], tensors["results"], location=reading.location, modules=modules)


def _modules(said: Any, mesh: Mesh, reading: Reading) -> dict[str, PlannedModule]:
    """How what calls of modules take and give lies; shapes are those of the program where none are said."""
    if not isinstance(said, Mapping):
        raise _malformed("modules", f"it is {said!r}"[:200], reading.location)
    made: dict[str, PlannedModule] = {}
    for call, sides in said.items():
        if not isinstance(sides, Mapping) or not all(isinstance(one, Mapping) for one in sides.values()):
            raise _malformed(call, f"it is {sides!r}"[:200], reading.location)
        known = {(part.is_input, part.name): type for part, type in reading.modules.items() if part.call == call}
        inputs, outputs = (
            {
                name: _tensor(f"{call}: {name}", one, mesh, reading, known.get((is_input, name)))
                for name, one in sides.get(side, {}).items()
            }
            for side, is_input in (("inputs", True), ("outputs", False))
        )
        made[call] = PlannedModule(inputs, outputs)
    return made


def _mesh(said: Mapping[str, Any], location: str) -> Mesh:
    names, devices = said["mesh_dim_names"], said.get("mesh")
    sizes: list[int] = []
    level = devices
    while isinstance(level, list) and level:
        sizes.append(len(level))
        level = level[0]
    flat = _flat(devices)
    if not isinstance(names, list) or len(names) != len(sizes) or math.prod(sizes) != len(flat):
        raise _malformed("mesh", f"it is {dict(said)!r}"[:200], location)
    try:
        return Mesh(list(zip(names, sizes, strict=True)), device_ids=flat)
    except ShardingError as error:
        raise error.replaced(location=location) from None


def _flat(devices: Any) -> list[Any]:
    return [each for one in devices for each in _flat(one)] if isinstance(devices, list) else [devices]


def _tensor(name: str, said: Any, mesh: Mesh, reading: Reading, known: TensorType | None = None) -> PlannedTensor:
    """How one tensor lies; its shape is that of the program, by its name where it is not known, where none is said."""
    known = known or reading.arguments.get(name)
    sizes = said.get("shape", None if known is None else list(known.dims)) if isinstance(said, Mapping) else None
    found = said.get("placements") if isinstance(said, Mapping) else None
    if not _is_shape(sizes) or not isinstance(found, list):
        raise _malformed(name, "it is to have a shape, and placements", reading.location)
    text = f"[{', '.join(_text(each, name, reading.location) for each in found)}]"
    shape = tuple(sizes or ())
    try:
        lies = parse(text, shape, mesh)
    except ShardingError as error:
        raise error.replaced(message=f"{name}: {error.diagnostic.message}", location=reading.location) from None
    return PlannedTensor(lies, lies, TensorType(shape, "f32" if known is None else known.dtype))


def _is_shape(sizes: Any) -> bool:
    return isinstance(sizes, Sequence) and all(type(size) is int and size >= 0 for size in sizes)


def _text(said: Any, name: str, location: str) -> str:
    """A placement as text, which the notation reads."""
    if isinstance(said, str):
        return said
    arguments = {key: value for key, value in said.items() if key != "type"} if isinstance(said, Mapping) else None
    if arguments is None or not isinstance(said.get("type"), str):
        raise _malformed(name, f"{said!r} is no placement"[:200], location)
    return f"{said['type']}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def _malformed(name: str, cause: str, location: str) -> ShardingError:
    return ShardingError(f"malformed entry {name!r}"[:200], location=location, cause=cause, remedy=_REMEDY)


FORMAT = PlanFormat(
    "dtensor",
    "PyTorch DTensor, placements on a DeviceMesh",
    (),
    _looks_like,
    _read,
    _write,
)

"""torchtitan's `ShardingConfig`: module → how each of its parameters lies, by the axes of devices.

    {"layers.*.attention.wq": {"state_shardings": {"weight": {"dp": "R", "cp": "R", "tp": "S(0)"}}}}
    {"wpe": {"state_shardings": {"weight": {"axis_types": {"dp": "V", "tp": "V"}, "partition_spec": [["dp", "tp"]]}}}}

torchtitan has these as Python objects, and writes them as text for logs alone; here they are JSON with the names of
their fields. An axis has the type `R` (also `I`, `Replicate()`), `S(d)` (`Shard(d)`), `P` (`Partial()`), or `V`, where
the `partition_spec` says which dimension it splits, and in which order where several split one. Every axis of the mesh
must be said, but for those of size 1; others than the mesh has are not looked at. `dp` is `dp_replicate` and
`dp_shard`. `in_dst_shardings` says of what a module takes, by the parameters of its `forward`, and `out_dst_shardings`
of the one tensor that it gives, how it lies after it was brought there; this is read for programs that were made of a
model, and written from plans of these. What stands before, `in_src_shardings` and `out_src_shardings`, is not taken
over: it follows.

Source: torchtitan 0.3, protocols/sharding.py (ShardingConfig, resolve_placements) and distributed/parallel_dims.py
(SpmdLayout, unfold_dp_axis); spmd-types 0.3.1, types.py and _dtensor.py (which type is which placement).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.formats.format import Converted, PlanFormat, Reading, other_mesh
from shardwright.plans.formats.module_calls import called_by_pattern, pattern_of, said_alike
from shardwright.plans.formats.module_names import most_exact, parts_of, wildcard
from shardwright.plans.modules import by_calls
from shardwright.plans.saved import PlannedModule, PlannedTensor, SavedPlan, Unsaid
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["FORMAT"]

_STATE = "state_shardings"
_INPUTS, _OUTPUT = "in_dst_shardings", "out_dst_shardings"
_TAKEN = (_STATE, _INPUTS, _OUTPUT)
_FIELDS = (*_TAKEN, "in_src_shardings", "out_src_shardings", "local_map")
_TYPES = {"R": "R", "I": "R", "Replicate()": "R", "V": "V", "P": "P", "Partial()": "P", "Partial(sum)": "P"}
_SHARD = re.compile(r"(?:S|Shard)\((?:dim=)?(-?\d{1,4})\)")
_DATA_PARALLEL = ("dp", ("dp_replicate", "dp_shard"))
_REMEDY = 'write it as {"state_shardings": {"weight": {"dp": "R", "tp": "S(0)"}}}'


def _looks_like(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and bool(content)
        and all(isinstance(config, Mapping) and set(config) <= {*_FIELDS} for config in content.values())
    )


class _Refused(Exception):
    """Why a layout is none."""


def _read(content: Any, reading: Reading) -> SavedPlan:
    mesh = reading.known_mesh
    layouts = {
        (module, own): layout for module, config in content.items() for own, layout in _states(config, module, reading)
    }
    patterns = {".".join((*parts_of(module), own)): layout for (module, own), layout in layouts.items()}
    tensors: dict[str, PlannedTensor] = {}
    unread: list[Unsaid] = []
    unused = dict.fromkeys(patterns)
    for name, type in reading.arguments.items():
        pattern = _pattern(patterns, parts_of(name))
        if pattern is None:
            continue
        unused.pop(pattern, None)
        try:
            lies = _sharding(patterns[pattern], type, mesh)
        except _Refused as refused:
            unread.append(Unsaid(name, str(refused), "change it there, or leave it out"))
        else:
            tensors[name] = PlannedTensor(lies, lies, type)
    unread += [Unsaid(pattern, "no argument has such a name", "leave it out") for pattern in unused]
    modules = by_calls(_boundaries(content, reading, unread))
    taken = _TAKEN if reading.modules else (_STATE,)
    more = sorted({field for config in content.values() for field in config if field not in taken})
    notes = [f"{', '.join(more)} are not taken over: they follow from how tensors lie"] if more else []
    return SavedPlan(
        mesh, tensors, notes=tuple(notes), unread=tuple(unread), location=reading.location, modules=modules
    )


def _boundaries(
    content: Mapping[str, Any], reading: Reading, unread: list[Unsaid]
) -> Iterator[tuple[ModuleTensor, PlannedTensor]]:
    """How what modules take and give lies, of those that the program has."""
    said = {(pattern, name): layout for pattern, config in content.items() for name, layout in _moved(config)}
    unused = dict.fromkeys(said) if reading.modules else {}
    single = Counter(part.call for part in reading.modules if not part.is_input)
    for part, type in reading.modules.items():
        key = pattern_of(part.call, content) or "", part.name if part.is_input else _OUTPUT
        if key not in said or (not part.is_input and single[part.call] > 1):
            continue
        unused.pop(key, None)
        try:
            lies = _sharding(said[key], type, reading.known_mesh)
            if lies.partial:
                raise _Refused("it is to be brought to sums that are not added up")
        except _Refused as refused:
            unread.append(Unsaid(str(part), str(refused), "change it there, or leave it out"))
        else:
            yield part, PlannedTensor(lies, lies, type)
    cause = "no module of such a name takes it, or gives one tensor"
    unread += [Unsaid(f"{pattern}: {name}", cause, "leave it out") for pattern, name in unused]


def _moved(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a config says of what its module takes, by the parameters of `forward`, and of what it gives."""
    inputs = config.get(_INPUTS)
    yield from inputs.items() if isinstance(inputs, Mapping) else [] if inputs is None else [(_INPUTS, inputs)]
    if config.get(_OUTPUT) is not None:
        yield _OUTPUT, config[_OUTPUT]


def _pattern(patterns: Mapping[str, Any], parts: tuple[str, ...]) -> str | None:
    """The entry of a parameter; what is said of the root, which has no name, is about what has no module itself."""
    inner = [pattern for pattern in patterns if len(parts_of(pattern)) > 1]
    own = ".".join(parts)
    return own if len(parts) == 1 and own in patterns else most_exact(inner, parts, modules=False)


def _states(config: Mapping[str, Any], module: str, reading: Reading) -> list[tuple[str, Any]]:
    states = config.get(_STATE, {})
    if not isinstance(states, Mapping):
        raise ShardingError(
            f"{module!r}: {_STATE} is {states!r}"[:200],
            location=reading.location,
            cause="it says of each parameter how it lies",
            remedy=_REMEDY,
        )
    return list(states.items())


def _sharding(layout: Any, type: TensorType, mesh: Mesh) -> TensorSharding:
    """How a tensor lies by a layout."""
    types, spec = _parts(layout)
    dims: list[list[str]] = [[] for _ in range(type.rank)]
    partial: list[str] = []
    listed = [_axes(entry, mesh) for entry in spec or ()]
    for axis, size in mesh.axes:
        if size == 1:
            continue
        said = types.get(axis, types.get(_DATA_PARALLEL[0]) if axis in _DATA_PARALLEL[1] else None)
        dim = _dimension(axis, said, type.rank, listed)
        if said == "P":
            partial.append(axis)
        if dim is not None:
            dims[dim].append(axis)
        if dim is not None and said != "V" and len(dims[dim]) > 1:
            raise _Refused(f"several axes split dimension {dim}, and no partition_spec says in which order")
    if spec is not None:
        dims = [*listed[: type.rank], *[[] for _ in range(type.rank - len(listed))]]
    try:
        lies = TensorSharding.of(mesh, dims, partial=partial)
        lies.check()
    except ShardingError as error:
        raise _Refused(error.diagnostic.message) from None
    return lies


def _dimension(axis: str, said: str | int | None, rank: int, listed: list[list[str]]) -> int | None:
    """The dimension that an axis splits, if it splits one."""
    place = next((dim for dim, axes in enumerate(listed) if axis in axes), None)
    if said is None:
        raise _Refused(f"nothing is said of the mesh axis {axis!r}, and torchtitan wants every axis")
    if said == "V" and place is None:
        raise _Refused(f"it varies along {axis!r}, and no partition_spec says over which dimension")
    if said != "V" and place is not None:
        raise _Refused(f"the partition_spec splits over {axis!r}, which is {said!r} and not 'V'")
    dim = said if isinstance(said, int) else place
    if dim is not None and not -rank <= dim < rank:
        raise _Refused(f"{axis!r} splits dimension {dim}, and it has {counted(rank, 'dimension')}")
    return None if dim is None else dim % rank


def _parts(layout: Any) -> tuple[dict[str, str | int], list[Any] | None]:
    """The type of each axis, a number for `S(number)`, and the partition spec, if there is one."""
    types, spec = layout, None
    if isinstance(layout, Mapping) and "axis_types" in layout:
        types, spec = layout["axis_types"], layout.get("partition_spec")
    if not isinstance(types, Mapping) or not (spec is None or isinstance(spec, list)):
        raise _Refused(f"{layout!r} is no layout"[:200])
    found: dict[str, str | int] = {}
    for axis, text in types.items():
        shard = _SHARD.fullmatch(text) if isinstance(text, str) else None
        if shard is None and not (isinstance(text, str) and text in _TYPES):
            raise _Refused(f"{axis!r} has the type {text!r}, known are {', '.join(_TYPES)}, S(0), …"[:200])
        found[axis] = int(shard[1]) if shard is not None else _TYPES[text]
    if spec is not None and any(isinstance(said, int) for said in found.values()):
        raise _Refused("beside a partition_spec axes that split are of the type V")
    return found, spec


def _axes(entry: Any, mesh: Mesh) -> list[str]:
    """The axes of an entry of a partition spec that the mesh has with more than one device."""
    names = [entry] if isinstance(entry, str) else [] if entry is None else entry
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _Refused(f"the partition_spec has the entry {entry!r}"[:200])
    unfolded = [
        each
        for name in names
        for each in (_DATA_PARALLEL[1] if name == _DATA_PARALLEL[0] and name not in mesh.sizes else (name,))
    ]
    return [name for name in unfolded if mesh.sizes.get(name, 1) > 1]


def _write(plan: SavedPlan, options: Mapping[str, Any]) -> Converted:
    said: dict[str, Any] = {}
    unsaid: list[Unsaid] = []
    layouts: dict[str, Any] = {}
    for name, one in plan.arguments.items():
        found = _layout(name, one)
        if isinstance(found, Unsaid):
            unsaid.append(found)
        else:
            layouts[name] = found
    groups: dict[str, list[str]] = {}
    for name in layouts:
        groups.setdefault(wildcard(parts_of(name)), []).append(name)
    for pattern, names in groups.items():
        alike = all(layouts[name] == layouts[names[0]] for name in names)
        for each, name in [(pattern, names[0])] if alike else [(".".join(parts_of(name)), name) for name in names]:
            module, _, own = each.rpartition(".")
            said.setdefault(module, {_STATE: {}})[_STATE][own] = layouts[name]
    _write_boundaries(plan, said, unsaid)
    return Converted(said, tuple(unsaid), other_mesh("torchtitan", plan.mesh))


def _write_boundaries(plan: SavedPlan, said: dict[str, Any], unsaid: list[Unsaid]) -> None:
    """Add how what modules take and give lies."""
    configs = {call: _config(call, module, unsaid) for call, module in plan.modules.items()}
    for pattern, calls in called_by_pattern(plan.modules).items():
        found, against = said_alike(pattern, calls, configs.__getitem__)
        for name, config in found.items():
            if config:
                said.setdefault(name, {}).update(config)
        remedy = "let what all calls of a module take and give lie alike"
        unsaid += [
            Unsaid(call, "another call of the module has what it takes and gives lie otherwise", remedy)
            for call in against
        ]


def _config(call: str, module: PlannedModule, unsaid: list[Unsaid]) -> dict[str, Any]:
    """What a config says of what one call takes and gives."""
    layouts = {what: _layout(f"{call}: {what}", one) for what, one in module.tensors.items()}
    unsaid += [found for found in layouts.values() if isinstance(found, Unsaid)]
    inputs = {name: layouts[f"input {name}"] for name in module.inputs}
    inputs = {name: layout for name, layout in inputs.items() if not isinstance(layout, Unsaid)}
    outputs = [layouts[f"output {name}"] for name in module.outputs]
    if len(outputs) > 1:
        cause = "torchtitan says how one result lies, and this module gives several"
        unsaid.append(Unsaid(f"{call}: outputs", cause, "give one tensor"))
    config = {_INPUTS: inputs} if inputs else {}
    return config | ({_OUTPUT: outputs[0]} if len(outputs) == 1 and not isinstance(outputs[0], Unsaid) else {})


def _layout(name: str, one: PlannedTensor) -> Any:
    """How a tensor lies, by axes."""
    lies = one.sharding.closed()
    mesh = lies.mesh
    cut = [axis for axis in (*lies.used_axes, *lies.partial_axes) if not mesh.is_full(axis)]
    if cut or lies.offsets or lies.halos or any(each.kind != "sum" for each in lies.partial):
        what = "parts of axes" if cut else "offsets, halos or partial values that are no sums"
        return Unsaid(name, f"it lies {lies!r}, and torchtitan has no {what}", "give the mesh an axis for each part")
    types: dict[str, str] = {axis: "R" for axis, _ in mesh.axes}
    types |= {axis.name: "P" for axis in lies.partial_axes}
    types |= {axis.name: f"S({dim})" for dim, axes in enumerate(lies.axes) for axis in axes}
    if all(len(axes) < 2 for axes in lies.axes):
        return types
    types |= {axis.name: "V" for axis in lies.used_axes}
    spec = [[axis.name for axis in axes] if len(axes) > 1 else axes[0].name if axes else None for axes in lies.axes]
    return {"axis_types": types, "partition_spec": spec}


FORMAT = PlanFormat(
    "torchtitan",
    'torchtitan, `{"layers.*.wq": {"state_shardings": {"weight": {"tp": "S(0)"}}}}`',
    (),
    _looks_like,
    _read,
    _write,
)

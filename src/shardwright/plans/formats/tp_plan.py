"""HuggingFace's `tp_plan`: module or parameter → the style of tensor parallelism, on one axis of devices.

    {"layers.*.self_attn.q_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"}

A style says how the parameters of a `torch.nn.Linear` lie, whose weight is `[out, in]`, and how what the module takes
and gives lies along the axis: `tp_calls`. The latter is read for programs that were made of a model, and decides which
of several styles is written. Styles that are about the call alone leave parameters whole.

Read: `axis` is the axis that takes the place of the tensor-parallel one. Unasked that is `tp`, `tensor` or `model`, or
the one axis that has more than one device.

Source: `base_model_tp_plan` of the configurations in transformers 5.24, transformers/distributed/tensor_parallel.py
(the styles, and the older names `…_rep`) and parallel_utils.py (how names are matched); `local_…` of transformers 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.formats.format import Converted, PlanFormat, Reading, other_mesh
from shardwright.plans.formats.module_names import is_about, most_exact, parts_of, wildcard
from shardwright.plans.formats.tp_calls import boundaries, with_boundaries
from shardwright.plans.modules import by_calls
from shardwright.plans.saved import PlannedTensor, SavedPlan, Unsaid
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["FORMAT"]

_AXES = ("tp", "tensor", "model")
_LEAVE = "leave it out of the plan, or give the argument a sharding of its own"

Placed = Callable[[str, int], int | None]
"""The name of a parameter in its module and its rank → the dimension that is split, if one is."""


def _colwise(_: str, rank: int) -> int:
    return max(rank - 2, 0)


def _rowwise(parameter: str, rank: int) -> int | None:
    return None if parameter == "bias" else rank - 1


def _first(_: str, rank: int) -> int:
    return 0


def _second(_: str, rank: int) -> int:
    return 1


def _whole(_: str, rank: int) -> None:
    return None


_STYLES: dict[str, Placed] = {
    **dict.fromkeys(("colwise", "colwise_gather_output", "colwise_rep", "local_colwise"), _colwise),
    **dict.fromkeys(("rowwise", "rowwise_split_input", "rowwise_rep", "local_rowwise"), _rowwise),
    "embedding_rowwise": _first,
    "embedding_colwise": _second,
    "grouped_gemm": _first,
    **dict.fromkeys(("replicate", "replicated_with_grad_allreduce", "sequence_parallel"), _whole),
    **dict.fromkeys(("local_params", "mla_kv_a_proj", "all_reduce", "moe_tp_experts", "moe_identity_expert"), _whole),
    **dict.fromkeys(("ep_router", "ep_dispatch_experts", "gather", "local", "isolated", "replicated"), _whole),
}
_PACKED = {"packed_colwise": _colwise, "packed_rowwise": _rowwise, "local_packed_rowwise": _rowwise}
"""Of fused weights each device holds a run of rows of every part, where these have more than one dimension."""


def _looks_like(content: Any) -> bool:
    plan = _inside(content)
    return isinstance(plan, Mapping) and bool(plan) and all(isinstance(style, str) for style in plan.values())


def _inside(content: Any) -> Any:
    """The plan itself, where it stands in a configuration."""
    for key in ("base_model_tp_plan", "tp_plan"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            return content[key]
    return content


def _read(content: Any, reading: Reading) -> SavedPlan:
    plan: Mapping[str, str] = _inside(content)
    mesh = reading.known_mesh
    axis = _axis(mesh, reading.options.get("axis"), reading.location)
    for name, style in plan.items():
        if style not in _STYLES and style not in _PACKED:
            raise ShardingError(
                f"unknown style {style!r} of {name!r}"[:200],
                location=reading.location,
                cause=f"known are {', '.join([*_STYLES, *_PACKED])}",
                remedy="name one of these",
            )
    tensors: dict[str, PlannedTensor] = {}
    unread: list[Unsaid] = []
    unused = dict(plan)
    for name, type in reading.arguments.items():
        parts = parts_of(name)
        about = [pattern for pattern in plan if is_about(pattern, parts) is not None]
        for one in about:
            unused.pop(one, None)
        pattern = most_exact(about, parts)
        if pattern is None:
            continue
        found = _tensor(name, parts[-1], type, plan[pattern], mesh, axis)
        if isinstance(found, Unsaid):
            unread.append(found)
        else:
            tensors[name] = PlannedTensor(found, found, type)
    idle = [name for name, style in unused.items() if _STYLES.get(style) is not _whole]
    unread += [Unsaid(name, "no argument has such a name", "leave it out") for name in idle]
    modules = by_calls(boundaries(plan, reading, axis))
    return SavedPlan(mesh, tensors, unread=tuple(unread), location=reading.location, modules=modules)


def _axis(mesh: Mesh, asked: Any, location: str) -> str:
    """The axis that takes the place of the tensor-parallel one."""
    if asked is not None:
        return mesh.axis(str(asked)).name
    several = [name for name, size in mesh.axes if size > 1]
    named = [name for name in _AXES if name in mesh.sizes]
    if named or len(several) == 1:
        return (named or several)[0]
    raise ShardingError(
        "a tp_plan is for one axis of devices, which it does not name",
        location=location,
        cause=f"the mesh is {mesh!r}",
        remedy=f"call the axis {_AXES[0]!r}, or say which it is: sw.load_plan(plan, axis={(several or ['x'])[0]!r})",
    )


def _tensor(name: str, own: str, type: TensorType, style: str, mesh: Mesh, axis: str) -> TensorSharding | Unsaid:
    """How one parameter lies by its style."""
    if style in _PACKED and type.rank > 1:
        cause = f"{style}: each device holds a run of rows of every packed part, which no sharding says"
        return Unsaid(name, cause, "keep the parts in weights of their own, or " + _LEAVE)
    place = {**_STYLES, **_PACKED}[style]
    if place is not _whole and own == "kernel":
        return Unsaid(name, f"{style} is said of torch's [out, in], and a kernel is [in, out]", _LEAVE)
    dim = place(own, type.rank) if type.rank else None
    if dim is not None and dim >= type.rank:
        return Unsaid(name, f"{style} splits dimension {dim}, and it has {counted(type.rank, 'dimension')}", _LEAVE)
    return TensorSharding.of(mesh, [[axis] if number == dim else [] for number in range(type.rank)])


def _write(plan: SavedPlan, options: Mapping[str, Any]) -> Converted:
    axis = _axis(plan.mesh, options.get("axis"), plan.location)
    styles: dict[str, dict[str, str]] = {}
    unsaid: list[Unsaid] = []
    for name, one in plan.arguments.items():
        parts = parts_of(name)
        found = _style(name, parts, one, axis)
        if isinstance(found, Unsaid):
            unsaid.append(found)
        elif len(parts) > 1:
            styles.setdefault(wildcard(parts[:-1]), {})[name] = found
    said: dict[str, str] = {}
    for module, each in styles.items():
        chosen = {style for style in each.values() if style}
        splits_biases = "colwise" in chosen
        whole = [name for name, style in each.items() if not style and (splits_biases or parts_of(name)[-1] != "bias")]
        if len(chosen) > 1 or (chosen and whole):
            ways = ", ".join(sorted({style or "whole" for style in each.values()}))
            remedy = "let them lie alike in all layers, and biases as their weights do"
            unsaid += [Unsaid(name, f"parameters of {module} lie in several ways: {ways}", remedy) for name in each]
        elif chosen:
            said[module] = chosen.pop()
    styled, left = with_boundaries(said, plan, plan.mesh.axis(axis))
    said |= styled
    unsaid += left
    return Converted(said, tuple(unsaid), other_mesh("a tp_plan", plan.mesh))


def _style(name: str, parts: tuple[str, ...], one: PlannedTensor, axis: str) -> str | Unsaid:
    """The style by which a parameter lies so; empty where it is whole."""
    lies = one.sharding.closed()
    used = [[each for each in dim if each.size > 1] for dim in lies.axes]
    dims = [number for number, dim in enumerate(used) if dim]
    remedy = f"split it over {axis!r} alone, or not at all"
    if not dims and not lies.partial:
        return ""
    whole = lies.mesh.axis(axis)
    if lies.partial or lies.offsets or lies.halos or len(dims) > 1 or used[dims[0]] != [whole]:
        return Unsaid(name, f"it lies {lies!r}, and a tp_plan splits one dimension over {axis!r} as a whole", remedy)
    if len(parts) < 2 or parts[-1] not in ("weight", "bias") or (parts[-1] == "weight" and lies.rank < 2):
        return Unsaid(name, "a tp_plan splits weights of linear layers and their biases", "leave it whole")
    is_embedding = any(word in parts[-2] for word in ("embed", "wte", "wpe"))
    if is_embedding and parts[-1] == "weight" and lies.rank == 2:
        return ("embedding_rowwise", "embedding_colwise")[dims[0]]
    if dims[0] == _colwise(parts[-1], lies.rank):
        return "colwise"
    if parts[-1] == "weight" and dims[0] == lies.rank - 1:
        return "rowwise"
    return Unsaid(name, f"no style splits dimension {dims[0]} of {counted(lies.rank, 'dimension')}", remedy)


FORMAT = PlanFormat(
    "tp_plan",
    'HuggingFace, `{"layers.*.mlp.up_proj": "colwise"}`',
    ("axis",),
    _looks_like,
    _read,
    _write,
)

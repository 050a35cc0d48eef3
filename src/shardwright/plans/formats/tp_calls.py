"""What the styles of a `tp_plan` say of what a module takes and gives, along the one axis that they are about.

Of the other axes they say nothing. A dimension is counted from the end, as the styles of linear layers count the last
one, but for the sequence, which is the dimension behind the batch.

Source: transformers 5.24, transformers/distributed/tensor_parallel.py (`input_layouts`, `output_layouts` and the
classes of the other styles).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shardwright.axes import AxisRef
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.plans.formats.format import Reading
from shardwright.plans.formats.module_calls import called_by_pattern, pattern_of, said_alike
from shardwright.plans.formats.module_names import parts_of, wildcard
from shardwright.plans.saved import PlannedModule, PlannedTensor, SavedPlan, Unsaid
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["boundaries", "with_boundaries"]

_WHOLE, _LAST, _SEQUENCE = "whole", "last", "sequence"

_Sides = tuple[str, str]

_CALLS: dict[str, _Sides] = {
    "colwise": (_WHOLE, _LAST),
    **dict.fromkeys(("colwise_gather_output", "colwise_rep"), (_WHOLE, _WHOLE)),
    "rowwise": (_LAST, _WHOLE),
    **dict.fromkeys(("rowwise_split_input", "rowwise_rep"), (_WHOLE, _WHOLE)),
    **dict.fromkeys(("embedding_rowwise", "embedding_colwise"), (_WHOLE, _WHOLE)),
    "sequence_parallel": (_SEQUENCE, _SEQUENCE),
}
"""Style → how the first tensor that a module takes lies, and the one that it gives."""

_OTHERS = {"colwise": "colwise_gather_output", "rowwise": "rowwise_split_input"}
"""Style → the one of which parameters lie alike, and what the module takes and gives is whole."""


def boundaries(plan: Mapping[str, str], reading: Reading, axis: str) -> Iterator[tuple[ModuleTensor, PlannedTensor]]:
    """How what the modules of a program take and give lies by their styles."""
    seen: set[tuple[str, bool]] = set()
    for part, type in reading.modules.items():
        style = plan.get(pattern_of(part.call, plan) or "", "")
        if style not in _CALLS or (part.call, part.is_input) in seen or not type.rank:
            continue
        seen.add((part.call, part.is_input))
        how = _CALLS[style][0 if part.is_input else 1]
        dim = {_WHOLE: None, _LAST: type.rank - 1, _SEQUENCE: 1 if type.rank > 1 else None}[how]
        whole = reading.known_mesh.axis(axis)
        if dim is not None and type.dims[dim] % whole.size:
            continue
        dims = tuple(DimSharding((whole,) if number == dim else (), open=True) for number in range(type.rank))
        lies = TensorSharding(reading.known_mesh, dims, replicated=() if dim is not None else (whole,))
        yield part, PlannedTensor(lies, lies, type)


def with_boundaries(said: Mapping[str, str], plan: SavedPlan, axis: AxisRef) -> tuple[dict[str, str], list[Unsaid]]:
    """Styles in the place of these, and beside them, that say how what modules take and give lies; what none says."""
    made: dict[str, str] = {}
    unsaid: list[Unsaid] = []
    owners = {wildcard(parts_of(name)[:-1]) for name in plan.arguments}
    remedy = "let it lie as the style of its parameters has it"
    for pattern, calls in called_by_pattern(plan.modules).items():
        sides = {call: _sides(plan.modules[call], axis) for call in calls}
        found, against = said_alike(pattern, calls, sides.__getitem__)
        for name, both in found.items():
            own = said.get(pattern)
            style = _style(own, both, pattern in owners)
            if style is not None and style != own:
                made[name] = style
            elif own in _CALLS and both is not None and both != _CALLS[own]:
                against = [*against, name]
        cause = "no style of its parameters says how what it takes and gives lies"
        unsaid += [Unsaid(call, cause, remedy) for call in against]
    return made, unsaid


def _style(own: str | None, both: _Sides | None, has_parameters: bool) -> str | None:
    """The style of a module whose parameters have a style, or none, and whose tensors lie so."""
    if own is None:
        return "sequence_parallel" if both == _CALLS["sequence_parallel"] and has_parameters else None
    other = _OTHERS.get(own)
    return other if other is not None and both == _CALLS[other] else own


def _sides(module: PlannedModule, axis: AxisRef) -> _Sides | None:
    """How what a module takes and gives lies along the axis, where a style could say it."""
    first = next(iter(module.inputs.values()), None), next(iter(module.outputs.values()), None)
    if first[0] is None or first[1] is None:
        return None
    return _side(first[0], axis), _side(first[1], axis)


def _side(one: PlannedTensor, axis: AxisRef) -> str:
    dims = [
        number for number, axes in enumerate(one.sharding.closed().axes) if any(axis.overlaps(each) for each in axes)
    ]
    if not dims:
        return _WHOLE
    return _LAST if dims[0] == one.sharding.rank - 1 else _SEQUENCE if dims[0] == 1 else f"dimension {dims[0]}"

"""`sdy-explicit-gather-scatter-batching`: batch dimensions that indices spell out as an iota become explicit ones.

    gather(x, concatenate(iota, i))   →   gather(x, i) with dimension 0 of x and of the indices as a batch dimension

so that rows of the batch can be split without communication. Dimension 0 of operand and indices are considered, where
they have one size, and only where it is certain that the component holds each row's own number. Functions are folded
and rid of dead ops besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwright.ir.attributes import decode
from shardwright.ir.context import ir, parse_attribute
from shardwright.passes.identity_index import component_is_index
from shardwright.passes.module_ops import operations, static_shape
from shardwright.passes.registry import Options, register
from shardwright.passes.upstream import run_native

__all__ = ["explicit_gather_scatter_batching"]

_FOLD = "builtin.module(func.func(canonicalize{enable-patterns=none}))"
"""What MLIR's greedy rewriter does beside the rewriting itself."""


class _DimensionNumbersForm(NamedTuple):
    """How an op words its dimension numbers."""

    attribute: str
    kind: str
    window: str
    collapsed: str
    batching: str
    index_batching: str
    index_map: str


_FORMS = {
    "stablehlo.gather": _DimensionNumbersForm(
        "dimension_numbers",
        "gather",
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    ),
    "stablehlo.scatter": _DimensionNumbersForm(
        "scatter_dimension_numbers",
        "scatter",
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    ),
}


@register(
    "sdy-explicit-gather-scatter-batching",
    "Makes implicit batch dimensions of gather and scatter ops explicit.",
    on="func.func",
)
def explicit_gather_scatter_batching(module: ir.Module, options: Options) -> None:
    """Make the batch dimensions of all gathers and scatters explicit that are known to be such."""
    run_native(module, _FOLD)
    for op in [op for op in operations(module) if op.name in _FORMS]:
        _rewrite(op, _FORMS[op.name])
    run_native(module, _FOLD)


def _rewrite(op: Any, form: _DimensionNumbersForm) -> None:
    numbers = decode(str(op.attributes[form.attribute]))
    at = (len(op.operands) - 1) // 2 if form.kind == "scatter" else 1
    indices, along = op.operands[at], numbers.get("index_vector_dim", 0)
    component = _batch_component(op.operands[0], indices, numbers, form)
    if component is None or not component_is_index(indices, along, component):
        return
    changed = {
        **numbers,
        form.collapsed: [dim for dim in numbers[form.collapsed] if dim != 0],
        form.batching: [0],
        form.index_batching: [0],
        form.index_map: [dim for dim in numbers[form.index_map] if dim != 0],
    }
    op.operands[at] = _without(indices, along, component, op)
    op.attributes[form.attribute] = parse_attribute(_text(form, changed))
    # Vectors that were sorted with the row's number need not be without it.
    op.attributes["indices_are_sorted"] = ir.BoolAttr.get(False, op.context)


def _batch_component(operand: Any, indices: Any, numbers: Mapping[str, Any], form: _DimensionNumbersForm) -> int | None:
    """Which component of the index vectors says dimension 0 of the operand, if that can be a batch dimension."""
    shape, index_shape = static_shape(operand.type), static_shape(indices.type)
    along = numbers.get("index_vector_dim", 0)
    index_map = list(numbers.get(form.index_map, ()))
    if not shape or not index_shape or along in (0, len(index_shape)) or index_shape[along] <= 1:
        return None
    if numbers.get(form.batching) or index_shape[0] != shape[0]:
        return None
    if 0 not in index_map or 0 not in numbers.get(form.collapsed, ()):
        return None
    return index_map.index(0)


def _text(form: _DimensionNumbersForm, numbers: Mapping[str, Any]) -> str:
    names = (form.window, form.collapsed, form.batching, form.index_batching, form.index_map)
    listed = ", ".join(f"{name} = {list(numbers[name])}" for name in names if numbers.get(name))
    return f"#stablehlo.{form.kind}<{listed}, index_vector_dim = {numbers.get('index_vector_dim', 0)}>"


def _without(indices: Any, along: int, component: int, user: Any) -> Any:
    """The index vectors without one component, made before `user`."""
    parts = _components(indices, along)
    if parts is not None:
        del parts[component]
    else:
        size = indices.type.shape[along]
        spans = [(start, end) for start, end in ((0, component), (component + 1, size)) if start < end]
        parts = [_slice(indices, along, start, end, user) for start, end in spans]
    if len(parts) == 1:
        return parts[0]
    type = _resized(indices.type, along, indices.type.shape[along] - 1)
    return _create("concatenate", type, parts, {"dimension": f"{along} : i64"}, user)


def _components(indices: Any, along: int) -> list[Any] | None:
    """The operands of a concatenation of all components one by one."""
    op = indices.owner.operation if isinstance(indices, ir.OpResult) else None
    if (
        op is None
        or op.name != "stablehlo.concatenate"
        or int(ir.IntegerAttr(op.attributes["dimension"]).value) != along
    ):
        return None
    return list(op.operands) if len(op.operands) == indices.type.shape[along] else None


def _slice(value: Any, along: int, start: int, end: int, user: Any) -> Any:
    shape = list(value.type.shape)
    starts, limits = [0] * len(shape), list(shape)
    starts[along], limits[along] = start, end
    named = {"start_indices": starts, "limit_indices": limits, "strides": [1] * len(shape)}
    attributes = {name: f"array<i64: {', '.join(map(str, numbers))}>" for name, numbers in named.items()}
    return _create("slice", _resized(value.type, along, end - start), [value], attributes, user)


def _resized(type: Any, along: int, size: int) -> Any:
    shape = list(type.shape)
    shape[along] = size
    return ir.RankedTensorType.get(shape, type.element_type, loc=ir.Location.unknown(type.context))


def _create(name: str, type: Any, operands: list[Any], attributes: Mapping[str, str], user: Any) -> Any:
    op = ir.Operation.create(
        f"stablehlo.{name}",
        results=[type],
        operands=operands,
        attributes={key: parse_attribute(text) for key, text in attributes.items()},
        loc=user.location,
        ip=ir.InsertionPoint(user),
    )
    return op.results[0]

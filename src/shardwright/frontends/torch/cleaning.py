"""A graph of ATen ops as torch-mlir takes it: checks left out, squeezes written as views, and no random numbers.

And so that it takes none for another: it writes a `remainder` as StableHLO has one, of the sign of what is divided, as
torch's `fmod` is; `x == x` as true, which it is not of NaN; and it reads at an index below 0 as at 0. Tensors that
hold no numbers until they are written to it writes as ops that XLA does not know: they are zeros.
"""

from __future__ import annotations

from typing import Any

import torch

from shardwright.errors import ShardingError
from shardwright.frontends.torch.places import place_of

__all__ = ["clean", "uncopied"]

_aten, _prims = torch.ops.aten, torch.ops.prims

_VIEWS = (_aten.squeeze.dims, _aten.squeeze.dim, _aten.squeeze.default, _prims.squeeze.default)
_POOLS = (_aten.max_pool2d_with_indices.default, _aten.max_pool3d_with_indices.default)
_SLICES = {_aten.slice.Tensor: 1, _aten.slice_scatter.default: 2}  # and how many tensors each takes
_CHECKS = ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range")
_SAME = (_aten.detach.default, _aten.alias.default, _aten.lift_fresh_copy.default, _aten.lift_fresh.default)

_LEFT = {_aten.fmod.Scalar: _aten.remainder.Scalar, _aten.fmod.Tensor: _aten.remainder.Tensor}
_INDEXED = (_aten.index.Tensor, _aten.index_put.default)
_EMPTY = (
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_permuted.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
)
_WITH_ITSELF = (_aten.eq.Tensor, _aten.ne.Tensor)


def clean(graph: Any) -> None:
    """Rewrite a graph in place.

    Raises:
        ShardingError: an op that draws random numbers, at its line.
    """
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        _check_random(node)
        if any(str(node.target).startswith(("aten." + check, "aten::" + check)) for check in _CHECKS):
            graph.erase_node(node)
        elif node.target in _SAME:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target in _VIEWS:
            _replace(graph, node, _aten.view.default, (node.args[0], list(node.meta["val"].shape)))
        elif node.target in _EMPTY:
            value = node.meta["val"]
            _replace(graph, node, _aten.full.default, (list(value.shape), 0), {"dtype": value.dtype})
        elif node.target in _SLICES:
            _within_sizes(node)
        elif node.target in _LEFT:
            node.target = _LEFT[node.target]
        elif node.target in _INDEXED:
            _from_the_front(graph, node)
        elif node.target in _WITH_ITSELF and node.args[0] is node.args[1]:
            _with_itself(graph, node)
        elif node.target in _POOLS and node.args[2:3] in ((), ([],)):
            _with_stride(node)
    graph.eliminate_dead_code()
    graph.lint()


def uncopied(node: Any) -> Any:
    """The node of which this is a copy, or itself: in a graph without side effects they are the same."""
    while node.target in (*_SAME, _aten.clone.default):
        node = node.args[0]
    return node


def _replace(graph: Any, node: Any, *call: Any) -> None:
    """Call another op in the place of a node: the op, its arguments, and those by name."""
    with graph.inserting_before(node):
        made = graph.call_function(*call)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _with_itself(graph: Any, node: Any) -> None:
    """Whether a value is, or is not, the same as itself: whether it is a number."""
    with graph.inserting_before(node):
        made = graph.call_function(_aten.isnan.default, node.args[:1])
        made.meta = dict(node.meta)
        if node.target == _aten.eq.Tensor:
            made = graph.call_function(_aten.logical_not.default, (made,))
            made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _from_the_front(graph: Any, node: Any) -> None:
    """Indices that count from the front: those below 0 count from behind."""
    indices = list(node.args[1])
    for dim, index in enumerate(indices):
        if index is None or index.meta["val"].dtype == torch.bool or _counts_up(index):
            continue
        size = node.args[0].meta["val"].shape[dim]
        with graph.inserting_before(node):
            below = graph.call_function(_aten.lt.Scalar, (index, 0))
            shifted = graph.call_function(_aten.add.Scalar, (index, size))
            made = graph.call_function(_aten.where.self, (below, shifted, index))
        place = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
        below.meta = {**place, "val": index.meta["val"] < 0}
        shifted.meta = {**place, "val": index.meta["val"]}
        made.meta = dict(shifted.meta)
        indices[dim] = made
    node.args = (node.args[0], indices, *node.args[2:])


def _counts_up(index: Any) -> bool:
    """Whether an index is a range that begins at 0 or behind it, in whatever shape."""
    while index.target in (_aten.unsqueeze.default, _aten.view.default, _aten.expand.default):
        (index, *_) = index.args
    is_range = index.target in (_aten.arange.default, _aten.arange.start, _aten.arange.start_step)
    return is_range and all(isinstance(bound, int) and bound >= 0 for bound in index.args)


def _within_sizes(node: Any) -> None:
    """Ends of slices as positions: torch-mlir counts up to the largest integer where that stands for the end."""
    tensors = node.args[: _SLICES[node.target]]
    options = dict(zip(("dim", "start", "end", "step"), node.args[len(tensors) :], strict=False)) | node.kwargs
    dim, step = options.get("dim", 0), options.get("step", 1)
    start, end, _ = slice(options.get("start"), options.get("end")).indices(tensors[0].meta["val"].shape[dim])
    node.args, node.kwargs = (*tensors, dim, start, end, step), {}


def _with_stride(node: Any) -> None:
    """A pool without strides steps by its kernel, which torch-mlir reads as by one."""
    source, kernel, *_ = node.args
    node.args = (source, kernel, list(kernel), *node.args[3:])


def _check_random(node: Any) -> None:
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags and node.users:
        raise ShardingError(
            "the program draws random numbers",
            op=str(node.target),
            location=place_of(node),
            cause="torch's generator has no place in a program of several devices",
            remedy="module.eval(), or a dropout of 0; draw what is random outside, and give it as an argument",
        )

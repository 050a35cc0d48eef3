"""A live module laid out over processes as a plan has it: its parameters are DTensors, and torch runs it.

Source: `torch.distributed.tensor`; how a module gets its parameters, and a class of its own, is as in
`torch.distributed.fsdp.fully_shard`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from shardwright.errors import ShardingError
from shardwright.frontends.diagnose import close_names
from shardwright.frontends.torch.arguments import leaf_names, result_names
from shardwright.frontends.torch.boundaries import Boundaries
from shardwright.frontends.torch.device_mesh import check_device_mesh, device_mesh_of
from shardwright.frontends.torch.export import aliases
from shardwright.frontends.torch.mixing import Mixing
from shardwright.frontends.torch.placed import Layouts, placed
from shardwright.words import kind_of

__all__ = ["lay_out"]


def lay_out(module: Any, layouts: Layouts, device_mesh: Any = None, full: bool = True) -> None:
    """Lay a module out over the processes of a `DeviceMesh`, or over all there are.

    Raises:
        ShardingError: see `shardwright.parallelize`; the module is then as it was.
    """
    if not isinstance(module, torch.nn.Module):
        raise ShardingError(
            f"not a module: {module!r:.100}", cause=f"it is {kind_of(module)}", remedy="give a torch.nn.Module"
        )
    placements = _placements(module, layouts)
    if device_mesh is None:
        device_mesh = device_mesh_of(layouts.mesh, _device_type(module))
    else:
        check_device_mesh(device_mesh, layouts.mesh)
    _distribute(module, placements, device_mesh)
    boundaries = Boundaries(module, layouts, device_mesh)
    module.__class__ = _laid_out(type(module), layouts, boundaries, device_mesh, full)


def _placements(module: Any, layouts: Layouts) -> dict[str, tuple[Any, ...]]:
    """The placements of every parameter and buffer, by the names under which the program has them."""
    tensors = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    found: dict[str, tuple[Any, ...]] = {}
    for name in dict.fromkeys(aliases(module).values()):
        shape = tuple(tensors[name].shape)
        if isinstance(tensors[name], DTensor):
            raise ShardingError(
                f"{name!r} is a DTensor already",
                cause="the module was laid out before",
                remedy="make the module anew, and lay it out once",
            )
        planned = layouts.shapes.get(name, shape)
        placements = layouts.of_argument(name, shape)
        if placements is None:
            raise ShardingError(
                f"the plan has no argument {name!r}, which the module has",
                cause=f"it has {close_names(name, list(layouts.arguments))}",
                remedy="make it of this module, sw.from_torch(module, args), or apply it to that: program.apply(plan)",
            )
        if planned != shape:
            raise ShardingError(
                f"{name!r} is {list(shape)} in the module",
                cause=f"the plan is of one that has {list(planned)} there",
                remedy="give the module that the plan was made of",
            )
        found[name] = placements
    return found


def _device_type(module: Any) -> str:
    """Where the parameters are; of such as have no numbers yet, where torch would compute."""
    held = {tensor.device.type for tensor in (*module.parameters(), *module.buffers())} - {"meta"}
    if len(held) > 1:
        raise ShardingError(
            f"the module is on several kinds of devices: {', '.join(sorted(held))}",
            cause="a mesh is of one",
            remedy="move it to one: module.to('cuda')",
        )
    return next(iter(held)) if held else ("cuda" if torch.cuda.is_available() else "cpu")


def _distribute(module: Any, placements: Mapping[str, tuple[Any, ...]], device_mesh: Any) -> None:
    """Put DTensors in the place of parameters and buffers; what was tied is one, and stays tied."""
    tensors = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    laid_out = {name: _distributed(tensors[name], where, device_mesh) for name, where in placements.items()}
    for name, first in aliases(module).items():
        owner, _, own = name.rpartition(".")
        setattr(module.get_submodule(owner), own, laid_out[first])


def _distributed(tensor: Any, placements: tuple[Any, ...], device_mesh: Any) -> Any:
    """The DTensor of a parameter or buffer, with the numbers that the first process of the mesh has."""
    made = distribute_tensor(tensor.detach(), device_mesh, placements)
    if not isinstance(tensor, torch.nn.Parameter):
        return made
    parameter = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    if tensor.requires_grad:  # gradients lie as DTensor's ops leave them: sums not added up, or whole
        parameter.register_hook(lambda gradient: gradient.redistribute(placements=placements))
    return parameter


def _laid_out(kind: type, layouts: Layouts, boundaries: Boundaries, device_mesh: Any, full: bool) -> type:
    """The class of a module that takes tensors, and gives them whole."""

    @functools.wraps(kind.forward)  # type: ignore[attr-defined]  # of the parameters of which arguments are called
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _taken(functools.partial(kind.forward, self), args, kwargs)  # type: ignore[attr-defined]
        mixing = Mixing(_batch_dims((args, kwargs)))
        with mixing, implicit_replication(), _attention(device_mesh), boundaries.open():
            returned = kind.forward(self, *args, **kwargs)  # type: ignore[attr-defined]
        return pytree.tree_map(_full, returned) if full else _given(returned)

    def _taken(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = iter(leaf_names(called, 0, args, kwargs))

        def take(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            placements = layouts.of_argument(next(names), leaf.shape)
            return leaf if isinstance(leaf, DTensor) or placements is None else placed(leaf, device_mesh, placements)

        return pytree.tree_map(take, (args, kwargs))

    def _given(returned: Any) -> Any:
        names = iter(result_names(returned))

        def give(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            placements = layouts.of_result(next(names), leaf.shape)
            is_laid_out = isinstance(leaf, DTensor) and placements is not None
            return leaf.redistribute(placements=placements) if is_laid_out else leaf

        return pytree.tree_map(give, returned)

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})


def _batch_dims(given: Any) -> set[int]:
    """The dimensions of the device mesh over which the first dimension of something given is split."""
    tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, DTensor)]
    return {dim for one in tensors for dim, placement in enumerate(one.placements) if placement.is_shard(0)}


def _attention(device_mesh: Any) -> AbstractContextManager[Any]:
    """Attention by products: of the fused kernels DTensor has those of GPUs alone."""
    return nullcontext() if device_mesh.device_type == "cuda" else sdpa_kernel(SDPBackend.MATH)


def _full(leaf: Any) -> Any:
    return leaf.full_tensor() if isinstance(leaf, DTensor) else leaf

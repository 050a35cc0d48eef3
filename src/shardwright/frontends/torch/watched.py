"""What the calls of a module's parts take and give while it is traced: these tensors become results of the graph.

A graph of ops does not know of modules, and after ops are taken apart and written as StableHLO nothing is left by which
to find what crossed their boundaries. As results the values stay, whatever becomes of the ops around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from shardwright.frontends.module_tensors import ModuleTensor, call_name
from shardwright.frontends.torch.arguments import leaf_names, result_names

__all__ = ["Watched"]


class Watched:
    """The tensors at the boundaries of a module's parts, in the order in which they pass.

    Attributes:
        about: What each is; its number is that of its place here.
        tensors: A copy of each: what is written to it later is not what passed.
    """

    def __init__(self) -> None:
        """Make one for one run of the module."""
        self.about: list[ModuleTensor] = []
        self.tensors: list[Any] = []
        self._begun: dict[str, int] = {}
        self._open: list[str] = []

    @contextmanager
    def parts_of(self, module: Any) -> Iterator[None]:
        """While this is open calls of the module's parts are written down; not those of the module itself.

        A module that has several names goes by the first.
        """
        handles = []
        for name, part in module.named_modules():
            if name:
                handles.append(part.register_forward_pre_hook(self._before(name, part), with_kwargs=True))
                handles.append(part.register_forward_hook(self._after))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, name: str, part: Any) -> Any:
        def taken(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            number = self._begun[name] = self._begun.get(name, -1) + 1
            self._open.append(call_name(name, number))
            self._note(self._open[-1], True, leaf_names(part.forward, 0, args, kwargs), [args, kwargs])

        return taken

    def _after(self, _: Any, __: tuple[Any, ...], returned: Any) -> None:
        self._note(self._open.pop(), False, result_names(returned), returned)

    def _note(self, call: str, is_input: bool, names: list[str], tree: Any) -> None:
        leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
        for own, tensor in zip(names, leaves, strict=True):
            if torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # inside of vmap or grad it is no value
                continue
            self.about.append(ModuleTensor(call, is_input, own, len(self.tensors)))
            self.tensors.append(tensor.clone())

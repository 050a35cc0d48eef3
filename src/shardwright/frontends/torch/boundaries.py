"""What the parts of a laid out module take and give, brought to where the plan has it while the module runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from shardwright.frontends.module_tensors import call_name, module_of
from shardwright.frontends.torch.arguments import leaf_names, result_names
from shardwright.frontends.torch.placed import Layouts, placed

__all__ = ["Boundaries"]


class Boundaries:
    """Hooks on the parts of a module, which do something while it is called and the plan knows of the tensor.

    Sums that are not added up are so then: they are scattered where the plan has it split, and whole where it is whole.
    What is no DTensor is the same on all processes, and stays so where the plan has it whole.
    """

    def __init__(self, module: Any, layouts: Layouts, device_mesh: Any) -> None:
        """Put hooks on those parts of which the plan says something."""
        self._layouts, self._mesh = layouts, device_mesh
        self._is_open = False
        self._begun: dict[str, int] = {}
        self._calls: list[str] = []
        planned = {module_of(call) for call, _, _ in layouts.parts}
        for name, part in module.named_modules():
            if name in planned:
                part.register_forward_pre_hook(self._before(name, part), with_kwargs=True)
                part.register_forward_hook(self._after)

    @contextmanager
    def open(self) -> Iterator[None]:
        """A call of the module, from the first call of each part on."""
        self._is_open, self._begun, self._calls = True, {}, []
        try:
            yield
        finally:
            self._is_open = False

    def _before(self, name: str, part: Any) -> Any:
        def taken(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
            if not self._is_open:
                return None
            number = self._begun[name] = self._begun.get(name, -1) + 1
            self._calls.append(call_name(name, number))
            names = leaf_names(part.forward, 0, args, kwargs)
            args, kwargs = self._moved(self._calls[-1], True, names, (args, kwargs))
            return args, kwargs

        return taken

    def _after(self, _: Any, __: tuple[Any, ...], returned: Any) -> Any:
        if not self._is_open:
            return None
        return self._moved(self._calls.pop(), False, result_names(returned), returned)

    def _moved(self, call: str, is_input: bool, names: Sequence[str], tree: Any) -> Any:
        own = iter(names)

        def move(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            placements = self._layouts.of_part(call, is_input, next(own), leaf.shape)
            if placements is None:
                return leaf
            if isinstance(leaf, DTensor):
                return leaf if leaf.placements == placements else leaf.redistribute(placements=placements)
            return leaf if all(one.is_replicate() for one in placements) else placed(leaf, self._mesh, placements)

        return pytree.tree_map(move, tree)

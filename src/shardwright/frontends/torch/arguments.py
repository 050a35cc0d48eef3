"""How a module is called: which of its arguments are tensors, what these are called, and what its results are."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from shardwright.errors import ShardingError
from shardwright.ir.locations import pytree_path
from shardwright.words import kind_of

__all__ = ["PLAIN", "Structure", "described", "in_order", "leaf_names", "result_names", "structure_of"]

PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.Size)
"""Types of values that are part of a program."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Containers with tensors and plain values in them.

    Attributes:
        spec: The containers, as torch's pytrees have them.
        static: The plain values, by the number of their leaf; the other leaves are tensors.
    """

    spec: Any
    static: Mapping[int, Any]

    @property
    def tensor_count(self) -> int:
        """How many tensors they hold."""
        return int(self.spec.num_leaves) - len(self.static)

    def __reduce__(self) -> tuple[Any, ...]:
        """By containers of numbers: those of torch are known to the process that made them."""
        return _again, (pytree.tree_unflatten(range(self.spec.num_leaves), self.spec), dict(self.static))

    def tensors(self, tree: Any, name: str) -> list[Any]:
        """The tensors in containers of the same structure.

        Raises:
            ShardingError: another structure, or other plain values: the program was made for these.
        """
        leaves, spec = pytree.tree_flatten(tree)
        if spec != self.spec:
            raise ShardingError(
                f"{name} is called with other arguments than it was made for",
                cause=f"made for {_short(self.spec)}, called with {_short(spec)}",
                remedy="give the same containers and keyword arguments",
            )
        for number, value in self.static.items():
            if isinstance(leaves[number], torch.Tensor) or leaves[number] != value:
                raise ShardingError(
                    f"{name} is called with {leaves[number]!r:.80} where it was made for {value!r:.80}",
                    cause="what is no tensor is part of the program",
                    remedy="make another program for another value, or give it as a tensor",
                )
        return [leaf for number, leaf in enumerate(leaves) if number not in self.static]

    def tree(self, tensors: Sequence[Any]) -> Any:
        """The containers with these tensors."""
        rest = iter(tensors)
        count = len(tensors) + len(self.static)
        leaves = [self.static[number] if number in self.static else next(rest) for number in range(count)]
        return pytree.tree_unflatten(leaves, self.spec)


def described(value: Any) -> str:
    """What a value is, for diagnostics: the type of a tensor, a plain value itself, of others what they are."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return repr(value)[:80] if isinstance(value, PLAIN) else kind_of(value)


def _again(tree: Any, static: dict[int, Any]) -> Structure:
    return Structure(pytree.tree_flatten(tree)[1], static)


def structure_of(tree: Any, what: str, remedy: str) -> tuple[Structure, list[Any]]:
    """The structure of containers, and the tensors in them.

    Arguments:
        tree: Containers known to torch's pytrees.
        what: What they are, for the diagnostic.
        remedy: What to change where there is something else in them.

    Raises:
        ShardingError: a leaf that is neither a tensor nor a plain value.
    """
    leaves, spec = pytree.tree_flatten(tree)
    static = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            continue
        if not isinstance(leaf, PLAIN):
            raise ShardingError(
                f"{what}: {leaf!r:.80} is neither a tensor nor a plain value",
                cause=f"it is {kind_of(leaf)}, which torch's pytrees do not look into",
                remedy=remedy,
            )
        static[number] = leaf
    return Structure(spec, static), [leaf for number, leaf in enumerate(leaves) if number not in static]


def in_order(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments in an order that is not the caller's: torch's pytrees tell containers apart by that."""
    return dict(sorted(kwargs.items()))


def leaf_names(fn: Callable[..., Any], skip: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """What each tensor among the arguments is called: by its parameter, and by its path in that: `batch/x`.

    Arguments:
        fn: What is called.
        skip: How many of its parameters stand before `args`.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """
    names: list[str] = []
    for root, value in [*zip(_positional(fn, skip, len(args)), args, strict=True), *kwargs.items()]:
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                inner = pytree_path(pytree.keystr(path))
                names.append(f"{root}/{inner}" if inner else root)
    return names


def result_names(tree: Any) -> list[str]:
    """What each tensor in what a module returns is called: by its path, `result/0`, or `result0` where it is alone."""
    leaves = pytree.tree_flatten_with_path(tree)[0]
    names = [pytree_path(pytree.keystr(path)) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [f"result/{name}" if name[:1].isdigit() else name or "result0" for name in names]


def _positional(fn: Callable[..., Any], skip: int, count: int) -> list[str]:
    """Names for `count` positional arguments."""
    names: list[str] = []
    try:
        parameters = list(inspect.signature(fn).parameters.values())[skip:]
    except (TypeError, ValueError):  # written in C
        parameters = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}/{number}" for number in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    numbered = (f"args/{number}" for number in itertools.count(len(names)))
    return [*names[:count], *itertools.islice(numbered, max(0, count - len(names)))]


def _short(spec: Any) -> str:
    text = str(spec)
    return text if len(text) < 200 else text[:200] + "…"

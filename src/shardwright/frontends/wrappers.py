"""Functions that libraries jit in ways of their own: `nnx.jit` and `equinox.filter_jit`.

Such a function takes models that are no trees of arrays, hands JAX a tree made of them, and makes of what JAX returns
what it returns itself, or changes the model. What its `lower(…)` returns holds what JAX has lowered as `lowered`, which
its `compile()` compiles, and wraps. So we give it our own to compile, and it does for that what it does for JAX's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from shardwright.ir.locations import pytree_path

__all__ = ["leaf_names", "lowered_by_wrapper", "wrapped"]


def lowered_by_wrapper(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function's own `lower` returns, where that holds what JAX lowered; `None` for other functions."""
    if not hasattr(fn, "lower") or isinstance(fn, type(jax.jit(id))):
        return None
    stage = fn.lower(*args, **kwargs)
    holds = dataclasses.is_dataclass(stage) and isinstance(getattr(stage, "lowered", None), jax.stages.Lowered)
    return stage if holds else None


def wrapped(stage: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """What is called as the function is, and runs `run` in place of what JAX would have compiled."""
    made: Callable[..., Any] = dataclasses.replace(stage, lowered=_Ready(run)).compile()
    return made


@dataclasses.dataclass(frozen=True)
class _Ready:
    """What is compiled already, in the place of what is to be compiled."""

    run: Callable[..., Any]

    def compile(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return self.run


class _Seen(Exception):
    """What JAX would have been given, on its way out."""


def leaf_names(
    stage: Any, parameters: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any], own: Sequence[str]
) -> list[str]:
    """The names of the leaves that JAX is given, by where they are in the arguments of the function.

    Arguments:
        stage: What the function's `lower` returned.
        parameters: The name of each positional argument.
        args: The positional arguments.
        kwargs: The keyword arguments.
        own: What JAX calls them, which stays for those that are not found.
    """

    def show(*args: Any, **kwargs: Any) -> Any:
        raise _Seen(args, kwargs)

    try:
        wrapped(stage, show)(*args, **kwargs)
    except _Seen as seen:
        leaves = jax.tree.leaves(seen.args)
    else:
        return list(own)
    if len(leaves) != len(own):
        return list(own)
    named = {**dict(zip(parameters, args, strict=False)), **kwargs}
    known: dict[int, str] = {}
    for name, value in named.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            inner = pytree_path(jax.tree_util.keystr(path)).removesuffix("/value")
            known.setdefault(id(leaf), "/".join(filter(None, (name, inner))))
    return [known.get(id(leaf), name) for leaf, name in zip(leaves, own, strict=True)]

"""Programs from JAX functions, through JAX's public ahead-of-time interface."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.frontends.custom_partitions import with_functions
from shardwright.frontends.effects import python_calls, with_own_tokens
from shardwright.frontends.exported import EXPORTED, exported_program
from shardwright.frontends.load import Source, parse_source
from shardwright.frontends.static import static_arguments
from shardwright.frontends.wrappers import leaf_names, lowered_by_wrapper
from shardwright.ir.locations import pytree_path
from shardwright.runtime.call import JaxCall
from shardwright.words import counted, kind_of

__all__ = ["lower"]

_PACKAGE = Path(__file__).parents[1]
_OWN_LOCATION = re.compile(rf'loc\("{re.escape(str(_PACKAGE))}[^"]*":\d+:\d+(?: to (?:\d+)?:\d+)?\)')


def lower(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], platform: str | None = None, **jit: Any
) -> tuple[Source, JaxCall]:
    """Lower `fn(*args, **kwargs)` for `platform`; `jit` are options of `jax.jit`, for a function not jitted yet.

    What JAX has traced, lowered or exported already takes no arguments.

    Raises:
        ShardingError: options for a function that has its own, unused arguments that cannot be told from the others,
            or a program that the graph cannot hold. What JAX cannot trace is JAX's error.
    """
    if isinstance(fn, (jax.stages.Traced, jax.stages.Lowered, *EXPORTED)):
        _check_alone(fn, args, kwargs, jit)
    if isinstance(fn, EXPORTED):
        return exported_program(fn)
    if isinstance(fn, jax.stages.Lowered):
        return _of_lowered(fn, None, None, "", args, kwargs, jit)
    if isinstance(fn, jax.stages.Traced):
        name, traced, fn = fn.fun_name, fn, None
    else:
        name = getattr(fn, "__name__", type(fn).__name__)
        stage = lowered_by_wrapper(fn, args, kwargs)
        if stage is not None:
            return _of_wrapper(stage, fn, name, args, kwargs, jit)
        traced = _traced(fn, args, kwargs, jit)
    lowered = traced.lower(lowering_platforms=(platform,) if platform else None)
    return _of_lowered(lowered, traced, fn, name, args, kwargs, jit)


def _check_alone(stage: Any, args: tuple[Any, ...], kwargs: dict[str, Any], jit: Mapping[str, Any]) -> None:
    """Whether what JAX has made already is given by itself."""
    options = list(_given(jit))
    if args or kwargs or options:
        extra = ", ".join([counted(len(args) + len(kwargs), "argument")] if args or kwargs else options)
        raise ShardingError(
            f"{kind_of(stage)} takes no more arguments or options, {extra} given",
            cause="JAX has specialized it to its arguments already",
            remedy="give it alone, or give the function with its arguments",
        )


def _traced(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], jit: Mapping[str, Any]) -> Any:
    name = getattr(fn, "__name__", type(fn).__name__)
    if not callable(fn):
        raise ShardingError(
            f"not a function: {fn!r}"[:200].partition("\n")[0],
            cause=f"it is {kind_of(fn)}",
            remedy="give the function itself and its arguments, or what JAX has traced, lowered or exported of it",
        )
    return _jitted(fn, name, jit).trace(*args, **kwargs)


def _of_lowered(
    lowered: Any,
    traced: Any,
    fn: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    jit: Mapping[str, Any],
) -> tuple[Source, JaxCall]:
    """The program of what was lowered, and how it is called; `traced` and `fn` are `None` where they are not here."""
    text = with_functions(_at_the_function(lowered.as_text(debug_info=True), fn), _told(lowered))
    name = name or _module_name(text)
    source = with_own_tokens(parse_source(text, name))
    in_leaves = tuple(_struct(leaf) for leaf in jax.tree.leaves(lowered.args_info))
    out_leaves = tuple(_struct(leaf) for leaf in jax.tree.leaves(lowered.out_info))
    names = source.graph.main.argument_names
    kept = _kept(fn, args, lowered, names, name)
    call = JaxCall(
        lowered.in_tree,
        lowered.out_tree,
        in_leaves,
        out_leaves,
        kept,
        tuple(names),
        name,
        _values(fn, args, kwargs, jit, kept, names, lowered.in_tree),
        _devices(lowered),
        tuple(bool(leaf.donated) for leaf in jax.tree.leaves(lowered.args_info)),
        traced,
        python_calls(_told(lowered)),
    )
    return source, call


def _of_wrapper(
    stage: Any, fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], jit: Mapping[str, Any]
) -> tuple[Source, JaxCall]:
    """The program of a function that a library has jitted: arguments are called by where they are in its own."""
    _check_unjitted(name, jit)
    source, call = _of_lowered(stage.lowered, None, inspect.unwrap(fn), name, (), {}, {})
    paths = jax.tree_util.tree_leaves_with_path(stage.lowered.args_info)
    own: list[str] = [jax.tree_util.keystr(path) for path, _ in paths]
    for number, known in zip(call.kept, call.names, strict=True):
        own[number] = known
    names = leaf_names(stage, _parameters(fn, args), args, kwargs, own)
    kept = [names[number] for number in call.kept]
    main = replace(source.graph.main, argument_names=kept)
    source = replace(source, graph=replace(source.graph, main=main))
    return source, replace(call, names=tuple(kept), stage=stage)


def _module_name(text: str) -> str:
    """The name of the function, as JAX has it in that of the module: `step` of `@jit_step`."""
    match = re.search(r"^module @(?:jit_)?([\w.]+)", text, re.MULTILINE)
    return match[1] if match else "main"


def _devices(lowered: Any) -> tuple[Any, ...]:
    """The devices that JAX lowered a function for, in the order of its mesh; none where it does not tell.

    Modules do not name them, and JAX has no public word for them before compilation.
    """
    return tuple(getattr(getattr(lowered, "_lowering", None), "_device_list", None) or ())


def _values(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    jit: Mapping[str, Any],
    kept: tuple[int, ...],
    names: Sequence[str],
    tree: Any,
) -> dict[str, Any]:
    """The arrays and numbers among the arguments, by the names of the module's; none where these cannot be matched."""
    skipped, static = static_arguments(fn, jit, len(args))
    dynamic = tuple(value for number, value in enumerate(args) if number not in skipped)
    leaves, own = jax.tree.flatten((dynamic, {key: value for key, value in kwargs.items() if key not in static}))
    if own != tree:
        return {}
    return {name: leaves[at] for at, name in zip(kept, names, strict=True) if _is_concrete(leaves[at])}


def _is_concrete(leaf: Any) -> bool:
    if isinstance(leaf, jax.Array):
        return not isinstance(leaf, jax.core.Tracer)
    return isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex))


def _at_the_function(text: str, fn: Callable[..., Any] | None) -> str:
    """The module with locations in this package, from where JAX was called, moved to the function itself."""
    code = None if fn is None else getattr(inspect.unwrap(fn), "__code__", None)
    place = "unknown" if code is None else f"{json.dumps(code.co_filename)}:{code.co_firstlineno}:1"
    return _OWN_LOCATION.sub(lambda _: f"loc({place})", text)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `jax.jit` that say something."""
    return {key: value for key, value in options.items() if isinstance(value, int) or value}


def _jitted(fn: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    given = _given(options)
    if not hasattr(fn, "trace"):
        return jax.jit(fn, keep_unused=True, **given)
    _check_unjitted(name, given)
    return fn


def _check_unjitted(name: str, options: Mapping[str, Any]) -> None:
    if _given(options):
        raise ShardingError(
            f"{name} is jitted already, and {', '.join(_given(options))} was given",
            cause="a jitted function has its own static and donated arguments",
            remedy="give them to jax.jit, or give the function itself",
        )


def _kept(fn: Any, args: tuple[Any, ...], lowered: Any, names: list[str], name: str) -> tuple[int, ...]:
    """Which leaves became arguments of the module; a function that was jitted before may have lost unused ones."""
    leaves = jax.tree_util.tree_leaves_with_path(lowered.args_info)
    if len(leaves) == len(names):
        return tuple(range(len(leaves)))
    told = _told_kept(lowered)
    if len(told) == len(names):
        return told
    if fn is not None:
        known = [_leaf_name(path, _parameters(fn, args)) for path, _ in leaves]
        kept = tuple(number for number, leaf in enumerate(known) if leaf in names)
        if len(lowered.args_info[0]) == len(args) and [known[number] for number in kept] == names:
            return kept
    raise ShardingError(
        f"JAX dropped arguments of {name} that it does not use, and which ones cannot be told",
        cause=f"it has {counted(len(leaves), 'leaf')}, its module {counted(len(names), 'argument')}",
        remedy="jit it with keep_unused=True, or give the function itself",
    )


def _told_kept(lowered: Any) -> tuple[int, ...]:
    """The leaves that JAX says it kept, for which it has no public word; none where it says nothing."""
    return tuple(sorted(_told(lowered).get("kept_var_idx", ())))


def _told(lowered: Any) -> Mapping[str, Any]:
    """What JAX gives its compiler beside the module, for which it has no public word."""
    told: Mapping[str, Any] = getattr(getattr(lowered, "_lowering", None), "compile_args", {})
    return told


def _parameters(fn: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """The name of each positional argument, as JAX says it."""
    names: list[str] = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}/{number}" for number in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names


def _leaf_name(path: tuple[Any, ...], parameters: list[str]) -> str:
    """`params/w1` from the path of a leaf within `(args, kwargs)`."""
    which, first, *rest = path
    inner = pytree_path(jax.tree_util.keystr(tuple(rest)))
    root = parameters[first.idx] if which.idx == 0 else first.key
    return f"{root}/{inner}" if inner else root


def _struct(info: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(info.shape, info.dtype)

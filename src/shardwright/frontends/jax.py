"""Programs from JAX functions, through JAX's public ahead-of-time interface.

Arguments and results of the function are pytrees; the module has one argument a leaf. `Call` remembers how they belong
together, so that a compiled program is called just as the function was.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.frontends.load import Source, parse_source
from shardwright.ir.graph import Graph
from shardwright.ir.locations import pytree_path
from shardwright.mesh import Mesh
from shardwright.runtime.callbacks import check_callbacks
from shardwright.words import counted, kind_of

__all__ = ["Call", "lower"]

_PACKAGE = Path(__file__).parents[1]
_OWN_LOCATION = re.compile(rf'loc\("{re.escape(str(_PACKAGE))}[^"]*":\d+:\d+(?: to (?:\d+)?:\d+)?\)')
_KEY_KINDS = ("threefry2x32", "rbg", "unsafe_rbg")


@dataclass(frozen=True, slots=True)
class Call:
    """How a JAX function is called.

    Attributes:
        in_tree: Structure of `(args, kwargs)`, static arguments left out.
        out_tree: Structure of the results.
        in_leaves: Shape and element type of every argument leaf.
        out_leaves: Shape and element type of every result leaf.
        kept: The leaves that are arguments of the module, in order; JAX may drop unused ones.
        names: The names of these, such as `params/w1`.
        name: Name of the function.
        values: What it was lowered with, by name, where that was more than a shape.
        devices: The devices it was lowered for, in the order of its mesh; after pickling, which ends what belongs to a
            process, the platform and number of each.
    """

    in_tree: Any
    out_tree: Any
    in_leaves: tuple[jax.ShapeDtypeStruct, ...]
    out_leaves: tuple[jax.ShapeDtypeStruct, ...]
    kept: tuple[int, ...]
    names: tuple[str, ...]
    name: str
    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    devices: tuple[Any, ...] = ()

    def on(self, mesh: Mesh) -> tuple[Any, ...] | None:
        """The devices of this process that `mesh` numbers; `None` for the first ones, where it was lowered for others.

        A function without shardings is lowered for one device, whatever mesh it is planned on later.
        """
        if len(self.devices) != mesh.size:
            return None
        devices = tuple(map(_device, self.devices))
        return None if None in devices else devices

    def __reduce__(self) -> tuple[Any, ...]:
        """Devices by their numbers, and no values that were donated since."""
        values = {name: value for name, value in self.values.items() if not _is_donated(value)}
        numbers = tuple(said if isinstance(said, tuple) else (said.platform, said.id) for said in self.devices)
        call = replace(self, values=values, devices=numbers)
        return Call, tuple(getattr(call, field.name) for field in fields(call))

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the module from those of the function.

        Raises:
            ShardingError: another structure, shape or element type than the function was lowered for.
        """
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.in_tree:
            raise ShardingError(
                f"{self.name} is called with other arguments than it was lowered for",
                cause=f"lowered for {self.in_tree}, called with {tree}",
                remedy="give the same containers, static arguments left out",
            )
        return [self._leaf(leaves[number], number, name) for number, name in zip(self.kept, self.names, strict=True)]

    def given(self) -> dict[str, Any]:
        """What the function was lowered with as arrays of the module, by name; without what was donated since."""
        found = {}
        for number, name in zip(self.kept, self.names, strict=True):
            value = self.values.get(name)
            if value is None or _is_donated(value):
                continue
            found[name] = np.asarray(self._leaf(value, number, name))
        return found

    def unflatten(self, results: Sequence[Any]) -> Any:
        """The results of the function from those of the module."""
        leaves = [_wrapped(value, leaf) for value, leaf in zip(results, self.out_leaves, strict=True)]
        return jax.tree.unflatten(self.out_tree, leaves)

    def in_shardings(self, shardings: Sequence[Any]) -> tuple[Any, ...]:
        """Shardings of the module's arguments in the structure of the function's; `None` for unused leaves.

        Raises:
            ShardingError: keyword arguments, for which `jax.jit` takes no shardings.
        """
        leaves: list[Any] = [None] * len(self.in_leaves)
        for number, sharding in zip(self.kept, shardings, strict=True):
            leaves[number] = _logical(sharding, self.in_leaves[number])
        args, kwargs = jax.tree.unflatten(self.in_tree, leaves)
        if kwargs:
            raise ShardingError(
                f"{self.name} was lowered with keyword arguments: {', '.join(kwargs)}",
                cause="jax.jit takes in_shardings for positional arguments only",
                remedy="lower it with positional arguments, or use plan.arguments",
            )
        return tuple(args)

    def out_shardings(self, shardings: Sequence[Any]) -> Any:
        """Shardings of the module's results in the structure of the function's."""
        leaves = [_logical(sharding, leaf) for sharding, leaf in zip(shardings, self.out_leaves, strict=True)]
        return jax.tree.unflatten(self.out_tree, leaves)

    def _leaf(self, value: Any, number: int, name: str) -> Any:
        leaf = self.in_leaves[number]
        if _is_key(leaf.dtype):
            return jax.random.key_data(value)
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        same_type = array.dtype == leaf.dtype or np.isscalar(value)
        if array.shape != leaf.shape or not same_type:
            raise ShardingError(
                f"{self.name} is called with {array.dtype}{list(array.shape)} "
                f"where it was lowered for {leaf.dtype}{list(leaf.shape)}",
                op=f"argument {name}",
                remedy="give the shape and element type of lowering, or lower anew",
            )
        return array if array.dtype == leaf.dtype else np.asarray(value, leaf.dtype)


def lower(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], platform: str, **jit: Any
) -> tuple[Source, Call]:
    """Lower `fn(*args, **kwargs)` for `platform`; `jit` are options of `jax.jit`, for a function not jitted yet.

    Raises:
        ShardingError: options for a function that has its own, unused arguments that cannot be told from the others,
            or a program that the graph cannot hold. What JAX cannot trace is JAX's error.
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    if not callable(fn):
        raise ShardingError(
            f"not a function: {fn!r}"[:200].partition("\n")[0],
            cause=f"it is {kind_of(fn)}",
            remedy="give the function itself and its arguments; what is lowered already goes to "
            "sw.load(lowered.as_text(debug_info=True))",
        )
    lowered = _jitted(fn, name, jit).trace(*args, **kwargs).lower(lowering_platforms=(platform,))
    source = parse_source(_at_the_function(lowered.as_text(debug_info=True), fn), name)
    _check_effects(source.graph, name)
    in_leaves = tuple(_struct(leaf) for leaf in jax.tree.leaves(lowered.args_info))
    out_leaves = tuple(_struct(leaf) for leaf in jax.tree.leaves(lowered.out_info))
    names = source.graph.main.argument_names
    kept = _kept(fn, args, kwargs, lowered.args_info, names, name)
    values = _values(args, kwargs, jit, kept, names, lowered.in_tree)
    return source, Call(
        lowered.in_tree, lowered.out_tree, in_leaves, out_leaves, kept, tuple(names), name, values, _devices(lowered)
    )


def _devices(lowered: Any) -> tuple[Any, ...]:
    """The devices that JAX lowered a function for, in the order of its mesh; none where it does not tell.

    Modules do not name them, and JAX has no public word for them before compilation.
    """
    return tuple(getattr(getattr(lowered, "_lowering", None), "_device_list", None) or ())


def _device(said: Any) -> Any:
    """A device of this process, be it by its platform and number; `None` where there is no such device."""
    if not isinstance(said, tuple):
        return said
    platform, number = said
    try:
        return next((device for device in jax.devices(platform) if device.id == number), None)
    except RuntimeError:  # no devices of this kind
        return None


def _is_donated(value: Any) -> bool:
    return isinstance(value, jax.Array) and value.is_deleted()


def _values(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    jit: Mapping[str, Any],
    kept: tuple[int, ...],
    names: Sequence[str],
    tree: Any,
) -> dict[str, Any]:
    """The arrays and numbers among the arguments, by the names of the module's; none where these cannot be matched."""
    numbers, static = (jit.get(key, ()) for key in ("static_argnums", "static_argnames"))
    numbers = (numbers,) if isinstance(numbers, int) else numbers
    static = (static,) if isinstance(static, str) else static
    skipped = {number % len(args) for number in numbers} if args else set()
    dynamic = tuple(value for number, value in enumerate(args) if number not in skipped)
    leaves, own = jax.tree.flatten((dynamic, {key: value for key, value in kwargs.items() if key not in static}))
    if own != tree:
        return {}
    return {name: leaves[at] for at, name in zip(kept, names, strict=True) if _is_concrete(leaves[at])}


def _is_concrete(leaf: Any) -> bool:
    if isinstance(leaf, jax.Array):
        return not isinstance(leaf, jax.core.Tracer)
    return isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex))


def _at_the_function(text: str, fn: Callable[..., Any]) -> str:
    """The module with locations in this package, from where JAX was called, moved to the function itself."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    place = "unknown" if code is None else f"{json.dumps(code.co_filename)}:{code.co_firstlineno}:1"
    return _OWN_LOCATION.sub(lambda _: f"loc({place})", text)


def _jitted(fn: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    given: dict[str, Any] = {key: value for key, value in options.items() if isinstance(value, int) or value}
    if not hasattr(fn, "trace"):
        return jax.jit(fn, keep_unused=True, **given)
    if given:
        raise ShardingError(
            f"{name} is jitted already, and {', '.join(given)} was given",
            cause="a jitted function has its own static and donated arguments",
            remedy="give them to jax.jit, or give the function itself",
        )
    return fn


def _check_effects(graph: Graph, name: str) -> None:
    """Whether the module takes what the function does; effects in an order add tokens, which nobody can give it.

    Raises:
        ShardingError: it takes tokens, at the line of the callback that they are for.
    """
    if all(graph.types[argument].is_tensor for argument in graph.main.block.arguments):
        return
    check_callbacks(graph)
    raise ShardingError(
        f"{name} has effects that must follow each other",
        cause="its module takes tokens beside the arguments",
        remedy="leave the effects out, or give them ordered=False",
    )


def _kept(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    info: Any,
    names: list[str],
    name: str,
) -> tuple[int, ...]:
    """Which leaves became arguments of the module; a function that was jitted before may have lost unused ones."""
    leaves = jax.tree_util.tree_leaves_with_path(info)
    if len(leaves) == len(names):
        return tuple(range(len(leaves)))
    known = [_leaf_name(path, _parameters(fn, args)) for path, _ in leaves]
    kept = tuple(number for number, leaf in enumerate(known) if leaf in names)
    if len(info[0]) == len(args) and [known[number] for number in kept] == names:
        return kept
    raise ShardingError(
        f"JAX dropped arguments of {name} that it does not use, and which ones cannot be told",
        cause=f"it has {counted(len(leaves), 'leaf')}, its module {counted(len(names), 'argument')}",
        remedy="jit it with keep_unused=True, or give the function itself",
    )


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


def _is_key(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def _logical(sharding: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    """The sharding of a leaf; random keys have one dimension more in the module than in JAX."""
    if not _is_key(leaf.dtype):
        return sharding
    spec = jax.sharding.PartitionSpec(*tuple(sharding.spec)[: len(leaf.shape)])
    return jax.sharding.NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)


def _wrapped(value: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    """Random keys travel through a module as plain integers."""
    if not _is_key(leaf.dtype):
        return value
    return jax.random.wrap_key_data(value, impl=_key_kind(leaf.dtype))


def _key_kind(dtype: Any) -> str | None:
    """The generator of random keys of this type, found by comparing, as the type does not tell in public."""
    for kind in _KEY_KINDS:
        if jax.eval_shape(partial(jax.random.key, impl=kind), 0).dtype == dtype:
            return kind
    return None

"""How what a program was made from is called: its containers, and the arguments and results of its module, one a leaf.

`Call` is what a program asks of that. `JaxCall` remembers it of a JAX function, so that a compiled program is called
just as the function was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.runtime.placement import laid_out
from shardwright.runtime.python_calls import NO_CALLS, PythonCalls

__all__ = ["Call", "JaxCall", "is_key"]

_KEY_KINDS = ("threefry2x32", "rbg", "unsafe_rbg")


class Call(Protocol):
    """How a program is called."""

    @property
    def argument_numbers(self) -> Any:
        """The caller's positional arguments, each leaf the number of the module's argument; `None` if by name only."""

    @property
    def result_numbers(self) -> Any:
        """What the caller gets, each leaf the number of the module's result; `None` if by name only."""

    def on(self, mesh: Mesh) -> tuple[Any, ...] | None:
        """The devices of this process that `mesh` numbers; `None` for the first ones."""

    def among(self, devices: tuple[Any, ...]) -> Call:
        """The same on these devices."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the module."""

    def unflatten(self, results: Sequence[Any]) -> Any:
        """What the caller gets, from the results of the module."""

    def given(self) -> dict[str, Any]:
        """What the program was made with, as arrays by the names of the module's arguments."""

    def in_shardings(self, shardings: Sequence[Any]) -> tuple[Any, ...]:
        """The shardings of the module's arguments, in the structure of the caller's."""

    def out_shardings(self, shardings: Sequence[Any]) -> Any:
        """The shardings of the module's results, in the structure of what the caller gets."""

    def bound(self, compiled: Any) -> Any:
        """The `Compiled` program as it is called: itself, or one that keeps state for it."""


@dataclass(frozen=True, slots=True)
class JaxCall:
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
        devices: The devices it was lowered for, in the order of its mesh; in a pickle, the platform and number of each.
        donated: Whether results may take the buffer of each argument leaf.
        traced: The function as JAX traced it, which takes and gives what it does; `None` where it is not at hand, as in
            a pickle.
        callbacks: The Python functions that the module calls; none in a pickle.
        stage: What a library lowered that jits functions in a way of its own; `in_tree` and all else are of what that
            gives to JAX.
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
    donated: tuple[bool, ...] = ()
    traced: Any = field(default=None, compare=False, repr=False)
    callbacks: PythonCalls = field(default=NO_CALLS, compare=False, repr=False)
    stage: Any = field(default=None, compare=False, repr=False)

    def on(self, mesh: Mesh) -> tuple[Any, ...] | None:
        """The devices of this process that `mesh` numbers; `None` for the first ones, where it was lowered for others.

        A function without shardings is lowered for one device, whatever mesh it is planned on later.
        """
        if len(self.devices) != mesh.size:
            return None
        devices = tuple(map(_device, self.devices))
        return None if None in devices else devices

    def among(self, devices: tuple[Any, ...]) -> JaxCall:
        """The same on these devices, in the order of their numbers; on its own where it was lowered for them."""
        return self if not devices or set(devices) == set(self.devices) else replace(self, devices=devices)

    def with_donors(self, donors: Sequence[bool]) -> JaxCall:
        """The same, where results may take the buffers of these arguments of the module."""
        donated = [False] * len(self.in_leaves)
        for leaf, is_donor in zip(self.kept, donors, strict=True):
            donated[leaf] = is_donor
        return replace(self, donated=tuple(donated))

    def __reduce__(self) -> tuple[Any, ...]:
        """Devices by their numbers, no values that were donated since, and no functions."""
        values = {name: value for name, value in self.values.items() if not _is_donated(value)}
        numbers = tuple(
            device if isinstance(device, tuple) else (device.platform, device.id) for device in self.devices
        )
        call = replace(self, values=values, devices=numbers, traced=None, callbacks=NO_CALLS, stage=None)
        return JaxCall, tuple(getattr(call, field.name) for field in fields(call))

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of what the function is called with, each of the type that it was lowered for.

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
        for number, name in zip(self.kept, self.names, strict=True):
            leaves[number] = self._leaf(leaves[number], number, name)
        return leaves

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the module from those of the function.

        Raises:
            ShardingError: another structure, shape or element type than the function was lowered for.
        """
        return self.arguments(self.leaves(args, kwargs))

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments of the module from the leaves of the function's: those that it uses, keys as integers."""
        return [_data(leaves[number], self.in_leaves[number]) for number in self.kept]

    def results(self, values: Sequence[Any]) -> list[Any]:
        """The leaves of the function's results from the results of the module."""
        return [_wrapped(value, leaf) for value, leaf in zip(values, self.out_leaves, strict=True)]

    def structs(self, shardings: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with, as structs that lie as the module's arguments do."""
        leaves = list(self.in_leaves)
        for number, sharding in zip(self.kept, shardings, strict=True):
            leaf = leaves[number]
            leaves[number] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=_logical(sharding, leaf))
        args, kwargs = jax.tree.unflatten(self.in_tree, leaves)
        return args, kwargs

    def formats(self, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[Any, Any]:
        """What is said of the arguments and results of the module, as of the function's; `None` of unused arguments."""
        leaves = [None] * len(self.in_leaves)
        for number, one in zip(self.kept, ins, strict=True):
            leaves[number] = one
        return jax.tree.unflatten(self.in_tree, leaves), jax.tree.unflatten(self.out_tree, outs)

    def placed(self, leaves: Sequence[Any], place: Callable[[Any, Any], Any], shardings: Sequence[Any]) -> Any:
        """`(args, kwargs)` of the function, its leaves placed as the module's arguments lie; unused ones are zeros."""
        given = [
            np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape) if not is_key(leaf.dtype) else own
            for own, leaf in zip(leaves, self.in_leaves, strict=True)
        ]
        for number, sharding in zip(self.kept, shardings, strict=True):
            given[number] = place(leaves[number], _logical(sharding, self.in_leaves[number]))
        return jax.tree.unflatten(self.in_tree, given)

    def constrained_leaves(self, leaves: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        """The leaves of the function's arguments, constrained to the shardings of the module's."""
        constrained = list(leaves)
        for number, sharding in zip(self.kept, shardings, strict=True):
            constrained[number] = _constrained(leaves[number], sharding, self.in_leaves[number])
        return constrained

    def constrained_results(self, leaves: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        """The same of results."""
        return [_constrained(*one) for one in zip(leaves, shardings, self.out_leaves, strict=True)]

    @property
    def donation(self) -> dict[str, Any]:
        """The options of `jax.jit` that say which arguments are donated."""
        args, kwargs = jax.tree.unflatten(self.in_tree, self.donated or (False,) * len(self.in_leaves))
        return {
            "donate_argnums": tuple(number for number, arg in enumerate(args) if _all(arg)),
            "donate_argnames": tuple(name for name, arg in kwargs.items() if _all(arg)),
        }

    def given(self) -> dict[str, Any]:
        """What the function was lowered with as arrays of the module, by name; without what was donated since, and what
        lies in part on devices of other processes.
        """
        arrays = {}
        for number, name in zip(self.kept, self.names, strict=True):
            value = self.values.get(name)
            if value is None or _is_donated(value) or _is_spread(value):
                continue
            arrays[name] = np.asarray(_data(self._leaf(value, number, name), self.in_leaves[number]))
        return arrays

    @property
    def argument_numbers(self) -> tuple[Any, ...]:
        """The positional arguments of the function, with the number of each leaf in the module; -1 for unused ones.

        Of a function that a library has jitted there are none: what JAX is given is not what users give.
        """
        if self.stage is not None:
            return ()
        numbers = [-1] * len(self.in_leaves)
        for number, leaf in enumerate(self.kept):
            numbers[leaf] = number
        args, _ = jax.tree.unflatten(self.in_tree, numbers)
        return tuple(args)

    @property
    def result_numbers(self) -> Any:
        """What the function returns, with the number of each leaf in the module; see `argument_numbers`."""
        if self.stage is not None:
            return ()
        return jax.tree.unflatten(self.out_tree, range(len(self.out_leaves)))

    def unflatten(self, results: Sequence[Any]) -> Any:
        """The results of the function from those of the module."""
        return jax.tree.unflatten(self.out_tree, self.results(results))

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

    def bound(self, compiled: Any) -> Any:
        """The compiled program as it is: a JAX function keeps nothing from call to call."""
        return compiled

    def _leaf(self, value: Any, number: int, name: str) -> Any:
        """A leaf of the type that it was lowered for; numbers take it, and numpy's arrays as `jax.jit` has them do."""
        leaf = self.in_leaves[number]
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        same_type = array.dtype == leaf.dtype or (np.isscalar(value) and _is_number_of(value, leaf.dtype))
        if not isinstance(value, jax.Array) and not same_type:
            same_type = jax.dtypes.canonicalize_dtype(array.dtype) == leaf.dtype
        if array.shape != leaf.shape or not same_type:
            raise ShardingError(
                f"{self.name} is called with {array.dtype}{list(array.shape)} "
                f"where it was lowered for {leaf.dtype}{list(leaf.shape)}",
                op=f"argument {name}",
                remedy="give the shape and element type of lowering, or lower anew",
            )
        return array if array.dtype == leaf.dtype else np.asarray(value, leaf.dtype)


def _is_number_of(value: Any, dtype: Any) -> bool:
    """Whether a number becomes one of this type without losing what it is: of 4.5 no integer, of 300 no `uint8`."""
    own, other = _kind_of(np.asarray(value).dtype), _kind_of(dtype)
    if own != 1 or other != 1:
        return own <= other
    bounds: Any = jax.numpy.iinfo(dtype)  # type: ignore[no-untyped-call]
    return bool(bounds.min <= value <= bounds.max)


def _kind_of(dtype: Any) -> int:
    """The kinds of numbers in the order in which one holds the other; behind them what is none."""
    kinds = (np.bool_, np.integer, np.floating, np.complexfloating)
    return next((at for at, kind in enumerate(kinds) if jax.numpy.issubdtype(dtype, kind)), len(kinds))


def _all(donated: Any) -> bool:
    leaves = jax.tree.leaves(donated)
    return bool(leaves) and all(leaves)


def _constrained(value: Any, sharding: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    return laid_out(value, _logical(sharding, leaf))


def _data(value: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    """A leaf as the module takes it: random keys travel through it as plain integers."""
    return jax.random.key_data(value) if is_key(leaf.dtype) else value


def _device(reference: Any) -> Any:
    """A device of this process, be it by its platform and number; `None` where there is no such device."""
    if not isinstance(reference, tuple):
        return reference
    platform, number = reference
    try:
        return next((device for device in jax.devices(platform) if device.id == number), None)
    except RuntimeError:  # no devices of this kind
        return None


def _is_donated(value: Any) -> bool:
    return isinstance(value, jax.Array) and value.is_deleted()


def _is_spread(value: Any) -> bool:
    return isinstance(value, jax.Array) and not value.is_fully_addressable


def is_key(dtype: Any) -> bool:
    """Whether arrays of a type are random keys."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def _logical(sharding: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    """The sharding of a leaf; random keys have one dimension more in the module than in JAX."""
    if not is_key(leaf.dtype):
        return sharding
    spec = jax.sharding.PartitionSpec(*tuple(sharding.spec)[: len(leaf.shape)])
    return jax.sharding.NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)


def _wrapped(value: Any, leaf: jax.ShapeDtypeStruct) -> Any:
    """Random keys travel through a module as plain integers."""
    if not is_key(leaf.dtype):
        return value
    return jax.random.wrap_key_data(value, impl=_key_kind(leaf.dtype))


def _key_kind(dtype: Any) -> str | None:
    """The generator of random keys of this type, found by comparing, as the type does not tell in public."""
    for kind in _KEY_KINDS:
        if jax.eval_shape(partial(jax.random.key, impl=kind), 0).dtype == dtype:
            return kind
    return None

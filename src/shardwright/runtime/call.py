"""How what a program was made from is called: its containers, and the arguments and results of its module, one a leaf.

`Call` is what a program asks of that. `JaxCall` remembers it of a JAX function, so that a compiled program is called
just as the function was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh

__all__ = ["Call", "JaxCall"]

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

    def on(self, mesh: Mesh) -> tuple[Any, ...] | None:
        """The devices of this process that `mesh` numbers; `None` for the first ones, where it was lowered for others.

        A function without shardings is lowered for one device, whatever mesh it is planned on later.
        """
        if len(self.devices) != mesh.size:
            return None
        devices = tuple(map(_device, self.devices))
        return None if None in devices else devices

    def __reduce__(self) -> tuple[Any, ...]:
        """Devices by their numbers, no values that were donated since, and not the function."""
        values = {name: value for name, value in self.values.items() if not _is_donated(value)}
        numbers = tuple(
            device if isinstance(device, tuple) else (device.platform, device.id) for device in self.devices
        )
        call = replace(self, values=values, devices=numbers, traced=None)
        return JaxCall, tuple(getattr(call, field.name) for field in fields(call))

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
        arrays = {}
        for number, name in zip(self.kept, self.names, strict=True):
            value = self.values.get(name)
            if value is None or _is_donated(value):
                continue
            arrays[name] = np.asarray(self._leaf(value, number, name))
        return arrays

    @property
    def argument_numbers(self) -> tuple[Any, ...]:
        """The positional arguments of the function, with the number of each leaf in the module; -1 for unused ones."""
        numbers = [-1] * len(self.in_leaves)
        for number, leaf in enumerate(self.kept):
            numbers[leaf] = number
        args, _ = jax.tree.unflatten(self.in_tree, numbers)
        return tuple(args)

    @property
    def result_numbers(self) -> Any:
        """What the function returns, with the number of each leaf in the module."""
        return jax.tree.unflatten(self.out_tree, range(len(self.out_leaves)))

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

    def bound(self, compiled: Any) -> Any:
        """The compiled program as it is: a JAX function keeps nothing from call to call."""
        return compiled

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

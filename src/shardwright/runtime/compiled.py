"""A per-device program as a callable on the devices of this process, arrays in and arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims, unbounded
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import check_array
from shardwright.runtime.call import Call
from shardwright.runtime.contributions import Stack, stack_of
from shardwright.runtime.execute import try_first
from shardwright.runtime.filled import Filled
from shardwright.runtime.placement import mesh_devices, named_shardings
from shardwright.runtime.shared import check_processes
from shardwright.runtime.xla import compile_local
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["Compiled", "compile_program"]


class Compiled:
    """A sharded program, ready to run; call it as the function it was made from.

    Arguments are placed on the devices as `in_shardings` say, for which those that lie so already are not moved. Where
    `jax.distributed` has joined processes, all call it: each with arrays that it has whole, of which it takes its own
    shards, or with arrays over all devices, made of such shards (`jax.make_array_from_callback`).
    Results are `jax.Array`s laid out as `out_shardings` say: unreduced where the program gives contributions to a sum;
    contributions to other reductions, for which JAX has no sharding, are combined. Donated arguments are consumed.
    JAX's shardings divide: an uneven argument or result is laid out by what divides of its sharding outside of the
    program, and filled up, or cut, on the devices on its way (see `runtime.filled`).

    Attributes:
        in_shardings: The `NamedSharding` of each argument of the module.
        out_shardings: The `NamedSharding` of each result of the module.
    """

    def __init__(
        self,
        executable: Any,
        in_shardings: Sequence[jax.sharding.NamedSharding],
        out_shardings: Sequence[jax.sharding.NamedSharding],
        in_types: dict[str, TensorType],
        out_types: Sequence[TensorType],
        call: Call | None,
        stacks: Sequence[Stack | None],
        fillings: Sequence[Filled | None],
    ) -> None:
        """Hold what `compile_program` made; `fillings` are of the arguments and results, in order."""
        self.in_shardings = tuple(in_shardings)
        self.out_shardings = tuple(out_shardings)
        self._executable = executable
        self._in_types = in_types
        self._out_types = tuple(out_types)
        self._call = call
        self._stacks = tuple(stacks)
        self._filled_in = tuple(fillings[: len(in_shardings)])
        self._filled_out = tuple(fillings[len(in_shardings) :])
        self._makers: list[Callable[[Any], Any]] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run once.

        Arguments:
            *args: The arguments of the function, static ones left out (as in JAX's ahead-of-time calls); without a
                function, one array for each argument of the program.
            **kwargs: Its keyword arguments.

        Returns:
            What the function returns; without a function, a tuple of arrays.

        Raises:
            ShardingError: arguments that are not those the program was made for.
        """
        if self._call is not None:
            return self._call.unflatten(self._run(self._call.flatten(args, kwargs)))
        return tuple(self._run(self._checked(args, kwargs)))

    def _run(self, leaves: Sequence[Any]) -> list[jax.Array]:
        with jax.enable_x64(True):  # leaves have the program's types already; without it 64 bits would become 32
            placed = [self._placed(number, leaf) for number, leaf in enumerate(leaves)]
            shards = _called(self._executable, placed)
            if self._makers is not None:
                return [make(list(parts)) for make, parts in zip(self._makers, shards, strict=True)]
            results = [self._result(number, parts) for number, parts in enumerate(shards)]
            self._makers = [self._maker(number, array) for number, array in enumerate(results)]
            return results

    def _placed(self, number: int, leaf: Any) -> Any:
        filled, sharding = self._filled_in[number], self.in_shardings[number]
        if filled is not None:
            leaf, sharding = filled.fill(leaf), filled.inside
        elif self._executable.is_placed(number, leaf, sharding):
            return leaf
        return self._executable.placed(number, leaf, sharding)

    def _result(self, number: int, parts: Sequence[jax.Array]) -> jax.Array:
        """The array of one result; contributions that JAX has no sharding for are combined."""
        dims, sharding = self._out_types[number].dims, self.out_shardings[number]
        stack, filled = self._stacks[number], self._filled_out[number]
        if filled is not None:
            return filled.cut(parts)
        if stack is not None:
            return stack.complete(dims, parts, sharding)
        return jax.make_array_from_single_device_arrays(dims, sharding, parts)

    def _maker(self, number: int, array: jax.Array) -> Callable[[Any], Any]:
        """What makes a result of its shards from the second run on, by the array of the first one."""
        own = self._stacks[number] is None and self._filled_out[number] is None
        return (self._executable.maker(array) if own else None) or partial(self._result, number)

    def _checked(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) != len(self._in_types) or kwargs:
            raise ShardingError(
                f"the program takes {counted(len(self._in_types), 'array')}, {len(args) + len(kwargs)} were given",
                cause=f"its arguments are {', '.join(self._in_types)}",
                remedy="give one array for each, by position",
            )
        arrays = (value if isinstance(value, jax.Array) else np.asarray(value) for value in args)
        return [
            check_array(array, type, name)  # type: ignore[arg-type]  # a jax.Array has what is asked of it
            for array, (name, type) in zip(arrays, self._in_types.items(), strict=True)
        ]


def _called(executable: Any, arguments: Sequence[jax.Array]) -> Any:
    try:
        return executable.call(arguments)
    except jax.errors.JaxRuntimeError as error:
        raise _refused("run", error) from None


def _refused(what: str, error: Exception) -> ShardingError:
    """That XLA cannot compile the program, or run it, and what it says of that."""
    return ShardingError(
        f"XLA cannot {what} the per-device program",
        cause=str(error).split("\n", 1)[0],
        remedy="verify() runs it in a process of its own and shows what XLA says",
    )


def compile_program(
    module: str,
    mesh: Mesh,
    in_shardings: Sequence[TensorSharding],
    out_shardings: Sequence[TensorSharding],
    in_types: dict[str, TensorType],
    out_types: Sequence[TensorType],
    call: Call | None,
    trial: bool,
) -> Compiled:
    """Compile a per-device module for the devices of this process.

    Arguments:
        module: MLIR text.
        mesh: Which device runs which position.
        in_shardings: How each argument lies.
        out_shardings: How each result lies.
        in_types: Global type of each argument by name.
        out_types: Global type of each result.
        call: How the function was called that it comes from.
        trial: Whether to compile and run it on zeros in another process first, where devices are CPUs of this process.

    Raises:
        ShardingError: fewer devices here than the mesh has, a module that XLA refuses, or one that ends processes.
    """
    among = call.on(mesh) if call else None
    devices = mesh_devices(mesh, among)
    stacks = [stack_of(sharding, among) for sharding in out_shardings]
    complete = [
        sharding if stack is None else sharding.with_axes(sharding.axes)
        for sharding, stack in zip(out_shardings, stacks, strict=True)
    ]
    every, types = [*in_shardings, *complete], [*in_types.values(), *out_types]
    whole = list(map(unbounded, every))
    even = [sharding.evenly_dividing(type.dims) for sharding, type in zip(whole, types, strict=True)]
    named = named_shardings([*even, *whole], among)  # before XLA, which takes longer to refuse
    check_processes(module, list(devices.flat))
    if trial and devices.flat[0].platform == "cpu" and jax.process_count() == 1:
        try_first(module, mesh, in_shardings, list(in_types.values()))
    try:
        executable = compile_local(module, mesh, among=among)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise _refused("compile", error) from None
    memory_kinds = (*executable.memory_kinds, *executable.result_memory_kinds)
    placed = [
        sharding.with_memory_kind(kind) for sharding, kind in zip(named, (*memory_kinds, *memory_kinds), strict=True)
    ]
    fillings = _fillings(types, every, placed)
    count = len(in_shardings)
    return Compiled(executable, placed[:count], placed[count : len(every)], in_types, out_types, call, stacks, fillings)


def _fillings(
    types: Sequence[TensorType], shardings: Sequence[TensorSharding], named: Sequence[jax.sharding.NamedSharding]
) -> list[Filled | None]:
    """How uneven arguments and results are handed over, nothing for the others.

    Arguments:
        types: The types of arguments and results.
        shardings: How they lie in the program.
        named: How JAX has them outside of it, one for each, and then inside.
    """
    outside, inside = named[: len(types)], named[len(types) :]
    return [
        None if sharding.divides(type.dims) and not bounded_dims(sharding) else Filled(type.dims, sharding, *lies)
        for type, sharding, *lies in zip(types, shardings, outside, inside, strict=True)
    ]

"""A per-device program as a callable on the devices of this process, arrays in and arrays out."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims, unbounded
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import check_array
from shardwright.runtime.call import Call, JaxCall
from shardwright.runtime.contributions import stack_of
from shardwright.runtime.direct import Direct
from shardwright.runtime.execute import try_first
from shardwright.runtime.filled import Filled
from shardwright.runtime.function import of_arrays, transformable
from shardwright.runtime.inlined import inlined
from shardwright.runtime.placement import MEMORY_KIND, in_memory, mesh_devices, named_shardings
from shardwright.runtime.python_calls import NO_CALLS, PythonCalls
from shardwright.runtime.shared import check_processes
from shardwright.runtime.stepped import Stepped, placed, stepped
from shardwright.runtime.tensors import Tensors
from shardwright.runtime.xla import compile_local
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["Compiled", "LocalProgram", "compile_program"]


class Compiled:
    """A sharded program, ready to run; call it as the function it was made from.

    Arguments are placed on the devices as `in_shardings` say, for which those that lie so already are not moved. Where
    `jax.distributed` has joined processes, all call it: each with arrays that it has whole, of which it takes its own
    shards, or with arrays over all devices, made of such shards (`jax.make_array_from_callback`).
    Results are `jax.Array`s laid out as `out_shardings` say: unreduced where the program gives contributions to a sum;
    contributions to other reductions, for which JAX has no sharding, are combined. Donated arguments are consumed.
    JAX's shardings divide: an uneven argument or result is laid out by what divides of its sharding outside of the
    program, and filled up, or cut, on the devices on its way (see `runtime.filled`).

    Inside of `jax.jit` it is a part of what is compiled there; under `jax.grad` and `jax.vmap` it is the function that
    it was made from, with its shardings as constraints (see `runtime.function`).

    Attributes:
        in_shardings: The `NamedSharding` of each argument of the module.
        out_shardings: The `NamedSharding` of each result of the module.
    """

    def __init__(
        self,
        in_shardings: Sequence[jax.sharding.NamedSharding],
        out_shardings: Sequence[jax.sharding.NamedSharding],
        in_types: dict[str, TensorType],
        call: JaxCall | None,
        executable: Stepped | Direct,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Hold what `compile_program` made; `function` is the same for JAX to trace, where it has words for it."""
        self.in_shardings = tuple(in_shardings)
        self.out_shardings = tuple(out_shardings)
        self._in_types = in_types
        self._call = call
        self._executable = executable
        self._function = function
        self._run = executable.step if isinstance(executable, Stepped) else self._run_directly
        self._outside: Callable[..., Any] | None = None

    def within(self, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Compiled:
        """The same, called in a way that a library has of its own: `wrapper` makes of what takes trees that."""
        outside = copy.copy(self)
        outside._outside = wrapper(self)
        return outside

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
        if self._outside is not None:
            return self._outside(*args, **kwargs)
        if _any_deleted(args, kwargs):
            self._refuse_deleted(args, kwargs)
        try:
            try:
                return self._run(*args, **kwargs)
            except (TypeError, ValueError, OverflowError):  # so JAX says that arguments are of other types or elsewhere
                pass
            return self._placed_and_run(args, kwargs)
        except jax.errors.JaxRuntimeError as error:
            raise _refused("run", error) from None

    def tried(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Whether these arguments are what it takes, and lie as they should; and if so, what it returns.

        Raises:
            ShardingError: XLA cannot run it.
        """
        if self._outside is not None or not isinstance(self._executable, Stepped) or _any_deleted(args, kwargs):
            return False, None
        try:
            return True, self._run(*args, **kwargs)
        except jax.errors.JaxRuntimeError as error:
            raise _refused("run", error) from None
        except (TypeError, ValueError, OverflowError):  # as of `__call__`
            return False, None

    def is_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether JAX traces what these arguments are given to."""
        return _is_traced(args, kwargs)

    def _refuse_deleted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise for the first argument that is gone: XLA on CPUs ends the process that gives it one."""
        leaves = jax.tree_util.tree_leaves_with_path((args, kwargs))
        path = next(path for path, leaf in leaves if _is_gone(leaf))
        raise RuntimeError(
            f"argument {jax.tree_util.keystr(path[1:])} has been deleted: it was donated to an earlier call, "
            "which made its results in the same memory; give what that returned, or do not donate it"
        )

    def _placed_and_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run once with arguments that are to be brought to where they belong, or are no arrays yet."""
        executable, call = self._executable, self._call
        if not isinstance(executable, Stepped):
            return self._run_directly(*args, **kwargs)
        if _is_traced(args, kwargs):
            return executable.function(*args, **kwargs)
        leaves = self._checked(args, kwargs) if call is None else call.leaves(args, kwargs)
        with jax.enable_x64(True):  # leaves have the program's types already; without it 64 bits would become 32
            if call is None:
                return executable.step(*map(placed, leaves, self.in_shardings))
            args, kwargs = call.placed(leaves, placed, self.in_shardings)
            return executable.step(*args, **kwargs)

    def _run_directly(self, *args: Any, **kwargs: Any) -> Any:
        if _is_traced(args, kwargs):
            if self._function is not None:
                return self._function(*args, **kwargs)
            raise ShardingError(
                "the program cannot be part of what JAX traces",
                cause="JAX has no words for how its values lie: they await reductions, are in orders of devices of "
                "their own, or uneven ones in other memories",
                remedy="call it by itself, or jit the function with plan.in_shardings and plan.out_shardings",
            )
        direct: Any = self._executable
        if self._call is not None:
            return self._call.unflatten(direct.run(self._call.flatten(args, kwargs)))
        return tuple(direct.run(self._checked(args, kwargs)))

    @property
    def input_formats(self) -> Any:
        """Sharding and order of elements in memory of the arguments, `(args, kwargs)`, as of `jax.stages.Compiled`.

        What lies so is taken as it is; `Layout.AUTO` has XLA choose it.
        """
        return self._formats[0]

    @property
    def output_formats(self) -> Any:
        """The same of what the function returns."""
        return self._formats[1]

    @property
    def _formats(self) -> tuple[Any, Any]:
        if isinstance(self._executable, Stepped):
            return self._executable.step.input_formats, self._executable.step.output_formats
        ins, outs = self._executable.formats
        return ((tuple(ins), {}), tuple(outs)) if self._call is None else self._call.formats(ins, outs)

    def as_text(self) -> str:
        """The HLO of one device, as XLA runs it."""
        return self._executable.as_text()

    def cost_analysis(self) -> Any:
        """What XLA estimates of its costs on one device, by name, as of `jax.stages.Compiled`."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries on a device, as XLA has assigned them."""
        return self._executable.memory_analysis()

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


_is_deleted = operator.methodcaller("is_deleted")


def _is_gone(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and leaf.is_deleted()


def _any_deleted(*trees: Any) -> bool:
    """Whether an array is gone; where all are of JAX, as in a loop of steps, this takes a tenth of a call at most."""
    leaves = jax.tree.leaves(trees)
    try:
        return any(map(_is_deleted, leaves))
    except (AttributeError, TypeError):  # numbers, arrays of numpy, and what JAX traces
        return any(map(_is_gone, leaves))


def _is_traced(*trees: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def _refused(what: str, error: Exception) -> ShardingError:
    """That XLA cannot compile the program, or run it, and what it says of that."""
    return ShardingError(
        f"XLA cannot {what} the per-device program",
        cause=str(error).split("\n", 1)[0],
        remedy="verify() runs it in a process of its own and shows what XLA says",
    )


@dataclass(frozen=True)
class LocalProgram:
    """What a per-device program is compiled from.

    Attributes:
        module: MLIR text.
        mesh: Which device runs which position.
        in_shardings: How each argument lies.
        out_shardings: How each result lies.
        in_types: Global type of each argument by name.
        out_types: Global type of each result.
        local_results: Type of each result on one device.
        donors: Whether results may take the buffer of each argument.
        attributes: What is said of each argument and then of each result, as MLIR text by name.
    """

    module: str
    mesh: Mesh
    in_shardings: Sequence[TensorSharding]
    out_shardings: Sequence[TensorSharding]
    in_types: dict[str, TensorType]
    out_types: Sequence[TensorType]
    local_results: Sequence[TensorType]
    donors: Sequence[bool]
    attributes: Sequence[Mapping[str, str]]

    @classmethod
    def of(
        cls,
        module: str,
        local: Graph,
        mesh: Mesh,
        arguments: Tensors,
        results: Tensors,
    ) -> LocalProgram:
        """That of a module whose graph is at hand, with what it takes and what it gives."""
        (in_types, ins), (out_types, outs) = arguments, results
        donors = ["jax.buffer_donor" in row for row in local.main.argument_attributes]
        types = list(out_types.values()), list(local.results.values())
        attributes = [*local.main.argument_attributes, *local.main.result_attributes]
        return cls(module, mesh, ins, outs, in_types, *types, donors, attributes)

    @property
    def orders_elements(self) -> bool:
        """Whether some argument or result is to have its elements in an order of its own in memory."""
        return any("mhlo.layout_mode" in row for row in self.attributes)


def compile_program(program: LocalProgram, call: Call | None, trial: bool) -> Compiled:
    """Compile a per-device program for the devices of this process.

    Arguments:
        program: What to compile.
        call: How the function was called that it comes from; other than functions of JAX are called with arrays.
        trial: Whether to compile and run it on zeros in another process first, where devices are CPUs of this process.

    Raises:
        ShardingError: fewer devices here than the mesh has, a module that XLA refuses, or one that ends processes.
    """
    mesh, count = program.mesh, len(program.in_types)
    among = call.on(mesh) if call else None
    devices = mesh_devices(mesh, among)
    call = call if isinstance(call, JaxCall) else None
    stacks = [stack_of(sharding, among) for sharding in program.out_shardings]
    complete = [
        sharding if stack is None else sharding.with_axes(sharding.axes)
        for sharding, stack in zip(program.out_shardings, stacks, strict=True)
    ]
    every, types = [*program.in_shardings, *complete], [*program.in_types.values(), *program.out_types]
    whole = list(map(unbounded, every))
    even = [sharding.evenly_dividing(type.dims) for sharding, type in zip(whole, types, strict=True)]
    named = named_shardings([*even, *whole], among)  # before XLA, which takes longer to refuse
    outside = in_memory(named[: len(every)], program.attributes)
    check_processes(program.module, list(devices.flat))
    callbacks = call.callbacks if call else NO_CALLS
    if trial and devices.flat[0].platform == "cpu" and jax.process_count() == 1 and not callbacks:
        try_first(program.module, mesh, program.in_shardings, list(program.in_types.values()))
    try:
        function = None
        fillings = _fillings(types, every, named)
        if not any(stacks) and _is_for_jax(program, types, fillings):
            own = program.module, program.local_results
            function = inlined(*own, outside, fillings, list(devices.flat), callbacks)
        if function is not None and not program.orders_elements:
            ins, outs = outside[:count], outside[count:]
            made = stepped(function, ins, outs, program.donors, call, program.in_types)
            return Compiled(ins, outs, program.in_types, call, made)
        _check_no_python(callbacks, program.module)
        executable = compile_local(program.module, mesh, among=among)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise _refused("compile", error) from None
    kinds = (*executable.memory_kinds, *executable.result_memory_kinds)
    kept = [sharding.with_memory_kind(kind) for sharding, kind in zip(named, (*kinds, *kinds), strict=True)]
    ins, outs = kept[:count], kept[count : len(every)]
    direct = Direct(executable, ins, outs, program.out_types, stacks, _fillings(types, every, kept))
    if function is not None:
        function = of_arrays(function) if call is None else transformable(function, call, [*ins, *outs])
    return Compiled(ins, outs, program.in_types, call, direct, function)


def _is_for_jax(program: LocalProgram, types: Sequence[TensorType], fillings: Sequence[Filled | None]) -> bool:
    """Whether JAX can hand over such arrays: shards of nothing it takes for the whole, and it fills none elsewhere than
    in the devices' own memory.
    """
    is_elsewhere = any(filled and MEMORY_KIND in row for filled, row in zip(fillings, program.attributes, strict=True))
    return not is_elsewhere and not any(0 in type.dims for type in types)


def _check_no_python(callbacks: PythonCalls, module: str) -> None:
    """Refuse calls of Python in what XLA runs without JAX, which would follow a number to nowhere.

    Raises:
        ShardingError: there are some.
    """
    if callbacks and "_callback(" in module:
        raise ShardingError(
            "the program cannot call Python functions here",
            cause="JAX has no words for how its values lie, so that XLA runs it by itself, without what it calls",
            remedy="leave out the calls, or orders of elements and contributions to reductions",
        )


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

"""What users hold: a `Program`, the `Plan` of its shardings, and the `Spmd` program that every device runs.

    program = sw.load("step.mlir")                      # or sw.from_jax(train_step, params, batch)
    plan = program.shard(sw.Mesh(data=2, model=4), args={"batch": sw.P("data")})
    spmd = plan.partition()
    spmd.verify().ok

Each is a value: `shard` can be called again with other shardings, `partition` again after that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardwright.analysis.memory import MemoryUse, memory
from shardwright.analysis.traffic import TrafficSummary, collectives, summarize
from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.frontends.annotate import annotate
from shardwright.frontends.files import write_file
from shardwright.frontends.load import Source, load_source
from shardwright.frontends.reference import unsharded_text
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.partition import Explicit, Note, is_explicit, localize, materialize
from shardwright.partition.processes import is_per_device
from shardwright.per_device import PerDevice
from shardwright.propagation import propagate
from shardwright.runtime.arrays import Array
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.verify import Verification, verify
from shardwright.sharding import TensorSharding, replicated

if TYPE_CHECKING:
    from jax.sharding import NamedSharding

    from shardwright.frontends.compiled import Compiled
    from shardwright.frontends.jax import Call

__all__ = ["STAGES", "Plan", "Program", "Spmd", "from_jax", "load"]

STAGES = ("propagated", "explicit", "local")
"""The modules a program goes through, in order."""


Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Arrays by argument name, or the positional arguments of the function."""


class Program:
    """A tensor program written as for one device.

    Made by `load` and `from_jax`.

    Attributes:
        name: The file it came from, or the function's name.
        graph: The program, as it was given.
        clock: What its stages took.
    """

    def __init__(self, source: Source, call: Call | None = None, clock: Clock | None = None) -> None:
        """Hold what a frontend read."""
        self.source = source
        self.call = call
        self.clock = clock or Clock()
        self.name = source.name
        self.graph = source.graph

    def __repr__(self) -> str:
        """`Program(step.mlir, 12 arguments, 340 ops)`."""
        return f"Program({self.name}, {len(self.arguments)} arguments, {self.graph.op_count} ops)"

    @property
    def arguments(self) -> dict[str, TensorType]:
        """The type of each argument by name, in order."""
        return _named(self.graph.main.argument_names, self.graph.main.block.arguments, self.graph.types)

    @property
    def results(self) -> dict[str, TensorType]:
        """The type of each result by name, in order."""
        return _named(self.graph.main.result_names, self.graph.main.block.terminator.operands, self.graph.types)

    def shard(self, mesh: Mesh | None = None, args: Mapping[str | int, Any] | None = None) -> Plan:
        """Complete the sharding of every tensor.

        Arguments:
            mesh: The devices; may be left out where the program brings its own.
            args: Shardings of arguments, by name (`"params/w1"`), by index, or by a path that several share
                (`"params"`): `sw.P(None, "model")`, the text `"-,model"`, or a `TensorSharding`. They win over
                what the program says; the more specific name wins over the less.

        Raises:
            ShardingError: no mesh or another than the program's, an unknown argument, a sharding that does not fit.

        Example:
            >>> program = load(EXAMPLE)
            >>> plan = program.shard(Mesh(data=2, model=4), args={0: "data,-", 1: ".,model"})
            >>> plan.shardings["result0"]
            [{data}, {model}]
        """
        self.check_shardable()
        clock = self.clock.branch()
        annotated = annotate(self.graph, mesh, args or {}, self.name)
        with clock.stage("propagate"):
            graph = annotated if is_explicit(annotated) else propagate(annotated)
        return Plan(self, annotated, graph, clock)

    @cached_property
    def is_per_device(self) -> bool:
        """Whether this is a program of one device of a grid, with collectives of the `shard` dialect."""
        return is_per_device(self.graph)

    def check_shardable(self) -> None:
        """Whether this is written as for one device, which alone can be sharded.

        Raises:
            ShardingError: it is a program of one device of a grid.
        """
        if self.is_per_device:
            raise ShardingError(
                "the program is written for one device of a grid already",
                location=self.name,
                cause="it communicates by collectives of its grid, and its tensors have local shapes",
                remedy="run it as it is with `shardwright run`, or write its StableHLO with `shardwright partition`",
            )

    def per_device(self) -> PerDevice:
        """A program that is written for one device already, lowered to StableHLO.

        Raises:
            ShardingError: it is none, or it has an op that cannot be run, at its line.
        """
        if not self.is_per_device:
            raise ShardingError(
                "the program is not written for one device of a grid",
                location=self.name,
                remedy="shard it: program.shard(mesh, args)",
            )
        return PerDevice(self.source)

    def unsharded(self) -> str:
        """The program for one device as MLIR text: what results are held against."""
        return unsharded_text(self.source)

    def plan(self) -> Plan:
        """Complete the shardings of a program that brings its mesh and annotations with it: `shard()`."""
        return self.shard()


class Plan:
    """A program with a sharding for every tensor.

    Attributes:
        program: What it was made from.
        annotated: The program with the shardings that users gave, and no others.
        graph: The program with all shardings.
        clock: What its stages took.
    """

    def __init__(self, program: Program, annotated: Graph, graph: Graph, clock: Clock) -> None:
        """Hold what propagation found."""
        self.program = program
        self.annotated = annotated
        self.graph = graph
        self.clock = clock

    def __repr__(self) -> str:
        """`Plan(step.mlir, Mesh(data=2, model=4))`."""
        return f"Plan({self.program.name}, {self.mesh!r})"

    @cached_property
    def mesh(self) -> Mesh:
        """The devices."""
        return next(mesh for mesh in self.graph.meshes.values() if mesh.axes)

    @property
    def arguments(self) -> dict[str, TensorSharding]:
        """The sharding of each argument by name: the layout in which the sharded program takes it."""
        main = self.graph.main
        return dict(zip(main.argument_names, self._layouts(main.block.arguments), strict=True))

    @property
    def results(self) -> dict[str, TensorSharding]:
        """The sharding of each result by name: the layout in which the sharded program gives it."""
        main = self.graph.main
        layouts = self._layouts(main.block.terminator.operands, main.result_shardings)
        reduced = [layout.with_axes(layout.axes) for layout in layouts]
        return dict(zip(main.result_names, reduced, strict=True))

    @property
    def shardings(self) -> dict[str, TensorSharding]:
        """Results and arguments together; where a result is called as an argument is, the argument's."""
        return {**self.results, **self.arguments}

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        """`NamedSharding`s for `jax.jit(..., in_shardings=plan.in_shardings)` and `jax.device_put`: one pytree for
        each positional argument of the function; without a function, one sharding for each argument.

        Raises:
            ShardingError: fewer devices here than the mesh has, or a function lowered with keyword arguments.
        """
        leaves = self._named(list(self.arguments.values()))
        call = self.program.call
        return tuple(leaves) if call is None else call.in_shardings(leaves)

    @property
    def out_shardings(self) -> Any:
        """`NamedSharding`s in the structure of the function's results; without a function, a tuple.

        Raises:
            ShardingError: fewer devices here than the mesh has.
        """
        leaves = self._named(list(self.results.values()))
        call = self.program.call
        return tuple(leaves) if call is None else call.out_shardings(leaves)

    def partition(self) -> Spmd:
        """Make every communication explicit and write the program of one device.

        Raises:
            ShardingError: an op that has no meaning on several devices, at its source line.
        """
        clock = self.clock.branch()
        with clock.stage("materialize"):
            explicit = materialize(self.graph)
        with clock.stage("localize"):
            local = localize(explicit.graph)
        return Spmd(self, explicit, local, clock)

    def module(self) -> str:
        """The program with all shardings, as MLIR text."""
        return modules.located_text(self.graph)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write `module()` to a file; on failure nothing is written.

        Raises:
            ShardingError: a place that cannot be written.
        """
        return write_file(path, self.module())

    def _layouts(
        self, values: Sequence[int], said: Sequence[TensorSharding | None] | None = None
    ) -> list[TensorSharding]:
        """Closed layouts that divide their tensors, which is what holds at the boundary of the sharded program."""
        layouts: list[TensorSharding] = []
        for number, value in enumerate(values):
            type = self.graph.types[value]
            sharding = (said[number] if said is not None else None) or self.graph.shardings[value]
            layout = (sharding or replicated(self.mesh, type.rank)).closed().evenly_dividing(type.dims)
            layouts.append(layout)
        return layouts

    def _named(self, shardings: list[TensorSharding]) -> list[NamedSharding]:
        from shardwright.frontends.placement import named_shardings  # imports jax, which most commands do without

        return named_shardings(shardings)


class Spmd:
    """A program that every device of a mesh runs on its own shards.

    Attributes:
        plan: What it was made from.
        explicit: The program at global shapes with every communication written.
        local: The program of one device.
        notes: What a user may want to know of how ops were split, with their source lines.
        clock: What its stages took.
    """

    def __init__(self, plan: Plan, explicit: Explicit, local: Graph, clock: Clock) -> None:
        """Hold what partitioning wrote."""
        self.plan = plan
        self.explicit = explicit.graph
        self.local = local
        self.notes: tuple[Note, ...] = explicit.notes
        self.clock = clock

    def __repr__(self) -> str:
        """`Spmd(step.mlir, Mesh(data=2, model=4))`."""
        return f"Spmd({self.plan.program.name}, {self.plan.mesh!r})"

    def module(self, stage: str = "local") -> str:
        """The module of a stage as MLIR text: `propagated`, `explicit` or `local`.

        Raises:
            ShardingError: no such stage.
        """
        graphs = dict(zip(STAGES, (self.plan.graph, self.explicit, self.local), strict=True))
        if stage not in graphs:
            raise ShardingError(f"unknown stage {stage!r}", remedy=f"one of {', '.join(STAGES)}")
        return modules.located_text(graphs[stage])

    def write(self, stage: str, path: str | os.PathLike[str]) -> Path:
        """Write the module of a stage to a file; on failure nothing is written.

        Raises:
            ShardingError: no such stage, or a place that cannot be written.
        """
        return write_file(path, self.module(stage))

    @cached_property
    def traffic(self) -> TrafficSummary:
        """Collectives by kind: how many, how often they run, and the bytes that a device sends."""
        return summarize(collectives(self.local))

    @cached_property
    def memory(self) -> MemoryUse:
        """Bytes of arguments and at the peak, per device."""
        return memory(self.local)

    @property
    def in_shardings(self) -> tuple[TensorSharding, ...]:
        """How each argument of the module lies."""
        return _said(self.explicit.shardings[value] for value in self.explicit.main.block.arguments)

    @property
    def out_shardings(self) -> tuple[TensorSharding, ...]:
        """How each result of the module lies."""
        return _said(self.explicit.main.result_shardings)

    def inputs(self, given: Inputs = None, *, seed: int = 0) -> list[Array]:
        """Global arrays to run the program on, one for each argument of the module.

        Arguments:
            given: Arrays by argument name, or the positional arguments as the function takes them; what is missing
                from a mapping is drawn.
            seed: Seed of what is drawn: by the argument's `shardwright.input`, else by its element type.

        Raises:
            ShardingError: an array that fits no argument.
        """
        program = self.plan.program
        if given is not None and not isinstance(given, Mapping):
            leaves = list(given) if program.call is None else program.call.flatten(tuple(given), {})
            given = {str(number): np.asarray(leaf) for number, leaf in enumerate(leaves)}
        types = list(program.arguments.values())
        attributes = program.graph.main.argument_attributes
        return make_inputs(types, list(program.arguments), attributes, seed=seed, given=given)

    def verify(self, inputs: Inputs = None, *, seed: int = 0) -> Verification:
        """Run this and the unsharded program on the same inputs, on virtual CPU devices, and compare the results.

        Both run in a process of their own. A difference is not raised: see `Verification.ok` and `.require()`.

        Arguments:
            inputs: As for `inputs`.
            seed: Seed of the inputs that are drawn.

        Raises:
            ShardingError: an input that fits no argument, or a program that cannot be run.
        """
        with self.clock.stage("inputs"):
            arrays = self.inputs(inputs, seed=seed)
        with self.clock.stage("verify"):
            return verify(
                self.plan.program.unsharded(),
                self.module("local"),
                self.plan.mesh,
                self.in_shardings,
                self.out_shardings,
                arrays,
                list(self.plan.program.results.values()),
                list(self.plan.program.results),
            )

    def compile(self) -> Compiled:
        """A callable that runs this on the devices of this process, called as the original function is.

        Arguments are placed as the plan says; results are `jax.Array`s with `NamedSharding`s; donation is kept.

        Raises:
            ShardingError: fewer devices here than the mesh has, or a module that XLA refuses.
        """
        from shardwright.frontends.compiled import compile_program  # imports jax, which most commands do without

        program = self.plan.program
        with self.clock.stage("compile"):
            return compile_program(
                self.module("local"),
                self.plan.mesh,
                self.in_shardings,
                self.out_shardings,
                program.arguments,
                list(program.results.values()),
                program.call,
            )


def load(source: str | bytes | os.PathLike[str]) -> Program:
    """Read a program from a file (`-` is standard input), or from MLIR text or bytes themselves.

    StableHLO text, MLIR bytecode and StableHLO portable artifacts are told apart by their content. A string with a
    line break is text, any other a path.

    Raises:
        ShardingError: an unreadable file, malformed MLIR, or a program that cannot be sharded (dynamic shapes, …); with
            position, cause and remedy.

    Example:
        >>> load(EXAMPLE)
        Program(-, 2 arguments, 2 ops)
    """
    clock = Clock()
    with clock.stage("load"):
        found = load_source(source)
    return Program(found, clock=clock)


def from_jax(
    fn: Callable[..., Any],
    *args: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    platform: str | None = None,
    **kwargs: Any,
) -> Program:
    """Lower a JAX function, jitted or not, called with `args` and `kwargs`.

    The arguments may be pytrees of arrays or of `jax.ShapeDtypeStruct`s; nothing is computed. Shardings that the
    function brings (`in_shardings`, `with_sharding_constraint`, those of the arrays) are kept, and so is donation.
    Arguments are called by parameter and path: `params/w1`.

    Arguments:
        fn: The function.
        *args: Its positional arguments.
        static_argnums: As for `jax.jit`, for a function that is not jitted yet.
        static_argnames: The same, by name.
        donate_argnums: Arguments whose buffers the results may take, as for `jax.jit`.
        donate_argnames: The same, by name.
        platform: The platform to lower for; JAX's default backend if not given.
        **kwargs: Its keyword arguments.

    Raises:
        ShardingError: a program that cannot be sharded. What JAX cannot trace is JAX's own error.

    Example:
        program = from_jax(train_step, params, batch, donate_argnums=0)
    """
    import jax  # takes most of a second, and programs from files do without

    from shardwright.frontends.jax import lower

    clock = Clock()
    options = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }
    with clock.stage("load"):
        source, call = lower(fn, args, kwargs, platform or jax.default_backend(), **options)
    return Program(source, call, clock)


def _named(names: Sequence[str], values: Sequence[int], types: Sequence[TensorType]) -> dict[str, TensorType]:
    return {name: types[value] for name, value in zip(names, values, strict=True)}


def _said(shardings: Iterable[TensorSharding | None]) -> tuple[TensorSharding, ...]:
    """The shardings of values at the boundary of an explicit program, which has one for each tensor."""
    return tuple(sharding for sharding in shardings if sharding is not None)


EXAMPLE = """
func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x256xf32>) -> tensor<16x256xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}
"""
"""A program of two arguments, for examples."""

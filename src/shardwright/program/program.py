"""A tensor program, the ways to get one, and the ways from it to its plan, on to its partitioned program, and back.

Each of the three knows the others, and so they are here together; what there is to know of a plan and of a partitioned
program by themselves is below, in `planned` and `partitioned`. What propagates and what partitions is loaded when asked
for: to read a program takes neither.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.frontends.load import load_source
from shardwright.ir.graph import Graph
from shardwright.program.asked import MeshLike, Shardings, as_asked, check_arguments, jit_options
from shardwright.program.loaded import Loaded
from shardwright.program.partitioned import Partitioned
from shardwright.program.planned import Planned
from shardwright.propagation import DEFAULT_STRATEGY, check_strategy
from shardwright.stage import Stage

if TYPE_CHECKING:
    from shardwright.plans.fit import Fit
    from shardwright.program.fitting import PlanLike
    from shardwright.program.per_device import PerDevice

__all__ = ["EXAMPLE", "MeshLike", "Plan", "Program", "Shardings", "Spmd", "from_jax", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class Program(Loaded):
    """A tensor program written as for one device.

    Made by `load`, `from_jax` and `from_torch`.

    Attributes:
        source: What was read.
        call: How the function or module is called that it came from.
        clock: What its stages took.
    """

    def shard(
        self,
        mesh: MeshLike | None = None,
        args: Shardings = None,
        strategy: str = DEFAULT_STRATEGY,
        conservative: bool = False,
        *,
        results: Shardings = None,
        modules: Shardings = None,
    ) -> Plan:
        """Complete the sharding of every tensor.

        Arguments:
            mesh: The devices: a `Mesh`, a dict of axis sizes, or JAX's mesh. It may be left out where the program
                brings its own.
            args: Shardings of arguments, which win over what the program says. A sharding is `sw.P(None, "model")`, its
                entries as a tuple, a `NamedSharding`, the text `"-,model"`, or a `TensorSharding`; they are given

                - by name (`"params/w1"`), by index, by a path that several share (`"params"`), or by a regular
                  expression that is searched for in names (`"layers/.*/kernel"`). The more specific key wins, and
                  any wins over a pattern. What is given may be a tree itself: `{"params": {"w1": …}}`;
                - as a tree, as `in_shardings` of `jax.jit`: a tuple with one for each positional argument, each a
                  prefix of it, `None` where nothing is said; or one sharding for all;
                - by a function of each name and `jax.ShapeDtypeStruct`, which returns a sharding or `None`.
            strategy: How to propagate, by name: `STRATEGY_WORDS` of `shardwright.propagation` says what each does.
            conservative: Whether only whole axes flow, and none to where data would move between neighbours.
            results: Shardings of results, in the same ways; a tree is a prefix of what the function returns.
            modules: Shardings of what the modules of a PyTorch model take and give: `{"blocks.0.attn.inputs.x": …}`.

        A program that comes with all of its communication written is not propagated.

        Raises:
            ShardingError: no mesh or another than the program's, an unknown argument, a sharding that does not fit, an
                unknown strategy, or what the strategy cannot do.

        Example:
            >>> program = load(EXAMPLE)
            >>> plan = program.shard({"data": 2, "model": 4}, args={0: "data,-", 1: ".,model"})
            >>> plan.shardings["result0"]
            [{data}, {model}]
            >>> program.shard({"data": 2}, lambda name, leaf: "data" if name == "x" else None).arguments
            {'x': [{data}, {}], 'w': [{}, {}]}
        """
        from shardwright.frontends.meshes import devices_of, mesh_of

        self.check_shardable()
        check_strategy(strategy)
        devices = None if mesh is None else mesh_of(mesh, anywhere=self._is_function)
        annotated = self._annotated(devices, args, results, modules)
        return self._among(devices_of(mesh))._completed(annotated, strategy, conservative)

    def apply(
        self,
        plan: PlanLike,
        mesh: MeshLike | None = None,
        args: Shardings = None,
        *,
        strict: bool = False,
        strategy: str | None = None,
        conservative: bool | None = None,
    ) -> Plan:
        """Complete the sharding of every tensor so that arguments and results lie as a saved plan says, where it fits.

        A program that is as it was gets the plan that was saved. What no longer fits of the plan is in `Plan.fit`, with
        why, and in `Plan.notes`.

        Arguments:
            plan: The plan, or the path of its file.
            mesh: As of `shard`; the program's own where none is given, and that of the plan where it has none either.
            args: As of `shard`; they win over the plan.
            strict: Refuse a plan of which an entry does not fit.
            strategy: As of `shard`; as the plan says where none is given.
            conservative: As of `shard`; likewise.

        Raises:
            ShardingError: what `shard` does; no plan; where it is to be strict, all that does not fit of it.

        Example:
            >>> program = load(EXAMPLE)
            >>> plan = program.shard({"data": 2, "model": 4}, args={0: "data,-", 1: ".,model"})
            >>> program.apply(plan.saved).shardings["result0"]
            [{data}, {model}]
        """
        from shardwright.frontends.meshes import mesh_of
        from shardwright.program.fitting import fit_of, fitting, how_of

        self.check_shardable()
        devices = None if mesh is None else mesh_of(mesh)
        fit = fit_of(plan, self.source, devices, strict)
        way, is_conservative = how_of(fit, strategy, conservative)
        complete = partial(self._completed, strategy=way, conservative=is_conservative, fit=fit)
        return fitting(fit, self.graph, self._spread(args)[0], self.name, complete)

    @property
    def _is_function(self) -> bool:
        """Whether it came from a function of JAX, which runs on whatever devices a mesh of JAX has."""
        if self.call is None:
            return False
        from shardwright.runtime.call import JaxCall

        return isinstance(self.call, JaxCall)

    def _among(self, devices: tuple[Any, ...]) -> Program:
        """The same for these devices; of what is no function of JAX there are none in particular."""
        return replace(self, call=self.call.among(devices)) if self.call is not None and self._is_function else self

    def _spread(self, args: Shardings, results: Shardings = None) -> tuple[Any, Any]:
        """Shardings of arguments and of results, by name or number."""
        from shardwright.frontends.pytrees import Boundary, spread

        numbers = (self.call.argument_numbers, self.call.result_numbers) if self.call else (None, None)
        arguments = Boundary(self.arguments, numbers[0], self.name)
        return spread(args, arguments), spread(results, Boundary(self.results, numbers[1], self.name, "result"))

    def _annotated(self, mesh: Any, args: Shardings, results: Shardings, modules: Shardings) -> Graph:
        from shardwright.frontends.annotate import annotate
        from shardwright.frontends.constrained_parts import with_parts

        arguments, returned = self._spread(args, results)
        graph = annotate(self.graph, mesh, arguments, self.name, returned)
        return graph if modules is None else with_parts(graph, self.source.parts, modules, self.name)

    def _completed(self, annotated: Graph, strategy: str, conservative: bool, fit: Fit | None = None) -> Plan:
        """The plan of a graph that is annotated."""
        from shardwright.propagation import propagate

        clock = self.clock.branch()
        with clock.stage("propagate"):
            if annotated.stage is Stage.EXPLICIT:
                graph = annotated
            else:
                graph = propagate(annotated, strategy=strategy, conservative=conservative, as_compiled=True)
        return Plan(self.source, self.call, annotated, graph, clock, strategy, conservative, fit)

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
        from shardwright.partition.processes import lower
        from shardwright.program.per_device import PerDevice

        return PerDevice(self.source, lower(self.source.graph, self.source.grids))

    def plan(self, strategy: str = DEFAULT_STRATEGY, conservative: bool = False) -> Plan:
        """Complete the shardings of a program that brings its mesh and annotations with it. See `shard`."""
        return self.shard(strategy=strategy, conservative=conservative)


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Planned):
    """A program with a sharding for every tensor.

    The record that `explain` makes is kept beside these; a pickle is without, and it is made anew (see `Value`).

    Attributes:
        source: The program as it was read.
        call: How the function is called that it came from.
        annotated: The program with the shardings that users gave, and no others.
        graph: The program with all shardings.
        clock: What its stages took.
        strategy: How it was propagated.
        conservative: Whether only whole axes flowed.
        fit: What of a saved plan fitted, where it was made by one.
    """

    @cached_property
    def program(self) -> Program:
        """What it was made from."""
        return Program(self.source, self.call, self.clock.before("propagate"))

    def with_arguments(self, args: Shardings) -> Plan:
        """The plan with other shardings of some arguments; all else stays as it was annotated, and follows anew.

        Arguments:
            args: As of `Program.shard`.

        Raises:
            ShardingError: an unknown argument, or a sharding that does not fit.
        """
        from shardwright.frontends.annotate import annotate

        program = self.program
        annotated = annotate(self.annotated, None, program._spread(args)[0], self.source.name)
        return program._completed(annotated, self.strategy, self.conservative, self.fit)

    def partition(
        self,
        *,
        strict: bool = False,
        arguments: str | None = None,
        effort: str | None = None,
        optimize: str | None = None,
        reasons: bool = False,
        to: str = "sdy",
    ) -> Spmd:
        """Make every communication explicit and write the program of one device, cheap on the session's hardware.

        What is not asked for is as of the saved plan that this was made by, else `split`, `default` and `off`.

        Arguments:
            strict: Refuse a program that needs a fallback: an op that is computed whole or a tensor that is gathered
                for want of a local form, a sharding that is cut or dropped. Else these are in `Spmd.notes`.
            arguments: How a device takes them: `split`, its shard of each, or `whole`, each in full, of which it slices
                its shard out. Results are split in any case.
            effort: How to look for how ops are best split. `fast`: each by itself. `default` and `best`: all together,
                so that the program takes least by the price, in seconds or as long as there is something to gain.
                `lean`: the same, sending no more and holding little more than `fast`. `Spmd.searched` tells of it.
            optimize: What becomes of collectives once they are written, by us or by whoever made the program explicit.
                `off`: they stay. `all`: they are made fewer, smaller and later; `Spmd.improvements` is the log.
                `exact`: the same where sums of floating-point numbers keep their order.
            reasons: Whether `Spmd.reasons` tells of every op what the next best way to split it would take.
            to: The notation to write the explicit program in: `optimize` does nothing that it has no words for.

        Raises:
            ShardingError: an op that has no meaning on several devices, at its source line; where it is to be strict,
                all fallbacks; or no such way to take arguments, effort, optimization, or notation.
        """
        from shardwright.cost.hardware import chosen_hardware
        from shardwright.partition import boundary_notes, check_strict, localize, with_whole_arguments
        from shardwright.program.explicit import made_explicit

        asked = as_asked(self.fit, arguments, effort, optimize)
        check_arguments(asked.arguments, self.annotated)
        clock = self.clock.branch()
        explicit = made_explicit(self.graph, self.annotated, asked.effort, asked.optimize, to, clock, reasons)
        notes = (*self.notes, *boundary_notes(self.annotated, explicit.graph), *explicit.notes)
        graph = explicit.graph if asked.arguments == "split" else with_whole_arguments(explicit.graph)
        if strict:
            check_strict(notes)
        with clock.stage("localize"):
            local = localize(graph)
        made_from = self.source, self.call, self.annotated, self.graph
        decided = self.strategy, self.conservative, chosen_hardware()
        told = explicit.searched, explicit.improvements, explicit.reasons
        return Spmd(*made_from, graph, local, notes, clock, *decided, *told, asked, self.fit)


@dataclass(frozen=True, eq=False, repr=False)
class Spmd(Partitioned):
    """A program that every device of a mesh runs on its own shards.

    What is computed from these is kept beside them; a pickle is without (see `Value`).

    Attributes:
        source: The program as it was read.
        call: How the function is called that it came from.
        annotated: The program with the shardings that users gave, and no others.
        propagated: The program with all shardings.
        explicit: The program at global shapes with every communication written.
        local: The program of one device.
        notes: What a user may want to know of how ops were split, with their source lines.
        clock: What its stages took.
        strategy: How it was propagated.
        conservative: Whether only whole axes flowed.
        hardware: What it was decided for, where the session said so.
        searched: What looking for the best way to split its ops came to, where that was asked for.
        improvements: What was made better of its collectives, where that was asked for, change by change.
        reasons: Why its ops are split as they are, where that was asked for, what matters most first.
        partitioning: How it was partitioned.
        fit: What of a saved plan fitted, where it was made by one.
    """

    @cached_property
    def plan(self) -> Plan:
        """What it was made from."""
        clock = self.clock.before("materialize")
        made_from = self.source, self.call, self.annotated, self.propagated
        return Plan(*made_from, clock, self.strategy, self.conservative, self.fit)


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
        read = load_source(source)
    return Program(read, clock=clock)


def from_jax(
    fn: Any,
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
        fn: The function; or by itself what JAX has made of one: `jitted.trace(…)`, `jitted.lower(…)`, a
            `jax.export.Exported`, what its `serialize()` returns, or the path of a file of that.
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
        >>> import jax
        >>> from_jax(
        ...     lambda x, w: x @ w, jax.ShapeDtypeStruct((8, 4), "float32"), jax.ShapeDtypeStruct((4, 2), "float32")
        ... )
        Program(<lambda>, 2 arguments, 2 ops)
        >>> from_jax(jax.jit(lambda x: 2 * x).lower(1.0)).arguments
        {'x': TensorType(shape=(), dtype='f32')}
    """
    from shardwright.frontends.jax import lower  # imports jax, and programs from files do without

    clock = Clock()
    options = jit_options(static_argnums, static_argnames, donate_argnums, donate_argnames)
    with clock.stage("load"):
        source, call = lower(fn, args, kwargs, platform, **options)
    return Program(source, call, clock)


EXAMPLE = """
func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x256xf32>) -> tensor<16x256xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}
"""
"""A program of two arguments, for examples."""

"""What there is to know and to do of the program that every device of a mesh runs.

What analyses and what runs it is loaded when asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims
from shardwright.files import write_file
from shardwright.frontends.load import Source
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.module_notations import module_notation
from shardwright.process import DEFAULT_TIMEOUT
from shardwright.program.inputs import Inputs, given_arrays
from shardwright.program.local import LocalValue, local_text
from shardwright.propagation import DEFAULT_STRATEGY
from shardwright.sharding import TensorSharding
from shardwright.stage import STAGES

if TYPE_CHECKING:
    from shardwright.assess import Assessment
    from shardwright.cost.hardware import Hardware
    from shardwright.cost.outcome import Outcome
    from shardwright.optimize import Improvement
    from shardwright.partition import Note
    from shardwright.partition.search.best import Searched
    from shardwright.partition.search.reasons import Reason
    from shardwright.plans.fit import Fit
    from shardwright.plans.saved import Partitioning, SavedPlan
    from shardwright.report.summary import Summary
    from shardwright.runtime.arrays import Array
    from shardwright.runtime.call import Call
    from shardwright.runtime.compare import Tolerance
    from shardwright.runtime.compiled import Compiled
    from shardwright.runtime.tensors import Tensors
    from shardwright.runtime.verify import Verification

__all__ = ["Partitioned"]


@dataclass(frozen=True, eq=False, repr=False)
class Partitioned(LocalValue):
    """What an `Spmd` program is, but for the way back to its plan; see there for what it holds."""

    source: Source
    call: Call | None
    annotated: Graph
    propagated: Graph
    explicit: Graph
    local: Graph
    notes: tuple[Note, ...]
    clock: Clock
    strategy: str = DEFAULT_STRATEGY
    conservative: bool = False
    hardware: Hardware | None = None
    searched: Searched | None = None
    improvements: tuple[Improvement, ...] | None = None
    reasons: tuple[Reason, ...] | None = None
    partitioning: Partitioning | None = None
    fit: Fit | None = None

    def __repr__(self) -> str:
        """`Spmd(step.mlir, Mesh(data=2, model=4))`."""
        return f"Spmd({self.source.name}, {self.mesh!r})"

    def _repr_html_(self) -> str:
        from shardwright.report.tables import spmd_html

        return spmd_html(
            self.source.name,
            self.mesh,
            self.traffic,
            self.memory,
            (f"{one.location}: {one.message}" for one in self.notes),
        )

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return self.propagated.mesh

    def module(self, stage: str = "local", to: str = "sdy") -> str:
        """The module of a stage as MLIR text: `propagated`, `explicit` or `local`.

        Arguments:
            stage: Which stage.
            to: The notation: of the shardings of the first two, as `convert` has it; of the collectives of `local`,
                which are StableHLO's with `sdy`, and with `shard` or `mesh` those dialects' on local shapes.

        Raises:
            ShardingError: no such stage, no such notation, or what that cannot express.
        """
        graphs = dict(zip(STAGES, (self.propagated, self.explicit, self.local), strict=True))
        if stage not in graphs:
            raise ShardingError(f"unknown stage {stage!r}", remedy=f"one of {', '.join(STAGES)}")
        graph = graphs[stage]
        if stage == "local":
            return local_text(graph, to, self.explicit)
        if stage == "explicit":
            from shardwright.partition import enclose, with_named_steps

            graph = enclose(graph if module_notation(to).has_manual else with_named_steps(graph))
        text = modules.located_text(graph)
        if to == "sdy":
            return text
        from shardwright.notation.conversion import convert_module

        return convert_module(text, to, self.source.name)

    def write(self, stage: str, path: str | os.PathLike[str]) -> Path:
        """Write the module of a stage to a file; on failure nothing is written.

        Raises:
            ShardingError: no such stage, or a place that cannot be written.
        """
        return write_file(path, self.module(stage))

    @property
    def in_shardings(self) -> tuple[TensorSharding, ...]:
        """How each argument of the module lies."""
        asked = [self.annotated.shardings[value] for value in self.annotated.main.block.arguments]
        made = [self.explicit.shardings[value] for value in self.explicit.main.block.arguments]
        return _of_tensors(map(_outside, asked, made))

    @property
    def out_shardings(self) -> tuple[TensorSharding, ...]:
        """How each result of the module lies."""
        return _of_tensors(map(_outside, self.annotated.stated_results, self.explicit.main.result_shardings))

    def inputs(self, given: Inputs = None, *, seed: int = 0) -> list[Array]:
        """Global arrays to run the program on, one for each argument of the module.

        Arguments:
            given: Arrays by argument name, or the positional arguments as the function takes them. What is missing is
                what `from_jax` was given, where that was an array or a number, and else drawn.
            seed: Seed of what is drawn: by the argument's `shardwright.input`, else by its element type and by what
                the program does with it.

        Raises:
            ShardingError: an array that fits no argument.
        """
        return self._inputs(self._given_arrays(given), seed, 0)

    def _given_arrays(self, given: Inputs) -> dict[str, Any]:
        return given_arrays(given, self.source.graph.arguments, self.call)

    def _inputs(self, given: Mapping[str, Any], seed: int, rung: int) -> list[Array]:
        from shardwright.runtime.domains import domains
        from shardwright.runtime.inputs import make_inputs

        graph = self.source.graph
        types, attributes = graph.arguments, graph.main.argument_attributes
        return make_inputs(
            list(types.values()), list(types), attributes, seed=seed, given=given, domains=domains(graph), rung=rung
        )

    def summary(self) -> Summary:
        """What `shardwright partition` tells, as JSON values by name: program, mesh, tensors, collectives and memory of
        the per-device program in bytes, notes, and the times so far in seconds; where the session had a hardware, what
        that is called, and whether its memory is enough; where the best way to split ops was looked for, or collectives
        were to be made better, what that came to.
        """
        from shardwright.report.devices import describe_mesh
        from shardwright.report.summary import (
            describe_hardware,
            describe_improvements,
            describe_memory,
            describe_program,
            describe_reasons,
            describe_search,
            describe_traffic,
            tensor_counts,
        )

        return {
            "program": describe_program(self.source),
            "mesh": describe_mesh(self.mesh),
            **describe_hardware(self.hardware),
            **describe_search(self.searched),
            **describe_improvements(self.improvements),
            "tensors": tensor_counts(self.annotated, self.propagated),
            "collectives": describe_traffic(self.traffic),
            "memory": describe_memory(self.memory, self.hardware),
            "notes": [asdict(note) for note in self.notes],
            **describe_reasons(self.reasons),
            "seconds": dict(self.clock.seconds),
        }

    @cached_property
    def assessment(self) -> Assessment:
        """What it comes to on each device: what is held when, computed how many times over, sent from where, and how
        long it takes by the price, on the hardware that it was decided for.
        """
        from shardwright.assess import assess
        from shardwright.memo import Session

        with nullcontext() if self.hardware is None else Session(hardware=self.hardware):
            return assess(self.local, self.explicit)

    @cached_property
    def outcome(self) -> Outcome:
        """What it comes to on each device, in short, on the hardware that it was decided for."""
        from shardwright.cost.outcome import Outcome
        from shardwright.memo import Session
        from shardwright.optimize.explicit import ExplicitProgram
        from shardwright.optimize.works import block_seconds

        with nullcontext() if self.hardware is None else Session(hardware=self.hardware):
            seconds = block_seconds(ExplicitProgram(self.explicit), self.explicit.main.block.ops)
        sent, held = self.traffic.total, self.memory
        return Outcome(seconds, round(sent.executed_bytes), sent.executed, held.arguments, held.peak)

    @property
    def saved(self) -> SavedPlan:
        """Its plan by itself, without the program, as it is written down; how it was partitioned, what it came to.

        Raises:
            ShardingError: an argument or a result lies on another mesh than the first.
        """
        from shardwright.cost.hardware.presets import name_of
        from shardwright.program.planned import Planned

        made_from = self.source, self.call, self.annotated, self.propagated, self.clock
        plan = Planned(*made_from, self.strategy, self.conservative, self.fit).saved
        name = "" if self.hardware is None else name_of(self.hardware)
        how = None if self.partitioning is None else replace(self.partitioning, hardware=name)
        return replace(plan, partitioning=how, outcome=self.outcome)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write its plan to a file, as TOML, for `Program.apply`; on failure nothing is written.

        Raises:
            ShardingError: a place that cannot be written, or a sharding that cannot be.
        """
        from shardwright.plans.text import plan_text

        return write_file(path, plan_text(self.saved))

    def check_can_run(self) -> None:
        """Check that `verify` can run this here: it calls no Python that is not here, and the memory holds it.

        Raises:
            ShardingError: it cannot.
        """
        from shardwright.program.running import check_can_run

        check_can_run(self.source.graph, self.annotated, self.local, self.mesh, self.call)

    def verify(
        self,
        inputs: Inputs = None,
        *,
        seed: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        processes: int | None = None,
    ) -> Verification:
        """Run this and the unsharded program on the same inputs, on virtual CPU devices, and compare the results.

        Both run in a process of their own, which asks this one for the Python functions that they call. What results
        may differ by is measured: how far those of the unsharded program move when it is computed in float64, and when
        its roundings fall out otherwise. A difference is not raised: see `Verification.ok` and `.require()`.

        Arguments:
            inputs: As for `inputs`.
            seed: Seed of the inputs that are drawn.
            rtol: What an element may differ by relative to the reference, instead of what is measured.
            atol: What it may differ by beside, absolute.
            timeout: Seconds after which it is given up, compiling included.
            processes: Run this in so many processes of this machine as well, with a share of the devices each, as
                `jax.distributed` would have it on several machines; `Verification.in_processes` tells of that.

        Raises:
            ShardingError: an input that fits no argument, or a program that cannot be run or takes too long.
        """
        from shardwright.runtime.compare import Tolerance
        from shardwright.runtime.inputs import RUNGS

        self.check_can_run()
        if processes is not None:
            from shardwright.program.running import check_can_be_shared

            check_can_be_shared(self.local, self.mesh, processes)
        given = self._given_arrays(inputs)
        tolerance = Tolerance.given(rtol, atol)
        best = self._verify(given, seed, 0, tolerance, timeout, processes)
        for rung in range(1, len(RUNGS)):
            if not best.undefined or len(given) == len(self.source.graph.arguments):
                break
            again = self._verify(given, seed, rung, tolerance, timeout, processes)
            if again.undefined < best.undefined:
                best = again.with_notes([f"inputs are drawn so that results are numbers: {RUNGS[rung]}"])
        return best

    def _verify(
        self,
        given: Mapping[str, Any],
        seed: int,
        rung: int,
        tolerance: Tolerance | None,
        timeout: float,
        processes: int | None,
    ) -> Verification:
        """Run and compare on the inputs of a rung of `RUNGS`."""
        from shardwright.program.running import verified

        with self.clock.stage("inputs"):
            arrays = self._inputs(given, seed, rung)
        lying = self.in_shardings, self.out_shardings
        with self.clock.stage("verify"):
            return verified(
                self.source,
                self.annotated,
                self.module("local"),
                self.mesh,
                lying,
                arrays,
                tolerance=tolerance,
                watch=self.clock.watch,
                timeout=timeout,
                processes=processes,
                call=self.call,
            )

    def compile(self, *, trial: bool = True) -> Compiled:
        """A callable that runs this on the devices of this process, called as the original function is.

        Arguments are placed as the plan says; results are `jax.Array`s with `NamedSharding`s; donation is kept. It can
        be called inside of `jax.jit`, and has a derivative under `jax.grad` (see `Compiled`). Where `jax.distributed`
        has joined processes, all of them compile and call it (docs/distributed.md).

        Arguments:
            trial: Compile and run it on zeros in another process first, unless this session has verified it, so that
                this process does not end by what XLA makes of it. Only where devices are CPUs; others are taken by this
                process already; and only where this process has all of them. `False` saves the time of compiling twice.

        Raises:
            ShardingError: fewer devices here than the mesh has, a module that XLA refuses, one that calls Python
                functions that are not at hand or have effects, one that ends the process on trial, or one that another
                process has otherwise.
        """
        from shardwright.program.running import compiled

        with self.clock.stage("compile"):
            return compiled(self.module("local"), self.local, self.mesh, *self._tensors, self.call, trial)

    def export(self, path: str | os.PathLike[str], *, platforms: Sequence[str] = ()) -> Path:
        """Write this to one file, from which another process runs it without tracing, planning or partitioning.

        The file has the program of one device as a portable artifact of StableHLO, the plan it was made from as
        another, the mesh, and types, names and layouts of arguments and results. It holds no machine code: XLA compiles
        it where it runs, on devices of any kind that has the libraries it calls. See `load_exported`.

        Arguments:
            path: The file; on failure it stays as it was.
            platforms: On which it must be able to run: `cpu`, `cuda`, `rocm`, `tpu`.

        Raises:
            ShardingError: one that cannot be run apart from this process, a platform that does not have what it calls,
                an op that StableHLO does not have, or a place that cannot be written.
        """
        from shardwright.export import export
        from shardwright.runtime.runnable import check_runnable

        check_runnable(self.local)
        modules = {stage: self.module(stage) for stage in ("propagated", "local")}
        return export(path, self.source.name, self.mesh, self.local, modules, *self._tensors, self.call, platforms)

    @property
    def _tensors(self) -> tuple[Tensors, Tensors]:
        """Global types and layouts of arguments and of results."""
        graph = self.source.graph
        return (graph.arguments, self.in_shardings), (graph.results, self.out_shardings)


def _outside(asked: TensorSharding | None, made: TensorSharding | None) -> TensorSharding | None:
    """How callers have an argument or a result: with offsets and halos where these are asked."""
    return asked.closed() if asked is not None and bounded_dims(asked) else made


def _of_tensors(shardings: Iterable[TensorSharding | None]) -> tuple[TensorSharding, ...]:
    """The shardings of values at the boundary of an explicit program, which has one for each tensor."""
    return tuple(sharding for sharding in shardings if sharding is not None)

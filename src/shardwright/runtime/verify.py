"""Whether a per-device program computes what the program for one device computes.

What outputs may differ by is measured on the program for one device: it is computed more exactly (`runtime.wide`) and
several times with its roundings moved (`runtime.rounding`), and each element is held against how far it moved then
(`runtime.compare`). Where that is not enough to call a difference noise, many more runs are made before it is called
an error. So is one in which devices combine NaN as StableHLO says, which XLA:CPU does not (`runtime.nan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.process import DEFAULT_TIMEOUT
from shardwright.runtime.arrays import Array
from shardwright.runtime.compare import OutputDifference, Tolerance, compare_output
from shardwright.runtime.execute import Execution, Job, try_jobs
from shardwright.runtime.nan import NOTE, keeping_nan, loses_nan
from shardwright.runtime.reference import Reference
from shardwright.runtime.several import run_in_processes
from shardwright.runtime.shards import ReplicaDifference, distance
from shardwright.runtime.wide import widen
from shardwright.sharding import TensorSharding

__all__ = ["InProcesses", "Verification", "judged", "verify"]


@dataclass(frozen=True, slots=True)
class InProcesses:
    """A run of the per-device program in several processes.

    Attributes:
        processes: How many.
        devices: How many devices each has.
        identical: Whether all results are those of one process, bit for bit; sums over processes may be in another
            order.
        difference: By how much they differ at most, relative, in norm.
        failures: What is not equal to the unsharded program, by the same measure as that of one process.
        seconds: Time to run, compilation left out.
    """

    processes: int
    devices: int
    identical: bool
    difference: float
    failures: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a per-device program with the program for one device.

    Attributes:
        outputs: One difference an output.
        replicas: Devices that should hold the same part of an output and differ by more than it may.
        unsharded_seconds: Time to run the reference, compilation left out.
        local_seconds: Time to run the per-device program.
        runs: How many runs of the reference tell what rounding does to its outputs.
        notes: What could not be measured, and why, and what else to know.
        undefined: How many elements of the reference are no numbers (NaN), and as such must be so in both.
        in_processes: The run in several processes, where one was asked for.
    """

    outputs: tuple[OutputDifference, ...]
    replicas: tuple[ReplicaDifference, ...] = ()
    unsharded_seconds: float = 0.0
    local_seconds: float = 0.0
    runs: int = 0
    notes: tuple[str, ...] = ()
    undefined: int = 0
    in_processes: InProcesses | None = None

    @property
    def ok(self) -> bool:
        """Whether all outputs are right and all copies agree."""
        return all(output.ok for output in self.outputs) and not self.replicas and not self._failures_in_processes

    @property
    def _failures_in_processes(self) -> tuple[str, ...]:
        return () if self.in_processes is None else self.in_processes.failures

    @property
    def worst(self) -> dict[str, OutputDifference]:
        """The worst output of every group, a wrong one before a right one."""
        worst: dict[str, OutputDifference] = {}
        for output in self.outputs:
            known = worst.get(output.group)
            if known is None or _badness(output) > _badness(known):
                worst[output.group] = output
        return worst

    @property
    def failures(self) -> list[str]:
        """What is not right, in words."""
        wrong = [f"{output.name}: {output.problem}" for output in self.outputs if not output.ok]
        return wrong + [
            f"{self.outputs[one.output].name}: the copies at positions {one.reference} and {one.position} of the mesh "
            f"differ by {one.difference:.2g}"
            for one in self.replicas
        ]

    def with_notes(self, notes: Sequence[str]) -> Verification:
        """The same with more notes, in front."""
        return replace(self, notes=(*notes, *self.notes))

    def require(self) -> None:
        """Check that everything is right.

        Raises:
            ShardingError: naming the outputs that are not.
        """
        if self.ok:
            return
        wrong = [*self.failures, *(f"in several processes, {words}" for words in self._failures_in_processes)]
        raise ShardingError(
            f"the per-device program differs from the program for one device in {len(wrong)} places",
            cause="\n".join(wrong[:20]),
        )


def _badness(output: OutputDifference) -> tuple[bool, float, float]:
    return (not output.ok, output.fraction, output.norm)


def verify(
    unsharded: str,
    local: str,
    mesh: Mesh,
    in_shardings: Sequence[TensorSharding],
    out_shardings: Sequence[TensorSharding],
    inputs: Sequence[Array],
    out_types: Sequence[TensorType],
    names: Sequence[str],
    *,
    graph: Graph | None = None,
    partitioned: bool = False,
    tolerance: Tolerance | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    watch: Callable[[str], None] | None = None,
    processes: int | None = None,
    callbacks: tuple[Callable[..., Any], ...] = (),
) -> Verification:
    """Run both programs on the same inputs, in one subprocess, and compare.

    Arguments:
        unsharded: The program for one device, MLIR text.
        local: The per-device program, MLIR text.
        mesh: The mesh it runs on.
        in_shardings: How its arguments lie.
        out_shardings: How its results lie.
        inputs: Global arrays.
        out_types: Global types of the results.
        names: Names of the results.
        graph: The program for one device as a graph without shardings, if it is at hand.
        partitioned: Whether `unsharded` (and `graph`) are annotated instead, for XLA to partition over the same mesh.
        tolerance: What outputs may differ by; without, it is measured.
        timeout: Seconds for all runs together.
        watch: Hears what is being done.
        processes: Run the per-device program in so many processes too.
        callbacks: The Python functions that both call, by the numbers that they have for them.

    Raises:
        ShardingError: one of them cannot be run. That outputs differ is not raised: see `Verification.require`.
    """
    types = tuple(in_shardings), tuple(out_shardings), tuple(out_types)
    job = Job(local, tuple(inputs), mesh, *types, callbacks=callbacks)
    reference = Reference(unsharded, job.inputs, graph, tolerance is None, _even(job, partitioned), callbacks)
    result = _run(job, reference, timeout)
    verification = _judged_closely(job, result, reference, names, tolerance, timeout, watch)
    if processes is None:
        return verification
    several = _run_in_processes(job, processes, timeout, watch)
    failures = tuple(judged(reference, several, names, tolerance).failures)
    return replace(verification, in_processes=_in_processes(job, processes, several, result, failures))


def _run(job: Job, reference: Reference, timeout: float) -> Execution:
    """Run a program, and those that it is held against."""
    own, *variants = reference.jobs()
    first, result, *others = try_jobs([own, job, *variants], timeout=timeout)
    reference.take([first, *others])
    if isinstance(result, ShardingError):
        raise result
    return result


def _run_in_processes(job: Job, processes: int, timeout: float, watch: Callable[[str], None] | None) -> Execution:
    if watch is not None:
        watch("verify in processes")
    return run_in_processes(job, processes, timeout=timeout)


def _in_processes(
    job: Job, processes: int, several: Execution, one: Execution, failures: tuple[str, ...]
) -> InProcesses:
    """What a run in several processes came to beside that in one."""
    pairs = list(zip(several.outputs, one.outputs, strict=True))
    same = all(first.tobytes() == second.tobytes() for first, second in pairs)
    apart = max((distance(first, second) for first, second in pairs), default=0.0)
    return InProcesses(processes, job.devices // processes, same, apart, failures, several.run_seconds)


def _judged_closely(
    job: Job,
    result: Execution,
    reference: Reference,
    names: Sequence[str],
    tolerance: Tolerance | None,
    timeout: float,
    watch: Callable[[str], None] | None,
) -> Verification:
    """What differs is looked at again: with NaN kept, and with more runs that tell what rounding does."""
    verification = judged(reference, result, names, tolerance)
    if verification.ok:
        return verification
    job, result = _with_nan_kept(job, result, reference, timeout)
    verification = judged(reference, result, names, tolerance)
    if verification.ok or not reference.perturbed:
        return verification
    if watch is not None:
        watch("verify again")
    *more, wide = try_jobs([*reference.more_jobs(), _widened(job)], timeout=timeout)
    reference.take_more(more)
    exact = wide.outputs if isinstance(wide, Execution) else ()
    return judged(reference, result, names, tolerance, exact)


def _with_nan_kept(job: Job, result: Execution, reference: Reference, timeout: float) -> tuple[Job, Execution]:
    """The per-device program and what it gave: with reductions that keep NaN, where that gives anything else."""
    graph = modules.read(load_module(job.module))
    if not loses_nan(graph):
        return job, result
    kept = replace(job, module=modules.text_of(keeping_nan(graph), shardings=False))
    (again,) = try_jobs([kept], timeout=timeout)
    if isinstance(again, ShardingError):
        reference.notes.append(f"it cannot be run with reductions that keep NaN: {again.diagnostic.message}")
        return job, result
    pairs = zip(result.outputs, again.outputs, strict=True)
    if all(one.tobytes() == other.tobytes() for one, other in pairs):
        return job, result
    reference.notes.append(NOTE)
    return kept, again


def _even(job: Job, partitioned: bool) -> Job | None:
    """The layouts that XLA's partitioner gives a program, if it has any: what divides of those at its boundary."""
    if not partitioned:
        return None
    ins = [one.evenly_dividing(array.shape) for one, array in zip(job.in_shardings, job.inputs, strict=True)]
    outs = [one.evenly_dividing(type.dims) for one, type in zip(job.out_shardings, job.out_types, strict=True)]
    return replace(job, in_shardings=tuple(ins), out_shardings=tuple(outs))


def _widened(job: Job) -> Job:
    """The per-device program in a wider type: where it then agrees with the reference in it, the rest is rounding."""
    wide, _ = widen(modules.read(load_module(job.module)))
    return replace(job, module=modules.text_of(wide, shardings=False), draft=True)


def judged(
    reference: Reference,
    execution: Execution,
    names: Sequence[str],
    tolerance: Tolerance | None = None,
    exact: Sequence[Array] = (),
) -> Verification:
    """What an execution of the per-device program gave, held against the reference.

    Arguments:
        reference: The program for one device, its jobs done.
        execution: What the per-device program gave on the same inputs.
        names: Names of the results.
        tolerance: A tolerance given by the user; without, it is what was measured.
        exact: What the per-device program gave in a wider type, if it was run so.
    """

    def judge(number: int, actual: Array) -> OutputDifference:
        noise = reference.noise(number)
        if noise is not None and exact:
            noise = replace(noise, own=exact[number])
        return compare_output(reference.outputs[number], actual, names[number], noise, tolerance)

    outputs = tuple(judge(number, actual) for number, actual in enumerate(execution.outputs))
    right = {number for number, copy in execution.copies if judge(number, copy).ok}
    replicas = tuple(one for one in execution.differences if one.output not in right)
    seconds = reference.seconds, execution.run_seconds
    undefined = reference.undefined
    notes = list(reference.notes)
    if undefined:
        total = sum(output.size for output in reference.outputs)
        notes.append(f"{undefined:,} of {total:,} elements of the reference are NaN: they must be so in both")
    return Verification(outputs, replicas, *seconds, reference.runs, tuple(notes), undefined)

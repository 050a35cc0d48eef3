"""One execution asked for and what came of it, and both as files for a process next door."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import Array, load_arrays, save_arrays
from shardwright.runtime.calls import Asking
from shardwright.runtime.records import mesh_from, mesh_record, sharding_from, sharding_record
from shardwright.runtime.shards import ReplicaDifference
from shardwright.sharding import TensorSharding

__all__ = [
    "NO_ROOM",
    "Execution",
    "Job",
    "load_jobs",
    "load_parts",
    "load_results",
    "save_jobs",
    "save_part",
    "save_results",
]

NO_ROOM = 74
"""Exit status of a worker whose results cannot be written: the `EX_IOERR` of `sysexits.h`."""


@dataclass(frozen=True, eq=False)
class Job:
    """A module to run once.

    Attributes:
        module: MLIR text.
        inputs: Global arrays, one an argument.
        mesh: The mesh of a per-device module; `None` for an unsharded one, which runs on one device.
        in_shardings: How each argument lies; used with a mesh only, as are the others.
        out_shardings: How each result lies.
        out_types: Global type of each result.
        zeros: Global types of the arguments of a module to be tried on zeros, in place of inputs; it gives no outputs.
        seeds: Run once for each, given as the last argument; the outputs of all runs follow each other.
        partitioned: Whether XLA is to partition the module, which is annotated; it is per-device else.
        draft: Compile in haste, for a module that is run to measure and not to be measured.
        callbacks: The Python functions that the module calls, by the numbers that it has for them.
    """

    module: str
    inputs: tuple[Array, ...]
    mesh: Mesh | None = None
    in_shardings: tuple[TensorSharding, ...] = ()
    out_shardings: tuple[TensorSharding, ...] = ()
    out_types: tuple[TensorType, ...] = ()
    zeros: tuple[TensorType, ...] | None = None
    seeds: tuple[int, ...] = ()
    draft: bool = False
    partitioned: bool = False
    callbacks: tuple[Callable[..., Any], ...] = ()

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.mesh.size if self.mesh else 1


@dataclass(frozen=True, eq=False)
class Execution:
    """What a job gave.

    Attributes:
        outputs: Global arrays, one a result.
        differences: Devices that should hold the same part of an output and do not.
        compile_seconds: Time to compile.
        run_seconds: Time to run, transfers included.
        copies: For each output whose copies differ, its number and the copies furthest from those in `outputs`.
    """

    outputs: tuple[Array, ...]
    differences: tuple[ReplicaDifference, ...] = ()
    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    copies: tuple[tuple[int, Array], ...] = ()


def save_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """Write jobs for `load_jobs`."""
    heads = []
    for number, job in enumerate(jobs):
        (folder / f"{number}.mlir").write_text(job.module)
        save_arrays(folder / f"{number}.in.npz", job.inputs)
        heads.append(
            {
                "mesh": mesh_record(job.mesh) if job.mesh else None,
                "in": [sharding_record(sharding) for sharding in job.in_shardings],
                "out": [sharding_record(sharding) for sharding in job.out_shardings],
                "types": [str(type) for type in job.out_types],
                "zeros": None if job.zeros is None else [str(type) for type in job.zeros],
                "seeds": job.seeds,
                "draft": job.draft,
                "partitioned": job.partitioned,
                "callbacks": len(job.callbacks),
            }
        )
    (folder / "jobs.json").write_text(json.dumps(heads))


def load_jobs(folder: Path, asking: Asking | None = None) -> list[Job]:
    """Read what `save_jobs` wrote, with those functions that can be asked for."""
    jobs = []
    for number, head in enumerate(json.loads((folder / "jobs.json").read_text())):
        mesh = mesh_from(head["mesh"]) if head["mesh"] else None
        jobs.append(
            Job(
                (folder / f"{number}.mlir").read_text(),
                tuple(load_arrays(folder / f"{number}.in.npz")),
                mesh,
                tuple(sharding_from(sharding) for sharding in head["in"]),
                tuple(sharding_from(sharding) for sharding in head["out"]),
                tuple(TensorType.parse(text) for text in head["types"]),
                zeros=None if head["zeros"] is None else tuple(TensorType.parse(text) for text in head["zeros"]),
                seeds=tuple(head["seeds"]),
                draft=head["draft"],
                partitioned=head["partitioned"],
                callbacks=asking.functions(number, head["callbacks"]) if asking else (),
            )
        )
    return jobs


def save_results(folder: Path, number: int, result: Execution | str) -> None:
    """Write what job `number` gave, or why it failed; the heading last, so that half a result is none."""
    head: dict[str, Any] = {"error": result if isinstance(result, str) else None}
    if isinstance(result, Execution):
        save_arrays(folder / f"{number}.out.npz", [*result.outputs, *(copy for _, copy in result.copies)])
        head["differences"] = [asdict(difference) for difference in result.differences]
        head["copies"] = [output for output, _ in result.copies]
        head["seconds"] = [result.compile_seconds, result.run_seconds]
    (folder / f"{number}.json").write_text(json.dumps(head))


def load_results(folder: Path, count: int) -> list[Execution | str | None]:
    """What each of `count` jobs gave: an execution, the error, or `None` where the worker never got to the end."""
    results: list[Execution | str | None] = []
    for number in range(count):
        path = folder / f"{number}.json"
        if not path.exists():
            results.append(None)
            continue
        head = json.loads(path.read_text())
        if head["error"] is not None:
            results.append(str(head["error"]))
            continue
        arrays = load_arrays(folder / f"{number}.out.npz")
        outputs = arrays[: len(arrays) - len(head["copies"])]
        copies = zip(head["copies"], arrays[len(outputs) :], strict=True)
        differences = tuple(ReplicaDifference(**difference) for difference in head["differences"])
        seconds = head["seconds"]
        results.append(Execution(tuple(outputs), differences, seconds[0], seconds[1], tuple(copies)))
    return results


def save_part(
    folder: Path, process: int, partitions: Sequence[int], results: Sequence[Sequence[Array]], seconds: Sequence[float]
) -> None:
    """Write what one of several processes gave: `results[output][partition]`, of those partitions that are its own."""
    save_arrays(folder / f"{process}.part.npz", [shard for shards in results for shard in shards])
    head = {"partitions": list(partitions), "seconds": list(seconds)}
    (folder / f"{process}.part.json").write_text(json.dumps(head))


def load_parts(folder: Path, processes: int, job: Job) -> tuple[list[list[Array]], list[float]]:
    """What all processes of a job wrote: `results[output][partition]`, and the longest time to compile and to run."""
    results: list[dict[int, Array]] = [{} for _ in job.out_types]
    longest = [0.0, 0.0]
    for process in range(processes):
        head = json.loads((folder / f"{process}.part.json").read_text())
        arrays = iter(load_arrays(folder / f"{process}.part.npz"))
        for shards in results:
            shards.update((partition, next(arrays)) for partition in head["partitions"])
        longest = list(map(max, longest, head["seconds"]))
    return [[shards[partition] for partition in range(job.devices)] for shards in results], longest

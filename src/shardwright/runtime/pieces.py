"""What each partition of a job is given, and what all have given put together; nothing here needs a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shardwright.runtime.arrays import Array
from shardwright.runtime.copies import furthest_copies
from shardwright.runtime.jobs import Job
from shardwright.runtime.shards import ReplicaDifference, assemble, cut

__all__ = ["Outcome", "cut_inputs", "put_together"]

Outcome: TypeAlias = tuple[tuple[Array, ...], tuple[ReplicaDifference, ...], tuple[tuple[int, Array], ...]]
"""Global outputs, copies that differ, and by the number of an output the copies that are furthest from it."""


def cut_inputs(job: Job) -> list[list[Array]]:
    """`inputs[argument][partition]` of a per-device job: a sharding's mesh may have its devices in another order."""
    assert job.mesh is not None
    inputs = []
    for array, sharding in zip(job.inputs, job.in_shardings, strict=True):
        shards = cut(array, sharding)
        inputs.append([shards[position] for position in sharding.mesh.positions_of(job.mesh)])
    return inputs


def put_together(job: Job, results: Sequence[Sequence[Array]]) -> Outcome:
    """The global outputs of a per-device job from `results[output][partition]`."""
    assert job.mesh is not None
    all_differences: list[ReplicaDifference] = []
    outputs, copies = [], []
    for number, (shards, sharding, type) in enumerate(zip(results, job.out_shardings, job.out_types, strict=True)):
        held = [shards[partition] for partition in job.mesh.positions_of(sharding.mesh)]
        whole, differences = assemble(held, sharding, type.dims, number)
        outputs.append(whole)
        all_differences += differences
        if differences and not sharding.partial:
            copies.append((number, furthest_copies(held, sharding, whole)))
    return tuple(outputs), tuple(all_differences), tuple(copies)

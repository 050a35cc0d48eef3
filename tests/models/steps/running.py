"""A step under every sharding, and broken forms of it, in one process next door."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from shardwright.errors import ShardingError
from shardwright.notation import modules
from shardwright.program import Spmd
from shardwright.runtime.arrays import Array
from shardwright.runtime.execute import Execution, Job, try_jobs
from shardwright.runtime.reference import Reference
from shardwright.runtime.unsharded import unsharded
from shardwright.runtime.verify import Verification, judged
from tests.models.steps.all import SHARDINGS, plan
from tests.models.steps.judging import wrong_outputs
from tests.models.steps.mutants import mutant

__all__ = ["Outcome", "verify_step"]


@dataclass
class Outcome:
    """What became of a step: problems of sound programs, and broken ones counted by what they are and what they got."""

    alarms: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def verify_step(name: str, mutants: int = 0, seed: int = 0) -> Outcome:
    """Verify a step as `Spmd.verify` does, under each sharding, and so many broken programs: under the first one as ops
    are chosen together, under the others as each is split by itself.
    """
    spmds = [
        plan(name, kind).partition(effort="fast" if number else "default") for number, kind in enumerate(SHARDINGS)
    ]
    inputs = tuple(spmds[0].inputs())
    program = spmds[0].plan.program
    names = list(program.results)
    reference = Reference(program.unsharded(), inputs, unsharded(program.graph))
    rng = random.Random(f"{name} {seed}")
    broken = []
    for number in range(mutants):
        kind, graph = mutant(spmds[number % len(spmds)].local, rng)
        job = _job(spmds[number % len(spmds)], modules.text_of(graph, shardings=False), inputs, draft=True)
        broken.append((f"{name}, {SHARDINGS[number % len(spmds)]}: {kind}", number % len(spmds), job))
    own = reference.jobs()
    sound_jobs = [_job(spmd, spmd.module("local"), inputs) for spmd in spmds]
    results = try_jobs([*own, *sound_jobs, *(job for _, _, job in broken)])
    reference.take(results[: len(own)])
    sound, others = results[len(own) : len(own) + len(spmds)], results[len(own) + len(spmds) :]
    outcome = Outcome()
    judge = _Judge(reference, names)
    for sharding, execution in zip(SHARDINGS, sound, strict=True):
        problem = _problem(execution, judge)
        if problem:
            outcome.alarms[f"{name}, {sharding}"] = problem
    for (title, which, _), execution in zip(broken, others, strict=True):
        right = sound[which]
        if isinstance(execution, ShardingError) or isinstance(right, ShardingError):
            outcome.counts["not run"] += 1
            continue
        is_wrong = bool(wrong_outputs(reference, right, execution))
        is_refused = not judge.verification(execution).ok
        outcome.counts[f"{'wrong' if is_wrong else 'harmless'}, {'refused' if is_refused else 'passed'}"] += 1
        if is_wrong and not is_refused:
            outcome.missed.append(title)
    return outcome


def _job(spmd: Spmd, text: str, inputs: tuple[Array, ...], draft: bool = False) -> Job:
    types = tuple(spmd.plan.program.results.values())
    return Job(text, inputs, spmd.plan.mesh, spmd.in_shardings, spmd.out_shardings, types, draft=draft)


class _Judge:
    """`verify`'s verdict, with more runs of the reference where few do not do."""

    def __init__(self, reference: Reference, names: list[str]) -> None:
        self.reference = reference
        self.names = names
        self.has_more = False

    def verification(self, execution: Execution) -> Verification:
        first = judged(self.reference, execution, self.names)
        if first.ok or self.has_more:
            return first
        self.has_more = True
        self.reference.take_more(try_jobs(self.reference.more_jobs()))
        return judged(self.reference, execution, self.names)


def _problem(execution: Execution | ShardingError, judge: _Judge) -> str:
    if isinstance(execution, ShardingError):
        return str(execution)
    verification = judge.verification(execution)
    copies = [f"copies of {judge.names[one.output]} differ by {one.difference:.2g}" for one in verification.replicas]
    return "; ".join([f"{one.name}: {one.problem}" for one in verification.outputs if not one.ok] + copies)

"""Programs against themselves on one device, many in one process next door."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.ir.context import load_module
from shardwright.notation import modules
from shardwright.partition import check
from shardwright.program import Program as Loaded
from shardwright.program import Spmd
from shardwright.runtime.arrays import Array
from shardwright.runtime.compare import compare
from shardwright.runtime.execute import Execution, Job, WorkerDied, try_jobs
from shardwright.runtime.unsharded import unsharded
from shardwright.runtime.verify import verify
from tests.graphs.programs import Program

__all__ = ["REFUSALS", "Verdict", "judged"]

REFUSALS = {
    "is declared partial by": "largest numbers are no contributions to a sum, and the constraint says that they are",
    "cannot be partitioned together": "a manual computation names axes that cannot say the shardings on another mesh",
    "all that it is sharded over is one device": "no program for several devices was asked for",
    "XLA cannot run the module, by a failed check of its own": "a mistake of XLA's, most of them its FFT's on CPUs",
    "it is the program for one device": "XLA ends by a signal on what nobody partitioned",
}
"""What of a diagnostic says that a program is refused, and why it may be."""

_SECONDS = 1800.0
_NUMBERS = re.compile(r"\d[\d.e+-]*|%\w+|\bv\d+\b")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a program.

    Attributes:
        number: Of the program.
        problem: What is wrong, if anything.
        refused: The key of `REFUSALS` by which it was refused, if it was.
        measured: Whether it took more than two runs to tell.
    """

    number: int
    problem: str = ""
    refused: str = ""
    measured: bool = False

    @property
    def kind(self) -> str:
        """The problem without the numbers in it, by which two are alike."""
        return _NUMBERS.sub("_", self.problem.split("\n", 1)[0])[:120]


@dataclass(frozen=True, slots=True)
class _Case:
    """A program in both forms, and what they are run on."""

    number: int
    reference: str
    spmd: Spmd
    inputs: tuple[Array, ...]

    @property
    def jobs(self) -> tuple[Job, Job]:
        types = tuple(self.spmd.plan.program.results.values())
        layouts = self.spmd.in_shardings, self.spmd.out_shardings
        local = Job(self.spmd.module("local"), self.inputs, self.spmd.mesh, *layouts, types, draft=True)
        return Job(self.reference, self.inputs, draft=True), local


def judged(programs: Sequence[Program]) -> list[Verdict]:
    """What comes of each program."""
    verdicts: dict[int, Verdict] = {}
    cases: dict[int, _Case] = {}
    for program in programs:
        try:
            cases[program.number] = _case(program)
        except ShardingError as error:
            verdicts[program.number] = _refused(program.number, error)
        except Exception as error:  # whatever it is, it is a mistake to be told with its program
            verdicts[program.number] = Verdict(program.number, f"{type(error).__name__}: {error}")
    while cases:
        done = try_jobs([job for case in cases.values() for job in case.jobs], timeout=_SECONDS)
        pairs = zip(list(cases.values()), done[::2], done[1::2], strict=True)
        for case, own, local in pairs:
            if _is_waiting(own) or (_is_waiting(local) and not isinstance(own, ShardingError)):
                continue
            del cases[case.number]
            verdicts[case.number] = _compared(case, own, local)
    return [verdicts[program.number] for program in programs]


def _case(program: Program) -> _Case:
    """A program in both forms; every third is chosen as a whole."""
    text = program.lowered()
    loaded = Loaded(parse_source(text))
    spmd = loaded.shard().partition(effort="fast" if program.number % 3 else "default")
    check(spmd.explicit)
    reference = program.lowered(sharded=False) if "sdy.manual_computation" in text else loaded.unsharded()
    return _Case(program.number, reference, spmd, tuple(spmd.inputs(seed=program.number)))


def _refused(number: int, error: ShardingError) -> Verdict:
    known = next((words for words in REFUSALS if words in str(error)), "")
    return Verdict(number, "" if known else f"refused: {error}", known)


def _is_waiting(result: Execution | ShardingError) -> bool:
    """Whether a job was not run because one before it ended the process."""
    return isinstance(result, WorkerDied) and "was not run" in str(result)


def _compared(case: _Case, own: Execution | ShardingError, local: Execution | ShardingError) -> Verdict:
    if isinstance(own, ShardingError):
        return _refused(case.number, own)
    if isinstance(local, ShardingError):
        return _refused(case.number, local)
    names = list(case.spmd.plan.program.results)
    differences = compare(own.outputs, local.outputs, names)
    if all(one.ok for one in differences) and not local.differences:
        return Verdict(case.number)
    return _measured(case, names)


def _measured(case: _Case, names: Sequence[str]) -> Verdict:
    """As `shardwright verify` tells: by how far rounding moves the program's own results."""
    own, local = case.jobs
    graph = modules.read(load_module(case.reference))
    try:
        verification = verify(
            own.module,
            local.module,
            case.spmd.mesh,
            local.in_shardings,
            local.out_shardings,
            case.inputs,
            local.out_types,
            names,
            graph=unsharded(graph),
        )
        verification.require()
    except ShardingError as error:
        return Verdict(case.number, str(error), measured=True)
    return Verdict(case.number, measured=True)

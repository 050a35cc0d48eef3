"""Plans beside XLA's: models, training steps and examples, each partitioned for a hardware, and what that takes there.
Some, `large`, are of sizes that fill eight devices, from transformers to solvers, and `clusters` are for 64 devices and
256, in nodes of eight: see `tests/models/large`.

Both sides get the same annotated module; ours is decided for the hardware, XLA's is one for all. Both go through XLA
for virtual CPU devices, in subprocesses, and one function prices both by their HLO (`tests/oracles/plan_price.py`). Of
each program and hardware four ratios, ours by XLA's:

    time      starts and bytes of collectives and the kernels by the roofline, one after the other: at most 1
    bytes     what a device sends: at most 1
    work      operations of products and convolutions: at most 1, unless time gains by it
    memory    buffers of the executables that are neither arguments nor results: at most 1.1

and of each hardware the geometric mean of the times: at most 0.75. Ratios are compared as they are printed.

Besides, what choosing costs, in processor time: efforts `default` and `best` on top of the rest of partitioning a GPT
of 32 layers, and the median of a reshard plan with empty caches.

    python benchmarks/plans.py                              all of it
    python benchmarks/plans.py nets.u_net steps.adam        whose names begin so; `large`, `clusters`, `choosing`
    python benchmarks/plans.py --hardware h100 cpu_8        on some hardware only
    python benchmarks/plans.py --effort best                with programs searched as wholes
    python benchmarks/plans.py --optimize all               with collectives made fewer, smaller and later
    python benchmarks/plans.py --optimize all --effort lean     where memory and bytes are not traded for time
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, fsum, inf, log
from statistics import median
from typing import TYPE_CHECKING

from common import ChildError, Report, Run, example, in_turns, measure

from shardwright.cost.hardware import hardware as hardware_of
from shardwright.errors import ShardingError
from shardwright.stage import EFFORTS, OPTIMIZATIONS

if TYPE_CHECKING:
    import shardwright as sw
    from shardwright.cost.hardware import Hardware
    from tests.oracles.plan_price import Plan as Priced
    from tests.oracles.xla_many import Compiled

HARDWARE = ("h100", "tpu_v5p", "cpu_8")
EXAMPLES = ("mlp", "decode", "gpt2", "gpt8", "gpt32_scan")
CHOOSING = "choosing"
TIME, MEAN_TIME, BYTES, WORK, MEMORY = 1.0, 0.75, 1.0, 1.0, 1.1
FIGURES = ("time", "bytes", "work", "memory")
SEARCH, RESHARD_MS = 1.0, 1.0
"""What choosing may take: beside the rest of partitioning, and for a reshard in the median."""
RESHARDS = 200
TOGETHER = 24
"""How many programs go to XLA at a time."""

Make = Callable[[], "sw.Plan"]
"""Makes a program with its shardings, of these what divides."""


@dataclass(slots=True)
class Row:
    """A program on its devices: what is handed to XLA, and what came of it.

    Attributes:
        name: Of the program.
        devices: How many there are.
        annotated: What XLA partitions.
        locals: What we make of it, by hardware.
        reason: Why there is nothing, where there is nothing.
    """

    name: str
    devices: int
    annotated: str = ""
    locals: dict[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One program of one side.

    Attributes:
        plan: What it does.
        temporary: Bytes of its buffers that are neither arguments nor results.
    """

    plan: Priced
    temporary: int


@dataclass(slots=True)
class Tally:
    """What adds up, by hardware: the ratios of times, and how many figures of each kind are short."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    short: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def report(self, report: Report, hardware: str) -> None:
        """Print it."""
        ratios = self.times[hardware]
        report.add(f"plans.{hardware}.programs", len(ratios))
        for key in FIGURES:
            report.add(f"plans.{hardware}.short_by_{key}", self.short[hardware][key])
        if ratios:
            report.add(f"plans.{hardware}.mean_time", round(exp(fsum(map(log, ratios)) / len(ratios)), 3), MEAN_TIME)


def programs() -> dict[str, Make]:
    """All there are, by name."""
    from shardwright.program import load
    from tests.models.all import models

    every: dict[str, Make] = models(evenly=True)
    return every | {f"examples.{name}": partial(lambda name: load(example(name)).plan(), name) for name in EXAMPLES}


def partitioned(name: str, make: Make, chosen: argparse.Namespace) -> Row:
    """A program as XLA gets it, and our programs of it."""
    import shardwright as sw
    from shardwright.notation import modules

    try:
        with sw.Session():
            plan = make()
            row = Row(name, plan.mesh.size, modules.located_text(plan.annotated))
        for one in chosen.hardware:
            with sw.Session(hardware=sw.hardware(one)):
                spmd = make().partition(effort=chosen.effort, optimize=chosen.optimize)
                row.locals[one] = spmd.module("local")
    except sw.ShardingError as error:
        return Row(name, 1, reason=str(error).splitlines()[0])
    return row


def compared(report: Report, rows: Sequence[Row], tally: Tally) -> None:
    """Some programs beside XLA's."""
    for devices in sorted({row.devices for row in rows}):
        some = [row for row in rows if row.devices == devices and not row.reason]
        theirs = _sides([row.annotated for row in some], devices, local=False)
        texts = list(dict.fromkeys(text for row in some for text in row.locals.values()))
        ours = dict(zip(texts, _sides(texts, devices, local=True), strict=True))
        for row, other in zip(some, theirs, strict=True):
            for hardware, text in row.locals.items():
                one = ours[text]
                if isinstance(other, str):
                    print(f"plans.{row.name}.{hardware}: XLA fails at its own: {_first_line(other)}", flush=True)
                elif isinstance(one, str):
                    report.add(f"plans.{row.name}.{hardware}.time", inf, TIME)
                    print(f"    XLA refuses ours: {_first_line(one)}", flush=True)
                else:
                    _compare(report, f"plans.{row.name}.{hardware}", hardware, one, other, tally)
    for row in rows:
        if row.reason:
            report.add(f"plans.{row.name}.time", inf, TIME)
            print(f"    {row.reason}", flush=True)


def _sides(texts: Sequence[str], devices: int, *, local: bool) -> list[Side | str]:
    from tests.oracles.plan_price import plan_of
    from tests.oracles.xla_many import compiled_of

    def side(compiled: Compiled | str) -> Side | str:
        if isinstance(compiled, str):
            return compiled
        return Side(plan_of(compiled.entered, compiled.final, devices), compiled.temporary)

    return [side(compiled) for compiled in compiled_of(texts, devices, local=local)]


def _compare(report: Report, name: str, hardware: str, ours: Side, theirs: Side, tally: Tally) -> None:
    """The figures of a program on a hardware."""
    from tests.oracles.plan_price import seconds_on

    there = hardware_of(hardware)
    took = [seconds_on(there, side.plan) for side in (ours, theirs)]
    figures: Mapping[str, tuple[float, float | None]] = {
        "time": (_ratio(*took), TIME),
        "bytes": (_ratio(ours.plan.sent, theirs.plan.sent), BYTES),
        "work": (
            work := _ratio(ours.plan.operations, theirs.plan.operations),
            WORK if work <= WORK or _ratio(*took) > TIME else None,
        ),
        "memory": (_ratio(ours.temporary, theirs.temporary), MEMORY),
    }
    for key, (value, bar) in figures.items():
        report.add(f"{name}.{key}", value, bar)
    short = [key for key, (value, bar) in figures.items() if bar is not None and value > bar]
    tally.short[hardware].update(short)
    tally.times[hardware].append(took[0] / took[1] if took[1] else 1.0)
    if short:
        print(f"    ours:  {_shown(there, ours, took[0])}\n    XLA's: {_shown(there, theirs, took[1])}", flush=True)


def _ratio(ours: float, theirs: float) -> float:
    """As it is printed; 1 where neither has anything."""
    return round(ours / theirs, 3) if theirs else 1.0 if not ours else inf


def _shown(hardware: Hardware, side: Side, seconds: float) -> str:
    from tests.oracles.plan_price import sends_on

    sends = sends_on(hardware, side.plan)
    moved = sum(kernel.moved * kernel.times for kernel in side.plan.kernels)
    return (
        f"{seconds:.4g} s; sends {sends.sent:,.0f} bytes in {sends.starts:,} starts ({side.plan.sent:,.0f} at least), "
        f"works {side.plan.operations:,.0f} operations, moves {moved:,.0f} bytes, holds {side.temporary:,}"
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "it ends the process"


def choosing(report: Report) -> None:
    """What choosing costs. Measured in forks, before anything else is done here."""
    sides = {
        effort: partial(measure, partial(_partition, effort), time.process_time)
        for effort in ("fast", "default", "best")
    }
    samples = in_turns(sides)
    fast = samples["fast"].seconds
    report.add(f"plans.{CHOOSING}.gpt32.rest_ms", fast * 1e3)
    for effort, bar in (("default", SEARCH), ("best", None)):
        report.add(f"plans.{CHOOSING}.gpt32.{effort}_beside_rest", (samples[effort].seconds - fast) / fast, bar)
    report.add(f"plans.{CHOOSING}.reshard_ms", median(_reshards()) * 1e3, RESHARD_MS)


def _partition(effort: str) -> Run:
    import shardwright.partition.search.best  # noqa: F401  # as the rest of partitioning is imported before
    from shardwright.ir.context import load_module
    from shardwright.notation.modules import read
    from shardwright.partition import localize, materialize
    from shardwright.propagation import propagate

    graph = propagate(read(load_module(example("gpt32"))))
    return lambda: localize(materialize(graph, effort=effort).graph)


def _reshards() -> Iterator[float]:
    """Seconds of planning a reshard with empty caches, of random pairs of layouts on meshes of up to 64 devices."""
    from shardwright.memo import Session
    from shardwright.reshard.plan import plan
    from tests.reshard.test_gap import pair

    rng = random.Random(0)
    for _ in range(RESHARDS):
        shape, source, target = pair(rng)
        with Session():
            start = time.process_time()
            plan(shape, 4, source, target)
            yield time.process_time() - start


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"programs whose names begin so, or {CHOOSING}")
    parser.add_argument("--hardware", nargs="+", default=HARDWARE, metavar="NAME", help="where they are to be fast")
    parser.add_argument("--effort", default="fast", choices=EFFORTS, help="how hard we look")
    parser.add_argument("--optimize", default="off", choices=OPTIMIZATIONS, help="what becomes of our collectives")
    chosen = parser.parse_args(arguments)
    for name in chosen.hardware:
        hardware_of(name)
    report = Report()
    if not chosen.names or CHOOSING in chosen.names:
        choosing(report)
    names = tuple(name for name in chosen.names if name != CHOOSING)
    if names or not chosen.names:
        every = [(name, make) for name, make in programs().items() if name.startswith(names or "")]
        tally = Tally()
        for begin in range(0, len(every), TOGETHER):
            some = every[begin : begin + TOGETHER]
            rows = [partitioned(name, make, chosen) for name, make in some]
            compared(report, rows, tally)
        for hardware in chosen.hardware:
            tally.report(report, hardware)
    report.exit()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ChildError, ShardingError) as error:
        sys.exit(str(error))

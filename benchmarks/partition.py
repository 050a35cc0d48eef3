"""Propagated graph → per-device graph, both in memory, beside XLA's `spmd-partitioning` pass.

Ours is `materialize` and `localize`: deciding how ops are split and what moves, writing that, and the local form of
every op; no text is read or written. XLA's is what its pass does by its own log (see `tests/oracles/xla_pass.py`),
cleaning up behind itself included; propagation and its export, dumps and verifying are not. All figures are processor
time, in milliseconds, which other work on the machine disturbs least. Each repetition of ours starts with empty caches
and all modules imported, each of XLA's in a new process.

The last figures are one program for 8 to 65,536 devices: its time should not depend on how many there are.

    python benchmarks/partition.py                    all of it
    python benchmarks/partition.py gpt2 gpt32_scan    those programs
    python benchmarks/partition.py devices            the one for many devices
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from common import ChildError, Report, Run, Sample, example, in_turns, measure
from devices import program

if TYPE_CHECKING:
    from shardwright.ir.graph import Graph

BARS = {"gpt2": 3.0, "gpt8": 1.5, "gpt32": 1.5, "gpt32_scan": 3.0}
DEVICES = "devices"
MESHES = {8: (2, 4), 512: (32, 16), 16_384: (256, 64), 65_536: (256, 256)}
GROWTH = 1.25
"""How much more any bigger mesh may take than the smallest."""


def ours(text: str) -> Run:
    from shardwright.ir.context import load_module
    from shardwright.memo import Session
    from shardwright.notation.modules import read
    from shardwright.partition import localize, materialize
    from shardwright.propagation import propagate

    def propagated(text: str) -> Graph:
        return propagate(read(load_module(text)))

    def run(graph: Graph) -> Graph:
        return localize(materialize(graph).graph)

    with Session():
        run(propagated(program(2, 4, layers=1)))  # imports what is imported when first used
    return partial(run, propagated(text))


def theirs(text: str) -> Sample:
    from tests.oracles.xla_pass import time_of_pass

    return Sample(time_of_pass(text).processor_seconds, None, 0)


def compare(report: Report, name: str) -> None:
    """One program beside XLA."""
    text = example(name)
    samples = in_turns({"ours": partial(measure, partial(ours, text), time.process_time), "xla": partial(theirs, text)})
    report.add(f"partition.{name}.ours_ms", samples["ours"].seconds * 1e3)
    report.add(f"partition.{name}.ours_warm_ms", (samples["ours"].warm_seconds or 0.0) * 1e3)
    report.add(f"partition.{name}.xla_ms", samples["xla"].seconds * 1e3)
    report.add(f"partition.{name}.ratio", samples["ours"].seconds / samples["xla"].seconds, BARS[name])


def many_devices(report: Report) -> None:
    """One program for few and for many devices."""
    sides = {
        str(devices): partial(measure, partial(ours, program(*mesh)), time.process_time)
        for devices, mesh in MESHES.items()
    }
    samples = in_turns(sides)
    for devices, sample in samples.items():
        report.add(f"partition.{DEVICES}.{devices}.ms", sample.seconds * 1e3)
    fewest, *more = (samples[str(devices)].seconds for devices in sorted(MESHES))
    report.add(f"partition.{DEVICES}.growth", max(more) / fewest, GROWTH)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = (*BARS, DEVICES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(what)} (default: all)")
    names = parser.parse_args(arguments).names or what
    if unknown := [name for name in names if name not in what]:
        parser.error(f"there is no {', '.join(unknown)}: {', '.join(what)}")
    report = Report()
    for name in names:
        many_devices(report) if name == DEVICES else compare(report, name)
    report.exit()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ChildError as error:
        sys.exit(str(error))

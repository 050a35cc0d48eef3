"""How long partitioning takes on GPT training steps: propagated graph → text of the per-device module.

Beside it XLA's `spmd-partitioning` pass, timed by the dumps around it (which includes writing one). Milliseconds, and
MiB of peak memory beyond what the process held before.
"""

from __future__ import annotations

import sys
from functools import partial

from common import MIB, ChildError, Report, Run, Sample, example, in_turns, measure

PROGRAMS = ("gpt2", "gpt8", "gpt32", "gpt32_scan")


def partition_ours(text: str) -> Run:
    from shardwright.ir.context import load_module
    from shardwright.notation.modules import read, text_of
    from shardwright.partition import localize, materialize
    from shardwright.propagation import propagate

    propagated = propagate(read(load_module(text)))
    return lambda: text_of(localize(materialize(propagated).graph))


def partition_xla(text: str) -> Sample:
    from tests.oracles.xla import partition

    partitioned = partition(text)
    return Sample(partitioned.partition_seconds, None, partitioned.peak_bytes)


def compare(report: Report, name: str, peer: str, samples: dict[str, Sample]) -> None:
    ours, theirs = samples["ours"], samples[peer]
    report.add(f"{name}.ours_ms", ours.seconds * 1e3)
    report.add(f"{name}.ours_warm_ms", (ours.warm_seconds or 0.0) * 1e3)
    report.add(f"{name}.{peer}_ms", theirs.seconds * 1e3)
    report.add(f"{name}.ratio", ours.seconds / theirs.seconds)
    report.add(f"{name}.ours_peak_mib", ours.peak_bytes / MIB)
    report.add(f"{name}.{peer}_peak_mib", theirs.peak_bytes / MIB)


def main(names: list[str]) -> None:
    report = Report()
    for name in names or PROGRAMS:
        text = example(name)
        partitioning = {
            "ours": partial(measure, partial(partition_ours, text)),
            "xla": partial(partition_xla, text),
        }
        compare(report, f"compile.{name}.partition", "xla", in_turns(partitioning))
    report.exit()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ChildError as error:
        sys.exit(str(error))

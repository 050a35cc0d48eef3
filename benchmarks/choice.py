"""What choosing the ops of programs together comes to: models and examples, by the price on one hardware.

Of each program what it takes as a part of what it takes op by op, how far from the least it can be at most, and what
choosing took, in processor time, on top of deciding op by op. Of all models the geometric mean of the parts, how many
are within one hundredth of the least that any choice takes (at least 95 of a hundred), and half, nine tenths and all of
the times. Where a file holds what this printed before, programs that take more or less than then are named.

    python benchmarks/choice.py                         all models, as by `--effort default`
    python benchmarks/choice.py examples.gpt32 nets.u   programs whose names begin so: nets, steps, large, clusters
    python benchmarks/choice.py --effort best
    python benchmarks/choice.py > BEFORE; …; python benchmarks/choice.py --before BEFORE
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import exp, fsum, inf, log
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from common import Report, example

if TYPE_CHECKING:
    from shardwright.program import Plan

EXAMPLES = ("mlp", "decode", "gpt2", "gpt8", "gpt32", "gpt32_scan")
CLOSE, PROVEN = 0.01, 0.95
"""How near the least is proven, and which part of the models is to be so."""
SAME = 1e-4
"""A part of seconds that is no difference."""


class Chosen(NamedTuple):
    """What came of a program.

    Attributes:
        seconds: What it takes, as chosen.
        part: Of what it takes op by op.
        gap: How much more than the least that it must, as a part of that.
        took: Seconds of choosing.
    """

    seconds: float
    part: float
    gap: float
    took: float


def programs() -> dict[str, Callable[[], Plan]]:
    """All there are, by name."""
    from shardwright.program import load
    from tests.models.all import models

    every = models()
    return every | {f"examples.{name}": partial(lambda name: load(example(name)).plan(), name) for name in EXAMPLES}


def chosen(make: Callable[[], Plan], effort: str, hardware: str) -> Chosen:
    """Choose a program, with caches that know what deciding it op by op has asked."""
    import shardwright as sw
    from shardwright.partition.decide import decide
    from shardwright.partition.fewer_ops import with_fewer_ops
    from shardwright.partition.search.best import search
    from tests.partition.search.programs import ready

    plan = make()
    with sw.Session(hardware=sw.hardware(hardware)):
        graph = with_fewer_ops(ready(plan))
        first = decide(graph)
        start = time.process_time()
        _, searched = search(graph, effort, first)
        took = time.process_time() - start
    before, gap = searched.seconds_before, searched.gap
    return Chosen(searched.seconds, searched.seconds / before if before else 1.0, inf if gap is None else gap, took)


def tell(report: Report, name: str, one: Chosen, before: Mapping[str, float]) -> None:
    """Print what came of a program."""
    report.add(f"choice.{name}.part", one.part, 1.0)
    report.add(f"choice.{name}.gap", one.gap)
    report.add(f"choice.{name}.took_s", one.took)
    print(f"choice.{name}.seconds {one.seconds:.9g}", flush=True)
    if abs(one.seconds / before.get(name, one.seconds or 1.0) - 1) > SAME and one.seconds:
        print(f"    {one.seconds / before[name]:.4f} times what it took before", flush=True)


def tell_all(report: Report, models: Sequence[Chosen]) -> None:
    """Print what came of all models."""
    parts = [one.part for one in models if one.part]
    times = sorted(one.took for one in models)
    report.add("choice.models", len(models))
    report.add("choice.mean_part", exp(fsum(map(log, parts)) / len(parts)))
    report.add("choice.not_proven", sum(one.gap > CLOSE for one in models), (1 - PROVEN) * len(models))
    report.add("choice.median_s", median(times))
    report.add("choice.nine_tenths_s", quantiles(times, n=10)[-1])
    report.add("choice.longest_s", times[-1])
    report.add("choice.sum_s", sum(times))


def seconds_in(path: Path) -> Iterator[tuple[str, float]]:
    """What programs took, by what was printed then."""
    for line in path.read_text().splitlines():
        name, *words = line.split()
        if name.startswith("choice.") and name.endswith(".seconds"):
            yield name.removeprefix("choice.").removesuffix(".seconds"), float(words[0])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs whose names begin so")
    parser.add_argument("--effort", default="default", help="how hard we look")
    parser.add_argument("--hardware", default="tpu_v5p", help="where the programs are to be fast")
    parser.add_argument("--before", type=Path, metavar="FILE", help="what this printed before")
    options = parser.parse_args(arguments)
    before = dict(seconds_in(options.before)) if options.before else {}
    report, models = Report(), list[Chosen]()
    for name, make in programs().items():
        if name.startswith(tuple(options.names)) if options.names else not name.startswith("examples."):
            one = chosen(make, options.effort, options.hardware)
            tell(report, name, one, before)
            models += [] if name.startswith("examples.") else [one]
    if len(models) > 1:
        tell_all(report, models)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])

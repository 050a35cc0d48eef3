"""How many other shardings of arguments `sw.tune` tries in a second, on the GPT of two layers.

All that `tune` does counts: what the plan itself comes to, and every trial with what it comes to. Time is that of the
processor, which other work on the machine disturbs least, and each repetition starts with empty caches, all modules
imported. `afresh_ms` is what one trial takes that goes on from nothing, of so many taken at even distances.

    python benchmarks/tune.py
    python benchmarks/tune.py gpt2 mlp     those programs, of which only the first has a bar
"""

from __future__ import annotations

import argparse
import time
from functools import partial

from common import Report, Run, Sample, example, in_turns, measure

BAR = 100.0
"""Trials a second of the GPT of two layers."""

AFRESH = 8
"""Trials that are worked out from the beginning, to be compared with."""


def tuning(text: str) -> Run:
    """What tries everything."""
    import shardwright as sw
    from shardwright.memo import Session

    plan = sw.load(text).plan()
    with Session():
        names = next(iter(plan.arguments))
        sw.tune(plan, [names])  # imports what is imported when first used
    again = sw.load(text).plan()
    return partial(sw.tune, again)


def afresh(text: str) -> Run:
    """What works trials out from the beginning."""
    import shardwright as sw
    from shardwright.program.tuning import trials_of

    plan = sw.load(text).plan()
    trials = trials_of(plan)
    chosen = trials[:: max(1, len(trials) // AFRESH)][:AFRESH]

    def run() -> None:
        for names, sharding in chosen:
            assert plan.with_arguments(dict.fromkeys(names, sharding)).partition(effort="fast").outcome.seconds >= 0

    run()
    return run


def count(text: str) -> int:
    """How many trials there are."""
    import shardwright as sw
    from shardwright.program.tuning import trials_of

    return len(trials_of(sw.load(text).plan()))


def measured(name: str) -> dict[str, Sample]:
    """What trying everything takes, and some trials that are worked out from the beginning."""
    sides = {"tune": partial(tuning, example(name)), "afresh": partial(afresh, example(name))}
    return in_turns({side: partial(measure, make, time.process_time) for side, make in sides.items()})


def report_on(report: Report, name: str, samples: dict[str, Sample]) -> None:
    """The figures of one program."""
    trials = count(example(name))
    rate = trials / samples["tune"].seconds
    report.add(f"tune.{name}.trials", trials)
    report.add(f"tune.{name}.afresh_ms", samples["afresh"].seconds / min(AFRESH, trials) * 1e3)
    report.add(f"tune.{name}.tries_per_second", rate, at_least=BAR if name == "gpt2" else None)


def main() -> None:
    """Measure the programs that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=["gpt2"])
    report = Report()
    samples = {name: measured(name) for name in parser.parse_args().programs}  # before this process loads anything
    for name, of_program in samples.items():
        report_on(report, name, of_program)
    report.exit()


if __name__ == "__main__":
    main()

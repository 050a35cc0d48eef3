"""Programs as they run on virtual CPU devices, beside XLA's partition of the same annotated module.

What a step takes there is no price of ours: XLA for CPUs compiles both sides, which take turns in one process, on the
same arrays, nothing donated. The programs are those of `benchmarks/plans.py`; the large ones as they are small. Of each
the median ratio of our seconds by XLA's in the same turn, and of all the geometric mean: at most 1. None may fail.
Most models and steps run for less than a millisecond, in which starting is all there is; so the large ones are what is
asked of unless others are named.

    python benchmarks/run.py                        the large programs, made small, and the examples
    python benchmarks/run.py nets.u_net steps.adam  whose names begin so
    python benchmarks/run.py large --effort lean --optimize all
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import exp, fsum, log
from statistics import median
from typing import Any

from common import Answer, Report, in_child

from shardwright.stage import EFFORTS, OPTIMIZATIONS

MEAN = 1.0
"""The geometric mean of our seconds by those of XLA's partition."""

WARM, FEWEST = 2, 5
"""Turns before any is counted, and how many are counted at least."""

HARDWARE, DEVICES = "cpu_8", 8


def programs() -> dict[str, Callable[[], Any]]:
    """All there are, by name, of sizes that run here."""
    import plans

    from tests.models.large.all import LARGE
    from tests.models.large.clusters import CLUSTERS

    every = {"large": LARGE, "clusters": CLUSTERS}
    small = {f"{kind}.{name}": partial(make, small=True) for kind, some in every.items() for name, make in some.items()}
    return plans.programs() | small


def names_of(begin: Sequence[str]) -> Answer:
    """In a child: the programs whose names begin so."""
    return {"names": [name for name in programs() if name.startswith(tuple(begin))]}


def measured(name: str, chosen: argparse.Namespace) -> Answer:
    """In a child: what each side takes, and the median ratio."""
    import jax

    import shardwright as sw
    from shardwright.notation import modules
    from shardwright.runtime.annotated import annotated
    from shardwright.runtime.inputs import make_inputs
    from shardwright.runtime.shards import cut
    from shardwright.runtime.variant import Variant
    from shardwright.runtime.xla import compile_local, compile_partitioned

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    with sw.Session(hardware=sw.hardware(HARDWARE)):
        plan = programs()[name]()
        spmd = plan.partition(effort=chosen.effort, optimize=chosen.optimize)
    block = spmd.explicit.main.block
    lying = [
        [spmd.explicit.shardings[value] for value in values] for values in (block.arguments, block.terminator.operands)
    ]
    ours = compile_local(modules.text_of(Variant(spmd.local).run()), plan.mesh)
    theirs = compile_partitioned(modules.text_of(annotated(plan.annotated, *lying)), plan.mesh)
    given = spmd.explicit.arguments
    arrays = make_inputs(list(given.values()), list(given), spmd.explicit.main.argument_attributes)
    shards = [cut(array, one) for array, one in zip(arrays, lying[0], strict=True)]
    with jax.enable_x64(True):
        sides = [partial(_turn, one, one.arguments(shards)) for one in (ours, theirs)]
    for side in sides * WARM:
        side()
    took: list[tuple[float, float]] = []
    end = time.perf_counter() + chosen.seconds
    while len(took) < FEWEST or time.perf_counter() < end:
        mine, others = (side() for side in (sides if len(took) % 2 else sides[::-1]))
        took.append((mine, others) if len(took) % 2 else (others, mine))
    return {
        "ours": median([mine for mine, _ in took]),
        "theirs": median([others for _, others in took]),
        "ratio": median([mine / others for mine, others in took]),
    }


def _turn(executable: Any, arguments: Sequence[Any]) -> float:
    import jax

    start = time.perf_counter()
    jax.block_until_ready(executable.call(arguments))
    return time.perf_counter() - start


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["large", "examples"], metavar="NAME", help="what names begin with")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure each (default: 3)")
    parser.add_argument("--effort", default="fast", choices=EFFORTS, help="how hard we look")
    parser.add_argument("--optimize", default="off", choices=OPTIMIZATIONS, help="what becomes of our collectives")
    chosen = parser.parse_args(arguments)
    found = in_child(names_of, chosen.names)
    if not found.get("names"):
        sys.exit(found.get("error") or f"no program has a name that begins with {' or '.join(chosen.names)}")
    report, ratios = Report(), list[float]()
    for name in found["names"]:
        answer = in_child(measured, name, chosen)
        if "error" in answer:
            print(f"{name}: {answer['error']}", flush=True)
            continue
        report.add(f"run.{name}.ours_ms", answer["ours"] * 1e3)
        report.add(f"run.{name}.theirs_ms", answer["theirs"] * 1e3)
        report.add(f"run.{name}.ratio", answer["ratio"])
        ratios.append(answer["ratio"])
    report.add("run.failed", len(found["names"]) - len(ratios), 0.0)
    if ratios:
        report.add("run.mean", exp(fsum(map(log, ratios)) / len(ratios)), MEAN)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])

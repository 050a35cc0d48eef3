"""What a call of a compiled program takes beside `jax.jit`'s of the same function with the same shardings.

Both sides do nearly nothing on eight virtual CPU devices, so that what is measured is the way from arrays to arrays:
a state of so many arrays, donated, and what a step returns is what the next one takes. In one process and in turns, a
call of each after the other; a figure is the median over all turns of our seconds by those of `jax.jit`. `dispatch` is
the call alone, until it returns; `call` goes on until results are there.

    python benchmarks/call.py
    python benchmarks/call.py --seconds 20     longer, for quieter figures
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from common import Report

BAR = 1.2
"""What a call of ours may take by one of `jax.jit`."""

DEVICES = 8
SIZES = (1, 8, 60)
"""Arrays of a state."""

Step = Callable[[Any, Any], Any]


def step(state: Any, batch: Any) -> Any:
    return {name: array + batch.sum() for name, array in state.items()}, batch * 2


def sides(arrays: int) -> tuple[dict[str, Step], Callable[[], tuple[Any, Any]]]:
    """Ours and `jax.jit`'s, and what makes their arguments."""
    import jax
    import numpy as np

    import shardwright as sw

    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    whole = {f"p{number}": np.ones((8, 8), np.float32) for number in range(arrays)}
    batch = np.ones((8,), np.float32)
    program = sw.from_jax(step, whole, batch, donate_argnums=0)
    plan = program.shard(mesh, (sw.P(None, "model"), sw.P("data")))
    placed = plan.in_shardings
    theirs = jax.jit(step, in_shardings=placed, out_shardings=plan.out_shardings, donate_argnums=0)
    ours = plan.partition().compile(trial=False)
    return {"ours": ours, "jit": theirs}, lambda: jax.device_put((whole, batch), placed)


def measured(arrays: int, seconds: float) -> tuple[float, float]:
    """The ratio of calls until they return, and until results are there."""
    import jax

    functions, make = sides(arrays)
    states = {name: make() for name in functions}
    ratios: list[tuple[float, float]] = []
    end, warm = time.perf_counter() + seconds, 20
    while time.perf_counter() < end or len(ratios) < 50:
        took: dict[str, tuple[float, float]] = {}
        order = list(functions) if len(ratios) % 2 else list(functions)[::-1]
        for name in order:
            state, batch = states[name]
            start = time.perf_counter()
            state, _ = functions[name](state, batch)
            returned = time.perf_counter()
            jax.block_until_ready(state)
            took[name] = returned - start, time.perf_counter() - start
            states[name] = state, batch
        warm -= 1
        if warm < 0:
            ratios.append((took["ours"][0] / took["jit"][0], took["ours"][1] / took["jit"][1]))
    return median(one for one, _ in ratios), median(other for _, other in ratios)


def main() -> None:
    import jax

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each size")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", DEVICES)
    report = Report()
    for arrays in SIZES:
        dispatch, call = measured(arrays, options.seconds)
        report.add(f"call.{arrays}.dispatch", dispatch, BAR)
        report.add(f"call.{arrays}.call", call, BAR)
    report.exit()


if __name__ == "__main__":
    main()

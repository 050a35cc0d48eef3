"""Training steps as compiled programs, beside `jax.jit` of the same functions with the same shardings at the boundary.

Eight virtual CPU devices run GPT steps of 2 and 8 layers (`examples/gpt.py`, width 256, Adam, on data=2 × model=4) and
a step of a convolution net, its batch split over all devices. Parameters and optimizer state are donated, and what a
step returns is what the next one takes, as in training. Each side has a process of its own, so that neither finds the
memory that the other one freed; they take turns, one step each. A ratio is the median over all turns of our seconds by
those of `jax.jit` in the same turn, calls and all; beside it that of processor time, which other work disturbs less.

    python benchmarks/step.py                  all of it
    python benchmarks/step.py gpt2 conv        those steps
    python benchmarks/step.py --seconds 60     longer, for quieter figures
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from statistics import median
from typing import Any

from common import EXAMPLES, Report

BAR = 1.0
"""What a step of ours may take by one of `jax.jit`."""

DEVICES = 8
WARM, FEWEST = 2, 5
"""Turns before any is counted, and how many are counted at least."""

Tree = Any
Step = Callable[..., Any]
"""Of the state and the batch: the new state, and what else there is to tell."""


@dataclass(frozen=True, slots=True)
class Training:
    """A step to measure.

    Attributes:
        function: Of the state, a tree, and of the batch; it returns the new state and the loss.
        state: Arrays.
        batch: Arrays.
        shardings: Of both, and of what is returned: trees of `NamedSharding`s.
    """

    function: Step
    state: Tree
    batch: Tree
    shardings: tuple[Tree, Tree, Tree]


def ours(training: Training) -> Step:
    """The step that we compile."""
    import jax

    import shardwright as sw

    state, batch, results = training.shardings
    jitted = jax.jit(training.function, in_shardings=(state, batch), out_shardings=results, donate_argnums=0)
    with sw.Session(hardware=sw.hardware("cpu_8")):
        program = sw.from_jax(jitted, training.state, training.batch)
        return program.shard(_mesh_of(results)).partition().compile(trial=False)


def theirs(training: Training) -> Step:
    """The step that `jax.jit` compiles."""
    import jax

    state, batch, results = training.shardings
    return jax.jit(training.function, in_shardings=(state, batch), out_shardings=results, donate_argnums=0)


def _mesh_of(shardings: Tree) -> Any:
    import jax

    return jax.tree.leaves(shardings)[0].mesh


def gpt(layers: int) -> Training:
    """A training step of a GPT."""
    sys.path.insert(0, str(EXAMPLES))
    import gpt as model
    import jax
    from example import draw_inputs
    from jax.sharding import NamedSharding, PartitionSpec

    step = model.build(layers, batch=8, length=64, d_model=256, heads=8, d_ff=1024, vocabulary=1024)
    mesh = jax.make_mesh(tuple(step.mesh.values()), tuple(step.mesh), axis_types=_auto(len(step.mesh)))
    specs = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf.spec), step.inputs)
    values = draw_inputs(step)

    def function(state: Tree, batch: Tree) -> Any:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            new = step.fn(*state, *batch)
        return (new["params"], new["optimizer"]), new["loss"]

    return Training(
        function, values[:2], values[2:], (specs[:2], specs[2:], (specs[:2], NamedSharding(mesh, PartitionSpec())))
    )


def conv() -> Training:
    """A training step of a net of convolutions, with momentum."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=_auto(1))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    draw = np.random.default_rng(0)
    widths = (3, 32, 64, 64, 128)
    params = {
        f"kernel{n}": draw.normal(0, 1 / np.sqrt(9 * i), (3, 3, i, o)).astype(np.float32)
        for n, (i, o) in enumerate(pairwise(widths))
    }
    params |= {f"scale{n}": np.ones(width, np.float32) for n, width in enumerate(widths[1:])}
    params["head"] = draw.normal(0, 0.1, (widths[-1], 10)).astype(np.float32)
    batch = draw.normal(size=(64, 32, 32, 3)).astype(np.float32), draw.integers(0, 10, 64).astype(np.int32)

    def loss(params: Tree, images: Any, labels: Any) -> Any:
        x = images
        for n in range(len(widths) - 1):
            form = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, params[f"kernel{n}"], (1 + n % 2,) * 2, "SAME", dimension_numbers=form)
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-5) * params[f"scale{n}"])
        scores = jax.nn.log_softmax(x.mean((1, 2)) @ params["head"])
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def function(state: Tree, batch: Tree) -> Any:
        params, moments = state
        value, grads = jax.value_and_grad(loss)(params, *batch)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return (jax.tree.map(lambda p, m: p - 1e-2 * m, params, moments), moments), value

    state = params, jax.tree.map(np.zeros_like, params)
    of_state = jax.tree.map(lambda _: whole, state)
    return Training(function, state, batch, (of_state, (split, split), (of_state, whole)))


def _auto(axes: int) -> Any:
    from jax.sharding import AxisType

    return (AxisType.Auto,) * axes


STEPS: dict[str, Callable[[], Training]] = {"gpt2": partial(gpt, 2), "gpt8": partial(gpt, 8), "conv": conv}


class Side:
    """One side in a process of its own, warm and waiting, and what each of its turns took."""

    def __init__(self, name: str, compiled: Callable[[Training], Step]) -> None:
        """Start the process; it compiles while the other side starts."""
        context = get_context("spawn")
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self.loss = 0.0
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, name, compiled), daemon=True)
        self._process.start()
        other.close()

    def turn(self) -> None:
        """One step."""
        self._pipe.send(True)
        seconds, processor, self.loss = self._pipe.recv()
        self.seconds.append(seconds)
        self.processor.append(processor)

    def close(self) -> None:
        """End the process."""
        self._pipe.send(False)
        self._process.join()


def serve(pipe: Any, name: str, compiled: Callable[[Training], Step]) -> None:
    """The process of a side: a step whenever it is asked for one."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    training = STEPS[name]()
    step = compiled(training)
    in_state, in_batch, _ = training.shardings
    state, batch = jax.device_put(training.state, in_state), jax.device_put(training.batch, in_batch)
    while pipe.recv():
        start, busy = time.perf_counter(), time.process_time()
        state, loss = jax.block_until_ready(step(state, batch))
        pipe.send((time.perf_counter() - start, time.process_time() - busy, float(loss)))


def compare(report: Report, name: str, seconds: float) -> None:
    """One step beside `jax.jit`."""
    one, other = Side(name, ours), Side(name, theirs)
    for _ in range(WARM):
        one.turn()
        other.turn()
    for side in (one, other):
        side.seconds.clear()
        side.processor.clear()
    end, turns = time.perf_counter() + seconds, 0
    while turns < FEWEST or time.perf_counter() < end:
        for side in (one, other) if turns % 2 else (other, one):
            side.turn()
        turns += 1
    one.close()
    other.close()
    if not abs(one.loss - other.loss) <= 1e-2 * abs(other.loss):
        sys.exit(f"{name}: after the same steps the loss is {one.loss:g}, of jax.jit {other.loss:g}")
    report.add(f"step.{name}.turns", turns)
    report.add(f"step.{name}.ours_ms", median(one.seconds) * 1e3)
    report.add(f"step.{name}.jit_ms", median(other.seconds) * 1e3)
    report.add(f"step.{name}.processor_ratio", _ratio(one.processor, other.processor))
    report.add(f"step.{name}.ratio", _ratio(one.seconds, other.seconds), BAR)


def _ratio(mine: Sequence[float], others: Sequence[float]) -> float:
    return median([one / other for one, other in zip(mine, others, strict=True)])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(STEPS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long to measure each (default: 12)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in STEPS]:
        parser.error(f"there is no {', '.join(unknown)}: {', '.join(STEPS)}")
    report = Report()
    for name in options.names or STEPS:
        compare(report, name, options.seconds)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])

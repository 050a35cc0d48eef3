"""One GPU in place of eight: what a device of a mesh computes, beside the model and XLA's partitioner.

Per-device programs for eight devices, ours and that of XLA's partitioner of the same shardings, are made on virtual CPU
devices. Their collectives give way to what moves as much on the device itself (`tests/oracles/standins.py`), and both
run on the GPU. So this measures what is computed and held, not what is sent, and says nothing of numbers. Of each
program

    beside_xla    our seconds by those of XLA's partitioner's program; they take turns
    temporary     buffers that are neither arguments nor results, by those of that program
    predicted     what the roofline of the data sheet says of our kernels, by what was measured
    said          what we say that is set aside, by what XLA sets aside for our program

Besides, every example is compiled for the one GPU alone, and its results are compared with a CPU's. Without a GPU
nothing is measured, and the exit status is 1.

    python benchmarks/gpu.py                          all of it
    python benchmarks/gpu.py gpt llama.fsdp           those programs; `examples` for the examples alone
    python benchmarks/gpu.py --optimize all --effort lean    ours so
    python benchmarks/gpu.py --hardware here.toml     another data sheet (default: h200)
    python benchmarks/gpu.py --prepare DIR            only make the programs; with them there, --prepared DIR takes them
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from common import EXAMPLES, Answer, Report, in_child

sys.path.insert(0, str(EXAMPLES))

if TYPE_CHECKING:
    from example import Example

DEVICES = 8
BESIDE_XLA, TEMPORARY, SAID = 1.0, 1.1, (0.8, 1.3)
"""What our programs may take by those of XLA's partitioner; what we say may be by that which XLA sets aside."""
WARM, TURNS, IN_A_ROW = 2, 7, 5
AGREE = 1e-3
"""How far results of a GPU may be from those of a CPU, by the largest element, in f32 at the highest precision."""


def gpt(**sizes: Any) -> Example:
    """A training step of a GPT."""
    import gpt as model

    return model.build(**sizes)


def perceptron() -> Example:
    """Two products with a maximum between them."""
    import mlp as model

    return model.build()


def decoding(**sizes: Any) -> Example:
    """Decoding a token with a cache."""
    import decode as model

    return model.build(**sizes)


def conv(rows: bool) -> Example:
    """The gradient of a net of convolutions, its images split over the devices, or the rows of each."""
    import jax
    import jax.numpy as jnp
    from example import Example, Input
    from jax.sharding import PartitionSpec

    widths = (64, 128, 128, 256)
    split = PartitionSpec(None, "x") if rows else PartitionSpec("x")

    def loss(kernels: Any, images: Any) -> Any:
        x = images
        for number, kernel in enumerate(kernels):
            form = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, kernel, (1 + number % 2,) * 2, "SAME", dimension_numbers=form)
            x = jax.nn.relu(x - x.mean((0, 1, 2)))
        return jnp.square(x).mean()

    pairs = pairwise(widths)
    kernels = tuple(Input((3, 3, i, o), PartitionSpec(), f"normal {(9 * i) ** -0.5}") for i, o in pairs)
    images = Input((64, 256, 256, widths[0]), split, "normal 1.0")
    return Example(jax.value_and_grad(loss), (kernels, images), {"x": DEVICES})


PROGRAMS: dict[str, Callable[[], Example]] = {
    "gpt": partial(gpt, layers=2, length=2048, d_model=4096, heads=32, d_ff=16384, vocabulary=32768),
    "gpt_scan": partial(
        gpt, layers=8, scan=True, length=1024, d_model=2048, heads=16, d_ff=8192, vocabulary=32768, batch=16
    ),
    "decode": partial(decoding, layers=8, batch=64, length=4096, d_model=4096, heads=32, d_ff=16384, vocabulary=32768),
    "conv": partial(conv, rows=False),
    "conv_rows": partial(conv, rows=True),
}
ALONE: dict[str, Callable[[], Example]] = {
    "mlp": perceptron,
    "decode": decoding,
    "gpt2": gpt,
    "gpt8": partial(gpt, layers=8),
    "gpt32_scan": partial(gpt, layers=32, scan=True),
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program for one device of eight, in place of all.

    Attributes:
        ours: What we make of it, without collectives.
        theirs: The same of XLA's partitioner.
        arguments: Shapes on a device and types of elements.
        said: Bytes that we say are set aside on a device.
        predicted: Seconds of the kernels that XLA begins with, by the roofline.
    """

    ours: str
    theirs: str
    arguments: list[tuple[list[int], str]]
    said: int
    predicted: float


def prepared(name: str, hardware: str, effort: str, optimize: str) -> Answer:
    """In a child, on virtual CPU devices: both sides of a program."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    import jax

    jax.config.update("jax_platforms", "cpu")
    from example import lower

    import shardwright as sw
    from shardwright.cost.roofline import roofline_seconds
    from shardwright.ir.context import context, ir, load_module
    from shardwright.notation import modules
    from tests.models.large.all import LARGE
    from tests.oracles.hlo_work import kernels
    from tests.oracles.standins import alone

    if name not in PROGRAMS and name not in LARGE:
        raise ValueError(f"there is no {name}: examples, {', '.join((*PROGRAMS, *LARGE))}")
    there = sw.hardware(hardware)
    with sw.Session(hardware=there):
        if name in LARGE:
            plan = LARGE[name](False)
        else:
            plan = sw.load(lower(dataclasses.replace(PROGRAMS[name](), donate_argnums=()))).plan()
        spmd = plan.partition(effort=effort, optimize=optimize)
    local = spmd.module("local")
    entered, _ = _entered(local, True)
    _, theirs = _entered(modules.located_text(plan.annotated), False)
    predicted = sum(
        kernel.times
        * roofline_seconds(there, operations=kernel.operations, bytes_moved=kernel.moved, dtype=kernel.dtype)
        for kernel in kernels(entered)
    )
    types = list(spmd.source.graph.arguments.values())
    shapes = [one.local_shape(type.dims) for one, type in zip(spmd.in_shardings, types, strict=True)]
    arguments = [(list(shape), type.dtype) for shape, type in zip(shapes, types, strict=True)]
    ours = alone(load_module(local))
    with context():
        other = alone(ir.Module.parse(theirs))
    return asdict(Prepared(ours, other, arguments, spmd.memory.allocated, predicted))


def _entered(text: str, local: bool) -> tuple[str, bytes]:
    """The per-device program that XLA begins with, as HLO; where its partitioner made it, as StableHLO bytecode too."""
    from jax._src.lib import _jax

    from tests.oracles.xla import AFTER, compiled, compiling

    with tempfile.TemporaryDirectory() as name:
        client, options = compiling(DEVICES, Path(name), local=local)
        options.executable_build_options.debug_options.xla_dump_hlo_as_proto = not local
        compiled(text, client, options)
        hlo = sorted(Path(name).glob("*.before_optimizations.txt" if local else AFTER))[-1]
        if local:
            return hlo.read_text(), b""
        return hlo.read_text(), _jax.mlir.hlo_to_stablehlo(_first_field(hlo.with_suffix(".hlo.pb").read_bytes()))


def _first_field(message: bytes) -> bytes:
    """The `HloModuleProto` that an `HloProto` begins with: a byte that says so, its length in sevens of bits, it."""
    length = 0
    for at, byte in enumerate(message[1:]):
        length |= (byte & 127) << 7 * at
        if byte < 128:
            return message[2 + at : 2 + at + length]
    raise ValueError("no HloProto")


def timed(given: Answer) -> Answer:
    """In a child: both sides of a program on the GPU."""
    from shardwright.runtime.xla import compile_unsharded

    one = Prepared(**given)
    sides = [compile_unsharded(text) for text in (one.ours, one.theirs)]
    arguments = [_drawn(shape, dtype) for shape, dtype in one.arguments]
    turns = [_turns(executable, arguments) for executable in sides]
    seconds: list[list[float]] = [[], []]
    for turn in range(WARM + TURNS):
        for side in (0, 1) if turn % 2 else (1, 0):
            took = turns[side]()
            if turn >= WARM:
                seconds[side].append(took)
    return {"seconds": seconds, "memory": [_memory(executable) for executable in sides]}


def _turns(executable: Any, given: Sequence[Any]) -> Callable[[], float]:
    """What one run takes, of some in a row."""
    import jax

    def turn() -> float:
        start = time.perf_counter()
        for _ in range(IN_A_ROW):
            results = executable.call(given)
        jax.block_until_ready(results)
        return (time.perf_counter() - start) / IN_A_ROW

    return turn


def _drawn(shape: Sequence[int], dtype: str) -> Any:
    """An array of small positive numbers."""
    import jax
    import numpy as np

    from shardwright.runtime.arrays import numpy_dtype

    kind, key = numpy_dtype(dtype), jax.random.key(len(shape))
    if np.issubdtype(kind, np.integer):
        return jax.random.randint(key, shape, 0, 8, kind)
    return jax.random.uniform(key, shape, kind, 0.01, 0.03)


def _memory(executable: Any) -> tuple[int, int]:
    """Bytes of all buffers, and of those that are neither arguments nor results."""
    stats = executable.loaded.get_compiled_memory_stats()
    outside = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return outside + stats.temp_size_in_bytes, stats.temp_size_in_bytes


def compare(report: Report, name: str, options: argparse.Namespace) -> None:
    """The figures of a program."""
    if options.prepared is None:
        made = in_child(prepared, name, options.hardware, options.effort, options.optimize)
    else:
        made = json.loads((options.prepared / f"{name}.json").read_text())
    answer = made if "error" in made else in_child(timed, made)
    if "error" in answer:
        report.add(f"gpu.{name}.beside_xla", float("inf"), BESIDE_XLA)
        print(f"    {answer['error']}", flush=True)
        return
    ours, theirs = map(median, answer["seconds"])
    (held, temporary), (_, theirs_temporary) = answer["memory"]
    report.add(f"gpu.{name}.ours_ms", ours * 1e3)
    report.add(f"gpu.{name}.xla_ms", theirs * 1e3)
    report.add(f"gpu.{name}.beside_xla", round(ours / theirs, 3), BESIDE_XLA)
    report.add(f"gpu.{name}.temporary_mib", temporary / 2**20)
    report.add(f"gpu.{name}.temporary", round(temporary / max(1, theirs_temporary), 3), TEMPORARY)
    report.add(f"gpu.{name}.held_gib", held / 2**30)
    report.add(f"gpu.{name}.said", round(made["said"] / held, 3), SAID[1], SAID[0])
    report.add(f"gpu.{name}.predicted", made["predicted"] / ours)


def alone(name: str) -> Answer:
    """In a child: an example on the GPU alone, by way of the product; how far its results are from a CPU's."""
    import jax
    import numpy as np
    from example import draw_inputs

    import shardwright as sw

    jax.config.update("jax_default_matmul_precision", "highest")
    example = ALONE[name]()
    step = dataclasses.replace(example, mesh=dict.fromkeys(example.mesh, 1), donate_argnums=())
    values = draw_inputs(step)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape((1,) * len(step.mesh)), tuple(step.mesh))
    compiled = sw.from_jax(jax.jit(step.fn), *values).shard(mesh).partition().compile(trial=False)
    results = compiled(*values)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.jit(step.fn)(*values)
    far = jax.tree.map(_furthest, results, expected)
    platform = {device.platform for leaf in jax.tree.leaves(results) for device in leaf.devices()}
    return {"furthest": max(jax.tree.leaves(far)), "platform": sorted(platform)}


def _furthest(one: Any, other: Any) -> float:
    import numpy as np

    mine, theirs = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if not np.isfinite(mine).all():
        return float("inf")
    return float(np.abs(mine - theirs).max(initial=0.0) / max(np.abs(theirs).max(initial=0.0), 1e-12))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("examples", *PROGRAMS)
    listed = f"what to measure: {', '.join(names)} (default: these), or what `plans.py large` has"
    parser.add_argument("names", nargs="*", metavar="NAME", help=listed)
    parser.add_argument("--effort", default="fast", help="how hard we look (default: fast)")
    parser.add_argument("--optimize", default="off", help="what becomes of our collectives (default: off)")
    parser.add_argument("--hardware", default="h200", help="the data sheet to predict by (default: h200)")
    parser.add_argument("--prepare", metavar="DIR", type=Path, help="make the programs, measure nothing")
    parser.add_argument("--prepared", metavar="DIR", type=Path, help="take the programs that are there")
    options = parser.parse_args(arguments)
    if options.prepare:
        options.prepare.mkdir(parents=True, exist_ok=True)
        for name in options.names or PROGRAMS:
            made = in_child(prepared, name, options.hardware, options.effort, options.optimize)
            if "error" in made:
                sys.exit(f"{name}: {made['error']}")
            (options.prepare / f"{name}.json").write_text(json.dumps(made))
        return
    found = in_child(_platform)
    if found.get("platform") != "gpu":
        sys.exit(f"no GPU here, nothing was measured: {found.get('error') or 'jax has ' + found['device']}")
    print(f"# {found['device']}, jax {found['jax']}", flush=True)
    report = Report()
    for name in options.names or names:
        if name != "examples":
            compare(report, name, options)
            continue
        for example in ALONE:
            answer = in_child(alone, example)
            report.add(f"gpu.examples.{example}.furthest", answer.get("furthest", float("inf")), AGREE)
            print(f"    {answer.get('error') or 'on ' + ', '.join(answer['platform'])}", flush=True)
    report.exit()


def _platform() -> Answer:
    import jax

    device = jax.devices()[0]
    return {"platform": device.platform, "device": device.device_kind, "jax": jax.__version__}


if __name__ == "__main__":
    main(sys.argv[1:])

"""Training steps of the small GPT of `gpt.py`, in one process or in as many as `jax.distributed` joins.

    shardwright launch examples/distributed.py --processes 4
    python examples/distributed.py --coordinator HOST:PORT --processes 2 --process 0

Every process runs this same file. It plans and compiles the same step, and makes arrays of its own shards only: each is
read, or here drawn, where it is needed. docs/distributed.md tells how to start it on several machines.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from example import Example, draw_inputs
from gpt import build
from jax.sharding import NamedSharding

import shardwright as sw

CLUSTER = ("SLURM_STEP_NODELIST", "KUBERNETES_SERVICE_HOST", "OMPI_MCA_orte_hnp_uri")
"""Variables of the environment from which JAX finds the other processes; see docs/distributed.md."""


def join(options: argparse.Namespace) -> None:
    """Join the other processes, unless whoever started this one has done so, or there are none."""
    if jax.distributed.is_initialized():
        return
    if options.coordinator is not None:
        jax.distributed.initialize(options.coordinator, options.processes, options.process)
    elif any(name in os.environ for name in CLUSTER):
        jax.distributed.initialize()


def small() -> Example:
    """A GPT of one layer, small enough to be tried out on virtual devices."""
    return build(1, batch=4, length=8, d_model=16, heads=4, d_ff=32, vocabulary=32)


def compiled_step(example: Example) -> Any:
    """The step, planned on all devices and compiled for those of this process."""
    mesh = jax.make_mesh(tuple(example.mesh.values()), tuple(example.mesh))
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), example.in_shardings)
    step = jax.jit(example.fn, in_shardings=shardings, donate_argnums=example.donate_argnums)
    plan = sw.from_jax(step, *example.args).plan()
    return plan, plan.partition().compile(trial=False)


def from_own_shards(arrays: Any, shardings: Any) -> Any:
    """Arrays over all devices, of which this process gives its own shards."""

    def one(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(array.shape, sharding, lambda shard: array[shard])

    return jax.tree.map(one, arrays, shardings)


def main() -> None:
    """Run some steps and print the loss of each, in the first process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3, help="how many steps (default: 3)")
    parser.add_argument("--checkpoint", type=Path, help="folder to go on from, if it is there, and to write at the end")
    parser.add_argument("--results", type=Path, help="file for the parameters, gathered (.npz)")
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="address of process 0, where nothing else tells it")
    parser.add_argument("--processes", type=int, help="how many processes there are then")
    parser.add_argument("--process", type=int, help="which of them this is")
    options = parser.parse_args()
    join(options)
    example = small()
    plan, step = compiled_step(example)
    params, optimizer, *batch = from_own_shards(draw_inputs(example), plan.in_shardings)
    first = 0
    if options.checkpoint is not None and options.checkpoint.exists():
        lies = {"params": plan.in_shardings[0], "optimizer": plan.in_shardings[1]}
        state = sw.load_arrays(options.checkpoint, {**lies, "steps": jax.ShapeDtypeStruct((), np.int64)})
        params, optimizer, first = state["params"], state["optimizer"], int(state["steps"])
    for number in range(first, first + options.steps):
        result = step(params, optimizer, *batch)
        params, optimizer = result["params"], result["optimizer"]
        if jax.process_index() == 0:
            print(f"step {number}: loss {float(result['loss']):.6f}")
    if options.checkpoint is not None:
        steps = np.int64(first + options.steps)
        sw.save_arrays(options.checkpoint, {"params": params, "optimizer": optimizer, "steps": steps})
    whole = sw.gather(params)
    if options.results is not None and jax.process_index() == 0:
        np.savez(options.results, *jax.tree.leaves(whole))


if __name__ == "__main__":
    main()

"""Runs the examples twice, unsharded and split by XLA over 8 virtual CPU devices, and compares.

A sanity check of the examples themselves: results must be finite and agree within float32 rounding.
"""

import argparse
import os
from collections.abc import Callable

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import decode
import gpt
import jax
import mlp
import numpy as np
from example import Example, draw_inputs
from jax.sharding import AxisType, NamedSharding

TOLERANCE = 1e-4  # of the largest magnitude in each result

EXAMPLES: dict[str, Callable[[], Example]] = {
    "mlp": mlp.build,
    "gpt2": gpt.build,
    "gpt2_scan": lambda: gpt.build(scan=True),
    "gpt8": lambda: gpt.build(8),
    "gpt32_scan": lambda: gpt.build(32, scan=True),
    "decode": decode.build,
}


def largest_error(example: Example) -> float:
    """The largest difference over all results, each relative to its largest magnitude.

    Raises:
        ValueError: a result is not finite.
    """
    inputs = draw_inputs(example)
    expected = jax.jit(example.fn)(*inputs)
    names = tuple(example.mesh)
    mesh = jax.make_mesh(tuple(example.mesh.values()), names, axis_types=(AxisType.Auto,) * len(names))
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf.spec), example.inputs)
    with jax.set_mesh(mesh):
        actual = jax.jit(example.fn, in_shardings=shardings)(*inputs)
    return max(map(_relative_error, jax.tree.leaves(expected), jax.tree.leaves(actual)))


def main() -> None:
    """Checks the examples named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXAMPLES)} (default: all)")
    names = parser.parse_args().names or list(EXAMPLES)
    if unknown := sorted(set(names) - set(EXAMPLES)):
        parser.error(f"no such example: {', '.join(unknown)}")
    failed = False
    for name in names:
        error = largest_error(EXAMPLES[name]())
        failed |= error > TOLERANCE
        print(f"{name}: largest relative difference {error:.1e}")
    raise SystemExit(failed)


def _relative_error(expected: jax.Array, actual: jax.Array) -> float:
    wanted, got = np.asarray(expected), np.asarray(actual)
    if not (np.isfinite(wanted).all() and np.isfinite(got).all()):
        raise ValueError("a result is not finite")
    return float(np.max(np.abs(wanted - got)) / max(np.max(np.abs(wanted)), 1e-30))


if __name__ == "__main__":
    main()

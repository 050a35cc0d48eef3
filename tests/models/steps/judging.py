"""Whether a broken program's outputs differ beyond noise, decided without the tolerance of `verify`.

The truth is the program in float64. A broken output is wrong where it is much further from the truth, in norm, than
the program for one device and the sound sharded program are; where integers differ in more places; or where copies of
one value differ by so much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwright.runtime.arrays import Array
from shardwright.runtime.jobs import Execution
from shardwright.runtime.reference import Reference

__all__ = ["CLEARLY", "wrong_outputs"]

CLEARLY = 30.0
"""An output is wrong that is so many times as far from the truth as sound ones are."""


def wrong_outputs(reference: Reference, sound: Execution, broken: Execution) -> list[int]:
    """The numbers of the outputs that are wrong beyond noise."""
    truth = reference.exact or reference.outputs
    wrong = []
    copies = dict(broken.copies)
    for number, expected in enumerate(reference.outputs):
        own = [expected, sound.outputs[number], *(run[number] for run in reference.perturbed)]
        actual = [broken.outputs[number], *([copies[number]] if number in copies else [])]
        if any(_is_wrong(truth[number], expected, own, one) for one in actual):
            wrong.append(number)
    return wrong


def _is_wrong(truth: Array, expected: Array, sound: Sequence[Array], broken: Array) -> bool:
    if expected.dtype.kind in "biu":
        differing = max(int(np.count_nonzero(one != expected)) for one in sound)
        return int(np.count_nonzero(broken != expected)) > 3 * differing
    usable = np.isfinite(truth) & np.isfinite(_wide(expected))
    if not np.array_equal(np.isfinite(_wide(broken)), np.isfinite(_wide(expected))):
        return True
    scale = float(np.linalg.norm(truth[usable]))
    unit = 1e-2 if expected.dtype.itemsize == 2 else 1e-6
    distances = [float(np.linalg.norm(_wide(one)[usable] - truth[usable])) for one in sound]
    distance = float(np.linalg.norm(_wide(broken)[usable] - truth[usable]))
    return distance > CLEARLY * max(*distances, unit * scale)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)

"""Whether a per-device program computes what the program for one device computes.

Floating-point outputs are compared in norm, which says whether the whole is right, and element by element, which finds
the one wrong number in a large tensor. Integers and booleans must be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import Array
from shardwright.runtime.execute import DEFAULT_TIMEOUT, Job, run_jobs
from shardwright.runtime.shards import ReplicaDifference
from shardwright.sharding import TensorSharding

__all__ = ["TOLERANCES", "OutputDifference", "Verification", "compare", "verify"]

TOLERANCES = {
    "float64": 1e-12,
    "float32": 2e-6,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex64": 2e-6,
    "complex128": 1e-12,
    "float8_e4m3": 2e-1,
    "float8_e4m3fn": 2e-1,
    "float8_e4m3fnuz": 2e-1,
    "float8_e4m3b11fnuz": 2e-1,
    "float8_e3m4": 1e-1,
    "float8_e5m2": 3e-1,
    "float8_e5m2fnuz": 3e-1,
}
"""Largest norm of a difference relative to the norm of the reference, by numpy type; all other types are exact.

About 16 roundings of each type: splitting a sum changes its order, and half-precision sums round at every step.
"""

ELEMENT_FACTOR = 50.0
"""An element may differ by this many times the tolerance, relative to itself or to the root mean square."""


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """How one output differs from the reference.

    Attributes:
        name: Name of the output.
        norm: Norm of the difference relative to the norm of the reference (0 for equal integers, infinite otherwise).
        element: Largest difference of an element, relative to the larger of its reference and the root mean square.
        tolerance: What `norm` may be; `element` may be 50 times that.
        problem: What is wrong, or empty.
    """

    name: str
    norm: float
    element: float
    tolerance: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the output is right."""
        return not self.problem

    @property
    def group(self) -> str:
        """The name up to its first word, `result` and numbers aside: `result/1/params/w1` → `result/1/params`."""
        parts = self.name.split("/")
        for depth, part in enumerate(parts, 1):
            if part != "result" and not part.isdigit():
                return "/".join(parts[:depth])
        return self.name


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a per-device program with the program for one device.

    Attributes:
        outputs: One difference an output.
        replicas: Devices that should hold the same part of an output and differ by more than its tolerance.
        unsharded_seconds: Time to run the reference, compilation left out.
        local_seconds: Time to run the per-device program.
    """

    outputs: tuple[OutputDifference, ...]
    replicas: tuple[ReplicaDifference, ...] = ()
    unsharded_seconds: float = 0.0
    local_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether all outputs are right and all copies agree."""
        return all(output.ok for output in self.outputs) and not self.replicas

    @property
    def worst(self) -> dict[str, OutputDifference]:
        """The worst output of every group, a wrong one before a right one."""
        worst: dict[str, OutputDifference] = {}
        for output in self.outputs:
            known = worst.get(output.group)
            if known is None or _badness(output) > _badness(known):
                worst[output.group] = output
        return worst

    def require(self) -> None:
        """Check that everything is right.

        Raises:
            ShardingError: naming the outputs that are not.
        """
        if self.ok:
            return
        wrong = [f"{output.name}: {output.problem}" for output in self.outputs if not output.ok]
        wrong += [
            f"{self.outputs[one.output].name}: the copies at positions {one.reference} and {one.position} of the mesh "
            f"differ by {one.difference:.2g}"
            for one in self.replicas
        ]
        raise ShardingError(
            f"the per-device program differs from the program for one device in {len(wrong)} places",
            cause="\n".join(wrong[:20]),
        )


def _badness(output: OutputDifference) -> tuple[bool, float]:
    scale = output.tolerance or 1.0
    return (not output.ok, max(output.norm / scale, output.element / (ELEMENT_FACTOR * scale)))


def compare(reference: Sequence[Array], actual: Sequence[Array], names: Sequence[str]) -> list[OutputDifference]:
    """How each output differs from its reference. A reference that is not finite is a problem, never a pass."""
    return [_compare(*pair) for pair in zip(reference, actual, names, strict=True)]


def _compare(reference: Array, actual: Array, name: str) -> OutputDifference:
    tolerance = TOLERANCES.get(reference.dtype.name, 0.0)
    infinite = float("inf")
    if reference.shape != actual.shape or reference.dtype != actual.dtype:
        said = f"{actual.dtype}{list(actual.shape)} instead of {reference.dtype}{list(reference.shape)}"
        return OutputDifference(name, infinite, infinite, tolerance, said)
    if tolerance == 0.0:
        wrong = int(np.count_nonzero(reference != actual))
        said = f"{wrong} of {reference.size} elements differ" if wrong else ""
        return OutputDifference(name, *((infinite, infinite) if wrong else (0.0, 0.0)), tolerance, said)
    wide = np.complex128 if reference.dtype.kind == "c" else np.float64
    expected, found = reference.astype(wide), actual.astype(wide)
    if not np.isfinite(expected).all():
        said = "the reference is not finite, so nothing can be said: give other inputs"
        return OutputDifference(name, infinite, infinite, tolerance, said)
    if not np.isfinite(found).all():
        return OutputDifference(name, infinite, infinite, tolerance, "it is not finite, the reference is")
    norm, element = _distances(expected, found)
    said = ""
    if norm > tolerance:
        said = f"differs by {norm:.2g} in norm, more than {tolerance:g}"
    elif element > ELEMENT_FACTOR * tolerance:
        said = f"an element differs by {element:.2g}, more than {ELEMENT_FACTOR * tolerance:g}"
    return OutputDifference(name, norm, element, tolerance, said)


def _distances(expected: Array, found: Array) -> tuple[float, float]:
    """In norm and by element; absolute where the reference is all zeros."""
    if expected.size == 0:
        return 0.0, 0.0
    difference = np.abs(found - expected)
    scale = float(np.sqrt(np.mean(np.abs(expected) ** 2))) or 1.0
    norm = float(np.sqrt(np.mean(difference**2))) / scale
    return norm, float(np.max(difference / np.maximum(np.abs(expected), scale)))


def verify(
    unsharded: str,
    local: str,
    mesh: Mesh,
    in_shardings: Sequence[TensorSharding],
    out_shardings: Sequence[TensorSharding],
    inputs: Sequence[Array],
    out_types: Sequence[TensorType],
    names: Sequence[str],
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> Verification:
    """Run both programs on the same inputs, in one subprocess, and compare.

    Arguments:
        unsharded: The program for one device, MLIR text.
        local: The per-device program, MLIR text.
        mesh: The mesh it runs on.
        in_shardings: How its arguments lie.
        out_shardings: How its results lie.
        inputs: Global arrays.
        out_types: Global types of the results.
        names: Names of the results.
        timeout: Seconds for both together.

    Raises:
        ShardingError: one of them cannot be run. That outputs differ is not raised: see `Verification.require`.
    """
    jobs = [
        Job(unsharded, tuple(inputs)),
        Job(local, tuple(inputs), mesh, tuple(in_shardings), tuple(out_shardings), tuple(out_types)),
    ]
    reference, execution = run_jobs(jobs, timeout=timeout)
    outputs = tuple(compare(reference.outputs, execution.outputs, names))
    replicas = tuple(one for one in execution.differences if one.difference > outputs[one.output].tolerance)
    return Verification(outputs, replicas, reference.run_seconds, execution.run_seconds)

"""Comparing outputs with their reference, each element held against what rounding does to it.

`Noise` is what is known of an output beside its reference: the same program computed more exactly, and computed again
with its roundings moved. An element may differ by a few times the most that it moved itself, or that its tensor moves
typically, in absolute or in relative terms, or by a few units in the last place. So an element whose own noise is large
(the sign of a gradient that is zero) may differ by a lot, and its neighbours may not.

Integers and booleans are held against the same: one that never moved must be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from shardwright.errors import ShardingError
from shardwright.runtime.arrays import Array

__all__ = ["FACTOR", "Noise", "OutputDifference", "TOLERANCES", "Tolerance", "compare", "compare_output"]

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
"""Where no noise was measured: largest norm of a difference relative to the norm of the reference, by numpy type.

About 16 roundings of each type: splitting a sum changes its order, and half-precision sums round at every step. All
other types are exact.
"""

ELEMENT_FACTOR = 50.0
"""Where no noise was measured, an element may differ by this many times the tolerance of its type."""

FACTOR = 10.0
"""An element may differ by this many times what it, or its tensor, was seen to move."""

_UNITS = 4.0
"""What counts as movement even where none was seen: so many units in the last place."""

_DRIFT = 1024.0
"""How many units in the last place sums may drift apart where both programs agree in a wider type."""

_SHARE = 3.0
"""More elements than this many times those of a perturbed run must not move further than all other runs say."""


@dataclass(frozen=True, eq=False)
class Noise:
    """What rounding does to one output.

    Attributes:
        exact: The output computed in a wider type, or `None` where it cannot be.
        samples: The output of runs with their roundings moved.
        own: The output of the program under test computed in a wider type, or `None` where it was not.
    """

    exact: Array | None
    samples: tuple[Array, ...]
    own: Array | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A tolerance given by the user, in numpy's sense: `|actual - reference| <= atol + rtol * |reference|`."""

    rtol: float = 0.0
    atol: float = 0.0

    @classmethod
    def given(cls, rtol: float | None, atol: float | None) -> Tolerance | None:
        """From what the user gave; `None` where it was nothing.

        Raises:
            ShardingError: a number that is negative or not finite.
        """
        for name, number in (("rtol", rtol), ("atol", atol)):
            if number is not None and not 0 <= number < float("inf"):
                raise ShardingError(f"{name} = {number} is no tolerance", remedy="give a number from 0 up")
        return None if rtol is None and atol is None else cls(float(rtol or 0), float(atol or 0))


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """How one output differs from the reference.

    Attributes:
        name: Name of the output.
        norm: Norm of the difference relative to the norm of the reference (0 for equal integers, infinite otherwise).
        element: Difference of the element that is nearest to its limit, or furthest beyond it.
        allowed: What that element may differ by.
        fraction: `element` as a part of `allowed`; of at most 1 where the output is right.
        problem: What is wrong, or empty.
    """

    name: str
    norm: float
    element: float
    allowed: float
    fraction: float
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


def compare(reference: Sequence[Array], actual: Sequence[Array], names: Sequence[str]) -> list[OutputDifference]:
    """How each output differs from its reference, held against a tolerance by type."""
    return [compare_output(*pair) for pair in zip(reference, actual, names, strict=True)]


def compare_output(
    reference: Array, actual: Array, name: str, noise: Noise | None = None, tolerance: Tolerance | None = None
) -> OutputDifference:
    """How an output differs from its reference.

    Arguments:
        reference: The output of the program for one device.
        actual: That of the program under test.
        name: What the output is called.
        noise: What rounding does to it; without, the tolerance is that of its type.
        tolerance: A tolerance given by the user, taken instead.
    """
    infinite = float("inf")
    if reference.shape != actual.shape or reference.dtype != actual.dtype:
        problem = f"{actual.dtype}{list(actual.shape)} instead of {reference.dtype}{list(reference.shape)}"
        return OutputDifference(name, infinite, infinite, 0.0, infinite, problem)
    if reference.size == 0:
        return OutputDifference(name, 0.0, 0.0, 0.0, 0.0)
    expected, got = _comparable(reference), _comparable(actual)
    difference = _distance(expected, got)
    if tolerance is not None:
        scale = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        limit = _exact_limit(expected) if _is_exact(reference) else tolerance.atol + tolerance.rtol * scale
        return _judged(name, reference, expected, difference, limit)
    if noise is None:
        return _by_type(name, reference, expected, difference)
    return _by_noise(name, reference, expected, difference, noise)


def _is_exact(array: Array) -> bool:
    return array.dtype.name not in TOLERANCES


def _comparable(array: Array) -> Array:
    """The array in a type in which differences are exact enough."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return array.astype(np.float64)


def _distance(left: Array, right: Array) -> Array:
    """Element by element; 0 for the same infinity and for two NaNs, infinite where only one is finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(left - right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance)).astype(np.float64)


def _rms(values: Array) -> float:
    """Root of the mean square of the finite values, scaled so that squares do not overflow."""
    size = np.abs(values[np.isfinite(values)])
    largest = float(size.max(initial=0.0))
    return largest * float(np.sqrt(np.mean((size / largest) ** 2))) if largest else 0.0


def _exact_limit(expected: Array) -> Array:
    return np.zeros(expected.shape)


def _by_type(name: str, reference: Array, expected: Array, difference: Array) -> OutputDifference:
    tolerance = TOLERANCES.get(reference.dtype.name, 0.0)
    scale = _rms(expected) or 1.0
    sizes = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    judged = _judged(
        name,
        reference,
        expected,
        difference,
        ELEMENT_FACTOR * tolerance * np.maximum(sizes, scale) if tolerance else 0.0,
    )
    if judged.problem or judged.norm <= tolerance:
        return judged
    problem = f"differs by {judged.norm:.2g} in norm, more than {tolerance:g}"
    return OutputDifference(name, judged.norm, judged.element, judged.allowed, judged.fraction, problem)


def _judged(
    name: str, reference: Array, expected: Array, difference: Array, limit: Any, excused: Array | None = None
) -> OutputDifference:
    """The verdict on an output whose elements may differ by `limit`."""
    limit = np.broadcast_to(limit, difference.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction = np.where(difference == 0, 0.0, difference / limit)
    fraction = np.where(np.isinf(limit), 0.0, fraction)
    if excused is not None:
        fraction = np.where(excused, np.minimum(fraction, 1.0), fraction)
    worst = int(np.argmax(fraction))
    norm = 0.0
    if difference.any():
        norm = float("inf") if _is_exact(reference) else _rms_of(difference) / (_rms(expected) or 1.0)
    beyond = int(np.count_nonzero(fraction > 1))
    numbers = (norm, float(difference.flat[worst]), float(limit.flat[worst]), float(fraction.flat[worst]))
    return OutputDifference(name, *numbers, _problem(reference, expected, difference, fraction, beyond, numbers))


def _rms_of(difference: Array) -> float:
    return float("inf") if np.isinf(difference).any() else _rms(difference)


def _problem(
    reference: Array,
    expected: Array,
    difference: Array,
    fraction: Array,
    beyond: int,
    numbers: tuple[float, float, float, float],
) -> str:
    if not beyond:
        return ""
    if _is_exact(reference):
        return f"{beyond} of {reference.size} elements differ"
    infinite = np.isinf(difference) & (fraction > 1)
    if infinite.any():
        where = int(np.argmax(infinite))
        which = ("it", "the reference") if np.isfinite(expected.flat[where]) else ("the reference", "it")
        verdict = f"at {_place(reference, where)} {which[0]} is not finite, {which[1]} is or is another"
    else:
        where = int(np.argmax(fraction))
        verdict = f"at {_place(reference, where)} an element by {numbers[1]:.2g}, allowed {numbers[2]:.2g}"
    return f"{beyond} of {reference.size} elements differ too far: {verdict}"


def _place(array: Array, flat: int) -> str:
    return str([int(index) for index in np.unravel_index(flat, array.shape)])


def _by_noise(name: str, reference: Array, expected: Array, difference: Array, noise: Noise) -> OutputDifference:
    moves = [_distance(expected, _comparable(sample)) for sample in noise.samples]
    if noise.exact is not None:
        error = _distance(expected, _comparable(noise.exact))
        moves.append(np.where(np.isfinite(error), error, 0.0))  # a wider type overflows later
    limit = _limit(reference, expected, np.maximum.reduce(moves))
    if noise.exact is not None and noise.own is not None:
        agree = _distance(_comparable(noise.exact), _comparable(noise.own)) <= limit
        limit = np.where(agree, np.maximum(limit, _drift(reference, expected, difference)), limit)
    excused = _excused(reference, expected, difference, limit, moves)
    return _judged(name, reference, expected, difference, limit, excused)


def _drift(reference: Array, expected: Array, difference: Array) -> Array:
    """What of a difference rounding may be, between two programs that agree when they are computed in a wider type.

    One may round more than the other, and always to the same side: where many equal numbers are summed, parts of the
    sum drift otherwise than the whole, and no moved rounding shows it.
    """
    if _is_exact(reference):
        return np.zeros(expected.shape)
    sizes = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    most = _DRIFT * _unit(reference.dtype) * np.maximum(sizes, _rms(sizes))
    return np.where(difference <= most, difference, 0.0)


def _limit(reference: Array, expected: Array, moved: Array) -> Array:
    """What each element may differ by, of which it is known that it moves by `moved`."""
    if _is_exact(reference):
        return np.where(moved > 0, np.inf, 0.0)
    unit = _unit(reference.dtype)
    sizes = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    floor = _UNITS * unit * np.maximum(sizes, _rms(sizes) / 4)
    finite = np.where(np.isfinite(moved), moved, 0.0)
    nonzero = sizes > 0
    typical = float(np.median(finite))
    relative = float(np.median(finite[nonzero] / sizes[nonzero])) if nonzero.any() else 0.0
    seen = np.maximum(moved, np.maximum(typical, relative * sizes))
    return FACTOR * seen + floor


def _unit(dtype: np.dtype[Any]) -> float:
    """One unit in the last place of 1."""
    name = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    info: Any = ml_dtypes.finfo  # carries no annotations
    return float(info(np.dtype(getattr(ml_dtypes, name, name))).eps)


def _excused(
    reference: Array, expected: Array, difference: Array, limit: Array, moves: Sequence[Array]
) -> Array | None:
    """Elements beyond their limit that are no evidence: as many of each perturbed run are beyond what the others say.

    Where comparisons decide (ranks, masks, signs of noise), each run turns some elements that no other has turned. So
    may the program under test: about as many, and about as far.
    """
    beyond = difference > limit
    count = int(np.count_nonzero(beyond))
    if not count or len(moves) < 3:
        return None
    counts, reach = [], 0.0
    for number, move in enumerate(moves):
        others = np.maximum.reduce([other for index, other in enumerate(moves) if index != number])
        alone = move > _limit(reference, expected, others)
        counts.append(int(np.count_nonzero(alone)))
        reach = max(reach, float(move[alone].max(initial=0.0)))
    if not counts or count > _SHARE * max(counts):
        return None
    if not _is_exact(reference) and float(difference[beyond].max()) > _SHARE * reach:
        return None
    return beyond

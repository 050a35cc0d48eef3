"""The start and the speed of a link, from collectives of several sizes that were timed.

What one takes is modelled as `start + sent / speed`, `sent` what a device sends on a ring. Both numbers are those for
which the squares of the *relative* errors add up to the least: times span orders of magnitude, and each counts alike.

    >>> times = [Timed(sent_bytes=sent, seconds=2e-6 + sent / 1e9) for sent in (0, 1e3, 1e6)]
    >>> link = fit_link(times)
    >>> f"{link.start_seconds:.1e} {link.bytes_per_second:.1e} {link.error:.0%}"
    '2.0e-06 1.0e+09 0%'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median

from shardwright.errors import ShardingError

__all__ = ["FittedLink", "Timed", "fit_link"]


@dataclass(frozen=True, slots=True)
class Timed:
    """A collective that was timed: the bytes that each device sends on a ring, and the seconds that it took."""

    sent_bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FittedLink:
    """What was fitted, and the median of the relative errors."""

    start_seconds: float
    bytes_per_second: float
    error: float


def fit_link(times: Sequence[Timed]) -> FittedLink:
    """The start and the speed that tell what collectives took.

    Raises:
        ShardingError: too few sizes to tell them apart, or times that do not grow with what is sent.
    """
    # With u = 1 / seconds and v = sent / seconds: the least sum of (start · u + v / speed − 1)².
    rows = [(1 / one.seconds, one.sent_bytes / one.seconds) for one in times if one.seconds > 0]
    uu, uv, vv = fsum(u * u for u, _ in rows), fsum(u * v for u, v in rows), fsum(v * v for _, v in rows)
    us, vs = fsum(u for u, _ in rows), fsum(v for _, v in rows)
    determinant = uu * vv - uv * uv
    if len({one.sent_bytes for one in times}) < 2 or determinant <= 1e-12 * uu * vv:
        raise ShardingError(
            "the start and the speed of the link cannot be told apart",
            cause=f"collectives of {len({one.sent_bytes for one in times})} sizes were timed",
            remedy="time collectives of small and of large tensors",
        )
    start, per_byte = (us * vv - vs * uv) / determinant, (vs * uu - us * uv) / determinant
    if start <= 0 or per_byte <= 0:
        raise ShardingError(
            f"no link is like this: it would start in {start:.2g} s and send a byte in {per_byte:.2g} s",
            cause="what small collectives took, or large ones, does not fit the others",
            remedy="time collectives of more sizes, on devices that do nothing else",
        )
    error = median(abs((start + one.sent_bytes * per_byte) / one.seconds - 1) for one in times if one.seconds > 0)
    return FittedLink(start, 1 / per_byte, error)

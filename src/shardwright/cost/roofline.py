"""What computing takes by the roofline: as long as its operations or its memory traffic, whichever is longer.

    seconds = max(operations / peak of the type, bytes / bytes per second of the memory)

A data sheet says the peak of bf16, and of other types where they are known. Of one that it does not say:

    f8, i8    bf16: what knows no narrower type widens it
    f32       half of bf16, as of each doubling of the bits
    tf32      f32: what knows no such type computes in f32
    f64       half of f32

f16 goes with bf16, floats of eight bits and less with `f8`, integers and booleans of eight bits and less with `i8`,
wider integers with the floats of as many bits, complex numbers with their parts. `tf32` is no type of elements: XLA
multiplies f32 so at its default precision, `f32` is what the highest takes.

Source: Williams et al., "Roofline: An Insightful Visual Performance Model".

    >>> from shardwright.cost.hardware import hardware
    >>> h100 = hardware("h100")
    >>> round(roofline_seconds(h100, operations=9.9e14, bytes_moved=3.35e11, dtype="bf16"), 3)
    1.0
    >>> round(roofline_seconds(h100, operations=9.9e12, bytes_moved=3.35e11, dtype="bf16"), 3)
    0.1
"""

from __future__ import annotations

import math
import re

from shardwright.cost.hardware import Hardware

__all__ = ["adds_waited", "operations_per_second", "roofline_seconds"]

_NARROW = re.compile(r"f[468]")
_INTEGER = re.compile(r"(?:i|s|u|ui|si)(\d+)")
_COMPLEX = {"c64": "f32", "c128": "f64", "complex<f32>": "f32", "complex<f64>": "f64"}


def roofline_seconds(
    hardware: Hardware, *, operations: float = 0.0, bytes_moved: float = 0.0, dtype: str = "bf16"
) -> float:
    """The seconds that a device computes.

    Arguments:
        hardware: What it is. Where the sheet tells nothing of its memory, traffic takes no time.
        operations: Additions and multiplications of numbers, each counted as one.
        bytes_moved: What is read from memory and written to it.
        dtype: The type of the elements, as MLIR or HLO writes it, or `tf32`.
    """
    speed = hardware.memory_bytes_per_second
    traffic = bytes_moved / speed if speed is not None else 0.0
    return max(operations / operations_per_second(hardware, dtype), traffic)


def adds_waited(hardware: Hardware, multiply_adds: float, bytes_moved: float, dtype: str) -> float:
    """As many multiply-adds of bf16 as take the time that so many of a product take beyond theirs: those of slower
    elements, or what memory has not moved yet when they are done. None for elements that are faster.

    >>> from shardwright.cost.hardware import hardware
    >>> h100 = hardware("h100")
    >>> [round(adds_waited(h100, 1e9, 0.0, dtype) / 1e9, 1) for dtype in ("f64", "tf32", "bf16", "f8")]
    [13.8, 1.0, 0.0, 0.0]
    >>> h100.seconds(multiply_adds=1e9, adds_waited=adds_waited(h100, 1e9, 3.35e9, "bf16"))
    0.001
    """
    peak, speed = hardware.multiply_adds_per_second, hardware.memory_bytes_per_second
    if math.isinf(peak):
        return 0.0
    of_elements = multiply_adds * (2 * peak / operations_per_second(hardware, dtype))
    of_memory = bytes_moved / speed * peak if speed is not None else 0.0
    return max(0.0, of_elements - multiply_adds, of_memory - multiply_adds)


def operations_per_second(hardware: Hardware, dtype: str) -> float:
    """The peak of a type of elements, as MLIR or HLO writes it, or of `tf32`; by the rules above if none is said."""
    peaks, bf16 = dict(hardware.peaks), 2 * hardware.multiply_adds_per_second
    name = _peak_name(dtype)
    if name in peaks:
        return peaks[name]
    f32 = peaks.get("f32", bf16 / 2)
    return {"f32": f32, "tf32": f32, "f64": f32 / 2}.get(name, bf16)


def _peak_name(dtype: str) -> str:
    """The peak that elements of a type go by."""
    dtype = _COMPLEX.get(dtype, dtype)
    if dtype in ("bf16", "f16"):
        return "bf16"
    if dtype in ("pred", "i1"):
        return "i8"
    if _NARROW.match(dtype) and dtype != "f64":
        return "f8"
    if integer := _INTEGER.fullmatch(dtype):
        bits = int(integer[1])
        return "i8" if bits <= 8 else "bf16" if bits == 16 else "f32" if bits == 32 else "f64"
    return dtype

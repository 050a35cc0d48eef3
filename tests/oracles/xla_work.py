"""What XLA's cost analysis makes of a program compiled for CPUs that is no work of the program, and what it leaves out."""

from __future__ import annotations

import math
import re

__all__ = ["miscounted"]

_FFT = re.compile(r"= c64\[([\d,]+)\]\S* fft\(.*fft_type=I?FFT, fft_length=\{([\d,]+)\}")
_TOP_K = re.compile(r" custom-call\((%[\w.-]+)\), custom_call_target=\"TopK\"")
_CONVERSION = re.compile(r"= (?:bf16|f32)\[([\d,]*)\]\S* convert\(")


def miscounted(hlo: str, before: str) -> float:
    """The operations that XLA counts too many in a program; less than none where it counts too few.

    Arguments:
        hlo: The program as it is run.
        before: The same before it was made one for CPUs.
    """
    return _products_of_logarithms(hlo) + _widened(hlo, before) - _chosen(hlo)


def _products_of_logarithms(hlo: str) -> float:
    """What is counted too much of Fourier transforms along several dimensions.

    One of N elements along dimensions of sizes a and b is 8 N (log a + log b) operations, one dimension after the other.
    XLA's `HloCostAnalysis::HandleFft` multiplies the logarithms.
    """
    too_much = 0.0
    for dims, lengths in _FFT.findall(hlo):
        logs = [int(length).bit_length() - 1 for length in lengths.split(",")]
        too_much += 8 * _elements(dims) * (math.prod(logs) - sum(logs))
    return too_much


def _widened(hlo: str, before: str) -> float:
    """Conversions that are there because XLA for CPUs sends and computes nothing in bf16."""
    if "bf16[" not in before:
        return 0.0
    after, own = (sum(map(_elements, _CONVERSION.findall(text))) for text in (hlo, before))
    return max(0.0, after - own)


def _chosen(hlo: str) -> float:
    """What is not counted of the largest elements: a sort of which these are taken is counted, a call for them is not.

    XLA makes a call of such a sort for CPUs where it recognises one, which depends on what reads the result. It counts
    n log n of a sort of n elements, all rows together.
    """
    chosen = 0.0
    for name in _TOP_K.findall(hlo):
        operand = re.search(rf"{re.escape(name)} = \w+\[([\d,]+)\]", hlo)
        assert operand is not None, f"{name} is no tensor"
        count = _elements(operand.group(1))
        chosen += count * math.ceil(math.log2(max(1, count)))
    return chosen


def _elements(dims: str) -> int:
    """The product of sizes such as `2,3`; 1 of none."""
    return math.prod(map(int, filter(None, dims.split(","))))

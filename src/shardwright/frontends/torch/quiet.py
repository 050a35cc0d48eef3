"""While torch traces: without what it tells of its own insides where it then raises an error, which is told by us."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO

__all__ = ["quiet"]

_SYMBOLS = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_GRAPH = "def forward(self, "
"""With which a graph begins that torch.export prints to standard error."""


class _WithoutGraphs(io.TextIOBase):
    """A stream to which no graphs are written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._was_graph = False

    def write(self, text: str) -> int:
        """Write a text that is no graph, and not the end of its last line."""
        is_end = self._was_graph and text == "\n"
        self._was_graph = text.lstrip().startswith(_GRAPH)
        return len(text) if is_end or self._was_graph else self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, no graphs on standard error, and of symbolic sizes no log but errors."""
    level = _SYMBOLS.level
    _SYMBOLS.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(_WithoutGraphs(sys.stderr)):
            warnings.simplefilter("ignore")
            yield
    finally:
        _SYMBOLS.setLevel(level)

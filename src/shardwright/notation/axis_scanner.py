"""Scanners for the texts of single shardings: those with parts of axes, and those that are written as calls."""

from __future__ import annotations

import re

from shardwright.scanner import Scanner

__all__ = ["AxisScanner", "CallScanner"]


class AxisScanner(Scanner):
    """The tokens of a text that names axes and their parts."""

    __slots__ = ()

    WHAT = "sharding"

    def integer(self) -> int:
        """The next token as a number."""
        raise NotImplementedError

    def part(self) -> tuple[int, int] | None:
        """`:(1)2`, which part of an axis is meant, where it is next: its pre-size and its size."""
        if not self.accept(":"):
            return None
        self.take("(")
        pre = self.integer()
        self.take(")")
        return pre, self.integer()


class CallScanner(AxisScanner):
    """The tokens of one sharding's text, among them numbers and lists of them, quoted names and symbols."""

    __slots__ = ()

    TOKEN = re.compile(r"""\s*("[^"]*"|'[^']*'|@"(?:[^"\\]|\\.)*"|@[\w.$-]+|%[\w.$-]+|[A-Za-z_][\w.]*|-?[0-9]+|\S)""")

    def integer(self) -> int:
        """The next token as a number; one that is known at run time only is refused."""
        token = self.peek()
        if token.startswith(("%", "?")):
            self.refuse("a value that is known at run time only cannot be held", "give a constant")
        if not re.fullmatch(r"-?[0-9]{1,18}", token):
            self.refuse("expected a number")
        return int(self.take())

    def integers(self) -> list[int]:
        """`[0, 3, 8]`."""
        self.take("[")
        return self.separated("]", self.integer)

    def lists(self) -> list[list[int]]:
        """`[[0], [], [1]]`."""
        self.take("[")
        return self.separated("]", self.integers)

    def symbol(self) -> str | None:
        """`@mesh` or `@"mesh"` where one is next; it is then taken."""
        if not self.peek().startswith("@"):
            return None
        if len(self.peek().strip('@"')) == 0:
            self.refuse("expected the name of a mesh after '@'")
        return self.take()

r"""Short texts read token by token, each refusal naming the column of its token, and lines; both counted from 1.

>>> class Numbers(Scanner):
...     TOKEN = re.compile(r"\s*([0-9]+|\S)")
...     WHAT = "list"
>>> scanner = Numbers("[1, 22]")
>>> scanner.take("["), scanner.separated("]", scanner.take)
('[', ['1', '22'])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn, TypeVar

from shardwright.errors import ShardingError

__all__ = ["Scanner", "line_of", "place_of"]

_Entry = TypeVar("_Entry")


class Scanner:
    """The tokens of one text, taken one after the other. What reads a grammar derives from it.

    Attributes:
        TOKEN: A token and what may stand before it: its one group is the token, and it leaves nothing out.
        WHAT: What the text is to be, in diagnostics.
        text: The whole text.
        tokens: Its tokens, an empty one behind the last.
        at: The number of the next token.
    """

    __slots__ = ("_columns", "at", "text", "tokens")

    TOKEN: ClassVar[re.Pattern[str]]
    WHAT: ClassVar[str] = "text"

    def __init__(self, text: str) -> None:
        """Cut `text` into tokens."""
        self.text = text
        self.tokens: list[str] = self.TOKEN.findall(text)
        self.tokens.append("")
        self.at = 0
        self._columns: Sequence[int] = ()

    def peek(self) -> str:
        """The next token, or nothing at the end."""
        return self.tokens[self.at]

    def take(self, expected: str | None = None) -> str:
        """The next token, which must be `expected` where given."""
        token = self.tokens[self.at]
        if token != expected and (expected or not token):
            self.refuse(f"expected {expected!r}" if expected else "expected more")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether the next token is `token`; it is then taken."""
        if self.tokens[self.at] != token:
            return False
        self.at += 1
        return True

    def separated(self, closing: str, entry: Callable[[], _Entry], *, trailing: bool = False) -> list[_Entry]:
        """Entries with commas between them, and where `trailing` is one at the end, up to and with `closing`."""
        entries: list[_Entry] = []
        while not self.accept(closing):
            if entries:
                self.take(",")
                if trailing and self.accept(closing):
                    break
            entries.append(entry())
        return entries

    def end(self) -> None:
        """Nothing may follow."""
        if self.tokens[self.at]:
            self.refuse("expected the end of the text")

    def column(self, at: int | None = None) -> int:
        """Where the next token, or the one numbered `at`, begins."""
        if not self._columns:
            self._columns = [match.start(1) + 1 for match in self.TOKEN.finditer(self.text)]
        at = self.at if at is None else at
        return self._columns[at] if at < len(self._columns) else len(self.text) + 1

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        """Raise, naming the next token and its column."""
        token = self.tokens[self.at]
        instead = f"got {token[:40]!r}" if token else "the text ends"
        raise ShardingError(
            f"malformed {self.WHAT} {self.text.lstrip()[:200]!r}",
            cause=f"column {self.column()}: {cause}; {instead}",
            remedy=remedy,
        )


def line_of(text: str, position: int) -> int:
    """The line of the character at a position."""
    return text.count("\n", 0, position) + 1


def place_of(text: str, position: int, name: str) -> str:
    r"""`NAME:LINE:COLUMN` of the character at a position of the text `name`.

    >>> place_of("ab\ncde", 4, "module.mlir")
    'module.mlir:2:2'
    """
    return f"{name}:{line_of(text, position)}:{position - text.rfind(chr(10), 0, position)}"

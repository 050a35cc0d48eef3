"""What can go wrong, said so that a user can act on it.

Every failure caused by input is a [`Diagnostic`][shardwright.errors.Diagnostic]: what happened, at which op and
source line, why, and what to change. It travels in a `ShardingError`; the command line prints it and exits with 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Diagnostic", "ShardingError"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem, in the words of the user's program.

    Attributes:
        message: What happened, with the offending value.
        op: The op concerned, as the user knows it (`stablehlo.gather`), or empty.
        location: `FILE:LINE:COL` or `FILE:LINE`, or empty when none is known.
        cause: Why it is a problem, or empty.
        remedy: What to change, or empty.
    """

    message: str
    op: str = ""
    location: str = ""
    cause: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """The diagnostic as aligned text, one aspect a line, `LOCATION: error: …` first."""
        head = f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"
        lines = [head]
        if self.op:
            lines.append(f"  op:     {self.op}")
        if self.cause:
            lines.append(f"  why:    {self.cause}")
        if self.remedy:
            lines.append(f"  change: {self.remedy}")
        return "\n".join(lines)


class ShardingError(Exception):
    """A problem with the user's input; `diagnostic` holds what to tell them."""

    def __init__(self, message: str, *, op: str = "", location: str = "", cause: str = "", remedy: str = "") -> None:
        """Raise with the parts of a `Diagnostic`."""
        self.diagnostic = Diagnostic(message, op, location, cause, remedy)
        super().__init__(str(self.diagnostic))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes by the parts of its diagnostic, notes and all."""
        return _error, (type(self), asdict(self.diagnostic)), self.__dict__

    def replaced(self, **parts: str) -> ShardingError:
        """The same problem but for these parts of its diagnostic."""
        return ShardingError(**{**asdict(self.diagnostic), **parts})

    def at(self, op: str, location: str) -> ShardingError:
        """The same problem at an op and a location, where it does not name them already."""
        return self.replaced(op=self.diagnostic.op or op, location=self.diagnostic.location or location)


def _error(kind: type[ShardingError], parts: dict[str, str]) -> ShardingError:
    return kind(**parts)

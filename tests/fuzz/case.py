"""One case: a module, what was changed in it, and the command line that it is given to. A number says it all."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.fuzz.commands import command_line
from tests.fuzz.corpus import drawn
from tests.fuzz.mutate import changed
from tests.fuzz.tokens import bytes_changed, tokens_changed

__all__ = ["Case", "case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A module and a command line.

    Attributes:
        source: Where the module is from.
        changes: What was done to it.
        content: The module then.
        command: The program and its arguments.
    """

    source: str
    changes: tuple[str, ...]
    content: bytes
    command: tuple[str, ...]


def case(number: int, kind: str | None = None) -> Case:
    """The case of a number; `kind` decides which command it is."""
    rng = random.Random(f"module {number}")
    source, content = drawn(rng)
    changes: list[str] = []
    if isinstance(content, bytes):
        for _ in range(rng.choice((1, 2, 3)) if rng.random() < 0.15 else 0):
            content = bytes_changed(content, rng)
            changes.append("bytes")
        return Case(source, tuple(changes), content, command_line("", rng, kind))
    style = rng.random()
    for _ in range(0 if style < 0.1 else rng.choice((1, 1, 1, 2, 3)) if style < 0.8 else 0):
        name, content = changed(content, rng)
        changes.append(name)
    for _ in range(0 if style < 0.8 else rng.choice((1, 1, 2))):
        content = tokens_changed(content, rng)
        changes.append("tokens")
    data = content.encode(errors="surrogatepass")
    if style > 0.98:
        data = bytes_changed(data, rng)
        changes.append("bytes")
    return Case(source, tuple(changes), data, command_line(content, rng, kind))

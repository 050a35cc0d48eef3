"""Where an op comes from, as users say it: `FILE:LINE` and the name of the traced operation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from shardwright.ir.context import context, ir

__all__ = ["Location", "LocationTable", "argument_name"]

_FILE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_NAME = re.compile(r'^loc\("((?:[^"\\]|\\.)*)"(?!:)')


@dataclass(frozen=True, slots=True)
class Location:
    """A source position and the name given there; each may be missing (`""`, 0)."""

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""

    def __str__(self) -> str:
        """`FILE:LINE`, or the name, or `unknown location`."""
        if self.file:
            return f"{self.file}:{self.line}"
        return self.name or "unknown location"


class LocationTable:
    """Location numbers ↔ MLIR locations. Number 0 is the unknown location.

    Attributes:
        source: The file that was parsed; MLIR's parser calls it `-` in the positions it makes itself.
    """

    def __init__(self, source: str = "-") -> None:
        """Make a table that knows only the unknown location; `source` names the text that was parsed."""
        self.source = source
        unknown = ir.Location.unknown(context=context())
        self._handles: list[ir.Location] = [unknown]
        self._numbers: dict[ir.Location, int] = {unknown: 0}
        self._inside: dict[tuple[ir.Location, int], int] = {}

    def add(self, handle: ir.Location) -> int:
        """The number of an MLIR location."""
        number = self._numbers.get(handle)
        if number is None:
            number = self._numbers[handle] = len(self._handles)
            self._handles.append(handle)
        return number

    def inside(self, handle: ir.Location, caller: int) -> int:
        """The number of a location in a function called from location number `caller`."""
        key = (handle, caller)
        number = self._inside.get(key)
        if number is None:
            with context():
                site = ir.Location.callsite(handle, [self._handles[caller]])
            number = self._inside[key] = self.add(site)
        return number

    def handle(self, number: int) -> ir.Location:
        """The MLIR location of a number."""
        return self._handles[number]

    def __getitem__(self, number: int) -> Location:
        """The location as file, line and name: the innermost file position, the outermost name."""
        found = read_location(str(self._handles[number]))
        return replace(found, file=self.source) if found.file == "-" else found


def read_location(text: str) -> Location:
    """From MLIR's `loc(...)` text."""
    name = _NAME.match(text)
    file = _FILE.search(text)
    said = name.group(1) if name else ""
    if file is None:
        return Location(name=said)
    return Location(file.group(1), int(file.group(2)), int(file.group(3)), said)


def argument_name(text: str, index: int) -> str:
    """The user's name of an argument from its location: `params['blocks'][0]['wq']` → `params/blocks/0/wq`."""
    match = _NAME.match(text)
    return pytree_path(match.group(1)) if match else f"arg{index}"


def pytree_path(name: str) -> str:
    """A JAX key path in the form users type: `params['w1'][0].x` → `params/w1/0/x`."""
    name = name.replace('\\"', '"').replace("\\'", "'")
    parts = re.findall(r"\['([^']*)'\]|\[\"([^\"]*)\"\]|\[([^\]]*)\]|\.?([^.\[\]]+)", name)
    return "/".join(next(part for part in group if part) for group in parts if any(group))

"""Where an op comes from, as users say it: `FILE:LINE` and the name of the traced operation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from shardwright.ir.context import context, ir, module_bytecode
from shardwright.ir.fast.chunks import op_column

__all__ = ["Location", "LocationTable", "argument_name", "position_of"]

_FILE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_PLAIN_PATH = re.compile(r"\w+(?:\['\w+'\]|\[\d+\])*")
_POSITION = re.compile(r'loc\("[^"]*":\d')
_NAME = re.compile(r'^loc\("((?:[^"\\]|\\.)*)"(?!:)')


_Promise = tuple[str, str | int, int]
"""`text` and what it says, `line`, its number and columns ahead, or `inside` and the numbers of place and caller."""


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

    A location of which only the text is known is *promised* a number, and made when it is asked for.

    Attributes:
        source: The file that was parsed; MLIR's parser calls it `-` in the positions it makes itself.
    """

    def __init__(self, source: str = "-", lines: Sequence[str] = (), aliases: Mapping[str, str] = _NO_ALIASES) -> None:
        """Make a table that knows only the unknown location.

        Arguments:
            source: The name of the text that was parsed.
            lines: Its lines, for those promised by `at_line`.
            aliases: What its attribute aliases stand for, by their names, for those promised by `of_text`.
        """
        self.source = source
        self._lines = lines
        self._aliases = aliases
        self._handles: list[ir.Location | None] = [ir.Location.unknown(context=context())]
        self._promised: dict[_Promise, int] = {}
        self._promises: dict[int, _Promise] = {}
        self._read_by_text: dict[str, Location] = {}  # many ops are of one line

    def add(self, handle: ir.Location) -> int:
        """A number for an MLIR location. (Equal ones get different numbers: jaxlib hashes them by identity.)"""
        self._handles.append(handle)
        return len(self._handles) - 1

    def of_text(self, text: str) -> int:
        """The number of the location written `loc(text)`; see `settle`."""
        definition = text
        while definition.startswith("#") and definition[1:] in self._aliases:
            definition = self._aliases[definition[1:]].removeprefix("loc(").removesuffix(")")
        return 0 if definition == "unknown" else self._promise(("text", text, 0))

    def at_line(self, line: int, ahead: int = 0) -> int:
        """The number of the position of the op that begins on a line (counted from 0) and says no location.

        Some ops say their place to be so many columns `ahead` of their name.
        """
        return self._promise(("line", line, ahead))

    def inside(self, number: int, caller: int) -> int:
        """The number of location `number` in a function called from location `caller` (0: from nowhere)."""
        site = self._handles[caller]
        if site is not None and site == self._handles[0]:
            return number
        promise = self._promises.get(number)
        if promise is not None and promise[0] == "inside":
            return self._promise(("inside", int(promise[1]), self.inside(promise[2], caller)))
        return self._promise(("inside", number, caller))

    def __getstate__(self) -> tuple[str, bytes]:
        """The source, and the bytecode of one op at each location in turn: handles are those of this process."""
        with context(), ir.Location.unknown():
            module = ir.Module.create()
            for number in range(len(self._handles)):
                module.body.append(ir.Operation.create("at", loc=self.handle(number)))
        return self.source, module_bytecode(module)

    def __setstate__(self, state: tuple[str, bytes]) -> None:
        """Take the source, and the locations of the ops."""
        source, module = state
        LocationTable.__init__(self, source)
        self._handles = [op.location for op in ir.Module.parse(module, context=context()).body.operations]

    def _promise(self, promise: _Promise) -> int:
        number = self._promised.get(promise)
        if number is None:
            number = self._promised[promise] = len(self._handles)
            self._promises[number] = promise
            self._handles.append(None)
        return number

    def settle(self) -> None:
        """Make all locations that were promised by their texts.

        Raises:
            MLIRError: a text that is no location, or names an alias that is not defined.
        """
        missing = {
            n: promise[1] for n, promise in self._promises.items() if promise[0] == "text" and self._handles[n] is None
        }
        definitions = [f"#{name} = {text}" for name, text in self._aliases.items()]
        ops = [f'"at"() : () -> () loc({text})' for text in missing.values()]
        module = ir.Module.parse("\n".join([*definitions, *ops]), context=context())
        for number, op in zip(missing, module.body.operations, strict=True):
            self._handles[number] = op.location

    def handle(self, number: int) -> ir.Location:
        """The MLIR location of a number."""
        handle = self._handles[number]
        if handle is None:
            handle = self._handles[number] = self._make(number)
        return handle

    def _make(self, number: int) -> ir.Location:
        kind, first, second = self._promises[number]
        if kind == "text":
            self.settle()
            return self.handle(number)
        with context():
            if kind == "inside":
                return ir.Location.callsite(self.handle(int(first)), [self.handle(second)])
            line = int(first)
            return ir.Location.file("-", line + 1, op_column(self._lines[line]) + second)

    def __getitem__(self, number: int) -> Location:
        """The location as file, line and name: the innermost file position, the outermost name."""
        return self._read(self.handle(number))

    def place(self, number: int) -> str:
        """`FILE:LINE` of the location, or its name: what `str` tells of it."""
        promise = self._promises.get(number)
        if promise is not None and promise[0] == "line":  # which takes no handle
            return f"{self.source}:{int(promise[1]) + 1}"
        return str(self[number])

    def are_same(self, number: int, other: int) -> bool:
        """Whether two numbers are known to be of one location: both were made. That is quicker than to read them."""
        one, two = self._handles[number], self._handles[other]
        return number == other or (one is not None and two is not None and one == two)

    def where(self, handle: ir.Location) -> str:
        """`FILE:LINE` of an MLIR location, or the name given there, without a number for it."""
        return str(self._read(handle))

    def _read(self, handle: ir.Location) -> Location:
        text = str(handle)
        location = self._read_by_text.get(text)
        if location is None:
            location = read_location(text)
            location = replace(location, file=self.source) if location.file == "-" else location
            self._read_by_text[text] = location
        return location


def read_location(text: str) -> Location:
    """From MLIR's `loc(...)` text."""
    name = _NAME.match(text)
    file = _FILE.search(text)
    label = name.group(1) if name else ""
    if file is None:
        return Location(name=label)
    return Location(file.group(1), int(file.group(2)), int(file.group(3)), label)


def argument_name(text: str, index: int) -> str:
    """The user's name of an argument from its location: `params['blocks'][0]['wq']` → `params/blocks/0/wq`."""
    match = _NAME.match(text)
    return pytree_path(match.group(1)) if match else f"arg{index}"


def position_of(argument: Any, function: Any) -> Any:
    """Where a function's argument stands: its location, unless that is a name or jaxlib does not tell it."""
    location = getattr(argument, "location", function)
    return location if _POSITION.match(str(location)) else function


def pytree_path(name: str) -> str:
    """A JAX key path in the form users type: `params['w1'][0].x` → `params/w1/0/x`."""
    if _PLAIN_PATH.fullmatch(name):
        return "/".join([part for part in re.split(r"[\[\]']+", name) if part])
    name = name.replace('\\"', '"').replace("\\'", "'")
    parts = re.findall(r"\['([^']*)'\]|\[\"([^\"]*)\"\]|\[([^\]]*)\]|\.?([^.\[\]]+)", name)
    return "/".join(next(part for part in group if part) for group in parts if any(group))

"""A module's text with every form of op written once: what MLIR is given to parse in place of the whole.

MLIR's syntax says an op's types beside it, so how a line parses does not depend on the values that it names. Lines that
differ in these names (and in their location) only are one *form*; the first line of a form stands in the *reduced*
text, its operands taken from the lines that stand for those which define them:

    %0 = stablehlo.negate %a : tensor<4xf32>        %0 = stablehlo.negate %a : tensor<4xf32> loc("0")
    %1 = stablehlo.negate %0 : tensor<4xf32>    →   %2 = stablehlo.add %0, %3 : tensor<4xf32> loc("2")
    %2 = stablehlo.add %0, %1 : tensor<4xf32>

(`%3` is a copy of `%0`, line 1 of the reduced text: the operands of a line are kept apart, so that which name is which
operand can be seen.) What is not one op to a chunk of lines, as MLIR prints it, ends in `Unsure`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from shardwright.ir.fast.chunks import (
    END,
    NAME,
    START,
    Unsure,
    cut_at_names,
    depth_of,
    op_end,
    without_comments,
    without_location,
    without_strings,
)

__all__ = ["Chunk", "Form", "FunctionText", "Reduced", "reduce_text", "result_names"]

_GROUP = re.compile(r"(%[\w$.-]+)(?::(\d+))?", re.ASCII)
_FUNCTION = re.compile(r'\s*func\.func\s[^@"]*@([\w$.-]+)\s*\(', re.ASCII)
_ALIAS = re.compile(r"#(\w+)\s*=\s*(.*?)\s*$", re.ASCII)
_POSITION = re.compile(r'"-":(\d{1,9})')
_SHARED = re.compile(
    r"(?:func\.)?call$|sdy\.sharding_constraint$|chlo\.|"
    r"stablehlo\.(?!(?:while|case|if|composite|return|set_dimension_size)$|(?:real_)?dynamic_(?!slice$|update_slice$))"
)
"""Ops that are checked without a look at what defines their operands, and have no regions with ops of the graph."""

_COPY = "%shardwright.copy."
FEW_LINES = 200
"""Functions so short are not looked into: most of their lines would be the first of their form."""

_MANY_COPIES = 512
_MANY_LINES = 1 << 20
_MANY_FORMS = 2048
"""With so many forms of lines, and fewer than two lines to a form, the whole text is as quick to read."""


@dataclass(eq=False, slots=True)
class Chunk:
    """An op of the reduced text.

    Attributes:
        pieces: Its text, cut at the names: every odd piece is one.
        groups: The names of its groups of results, with their sizes.
        sources: The values that it reads, as the reduced text calls them, in the order of the names of a `Row`.
        shared: Whether it stands for all ops of its form; else for this one only.
        returns: Whether it returns from the function, which says its operands in order.
        located: Whether it has a location in the text; in the reduced text it then is `loc("N")`, the N-th chunk.
        line: Its first line in the whole text, from 0.
        reduced_line: Its first line in the reduced body, from 0.
        copies: What the reduced text calls its result: its own, and each copy.
    """

    pieces: list[str]
    groups: list[tuple[str, int]]
    sources: list[str]
    shared: bool
    returns: bool
    located: bool
    line: int
    reduced_line: int = 0
    copies: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Form:
    """How lines look apart from names: the chunk that stands for them, and what they say in `loc(…)`, if anything."""

    chunk: Chunk
    location: str


Row = tuple[Form, list[str], int]
"""An op of the whole text: its form; the name of the result (of a shared form) and those it reads; its first line."""


@dataclass(eq=False, slots=True)
class FunctionText:
    """A function.

    Attributes:
        arguments: The names of its arguments.
        rows: Its ops.
        chunks: Those of its reduced body, in order.
        reduced_line: The line of the reduced text on which the body begins, from 0.
        moved: By how many lines its header was moved.
        is_whole: Whether the body stands in the reduced text as it is, moved by as many lines. It has no rows then.
    """

    arguments: list[str]
    rows: list[Row] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    reduced_line: int = 0
    moved: int = 0
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduced text and what undoes the reduction.

    Attributes:
        text: A module for MLIR to parse.
        lines: The lines of the whole text.
        functions: By symbol.
        aliases: The definitions of attribute aliases, by name.
        ahead: How many empty lines the reduced text begins with: a position further on is one that MLIR's parser made,
            others stand in the text.
    """

    text: str
    lines: list[str]
    functions: dict[str, FunctionText]
    aliases: dict[str, str]
    ahead: int


def reduce_text(text: str) -> Reduced:
    """Every form of op once.

    Raises:
        Unsure: a text of another layout than MLIR prints: an op to a line, and regions on the lines that follow.
    """
    return _TextReducer(text).reduce()


class _TextReducer:
    def __init__(self, text: str) -> None:
        if "{-#" in text or _COPY in text:
            raise Unsure("resources")
        self.lines = text.split("\n")
        self.ahead = _lines_mentioned(text)
        self.out: list[str] = [""] * self.ahead
        self.functions: dict[str, FunctionText] = {}
        self.aliases: dict[str, str] = {}

    def reduce(self) -> Reduced:
        lines, at, modules = self.lines, 0, 0
        while at < len(lines):
            line = lines[at]
            if "func.func" in line:
                at = self._function(at)
                continue
            modules += line.lstrip().startswith(("module", "builtin.module"))
            alias = _ALIAS.match(line)
            if alias is not None:
                self.aliases[alias[1]] = alias[2]
            self.out.append(line)
            at += 1
        if modules > 1:
            raise Unsure("modules within one another")
        return Reduced("\n".join(self.out), lines, self.functions, self.aliases, self.ahead)

    def _function(self, at: int) -> int:
        """Reduce the function whose header begins at a line; the line after it."""
        match = _FUNCTION.match(self.lines[at])
        if match is None or match[1] in self.functions:
            raise Unsure("a header of another form")
        start = at
        header, at = self._header(at)
        first = len(self.out)
        function = self.functions[match[1]] = FunctionText(NAME.findall(header), reduced_line=first, moved=at - first)
        whole = self._short_body(start, at)
        if whole:
            function.is_whole = True
            self.out += whole
            return at + len(whole)
        body = _BodyReducer(self.lines, function)
        end = body.reduce(at)
        text = "\n".join([*body.out, self.lines[end]])
        self.out.extend(text.split("\n"))
        return end + 1

    def _short_body(self, start: int, at: int) -> list[str]:
        """The lines of the body that begins at a line, if they are few: those that go in deeper than its header."""
        header = self.lines[start]
        end = header[: len(header) - len(header.lstrip())] + "}"
        for number in range(at, min(at + FEW_LINES, len(self.lines))):
            line = self.lines[number]
            if line.startswith(end):
                return self.lines[at : number + 1] if END.match(line) else []
        return []

    def _header(self, at: int) -> tuple[str, int]:
        """The header without its strings, and the first line of the body."""
        header = ""
        while at < len(self.lines):
            line = self.lines[at]
            self.out.append(line)
            header += without_strings(line) + "\n"
            at += 1
            if header.rstrip().endswith("{") and depth_of(header) == 1:
                return without_comments(header), at
            if at < len(self.lines) and "func.func" in self.lines[at]:
                break
        raise Unsure("a header without end")


def _lines_mentioned(text: str) -> int:
    """The greatest line number in a position without a file, as MLIR's parser makes them."""
    numbers = [int(number) for number in _POSITION.findall(text)] if '"-":' in text else []
    if max(numbers, default=0) > _MANY_LINES:
        raise Unsure("positions in a longer text")
    return max(numbers, default=0)


class _BodyReducer:
    def __init__(self, lines: list[str], function: FunctionText) -> None:
        self.lines = lines
        self.function = function
        self.out: list[str] = []
        self.height = 0
        self.defined: dict[str, Chunk | None] = dict.fromkeys(function.arguments)
        self.forms: dict[str, Form] = {}
        self.chunks: dict[str, Chunk] = {}

    def reduce(self, at: int) -> int:
        """Reduce the body that begins at a line; the line that ends it."""
        lines, rows, defined = self.lines, self.function.rows, self.defined
        split, look_up = NAME.split, self.forms.get
        lines_end = len(lines)
        while at < lines_end:
            line = lines[at]
            pieces = split(line)
            form = look_up("%".join(pieces[::2]))
            if form is not None:
                names = pieces[1::2]
                defined[names[0]] = form.chunk
                rows.append((form, names, at))
                at += 1
            elif END.match(line):
                return at
            else:
                at = self._unknown(at) if line.strip() else at + 1
        raise Unsure("a body without end")

    def _unknown(self, at: int) -> int:
        """Reduce the op of no known form that begins at a line; the line after it."""
        start = START.match(self.lines[at])
        if start is None:
            raise Unsure("a line that begins no op")
        end = op_end(self.lines, at)
        text = "\n".join(self.lines[at:end])
        stripped, location = without_location(text)
        pieces = cut_at_names(stripped)
        groups = [(group[1], int(group[2] or 1)) for group in _GROUP.finditer(start[1])]
        key, read = self._key(pieces, len(groups))
        names = [pieces[place] for place in read]
        chunk = self.chunks.get(key)
        if chunk is None:
            shared = len(groups) == 1 and _SHARED.match(start[2].strip('"')) is not None
            returns = start[2] in ("return", "func.return")
            chunk = self._keep(Chunk(pieces, groups, [], shared, returns, bool(location), at), read)
            if chunk.shared:
                self.chunks[key] = chunk
        if chunk.located != bool(location):
            raise Unsure("some lines with a location and some without")
        form = Form(chunk, location)
        if chunk.shared and end == at + 1 and "%~" not in key and "%" not in location:
            self._remember(key + text[len(stripped) :], form)
        self._add_row(form, groups, names, at)
        return end

    def _add_row(self, form: Form, groups: list[tuple[str, int]], names: list[str], at: int) -> None:
        chunk = form.chunk
        row = list(dict.fromkeys(names))
        if chunk.shared or chunk.returns:
            row = [groups[0][0] if groups else "", *names]
        self.function.rows.append((form, row, at))
        for name, _ in groups:
            self.defined[name] = chunk

    def _key(self, pieces: list[str], results: int) -> tuple[str, list[int]]:
        """A text apart from the names defined outside it, and the places of those it reads."""
        defined = self.defined
        read = list(range(2 * results + 1, len(pieces), 2))
        bases = [pieces[place].partition("#")[0] for place in read]
        inner = {base: f"%~{number}#" for number, base in enumerate(dict.fromkeys(bases)) if base not in defined}
        if not inner:
            return "%".join(pieces[::2]), read
        marks = list(pieces)
        marks[1 : 2 * results : 2] = ["%"] * results
        for place, base in zip(read, bases, strict=True):
            marks[place] = inner[base] + pieces[place][len(base) :] if base in inner else "%"
        return "".join(marks), [place for place, base in zip(read, bases, strict=True) if base not in inner]

    def _keep(self, chunk: Chunk, read: list[int]) -> Chunk:
        """Put a chunk into the reduced text. It is not shared if operands of it could be taken for one another."""
        names = [chunk.pieces[place] for place in read]
        if chunk.shared:
            chunk.sources = self._sources(names)
            chunk.shared = len(set(chunk.sources)) == len(names)
        if not chunk.shared:
            distinct = dict.fromkeys(names)
            called = dict(zip(distinct, self._sources(distinct, apart=not chunk.returns), strict=True))
            chunk.sources = [called[name] for name in (names if chunk.returns else distinct)]
            names = [called[name] for name in names]
        else:
            names = chunk.sources
        for place, source in zip(read, names, strict=True):
            chunk.pieces[place] = source
        chunk.copies = [chunk.pieces[1]] if chunk.groups else []
        return self._emit(chunk)

    def _sources(self, names: Iterable[str], apart: bool = True) -> list[str]:
        """Values of the reduced text for names, kept apart except where an op that is not shared makes them."""
        taken: set[str] = set()
        sources: list[str] = []
        for name in names:
            base, mark, number = name.partition("#")
            chunk = self.defined[base]
            source = name if chunk is None or not chunk.shared else self._copy(chunk, mark + number, taken)
            if apart:
                taken.add(source)
            sources.append(source)
        return sources

    def _copy(self, chunk: Chunk, suffix: str, taken: set[str]) -> str:
        """A result of a shared chunk, of a copy of it where its own are taken."""
        for name in chunk.copies:
            if name + suffix not in taken:
                return name + suffix
        if len(chunk.copies) > _MANY_COPIES:
            raise Unsure("too many operands that look the same")
        name = f"{_COPY}{len(self.function.chunks)}"
        copy = Chunk(
            [*chunk.pieces], [(name, chunk.groups[0][1])], chunk.sources, False, False, chunk.located, chunk.line
        )
        copy.pieces[1] = name
        self._emit(copy)
        chunk.copies.append(name)
        return name + suffix

    def _emit(self, chunk: Chunk) -> Chunk:
        text = "".join(chunk.pieces)
        chunk.reduced_line = self.height
        self.out.append(f'{text} loc("{len(self.function.chunks)}")' if chunk.located else text)
        self.height += text.count("\n") + 1
        self.function.chunks.append(chunk)
        return chunk

    def _remember(self, key: str, form: Form) -> None:
        self.forms[key] = form
        if len(self.forms) > _MANY_FORMS and 2 * len(self.forms) > len(self.function.rows):
            raise Unsure("hardly two lines of a form")


def result_names(chunk: Chunk, results: int) -> list[str]:
    """What the reduced text calls each result of a chunk."""
    if len(chunk.groups) == 1 and results == 1:
        return [chunk.pieces[1]]
    names = [
        f"{chunk.pieces[2 * group + 1]}#{number}" if size > 1 else chunk.pieces[2 * group + 1]
        for group, (_, size) in enumerate(chunk.groups)
        for number in range(size)
    ]
    if len(names) != results:
        raise Unsure("results without names")
    return names

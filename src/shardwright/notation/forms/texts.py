"""Whole modules: ops of the tables' dialects rewritten in place, everything else kept byte for byte.

    %0 = shard.all_gather %a on @g gather_axis = 0 : tensor<2xf32> -> tensor<2xf32>
    %0 = "shard.all_gather"(%a) {gather_axis = 0 : index, grid = @g} : (tensor<2xf32>) -> tensor<2xf32>

A module has thousands of ops but few distinct ones: an op is read once for each text that differs in more than the
names of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.notation.forms.cursor import VALUE, Cursor, NamedText
from shardwright.notation.forms.form import Dialect, OpText
from shardwright.notation.forms.read import normalise, read_op, with_types
from shardwright.notation.forms.table import Table, candidates, form_of, retype, table_of
from shardwright.notation.forms.write import custom, generic

__all__ = ["ops", "respell", "to_custom", "to_generic"]

_VALUE = re.compile(f"({VALUE})")
_CONTINUES = re.compile(r"\s*(?:->|[,:<{(\[])")
_REST = re.compile(r"[ \t]*(?://.*|loc\(.*)?")
_RESULTS = re.compile(r"((?:%[\w$.-]+(?::[0-9]+)?\s*,\s*)*%[\w$.-]+(?::[0-9]+)?)\s*=\s*$")
_RESULTS_WITHIN = 1 << 11
"""Characters before an op in which the names of its results are looked for."""
_LONGEST_LINE = 1 << 12
"""Characters from an op to the end of its line up to which the op may be read as a line of its own."""
_ALIAS = re.compile(r"^(![A-Za-z_]\w*)[ \t]*=", re.MULTILINE)


def to_generic(text: str, dialects: Sequence[Dialect], name: str = "-") -> str:
    """A module with the ops of `dialects` in generic form and under their names of today; `name` is its file.

    Every op stays on its line. Each is verified.

    Raises:
        ShardingError: malformed syntax, an op that the dialect lacks, or one that breaks its rules; with its position.
    """
    table = table_of(tuple(dialects))
    if not table.concerns(text):
        return text
    source = NamedText(text, name)
    work = _OpRewriting(table, source, generic, {**table.types, **_aliases(source, table.types)})
    result = work.run()
    _verify(table, work.read)
    return result


def to_custom(text: str, dialects: Sequence[Dialect], spelling: str = "") -> str:
    """A module that MLIR printed, with the ops of `dialects` in custom syntax.

    With `spelling="mesh"` ops are called as in that earlier generation.

    Raises:
        ShardingError: an op that its form cannot hold, or that the earlier generation lacks.
    """
    table = table_of(tuple(dialects))
    if not table.concerns(text):
        return text
    old_types = {new: old for old, new in table.types.items()}

    def write(op: OpText) -> str:
        if spelling:
            op = table.earlier(op, f"{spelling}.")
        if op.form.renamed:
            op = with_types(op, old_types)
        return custom(op)

    result = _OpRewriting(table, NamedText(text), write, table.types).run()
    if not spelling:
        return result
    return retype(result, {new: old for new, old in old_types.items() if old.startswith(f"!{spelling}.")})


def respell(text: str, dialects: Sequence[Dialect], spelling: str, name: str = "-") -> str:
    """A module with the ops of `dialects` as an earlier generation writes them: `spelling="mesh"`.

    Raises:
        ShardingError: as for `to_generic` and `to_custom`.
    """
    return to_custom(to_generic(text, dialects, name), dialects, spelling)


def ops(text: str, dialects: Sequence[Dialect], name: str = "-") -> list[OpText]:
    """The ops of `dialects` in a module, under their names of today, with results and locations; not verified.

    Raises:
        ShardingError: malformed syntax, or an op that the dialect lacks.
    """
    table, source = table_of(tuple(dialects)), NamedText(text, name)
    work = _OpRewriting(table, source, generic, {**table.types, **_aliases(source, table.types)})
    op_texts: list[OpText] = []
    end = 0
    for start, match in candidates(work.table, text):
        if start < end or match[1] in table.types:
            continue
        *before, op = work.today(start, match[1])
        end = work.end
        results = _results(text, start)
        names = tuple(re.split(r"\s*,\s*", results.group(1))) if results else ()
        op_texts += [*before, replace(op, results=names, location=_location(source, end))]
    return op_texts


def _results(text: str, start: int) -> re.Match[str] | None:
    return _RESULTS.search(text, max(0, start - _RESULTS_WITHIN), start)


def _location(source: NamedText, end: int) -> str:
    cursor = Cursor(source.text, end, source)
    if not cursor.accept("loc") or cursor.peek() != "(":
        return ""
    return f"loc{cursor.balanced()}"


def _aliases(source: NamedText, types: Mapping[str, str]) -> dict[str, str]:
    """The types that a module gives a name: `!t = tensor<8xf32>`."""
    if not source.text.startswith("!") and "\n!" not in source.text:
        return {}
    aliases: dict[str, str] = {}
    for match in _ALIAS.finditer(source.text):
        cursor = Cursor(source.text, match.end(), source)
        if cursor.at_type():
            type_ = cursor.type()
            aliases[match[1]] = aliases.get(type_) or types.get(type_, type_)
    return aliases


@dataclass(slots=True)
class _OpRewriting:
    """One pass over a text.

    Attributes:
        write: How an op is put back.
        types: Types that are to be renamed.
        read: The distinct ops met.
        end: Where the op read last ends.
        memo: By the text of an op around the names of its operands: what to write, given these; `None` where it must
            be read each time.
        short: The same for ops of one operand or two, by the text around these as `candidates` finds it.
    """

    table: Table
    source: NamedText
    write: Callable[[OpText], str]
    types: Mapping[str, str]
    read: list[OpText] = field(default_factory=list)
    end: int = 0
    memo: dict[tuple[str, ...], Callable[..., str] | None] = field(default_factory=dict)
    short: dict[tuple[str | Any, ...], Callable[..., str]] = field(default_factory=dict)
    fresh: str = ""

    def run(self) -> str:
        """The text with its ops written anew."""
        text = self.source.text
        short = self.short
        pieces: list[str] = []
        done = 0
        for start, match in candidates(self.table, text):
            if start < done:
                continue
            write = short.get(match.group(1, 2, 4, 6))
            if write is not None:
                pieces += (text[done:start], write(match[3], match[5]))
                done = match.end(match.lastindex or 0)
            elif match[1] in self.table.types:
                pieces += (text[done:start], self.types[match[1]])
                done = match.end()
            else:
                pieces += self._line(start, match, done)
                done = self.end
        return "".join([*pieces, text[done:]])

    def _line(self, start: int, match: re.Match[str], done: int) -> list[str]:
        """The text from `done` to the end of an op; to the end of the line of one that has it to itself."""
        text, name = self.source.text, match[1]
        end = text.find("\n", start, start + _LONGEST_LINE)
        if end < 0 or _CONTINUES.match(text, end):
            return self._anew(start, name, done)
        parts = _VALUE.split(text[start:end])
        key = tuple(parts[::2])
        if key not in self.memo:
            self.memo[key] = self._template(start, name, parts)
        write = self.memo[key]
        if write is None:
            return self._anew(start, name, done)
        if match.lastindex != 1:
            self.short[match.group(1, 2, 4, 6)] = write
        self.end = end
        return [text[done:start], write(*parts[1::2])]

    def _template(self, start: int, name: str, parts: list[str]) -> Callable[..., str] | None:
        """What to write for an op that has its line to itself; `parts` are the line, every second one an operand."""
        form = form_of(self.table, name, self.source, start)
        numbered = "".join(f"%{index // 2}" if index % 2 else part for index, part in enumerate(parts))
        try:
            op, end = read_op(form, self.source, start, numbered)
        except ShardingError:
            return None  # is read where it stands, with the rest of the text, and refused there
        *before, op = self._today(op, start)
        if before or not _REST.fullmatch(numbered, end):
            return None
        written = _VALUE.split(self.write(op) + numbered[end:])
        if any(not value[1:].isdigit() for value in written[1::2]):
            return None
        self.read.append(op)
        escaped = [part.replace("{", "{{").replace("}", "}}") for part in written]
        escaped[1::2] = [f"{{{value[1:]}}}" for value in written[1::2]]
        return "".join(escaped).format

    def _anew(self, start: int, name: str, done: int) -> list[str]:
        """The text from `done` to the end of the op, with the op read and written where it stands."""
        text = self.source.text
        *before, op = self.today(start, name)
        self.read += [*before, op]
        results = _results(text, start) if before else None
        insert = results.start() if results else start
        first = [f"{part.results[0]} = {self.write(part)} " for part in before]
        lines = "\n" * text.count("\n", start, self.end)
        return [text[done:insert], *first, text[insert:start], self.write(op), lines]

    def today(self, start: int, name: str) -> tuple[OpText, ...]:
        """The op at `start` as the ops that say the same today, of which the last has its results."""
        op, self.end = read_op(form_of(self.table, name, self.source, start), self.source, start)
        return self._today(op, start)

    def _today(self, op: OpText, start: int) -> tuple[OpText, ...]:
        if op.form.expand is None:
            return (normalise(op, self.table.forms, self.types),)
        if not self.fresh:
            self.fresh = "%sharding_of_"
            while self.fresh in self.source.text:
                self.fresh += "_"
        expanded = op.form.expand(op, f"{self.fresh}{start}")
        return tuple(normalise(part, self.table.forms, self.types) for part in expanded)


def _verify(table: Table, op_texts: Sequence[OpText]) -> None:
    symbols: dict[str, OpText] = {}
    for op in op_texts:
        if op.form.name not in table.symbols:
            continue
        name = op.attributes["sym_name"]
        first = symbols.setdefault(name, op)
        if first.attributes != op.attributes:
            raise ShardingError(
                f"redefinition of symbol named '{name}'",
                op=op.form.name,
                location=op.position,
                cause=f"it is defined otherwise at {first.position}",
                remedy="give one of them another name",
            )
    for op in op_texts:
        op.form.verify(op, symbols)

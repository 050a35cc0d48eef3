"""The forms of several dialects as one table: ops by name, where they stand in a text, how older ones are called."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from shardwright.errors import ShardingError
from shardwright.notation.forms.cursor import VALUE, NamedText
from shardwright.notation.forms.form import Dialect, OpForm, OpText

__all__ = ["Table", "candidates", "form_of", "retype", "table_of"]

_PASSED = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*'
"""Strings and comments, in which no op stands."""

_PASSED_PATTERN = re.compile(_PASSED)
_WITHIN_A_NAME = r"\w.$!#@%^'\-"
_NOT_AN_OP = r"\s*[=,}>\])]"
_SHORT = r"([^%\n]{0,2048})"
_LINE = rf"(?={_SHORT}({VALUE}){_SHORT}(?:({VALUE}){_SHORT})?\n(?!\s*(?:->|[,:<{{(\[]))|)"
"""The rest of a line that names one value or two and does not go on in the next one; or nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Forms of dialects, looked up by name.

    Attributes:
        forms: By op name; the first dialect that has an op wins.
        symbols: Names of the ops that define a symbol.
        types: Earlier names of types and those of today.
        prefixes: `shard.`, `mesh.`: what the names of the ops begin with.
        patterns: What finds ops and earlier names of types, each with what a text must hold for it to find any. The
            name is group 1; where it is that of an op with its line to itself and one operand or two, groups 3 and 5
            are these, and groups 2, 4 and 6 the text around them.
    """

    forms: Mapping[str, OpForm]
    symbols: frozenset[str]
    types: Mapping[str, str]
    prefixes: tuple[str, ...]
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def concerns(self, text: str) -> bool:
        """Whether the text may hold an op of the dialects."""
        return any(prefix in text for prefix in self.prefixes)

    def earlier(self, op: OpText, prefix: str) -> OpText:
        """The op in the generation whose names begin with `prefix`.

        Raises:
            ShardingError: that generation has no such op.
        """
        if op.form.name.startswith(prefix):
            return op
        form = _earlier(self, prefix).get(op.form.name)
        if form is None:
            raise ShardingError(
                f"{op.form.name} has no spelling in the dialect '{prefix.rstrip('.')}'",
                op=op.form.name,
                location=op.position,
                remedy=f"one of {', '.join(self.prefixes)}",
            )
        attributes = {a.name: op.attributes.get(a.name, a.default) for a in form.attributes}
        return replace(op, form=form, attributes=attributes)


@lru_cache(maxsize=64)
def _earlier(table: Table, prefix: str) -> dict[str, OpForm]:
    return {form.renamed: form for form in table.forms.values() if form.renamed and form.name.startswith(prefix)}


@lru_cache(maxsize=64)
def table_of(dialects: tuple[Dialect, ...]) -> Table:
    """The table of some dialects."""
    forms: dict[str, OpForm] = {}
    for dialect in reversed(dialects):
        forms.update(dialect.forms)
    prefixes = tuple(sorted({f"{name.partition('.')[0]}." for name in forms}))
    types = {old: new for dialect in dialects for old, new in dialect.types.items()}
    return Table(
        forms,
        frozenset(name for dialect in dialects for name in dialect.symbols),
        types,
        prefixes,
        (
            *((prefix, re.compile(_op_pattern(re.escape(prefix)))) for prefix in prefixes),
            *((old, re.compile(rf"({re.escape(old)})(?![\w.$-]){_LINE}")) for old in types),
        ),
    )


def _op_pattern(prefix: str) -> str:
    """Begins with the prefix, which is so looked for at the speed of C; what must not be before it is checked then."""
    quoted = rf'(?<="{prefix})(?<![{_WITHIN_A_NAME}]"{prefix})[A-Za-z_]\w*(?="\s*\()'
    plain = rf'(?<![{_WITHIN_A_NAME}"]{prefix})[A-Za-z_]\w*(?![\w.$-])(?!{_NOT_AN_OP})'
    return rf"({prefix}(?:{quoted}|{plain})){_LINE}"


def _type_pattern(types: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, types)) or '(?!)'})(?![\\w.$-])"


def candidates(table: Table, text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The ops and the earlier types of the dialects: where each begins, at its quote if it has one, and its match.

    Strings and comments are passed over, and so are attributes and types that are called like an op.
    """
    per_pattern = [pattern.finditer(text) for word, pattern in table.patterns if word in text]
    matches = per_pattern[0] if len(per_pattern) == 1 else sorted(itertools.chain(*per_pattern), key=re.Match.start)
    commented = "//" in text
    known = 0  # no string and no comment goes on from there
    for match in matches:
        start = match.start()
        if start and text[start - 1] == '"' and match[1] not in table.types:
            start -= 1
        begin = text.rfind("\n", known, start) + 1 or known
        if text.find('"', begin, start) >= 0 or (commented and text.find("//", begin, start) >= 0):
            for passed in _PASSED_PATTERN.finditer(text, begin):
                if passed.start() >= start:
                    break
                known = passed.end()
            if known > start:
                continue
        known = start
        yield start, match


def retype(text: str, types: Mapping[str, str]) -> str:
    """A module with types renamed, except in strings and comments."""
    if not types:
        return text
    pattern = f"{_type_pattern(types)}|{_PASSED}"
    return re.sub(pattern, lambda match: types[match[1]] if match[1] else match[0], text)


def form_of(table: Table, name: str, source: NamedText, start: int) -> OpForm:
    """The form of the op called `name`.

    Raises:
        ShardingError: the dialect has no such op.
    """
    form = table.forms.get(name)
    if form is None:
        _unknown(table, name, source.where(start))
    return form


def _unknown(table: Table, name: str, location: str) -> NoReturn:
    dialect = name.partition(".")[0]
    close = difflib.get_close_matches(name, table.forms, n=3)
    raise ShardingError(
        f"unregistered operation '{name}' found in dialect ('{dialect}')",
        op=name,
        location=location,
        cause=f"{dialect} has no such op",
        remedy=f"did you mean {' or '.join(close)}?"
        if close
        else f"one of {', '.join(sorted(known for known in table.forms if known.startswith(f'{dialect}.')))}",
    )

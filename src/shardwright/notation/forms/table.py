"""The forms of several dialects as one table: ops by name, where they stand in a text, how older ones are called."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from shardwright.errors import ShardingError
from shardwright.notation.forms.cursor import Source
from shardwright.notation.forms.form import Dialect, OpForm, OpText

__all__ = ["Table", "candidates", "form_of", "retype", "table_of"]

_PASSED = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*'
"""Strings and comments, in which no op stands."""

_NOT_AN_OP = re.compile(r"\s*[=,}>\])]")
_WITHIN_A_NAME = re.compile(r"[\w.$!#@%^'-]")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Forms of dialects, looked up by name.

    Attributes:
        forms: By op name; the first dialect that has an op wins.
        symbols: Names of the ops that define a symbol.
        types: Earlier names of types and those of today.
        prefixes: `shard.`, `mesh.`: what the names of the ops begin with.
        pattern: Finds ops, quoted (group 1) or not (group 2), earlier names of types (group 3), strings and comments.
    """

    forms: Mapping[str, OpForm]
    symbols: frozenset[str]
    types: Mapping[str, str]
    prefixes: tuple[str, ...]
    pattern: re.Pattern[str]

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
    names = f"(?:{'|'.join(map(re.escape, prefixes))})[A-Za-z_]\\w*"
    return Table(
        forms,
        frozenset(name for dialect in dialects for name in dialect.symbols),
        types,
        prefixes,
        re.compile(rf'"({names})"(?=\s*\()|({names})(?![\w.$-])|{_type_pattern(types)}|{_PASSED}'),
    )


def _type_pattern(types: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, types)) or '(?!)'})(?![\\w.$-])"


def candidates(table: Table, text: str) -> Iterator[tuple[int, str]]:
    """The ops and the earlier types of the dialects: where each begins, at its quote if it has one, and its name.

    Strings and comments are passed over, and so are attributes and types that are called like an op.
    """
    for match in table.pattern.finditer(text):
        group = match.lastindex
        if group is None:
            continue
        start = match.start()
        if group != 3:
            if start > 0 and _WITHIN_A_NAME.match(text, start - 1):
                continue
            if group == 2 and _NOT_AN_OP.match(text, match.end()):
                continue
        yield start, match[group]


def retype(text: str, types: Mapping[str, str]) -> str:
    """A module with types renamed, except in strings and comments."""
    if not types:
        return text
    pattern = f"{_type_pattern(types)}|{_PASSED}"
    return re.sub(pattern, lambda match: types[match[1]] if match[1] else match[0], text)


def form_of(table: Table, name: str, source: Source, start: int) -> OpForm:
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

"""The attribute dictionary of an op, `{a = 1 : index, b}`: known attributes by their kinds, others as text."""

from __future__ import annotations

import re
from typing import Any

from shardwright.errors import ShardingError
from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.form import Attribute, OpForm, OpText
from shardwright.notation.forms.kinds import STRING

__all__ = ["entries_text", "print_dictionary", "read_dictionary", "read_entries"]

_KEY = re.compile(r"[A-Za-z_][\w$.]*")


def read_entries(cursor: Cursor) -> list[tuple[str, str | None, int]]:
    """`{a = 1, b}` as names, values as text (`None`: a unit attribute) and positions; a name may be lacking."""
    cursor.take("{")
    entries: list[tuple[str, str | None, int]] = []
    while not cursor.accept("}"):
        if entries:
            cursor.take(",")
        at = cursor.skip()
        name = STRING.read(cursor) if cursor.peek().startswith('"') else cursor.match(_KEY)
        if not name and cursor.peek() != "#":
            cursor.refuse("expected attribute name")
        value = cursor.raw() if not name or cursor.accept("=") else None
        entries.append((name, value, at))
    return entries


def read_dictionary(
    cursor: Cursor, form: OpForm, bound: frozenset[str], attributes: dict[str, Any], extra: dict[str, str | None]
) -> None:
    """Read a dictionary into `attributes` and `extra`; those in `bound` that the syntax requires must not be there.

    Raises:
        ShardingError: a name twice, or a value of another kind than the form says.
    """
    known = {attribute.key: attribute for attribute in form.attributes}
    for name, value, at in read_entries(cursor):
        key = form.synonyms.get(name, name) if name else form.nameless
        attribute = known.get(key)
        taken = key in extra or not key
        if attribute is not None:
            taken = attribute.name in attributes or (attribute.name in bound and not attribute.optional)
        if taken:
            raise ShardingError(
                f"'{form.name}' op attribute '{name}' occurs more than once"
                if name
                else f"'{form.name}' op has an attribute without a name",
                op=form.name,
                location=cursor.source.where(at) if cursor.source else "",
                remedy="give it once, with a name",
            )
        if attribute is None:
            extra[name] = value
        else:
            attributes[attribute.name] = _decoded(cursor, form, attribute, value, at)


def _decoded(cursor: Cursor, form: OpForm, attribute: Attribute, value: str | None, at: int) -> Any:
    try:
        return attribute.kind.decode(value or "")
    except ShardingError as error:
        raise ShardingError(
            f"'{form.name}' op attribute '{attribute.key}' is not {attribute.kind.name}: {value}",
            op=form.name,
            location=cursor.source.where(at) if cursor.source else "",
            cause=error.diagnostic.message,
            remedy=error.diagnostic.remedy,
        ) from None


def print_dictionary(op: OpText, bound: frozenset[str]) -> str:
    """The dictionary of all that the rest of the syntax does not say, or nothing."""
    entries = dict(op.extra)
    for attribute in op.form.attributes:
        value = op.attributes[attribute.name]
        if attribute.name not in bound and value is not None and value != attribute.default:
            entries[attribute.key] = attribute.kind.generic(value) or None
    return entries_text(entries)


def entries_text(entries: dict[str, str | None]) -> str:
    """Entries as a dictionary, sorted by name as MLIR does; nothing where there are none."""
    if not entries:
        return ""
    named = ((name if _KEY.fullmatch(name) else STRING.print(name), entries[name]) for name in sorted(entries))
    return "{" + ", ".join(name if value is None else f"{name} = {value}" for name, value in named) + "}"

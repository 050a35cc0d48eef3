"""What MLIR's parser and the sdy verifier say, in the words of the user's program.

The verifier reports an op's location, which in modules with debug info is a line of the user's Python source, and for
a function nothing but its first line; `explain` finds the line of the module instead, and says what to change.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.names import NAMED_ARGUMENT, text_in
from shardwright.frontends.syntax import syntax_reason
from shardwright.frontends.verifier_words import reason_of
from shardwright.ir.context import load_module
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import parse_mesh
from shardwright.notation.sdy.text import Unclosed, closing
from shardwright.scanner import line_of, place_of
from shardwright.words import counted

__all__ = ["close_names", "explain", "mesh_position"]

_PREFIX = "not valid MLIR: "
_VERIFIER = re.compile(
    r"^'([\w.]+)' op ?(?:(arg|operand|result|in_shardings|out_shardings)(?: (\d+))? - )?(.*)$", re.DOTALL
)
_MESH = re.compile(r"sdy\.mesh\s+@([\w.$-]+)\s*=\s*(<[^>]*>)")


_ROLES = {"arg": "argument", "in_shardings": "operand", "out_shardings": "result"}
_PARSING = re.compile(r"(?:custom op '[\w.]+' )?failed to parse \w+ parameter .*")


@dataclass(frozen=True, slots=True)
class _Finding:
    """One message of the verifier: the op, which argument or result of it, and what is wrong."""

    op: str
    role: str
    number: int | None
    text: str

    @property
    def subject(self) -> str:
        """The op as the user knows it: `argument 0 of func.func`."""
        if not self.role:
            return self.op
        role = _ROLES.get(self.role, self.role)
        return f"{role} {self.number} of {self.op}" if self.number is not None else f"{role} of {self.op}"


def explain(diagnostic: Diagnostic, content: str | bytes, name: str) -> Diagnostic:
    """The diagnostic of a module that does not parse or verify, with the module's own line, a cause and a remedy.

    Diagnostics about anything else come back as they are.
    """
    if not diagnostic.message.startswith(_PREFIX):
        return diagnostic
    text = text_in(content)
    message = diagnostic.message.removeprefix(_PREFIX)
    match = _VERIFIER.match(message)
    if match is None:
        return _parsing(diagnostic, message, text)
    op, role, number, rest = match.groups()
    finding = _Finding(op, role or "", int(number) if number else None, rest)
    diagnostic = _in_module(diagnostic, text, name)
    location = _position(finding, diagnostic.location, text, name) or diagnostic.location
    message, cause, remedy = _reword(finding, _meshes(text))
    return Diagnostic(message, finding.subject, location, cause, remedy)


def _parsing(diagnostic: Diagnostic, message: str, text: str) -> Diagnostic:
    """A message of the parser, without what it tells of its own insides."""
    cause, remedy = reason_of(message)
    if not cause:
        cause, remedy = syntax_reason(message, text, diagnostic.location)
    parts = [part for part in diagnostic.cause.split("; ") if not _PARSING.fullmatch(_one_line(part))]
    cause = cause or _one_line("; ".join(parts)) or "MLIR's parser stopped here"
    return replace(diagnostic, cause=cause, remedy=remedy or diagnostic.remedy)


def mesh_position(content: str | bytes, name: str) -> str:
    """`FILE:LINE` of the second mesh, the one that does not agree with the first; empty where none is found."""
    matches = list(_MESH.finditer(text_in(content)))
    return f"{name}:{line_of(text_in(content), matches[1].start())}" if len(matches) > 1 else ""


def close_names(name: str, known: list[str], limit: int = 8) -> str:
    """The known names most like `name`, as text for a diagnostic: `'w1', 'w2'`, and how many more there are."""
    close = difflib.get_close_matches(name, known, n=limit, cutoff=0.5) or known[:limit]
    more = len(known) - len(close)
    return ", ".join(map(repr, close)) + (f" and {more} more" if more > 0 else "")


def _reword(finding: _Finding, meshes: dict[str, Mesh]) -> tuple[str, str, str]:
    for pattern, words in _WORDS:
        match = re.match(pattern, finding.text, re.DOTALL)
        if match is not None:
            return words(match, meshes)
    cause, remedy = reason_of(finding.text)
    return (
        _one_line(finding.text),
        cause or f"MLIR's verifier refuses this {finding.op}",
        remedy or "correct the op; every other stage relies on a valid module",
    )


Words = Callable[[re.Match[str], dict[str, Mesh]], tuple[str, str, str]]


def _unknown_mesh(match: re.Match[str], meshes: dict[str, Mesh]) -> tuple[str, str, str]:
    known = ", ".join(f"@{mesh}" for mesh in meshes) or "none"
    return (
        f"unknown mesh {match[1]}",
        f"the module has the meshes: {known}",
        f'name one of them, or declare it: sdy.mesh {match[1]} = <["data"=2, "model"=4]>',
    )


def _unknown_axis(match: re.Match[str], meshes: dict[str, Mesh]) -> tuple[str, str, str]:
    known = "; ".join(f"@{name} has {', '.join(mesh.sizes) or 'no axes'}" for name, mesh in meshes.items())
    axes = [axis for mesh in meshes.values() for axis in mesh.sizes if axis != match[1]]
    close = difflib.get_close_matches(match[1], axes, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "name an axis of the mesh"
    return f"unknown mesh axis {match[1]!r}", known, remedy


def _twice(match: re.Match[str], meshes: dict[str, Mesh]) -> tuple[str, str, str]:
    return (
        f"mesh axis {match[1]} is used twice in one sharding",
        "an axis can split one dimension of a tensor only",
        "take it out of all dimensions but one, or split it into sub-axes",
    )


def _rank(match: re.Match[str], meshes: dict[str, Mesh]) -> tuple[str, str, str]:
    return (
        f"a sharding of {counted(int(match[1]), 'dimension')} is given to a tensor of {match[2]}",
        "a sharding has one entry per dimension",
        f"give {counted(int(match[2]), 'entry')}" if match[2] != "0" else "give a scalar the empty list []",
    )


_WORDS: tuple[tuple[str, Words], ...] = (
    (r"unknown mesh: (@\S+)", _unknown_mesh),
    (r'unknown axis name: "(.*?)"', _unknown_axis),
    (r"duplicate axis ref: (\S+)", _twice),
    (r"sharding doesn't match tensor rank: (\d+) != (\d+)", _rank),
)


def _in_module(diagnostic: Diagnostic, text: str, name: str) -> Diagnostic:
    """`diagnostic` with the module's own line, found by parsing once more without the locations written in it."""
    if not text or re.fullmatch(re.escape(name) + r":\d+(:\d+)?", diagnostic.location):
        return diagnostic
    try:
        load_module(_without_locations(text), name)
    except ShardingError as error:
        again = error.diagnostic
        return again if again.message == diagnostic.message else diagnostic
    return diagnostic


def _without_locations(text: str) -> str:
    """The module with every `loc(…)` blanked, so that each op is known by its own line and column."""
    text = re.sub(r"^#loc\d*\s*=.*$", lambda match: " " * len(match[0]), text, flags=re.MULTILINE)
    pieces: list[str] = []
    end = 0
    for match in re.finditer(r"\bloc\(", text):
        if match.start() < end:
            continue
        pieces.append(text[end : match.start()])
        end = _closing(text, match.end())
        pieces.append(" " * (end - match.start()))
    return "".join(pieces) + text[end:]


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')


def _closing(text: str, start: int) -> int:
    """The position after the parenthesis that closes the one before `start`."""
    depth = 1
    for match in _BRACKET.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)


_ARROW = re.compile(r"\s*->\s*\(")


def _position(finding: _Finding, location: str, text: str, name: str) -> str:
    """`FILE:LINE:COL` of the function's argument or result that is meant; a function is reported at its own start."""
    at = re.fullmatch(re.escape(name) + r":(\d+):(\d+)", location)
    if finding.op != "func.func" or finding.number is None or at is None:
        return ""
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: int(at[1]) - 1]) + int(at[2]) - 1
    find = _arguments if finding.role == "arg" else _results
    start_of_value = next(itertools.islice(find(text, start), finding.number, None), None)
    if start_of_value is None:
        return ""
    return place_of(text, start_of_value, name)


def _arguments(text: str, function: int) -> Iterator[int]:
    return (match.start() for match in NAMED_ARGUMENT.finditer(text, function))


def _results(text: str, function: int) -> Iterator[int]:
    """Where the results of the function that begins at a position are said, if several are."""
    try:
        arrow = _ARROW.match(text, closing(text, text.index("(", function)))
        if arrow is None:
            return
        at, end = arrow.end(), closing(text, arrow.end() - 1) - 1
        while at < end:
            at += len(text[at:end]) - len(text[at:end].lstrip())
            yield at
            at = _after_comma(text, at, end)
    except (Unclosed, ValueError):
        return


def _after_comma(text: str, at: int, end: int) -> int:
    """The position after the next comma outside brackets, or the end."""
    while at < end and text[at] != ",":
        at = closing(text, at) if text[at] in "([{<" else at + 1
    return at + 1


def _meshes(text: str) -> dict[str, Mesh]:
    meshes: dict[str, Mesh] = {}
    for name, shape in _MESH.findall(text):
        try:
            meshes[name] = parse_mesh(shape, name)
        except ShardingError:
            continue  # the mesh itself may be what is wrong
    return meshes


def _one_line(text: str) -> str:
    """`text` without the dump of the op that MLIR adds, on one line."""
    text = re.sub(r"(?:; )?see current operation:.*", "", text, flags=re.DOTALL)
    return " ".join(text.split())

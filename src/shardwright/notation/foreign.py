"""Custom syntax of dialects that jaxlib's MLIR has not, `tosa` and `linalg`: torch-mlir spells it generically.

    %0 = tosa.tanh %a : (tensor<8xf32>) -> tensor<8xf32>     %0 = "tosa.tanh"(%a) : (tensor<8xf32>) -> tensor<8xf32>

It does so in a process of its own (see `torch_mlir_generic`), of the Python that `SHARDWRIGHT_MLIR` names, else of this
one, if that has torch-mlir: `pip install "shardwright[mlir]"`. Without it such a text is refused at its first such op.
Ops of `sdy`, which torch-mlir does not know, have to be generic there; the meshes are made so here.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.ir.context import context
from shardwright.notation.notation import mentions
from shardwright.process import DEFAULT_TIMEOUT, script_child

__all__ = ["CHOSEN", "spelled_generically"]

CHOSEN = "SHARDWRIGHT_MLIR"
"""The variable that names a Python with torch-mlir."""

_DIALECTS = ("tosa", "linalg")
_OP = re.compile(rf"(?:^|[{{}}])[ \t]*(?:%[^=\n]*=[ \t]*)?((?:{'|'.join(_DIALECTS)})\.[a-z][\w.]*)", re.MULTILINE)
_MESH = re.compile(r"^([ \t]*)sdy\.mesh[ \t]+@([\w.$-]+)[ \t]*=[ \t]*(<[^\n]*>)", re.MULTILINE)
_SHARD = re.compile(r'(["!#])shard(?=[.<])')
_AS_NOBODYS = "shardwright_shard"
"""Under this name torch-mlir takes ops of `shard` as they are: those that it knows it would print with properties."""
_SCRIPT = Path(__file__).with_name("torch_mlir_generic.py")
_PLACE = re.compile(r'error: "-":(\d+)(?::(\d+))?: ([^\n]*)')
_INSTALL = 'install torch-mlir beside it, pip install "shardwright[mlir]"'
_GENERIC = "write the module in generic form: mlir-opt --mlir-print-op-generic"


def spelled_generically(text: str, name: str = "-") -> str:
    """A module in which no op of `tosa` or `linalg` is in custom syntax; `name` is its file.

    A text without such ops is given back as it is. Of another, locations tell the lines.

    Raises:
        ShardingError: there is no torch-mlir, it does not answer, or refuses the text; at the line.
    """
    first = _OP.search(text) if any(f"{dialect}." in text for dialect in _DIALECTS) else None
    if first is None or not mentions(_OP, text) or _is_loaded(first[1].partition(".")[0]):
        return text
    where = f"{name}:{text.count(chr(10), 0, first.start(1)) + 1}"
    python = os.environ.get(CHOSEN) or (sys.executable if find_spec("torch_mlir") is not None else "")
    if not python:
        raise ShardingError(
            f"the custom syntax of {first[1]} cannot be read",
            op=first[1],
            location=where,
            cause=f"jaxlib has no dialect `{first[1].partition('.')[0]}`; torch-mlir, which has, is not installed",
            remedy=f"{_INSTALL}; or {_GENERIC}",
        )
    generic = _SHARD.sub(rf"\1{_AS_NOBODYS}", _MESH.sub(_generic_mesh, text))
    return _asked(python, generic, name, first[1], where).replace(_AS_NOBODYS, "shard")


def _is_loaded(dialect: str) -> bool:
    """Whether a pass of this process has made jaxlib load a dialect: what it then prints is read as it is."""
    try:
        context().dialects[dialect]
    except IndexError:
        return False
    return True


def _generic_mesh(match: re.Match[str]) -> str:
    indent, symbol, mesh = match.groups()
    return f'{indent}"sdy.mesh"() {{mesh = #sdy.mesh{mesh}, sym_name = "{symbol}"}} : () -> ()'


def _asked(python: str, text: str, name: str, op: str, where: str) -> str:
    """What torch-mlir makes of a text."""
    from subprocess import PIPE, TimeoutExpired  # most texts need no process

    try:
        with script_child(python, _SCRIPT, stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
            made, said = child.communicate(text.encode(), timeout=DEFAULT_TIMEOUT)
            status = child.returncode
    except (OSError, TimeoutExpired) as error:
        raise _unanswered(python, op, where, f"{type(error).__name__}: {error}") from None
    if status == 0:
        return made.decode()
    told = said.decode(errors="replace").strip().replace(_AS_NOBODYS, "shard")
    place = _PLACE.search(told)
    if place is None:
        raise _unanswered(python, op, where, told.splitlines()[-1] if told else f"it ended with {status}")
    line, column, message = place.groups()
    raise ShardingError(
        f"not valid MLIR: {message}",
        location=":".join(filter(None, (name, line, column))),
        cause="torch-mlir, which is asked for the dialects that jaxlib has not, stopped there",
        remedy=f"correct the module; ops of `sdy` have to be generic beside others: {_GENERIC}",
    )


def _unanswered(python: str, op: str, where: str, why: str) -> ShardingError:
    return ShardingError(
        f"the custom syntax of {op} cannot be read",
        op=op,
        location=where,
        cause=f"torch-mlir was asked by {python}: {why}",
        remedy=f"{_INSTALL}, or name a Python that has it in {CHOSEN}; or {_GENERIC}",
    )

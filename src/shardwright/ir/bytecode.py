"""Bytecode is read in another process first: MLIR's reader ends the process for many a changed byte.

There it is also printed and measured as a text is, for what it nests and what it stands for. A process for it takes as
long as importing jaxlib's MLIR; what was read once is known by its digest, for the session.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess

from shardwright.errors import ShardingError
from shardwright.memo import current_session
from shardwright.process import python_child

__all__ = ["check_bytecode"]

_SECONDS = 8
"""Processor time; importing MLIR takes a fraction of one. Of damaged bytecode the reader may never be done."""

_SECONDS_PER_BYTE = 1e-6
_CLOCK = 4
"""How many times its processor time the reader may take by the clock, of a machine that does other things."""

_GOOD = 0
_OUT_OF_TIME = (-signal.SIGXCPU, -signal.SIGKILL)


def check_bytecode(data: bytes, name: str = "-") -> None:
    """See that MLIR survives reading bytecode, be it to refuse it.

    Raises:
        ShardingError: it does not, or the module is too deep or too large as text is (see `nesting`, `splats`).
    """
    digest = hashlib.sha256(data).digest()
    known = current_session().table(__name__)
    if digest in known:
        return
    seconds = int(_SECONDS + len(data) * _SECONDS_PER_BYTE)
    pipe = subprocess.PIPE
    with python_child(
        "shardwright.ir.bytecode_probe", str(seconds), name, stdin=pipe, stdout=pipe, stderr=pipe
    ) as reader:
        try:
            answer, _ = reader.communicate(data, timeout=_CLOCK * seconds)
        except subprocess.TimeoutExpired:
            raise _unreadable(name, f"MLIR's reader was not done after {_CLOCK * seconds} seconds") from None
    if reader.returncode in _OUT_OF_TIME:
        raise _unreadable(name, f"MLIR's reader was not done after {seconds} seconds")
    if reader.returncode != _GOOD:
        raise _unreadable(name, f"MLIR's reader ends the process that reads it (status {reader.returncode})")
    if answer:
        raise ShardingError(**json.loads(answer))
    known[digest] = True


def _unreadable(name: str, cause: str) -> ShardingError:
    return ShardingError(
        "the bytecode cannot be read",
        location=name,
        cause=cause,
        remedy="write the file anew: it is damaged, cut short or no bytecode of StableHLO",
    )

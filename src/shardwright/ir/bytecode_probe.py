"""Reads bytecode from standard input, prints it and measures it, in a process that may end of that.

    python -P -m shardwright.ir.bytecode_probe SECONDS NAME < step.mlirbc

Standard output gets what is wrong as a `Diagnostic` in JSON. What MLIR refuses is not wrong here: who asked will be
told the same.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from contextlib import suppress
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import check_text, context, ir, module_text, parse_bytecode

__all__: list[str] = []

_BYTES = 4 << 30
_BYTES_PER_BYTE = 40


def _limit(seconds: int, size: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # not everywhere, or lower already
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        most = _BYTES + _BYTES_PER_BYTE * size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Read, print, measure."""
    seconds, name = int(sys.argv[1]), sys.argv[2]
    data = sys.stdin.buffer.read()
    _limit(seconds, len(data))
    quiet: Any = context().attach_diagnostic_handler(lambda _: True)
    try:
        check_text(module_text(parse_bytecode(data, name), locations=True), name)
    except (ir.MLIRError, ValueError):
        pass
    except ShardingError as error:
        diagnostic = dataclasses.asdict(error.diagnostic)
        print(json.dumps({**diagnostic, "location": name}))  # lines are those of the text printed here
    finally:
        quiet.detach()


if __name__ == "__main__":
    main()

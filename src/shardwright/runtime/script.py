"""One of several processes that run a Python file: `-m shardwright.runtime.script FOLDER FILE … NUMBER COUNT PORT`.

Its CPU devices are joined with those of the others before the file runs, so that `jax.devices()` are those of all. See
`runtime.launch` for how they are started.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.runtime.launch import ADDRESS
from shardwright.runtime.worker import watch_parent

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the file as `__main__`, with the arguments that follow it; where that fails, say why in `NUMBER.error`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent knows what to do
    folder, (number, count, port) = Path(arguments[0]), map(int, arguments[-3:])
    threading.Thread(target=watch_parent, args=(folder, os.getppid()), daemon=True).start()

    _keep_output_clean()

    import jax

    from shardwright.runtime.xla import join_processes

    join_processes(ADDRESS, port, count, number)
    sys.argv = arguments[1:-3]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))  # as Python itself does it for a file
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            _tell(folder / f"{number}.error", f"it exits with {end.code}")
            return 1
    except BaseException as error:  # whatever a file raises ends all processes
        _tell(folder / f"{number}.error", _words(error))
        traceback.print_exc()
        return 1
    sys.stdout.flush()
    jax.distributed.shutdown()  # waits for the others, who may still be sent something
    return 0


def _keep_output_clean() -> None:
    """Let only Python print where this process prints: collectives of XLA tell there of every connection they make."""
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(own, "w", buffering=1)


def _words(error: BaseException) -> str:
    """What an error says, in one line."""
    words = error.diagnostic.message if isinstance(error, ShardingError) else str(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {words}"


def _tell(path: Path, words: str) -> None:
    """Say why, before what the other processes lose is noticed by them."""
    sys.stdout.flush()
    path.write_text(words)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))

"""A process that runs jobs: `python -P -m shardwright.runtime.worker FOLDER [DESCRIPTOR]`.

XLA needs to know the number of virtual devices before it starts, and a module it does not like may abort it. So jobs
go to a process of their own, by way of a folder: see `runtime.jobs` for the files. Standard input is a pipe from the
process that wants them run: when it closes, that process is gone, and the folder and this process go too. Functions of
Python that jobs call are asked for by the descriptor, see `runtime.calls`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from pathlib import Path

from shardwright.process import remove_folder

__all__ = ["main", "watch_parent"]

_PATIENCE = 5.0
"""Seconds after which the parent is looked for, as its pipe may have been inherited by others."""


def main(arguments: list[str]) -> int:
    """Run the jobs in the folder `arguments[0]`; a job that fails leaves its error and the next is run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent knows what to do
    folder = Path(arguments[0])
    threading.Thread(target=watch_parent, args=(folder, os.getppid()), daemon=True).start()

    from shardwright.errors import ShardingError
    from shardwright.runtime.calls import Asking
    from shardwright.runtime.jobs import NO_ROOM, Execution, load_jobs, save_results
    from shardwright.runtime.xla import run_job

    asking = Asking(int(arguments[1])) if len(arguments) > 1 else None
    for number, job in enumerate(load_jobs(folder, asking)):
        result: Execution | str
        try:
            result = run_job(job)
        except ShardingError as error:
            result = error.diagnostic.message
        try:
            save_results(folder, number, result)
        except OSError as error:
            (folder / f"{number}.json").unlink(missing_ok=True)
            print(error.strerror or error, file=sys.stderr)
            return NO_ROOM
    return 0


def watch_parent(folder: Path, parent: int) -> None:
    """End this process with its parent, and the folder with it."""
    while not select.select([0], [], [], _PATIENCE)[0] and os.getppid() == parent:
        pass
    remove_folder(folder)
    os._exit(1)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once, whatever a program on trial is still at

"""A process that runs jobs: `python -m shardwright.runtime.worker FOLDER`.

XLA needs to know the number of virtual devices before it starts, and a module it does not like may abort it. So jobs
go to a process of their own, by way of a folder: see `runtime.jobs` for the files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.runtime.jobs import load_jobs, save_results

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the jobs in the folder `arguments[0]`; a job that fails leaves its error and the next is run."""
    from shardwright.runtime.xla import run_job

    folder = Path(arguments[0])
    for number, job in enumerate(load_jobs(folder)):
        try:
            save_results(folder, number, run_job(job))
        except ShardingError as error:
            save_results(folder, number, error.diagnostic.message)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

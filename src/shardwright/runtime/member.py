"""One of several processes that run a job together: `python -P -m shardwright.runtime.member FOLDER NUMBER COUNT PORT`.

Each runs the partitions of its own devices, from its own shards of the inputs, and leaves its shards of the results in
the folder; the process that wants them puts them together. See `runtime.launch` for how they are started.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from shardwright.runtime.worker import watch_parent

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the first job in the folder with the others; where that fails, say why in the file `NUMBER.error`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent knows what to do
    folder, number, count, port = Path(arguments[0]), int(arguments[1]), int(arguments[2]), int(arguments[3])
    threading.Thread(target=watch_parent, args=(folder, os.getppid()), daemon=True).start()

    import jax

    from shardwright.errors import ShardingError
    from shardwright.runtime.jobs import NO_ROOM, load_jobs, save_part
    from shardwright.runtime.launch import ADDRESS
    from shardwright.runtime.pieces import cut_inputs
    from shardwright.runtime.refused import refusal
    from shardwright.runtime.xla import compile_local, join_processes

    join_processes(ADDRESS, port, count, number)
    (job,) = load_jobs(folder)
    assert job.mesh is not None
    try:
        start = time.perf_counter()
        executable = compile_local(job.module, job.mesh, repeatable=True)
        compiled = time.perf_counter()
        given = [[shards[partition] for partition in executable.here] for shards in cut_inputs(job)]
        results = executable.run(given)
        seconds = compiled - start, time.perf_counter() - compiled
        save_part(folder, number, executable.here, results, seconds)
    except OSError as error:
        print(error.strerror or error, file=sys.stderr)
        return NO_ROOM
    except (ShardingError, jax.errors.JaxRuntimeError, ValueError) as error:
        words = error.diagnostic.message if isinstance(error, ShardingError) else refusal(str(error))
        (folder / f"{number}.error").write_text(words)
        return 1
    jax.distributed.shutdown()  # waits for the others, who may still be sent something
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))

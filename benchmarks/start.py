"""What it takes to start: processor time of `shardwright --help` and `import shardwright`, in fresh interpreters.

`load` is importing the package and what reads programs, which is the least that a user of it ends up with. Beside each,
in turns, stands what nothing that reads MLIR can do without: importing jaxlib's MLIR with the dialects that we use, and
nothing else. Whole processes are measured, the interpreter's own start and end included on every side. What is imported
is bytecode on every side, as it is once installed, whatever this environment says of keeping it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from common import REPETITIONS, ROOT, ChildError, Report, Sample, in_turns

DIALECTS = "builtin, chlo, func, mhlo, sdy, stablehlo"
PEER = f"from jaxlib.mlir import ir, passmanager; from jaxlib.mlir.dialects import {DIALECTS}"
COMMAND = "from shardwright.cli import main; main()"
OPT = "from shardwright.opt import main; main()"
MLP = str(ROOT / "examples" / "mlp.mlir")

STARTS = {
    "help": ((COMMAND, "--help"), 1.1),
    "import": (("import shardwright",), 1.5),
    "version": ((COMMAND, "--version"), None),
    "run_help": ((COMMAND, "run", "--help"), None),
    "opt_help": ((OPT, "--help"), None),
    "load": (("import shardwright as sw; sw.load",), 1.5),
    "propagate": ((COMMAND, "propagate", MLP), None),
    "partition": ((COMMAND, "partition", MLP), None),
}
"""Name → the code and its arguments, and how many times the peer's time it may take."""


def start(code: str, *arguments: str) -> Sample:
    """The processor time of a fresh interpreter, its output thrown away."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with Path(os.devnull).open("w") as nowhere:
        child = subprocess.Popen(command, env=environment, stdout=nowhere, stderr=subprocess.PIPE)
        assert child.stderr is not None
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise ChildError(errors.decode(errors="replace"))
    return Sample(usage.ru_utime + usage.ru_stime, None, usage.ru_maxrss * 1024)


def main() -> None:
    report = Report()
    sides = {name: partial(start, *arguments) for name, (arguments, _) in STARTS.items()}
    start(PEER)  # what is on disk is in memory from now on, and compiled, on every side
    for side in sides.values():
        side()
    samples = in_turns({"mlir": partial(start, PEER), **sides}, max(7, REPETITIONS))
    alone = samples["mlir"].seconds
    report.add("start.mlir.ms", alone * 1e3)
    for name, (_, at_most) in STARTS.items():
        report.add(f"start.{name}.ms", samples[name].seconds * 1e3)
        report.add(f"start.{name}.ratio", samples[name].seconds / alone, at_most)
    report.exit()


if __name__ == "__main__":
    try:
        main()
    except ChildError as error:
        sys.exit(str(error))

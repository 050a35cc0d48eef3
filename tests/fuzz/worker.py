"""A process that judges one case after the other, so that what ends it ends nothing else.

Reads lines of JSON, a number or a case, from standard input and answers each with a line on the file that it is given.
"""

from __future__ import annotations

import base64
import faulthandler
import gc
import json
import os
import resource
import sys
from pathlib import Path
from typing import TextIO

__all__ = ["main"]

MEMORY = 2 << 30
"""What the machine of a case is said to have, in bytes."""


def main(answers: int) -> None:
    """Work until standard input ends."""
    faulthandler.enable(all_threads=False)
    from tests.fuzz.case import Case, case
    from tests.fuzz.corpus import literals
    from tests.fuzz.judge import judged

    literals()
    gc.collect()
    gc.freeze()  # what is there by now stays
    asked: TextIO = os.fdopen(os.dup(0), "r")
    resource.setrlimit(resource.RLIMIT_RSS, (MEMORY, MEMORY))  # commands refuse to run what takes more
    os.environ["TMPDIR"] = str(Path("tmp").absolute())
    with os.fdopen(answers, "w", buffering=1) as answer:
        answer.write("ready\n")
        for line in asked:
            told = json.loads(line)
            if "number" in told:
                given = case(told["number"], told.get("kind"))
            else:
                given = Case("", (), base64.b64decode(told["content"]), tuple(told["command"]))
            # MLIR's reader of damaged bytecode may write over the heap, which shows later only.
            started = {"command": given.command[:2], "is_last": bool(given.changes) and b"ML\xef" in given.content[:8]}
            answer.write(f"start {json.dumps(started)}\n")
            answer.write(judged(given).as_json() + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""A process that judges programs by number: `python -m tests.graphs.worker NUMBER…`, one JSON line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tests.graphs.judge import judged
from tests.graphs.programs import program


def main(arguments: Sequence[str]) -> None:
    """Judge these programs; what ends this process leaves the lines of none."""
    programs = [program(int(number)) for number in arguments]
    for made, verdict in zip(programs, judged(programs), strict=True):
        print(json.dumps({"verdict": asdict(verdict), "families": made.families()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

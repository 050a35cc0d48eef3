"""The environment of peers that are not in `.venv`: `make oracles` makes it in `build/oracles`.

`ask("dtensor", questions)` runs `tests/oracles/dtensor.py` there, gives it the questions as JSON and returns its answers.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PYTHON = Path(os.environ.get("SHARDWRIGHT_ORACLES") or HERE.parents[1] / "build" / "oracles" / "bin" / "python")


def ask(peer: str, questions: Sequence[Any], *, timeout: float = 300.0) -> list[Any]:
    """One answer for each question, or the test is skipped where there is nobody to ask."""
    if not PYTHON.exists():
        pytest.skip(f"no peers at {PYTHON}: run `make oracles`")
    done = subprocess.run(
        [str(PYTHON), str(HERE / f"{peer}.py")],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answers, list)
    assert len(answers) == len(questions)
    return answers

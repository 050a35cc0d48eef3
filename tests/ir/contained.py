"""Texts given to the reader in a process of its own, of limited time and memory: some ended the process."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["read_contained"]

_SECONDS = 60
_BYTES = 6 << 30
_READ = f"""
import base64, json, resource, sys
from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
resource.setrlimit(resource.RLIMIT_AS, ({_BYTES}, {_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for is_text, text in json.load(sys.stdin):
    try:
        text = text if is_text else base64.b64decode(text)
        parse_source(text, "f.mlir")
        answer = "read"
    except ShardingError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


def read_contained(texts: Sequence[str | bytes]) -> list[str]:
    """For each text, or bytecode, `read` or the diagnostic that it ends in; an assertion fails where the process dies of one."""

    done = subprocess.run(
        [sys.executable, "-P", "-c", _READ],
        input=json.dumps([_spelt(text) for text in texts]),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(texts), f"text {len(answers)} ends the process: {done.returncode} {done.stderr[-2000:]}"
    return answers


def _spelt(content: str | bytes) -> tuple[bool, str]:
    return (True, content) if isinstance(content, str) else (False, base64.b64encode(content).decode())

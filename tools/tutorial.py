"""Writes `docs/tutorial.md` anew: runs its commands, in order, and puts what they print in place of what stands there.

In the page `<!-- file: NAME -->` ahead of a block makes a file of it; in blocks of kind `console` lines that begin with
`$ ` are commands. Locations and what was measured are left out of what they print.

Run as `python tools/tutorial.py`; with `--check` it writes nothing and exits with 1 if the page is stale.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from shardwright.cli import cli

FILE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"

_BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
_LOCATION = re.compile(r' loc\((?:"[^"]*"|#loc\d*|unknown)\)|^#loc.*\n', re.MULTILINE)
_MEASURED = re.compile(r"\nTime\n(?:  .*\n)+|(?<=unsharded program\n)(?:  .*\n)+")


def render(page: str) -> str:
    """The page with what its commands print now.

    Raises:
        RuntimeError: a command fails.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _BLOCK.sub(_rendered, page)


def _rendered(block: re.Match[str]) -> str:
    if block["file"]:
        Path(block["file"]).write_text(block["body"])
    if block["kind"] != "console":
        return block[0]
    commands = [line.removeprefix("$ ") for line in block["body"].splitlines() if line.startswith("$ ")]
    return f"```console\n{''.join(map(_run, commands))}```"


def _run(command: str) -> str:
    """A command and what it prints."""
    program, *arguments = shlex.split(command)
    if program != "shardwright":
        raise RuntimeError(f"not a command of ours: {command}")
    result = CliRunner().invoke(cli, arguments)
    if result.exit_code:
        raise RuntimeError(f"{command}\n{result.output}")
    printed = _MEASURED.sub("", _LOCATION.sub("", result.stdout)).strip("\n")
    return f"$ {command}\n{printed}\n"


def main() -> int:
    """Run the commands of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    page = FILE.read_text()
    rendered = render(page)
    if not parser.parse_args().check:
        FILE.write_text(rendered)
    elif rendered != page:
        print(f"{FILE.name} is stale: run python tools/tutorial.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

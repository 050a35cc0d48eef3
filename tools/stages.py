"""Whether a change of the source changes what it writes: `python tools/stages.py COMMIT [--programs N]`.

Every example and N random programs are taken through all stages by the working tree and by COMMIT, each in processes of
its own; the modules (or the diagnostics) must be the same to the byte. A refactoring shows so that nothing changed.

Exit status: 0 where all is the same, 1 where something differs; the first differences are printed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("propagated", "explicit", "local")
EXAMPLES = ("mlp", "decode", "gpt2", "gpt8", "gpt32_scan")
SHOWN = 5

# Names of this package that every commit since the first has had, and no others: an older one runs this as well.
TAKE_THROUGH = """
import json, sys
import shardwright as sw

for line in sys.stdin:
    name, text = json.loads(line)
    written = {}
    try:
        plan = sw.load(text).plan()
        written["propagated"] = plan.module()
        spmd = plan.partition()
        for stage in ("explicit", "local"):
            written[stage] = spmd.module(stage)
        written["notes"] = "\\n".join(map(str, spmd.notes))
    except sw.ShardingError as error:
        written["diagnostic"] = str(error)
    except Exception as error:
        written["failure"] = f"{type(error).__name__}: {error}"
    print(json.dumps([name, written]), flush=True)
"""

Written = dict[str, str]
"""What became of a program: text by stage, and what was said of it."""


def programs(count: int) -> Iterator[tuple[str, str]]:
    """The examples and `count` random programs, half of them of every kind of op, by name."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    from tests.propagation.programs import random_program
    from tests.propagation.programs_wide import wide_program

    for name in EXAMPLES:
        yield name, (ROOT / "examples" / f"{name}.mlir").read_text()
    for seed in range(count // 2):
        yield f"random {seed}", random_program(seed)
        yield f"wide {seed}", wide_program(seed)


def taken_through(source: Path, texts: Sequence[tuple[str, str]]) -> dict[str, Written]:
    """What the package in `source` makes of every program; one that ends the process says so, and the rest go on."""
    written: dict[str, Written] = {}
    rest = list(texts)
    while rest:
        environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0", "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(
            [sys.executable, "-P", "-c", TAKE_THROUGH],
            input="".join(json.dumps(pair) + "\n" for pair in rest),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        answers = dict(json.loads(line) for line in done.stdout.splitlines())
        written |= answers
        rest = rest[len(answers) :]
        if rest:
            if done.returncode >= 0:
                sys.exit(f"{source} cannot be run:\n{done.stderr[-2000:]}")
            written[rest.pop(0)[0]] = {"failure": f"the process ended with {done.returncode}"}
    return written


def compared(before: dict[str, Written], after: dict[str, Written]) -> list[str]:
    """The names of the programs that came out otherwise; the first few are shown."""
    different = [name for name in after if before[name] != after[name]]
    for name in different[:SHOWN]:
        for stage in sorted(before[name].keys() | after[name].keys()):
            one, other = (side[name].get(stage, "").splitlines() for side in (before, after))
            lines = list(difflib.unified_diff(one, other, f"{name}, {stage}, before", "after", lineterm="", n=1))
            print("\n".join(lines[:24]))
    return different


def main(arguments: Sequence[str]) -> int:
    """Compare, and say how much there was to compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with, as git names it")
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="random programs (default: 1000)")
    options = parser.parse_args(arguments)
    texts = list(programs(options.programs))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), options.commit], check=True)
        try:
            with ThreadPoolExecutor() as pool:
                sides = pool.map(lambda source: taken_through(source, texts), (tree / "src", ROOT / "src"))
                before, after = sides
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
    different = compared(before, after)
    local = sum("local" in written for written in after.values())
    refused = sum("diagnostic" in written for written in after.values())
    failed = sum("failure" in written for written in after.values())
    print(
        f"{len(texts)} programs, {local} partitioned, {refused} refused, {failed} failed; "
        f"{len(different)} differ from {options.commit}{': ' if different else ''}{', '.join(different[:20])}"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

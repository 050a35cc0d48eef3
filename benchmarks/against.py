"""Whether this tree is slower than a commit: `python benchmarks/against.py COMMIT [FILE …] [--rounds N]`.

Every benchmark (or those named, such as `propagation`) is run by COMMIT and by this tree in turns, on the same machine
in the same hour. Each figure that both have is printed as this tree's median over the commit's; above 1.05 it is short.
A commit's benchmarks measure themselves by its own files, so figures are compared that mean the same in both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from common import ROOT, Report

AT_MOST = 1.05
HERE = Path(__file__).name
NO_BENCHMARKS = {"common.py", HERE}

Figures = dict[str, list[float]]
"""What each figure was, round by round."""


def run(tree: Path, name: str, figures: Figures) -> None:
    """Run a benchmark of a tree and add its figures; that some are short does not matter here."""
    command = [sys.executable, str(tree / "benchmarks" / f"{name}.py")]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[3] in ("ok", "short"):
            figures.setdefault(f"{name}: {parts[0]}", []).append(float(parts[1]))
    if done.returncode not in (0, 1) or not any(figure.startswith(f"{name}: ") for figure in figures):
        sys.exit(f"{tree / 'benchmarks' / name}.py failed:\n{done.stderr[-2000:]}")


def main(arguments: Sequence[str]) -> None:
    """Measure both sides in turns and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with, as git names it")
    parser.add_argument("files", nargs="*", metavar="FILE", help="benchmarks by name (default: all that both have)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each side (default: 3)")
    options = parser.parse_args(arguments)
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(before), options.commit], check=True)
        try:
            report = compared(before, options.files, options.rounds)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(before)], check=True)
    report.exit()


def compared(before: Path, files: Sequence[str], rounds: int) -> Report:
    """The ratio of every figure that both trees print."""
    trees = {tree: {path.name for path in (tree / "benchmarks").glob("*.py")} for tree in (before, ROOT)}
    names = files or sorted(Path(name).stem for name in (trees[before] & trees[ROOT]) - NO_BENCHMARKS)
    report = Report()
    for name in names:
        figures: dict[Path, Figures] = {tree: {} for tree in trees}
        for _ in range(rounds):
            for tree, measured in figures.items():
                run(tree, name, measured)
        for figure, values in figures[ROOT].items():
            earlier = median(figures[before].get(figure, [0.0]))
            if earlier:
                report.add(figure.replace(": ", "."), median(values) / earlier, AT_MOST)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])

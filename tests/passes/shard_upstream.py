"""What upstream's `mlir-opt` makes of the cases of `shard_cases`: `python -m tests.passes.shard_upstream` asks it anew.

Both sides are compared in one form, a line for each op: attributes that hold what is there without them are left out,
constants stand where they are read, and values are numbered as they come.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.passes.shard_cases import CASES, module

__all__ = ["MLIR_OPT", "asked", "known", "normal"]

MLIR_OPT = shutil.which("mlir-opt-22")
FILE = Path(__file__).with_name("shard_upstream.txt")

_DEFAULTS = re.compile(
    r"(?:static_halo_sizes|static_sharded_dims_offsets) = array<i64>|(?:grid_)?axes = array<i16>"
    r"|reduction = #shard\.partial<sum>|overflowFlags = #arith\.overflow<none>|fastmath = #arith\.fastmath<none>"
)
_FORMS = (
    (re.compile(r"<\{(.*)\}>"), r"{\1}"),
    (re.compile(r"#shard<axisarray(\[.*?\]|\[\[.*?\]\])>(?=[,}])"), r"#shard.axisarray<\1>"),
    (re.compile(r"#shard<partial (\w+)>"), r"#shard.partial<\1>"),
    (re.compile(r"scatter_axis = "), "scatter_dim = "),
)
_CONSTANT = re.compile(r'(%\w+) = "arith\.constant"\(\) \{value = (.*)\} : \(\) -> \S+')
_VALUE = re.compile(r"%\w+")
_MAP = re.compile(r"(#map\d*) = (.*)")


def normal(text: str) -> str:
    """A module in generic form as both sides are compared."""
    lines: list[str] = []
    names: dict[str, str] = {}
    maps: dict[str, str] = {}
    for line in text.splitlines():
        if found := _MAP.fullmatch(line):
            maps[found[1]] = found[2]
            continue
        if '"func.func"' in line:
            names = {}
        plain = _plain(line)
        if found := _CONSTANT.fullmatch(plain):
            names[found[1]] = f"⟨{found[2]}⟩"
            continue
        plain = re.sub(r"#map\d*", lambda match: maps[match[0]], plain)
        lines.append(_VALUE.sub(partial(_named, names=names), plain))
    return "\n".join(line for line in lines if line and '"shard.grid"' not in line) + "\n"


def _named(match: re.Match[str], names: dict[str, str]) -> str:
    """A value by its number among those that are no constants."""
    numbered = sum(known[0] == "%" for known in names.values())
    return names.setdefault(match[0], f"%{numbered}")


def _plain(line: str) -> str:
    """An op without what says nothing."""
    for form, plain in _FORMS:
        line = form.sub(plain, line)
    start, end = line.find(" {"), line.rfind("}")
    if start < 0 or end < start or '"func.func"' in line:
        return line.strip()
    kept = [part for part in _split(line[start + 2 : end]) if not _DEFAULTS.fullmatch(part)]
    inside = f" {{{', '.join(sorted(kept))}}}" if kept else ""
    return (line[:start] + inside + line[end + 1 :]).strip()


def _split(text: str) -> Iterator[str]:
    """The attributes of an op."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[<({") - (letter in "]>)}" and text[place - 1] != "-")
        if letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def asked(name: str, functions: Sequence[str]) -> list[str]:
    """What the peer makes of functions, each by itself, in the form in which it is compared."""
    assert MLIR_OPT is not None
    text = "\n// -----\n".join(module(one).replace("scatter_dim", "scatter_axis") for one in functions)
    done = subprocess.run(
        [MLIR_OPT, "--split-input-file", f"--{name}", "-mlir-print-op-generic", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [normal(one) for one in done.stdout.split("// -----\n")]


def known() -> Mapping[str, Mapping[str, str]]:
    """What it made of them when it was asked: by pass, by function."""
    found: dict[str, dict[str, str]] = {}
    for part in FILE.read_text().split("=== ")[1:]:
        head, _, text = part.partition("\n")
        name, function = head.split()
        found.setdefault(name, {})[function] = text
    return found


def main() -> None:
    """Ask, and write it down."""
    parts = [
        f"=== {name} {function}\n{text}"
        for name, functions in CASES.items()
        for function, text in zip(functions, asked(name, list(functions.values())), strict=True)
    ]
    FILE.write_text("".join(parts))


if __name__ == "__main__":
    main()

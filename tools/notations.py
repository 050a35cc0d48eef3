"""Writes `docs/notations.md`: what each notation of single shardings can say, found by trying.

Run as `python tools/notations.py`; with `--check` it writes nothing and exits with 1 if the file is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardwright.notation.registry import notation
from shardwright.notation.table import Support, table

FILE = Path(__file__).resolve().parents[1] / "docs" / "notations.md"

HEAD = """\
# What each notation of shardings can say

`tools/notations.py` writes this file. For every feature a sharding that needs it is printed in each notation and read
back, on the mesh `x=2, y=4` unless the feature asks for another. The rows "text with …" are read only.

- **yes**: it comes back as it was.
- **layout**: every device holds the same as before; the rest of what was said is lost.
- **no**: it is refused, in the words listed below under the number.
- **–**: the notation has no text for it.
"""


def render() -> str:
    """The whole file."""
    cells = table()
    refusals = list(dict.fromkeys(cell.refusal for row in cells.values() for cell in row.values() if cell.refusal))
    numbers = {refusal: number for number, refusal in enumerate(refusals, 1)}
    blocks = [HEAD, *_summary(cells, numbers), "\n## Refusals\n"]
    blocks += [f"{number}. {_prose(refusal)}" for refusal, number in numbers.items()]
    blocks += ["\n## How each writes it", *_texts(cells)]
    return "\n".join(blocks) + "\n"


def _summary(cells: dict[str, dict[str, Support]], numbers: dict[str, int]) -> Iterator[str]:
    names = list(next(iter(cells.values())))
    yield "| | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * len(names)
    for feature, row in cells.items():
        yield f"| {feature} | " + " | ".join(_verdict(row[name], numbers) for name in names) + " |"
    yield ""
    yield from (f"- `{name}`: {_prose(notation(name).title)}" for name in names)


def _verdict(cell: Support, numbers: dict[str, int]) -> str:
    if cell.verdict == "no":
        return f"no ({numbers[cell.refusal]})"
    return "–" if cell.verdict == "none" else cell.verdict


def _prose(text: str) -> str:
    """Text in which markdown finds no tags."""
    plain = text.split("`")
    plain[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in plain[::2]]
    return "`".join(plain)


def _texts(cells: dict[str, dict[str, Support]]) -> Iterator[str]:
    for feature, row in cells.items():
        written = [(name, text) for name, cell in row.items() if cell.verdict != "no" for text in cell.texts]
        if written:
            yield f"\n### {feature.capitalize()}\n"
            yield "```"
            yield from (f"{name:8} {text}" for name, text in written)
            yield "```"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or with `--check` compare it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if the file is stale")
    parser.add_argument("--file", type=Path, default=FILE, help="instead of docs/notations.md")
    chosen = parser.parse_args(arguments)
    text = render()
    if not chosen.check:
        chosen.file.parent.mkdir(exist_ok=True)
        chosen.file.write_text(text, encoding="utf-8")
        return 0
    if chosen.file.exists() and chosen.file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{chosen.file} is stale: run `python tools/notations.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

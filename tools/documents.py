"""Writes `docs/documents.md`: the listings of the founding documents, what is mended in them, and the test of each.

Run as `python tools/documents.py`; with `--check` it writes nothing and exits with 1 if the file is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "documents.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from shardwright.words import counted  # noqa: E402
from tests.notation.document_stages import STAGES  # noqa: E402
from tests.notation.documents import DOCUMENTS, Listing, listings  # noqa: E402  # by the path above
from tests.notation.snippets import Mend  # noqa: E402

RUNNING = "tests/notation/test_documents.py::test_they_are_partitioned_run_and_equal_the_unsharded_programs"
ATTRIBUTES = "tests/notation/test_document_attributes.py"
STAGES_TEST = "tests/notation/test_document_stages.py"
HEAD = f"""\
# The founding documents, listing by listing

`tools/documents.py` writes this file from the tests. Five public texts say what shardings are; each piece of IR in them
is a test, as it is printed there:

- **whole**: it is read as it is printed, and says what the text says it does.
- **mended**: so it is once misprints are put right and what is elided is filled in; what, and why, is listed below.
- **refused**: it cannot be meant as it stands, or our model cannot hold it; it is refused in these words. None is.

What is a program is partitioned and run on virtual devices, as it is printed, on 2 and on 8, and equals the unsharded
program (**runs**), in
`{RUNNING}`.
What names its devices, or is written for one of so many, **runs as printed**; an attribute in a program of one op
(`{ATTRIBUTES}`). What a text elides is filled in with ops that run, and what an op of
nobody, `"use"`, reads is what the program gives. Of what is not run it is said why.
"""

STAGES_HEAD = f"""
## From stage to stage

Where a text says what becomes of a listing, what we make of it is compared with that, op by op: how each op reads its
operands and how its results lie, by annotations or by types, its attributes, and along which axes its loops are split
(`{STAGES_TEST}`). What we make at each stage runs, on 2 and on 8 devices, and equals the
unsharded program; so does what the texts show. Annotations are left out that say what is said already.
"""


def render() -> str:
    """The whole file."""
    every = list(listings())
    blocks = [HEAD, *_summary(every)]
    for document, some in groupby(every, lambda listing: listing.number[:3]):
        blocks += [f"\n## {document}: {DOCUMENTS[document]}\n", *_table(list(some))]
    blocks += [STAGES_HEAD, *_stages()]
    blocks += ["\n## What is mended\n", *_mends(every)]
    return "\n".join(blocks) + "\n"


def _verdict(listing: Listing) -> str:
    return "refused" if listing.refused else "mended" if listing.mends else "whole"


def _summary(every: Sequence[Listing]) -> Iterator[str]:
    yield "| document | listings | whole | mended | refused | run |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for document, title in DOCUMENTS.items():
        some = [listing for listing in every if listing.number.startswith(document)]
        counts = Counter(map(_verdict, some))
        verdicts = " | ".join(str(counts[verdict]) for verdict in ("whole", "mended", "refused"))
        yield f"| {document}, {title} | {len(some)} | {verdicts} | {sum(not one.idle for one in some)} |"


def _table(some: Sequence[Listing]) -> Iterator[str]:
    tests = list(dict.fromkeys(listing.test.partition("[")[0] for listing in some))
    yield f"Read by {', '.join(f'`{test}`' for test in tests)}.\n"
    yield "| listing | | | |"
    yield "| --- | --- | --- | --- |"
    for listing in some:
        runs = "runs as printed" if listing.printed else "runs"
        run = "" if listing.refused else f"not run: {listing.idle}" if listing.idle else runs
        said = f"refused: {listing.refused}" if listing.refused else _verdict(listing)
        yield f"| {listing.number} | {_cell(listing.title)} | {said} | {run} |"


def _stages() -> Iterator[str]:
    yield "| from | to | | |"
    yield "| --- | --- | --- | --- |"
    for stage in STAGES:
        ops = sum(len(one.theirs) for one in stage.differences)
        found = f"differs in {counted(ops, 'op')}" if stage.differences else "the same, op by op"
        yield f"| {stage.before} | {stage.after} | {stage.how} | {found} |"
    for stage in STAGES:
        for one in stage.differences:
            yield f"\n{stage.before} → {stage.after}: {one.reason}.\n"
            yield "```diff"
            yield from (f"- {row}" for row in one.theirs)
            yield from (f"+ {row}" for row in one.ours)
            yield "```"


def _mends(every: Sequence[Listing]) -> Iterator[str]:
    where: dict[Mend, list[str]] = {}
    for listing in every:
        for mend in listing.mends:
            where.setdefault(mend, []).append(listing.number)
    for (wrong, right, reason), numbers in where.items():
        yield f"- {', '.join(numbers)}: {_code(wrong)} → {_code(right)}: {reason}"


def _code(text: str) -> str:
    """Text as code on a line of its own kind; what is long is cut."""
    line = " ↵ ".join(part.strip() for part in text.strip().splitlines()) or "a line break"
    short = line if len(line) <= 80 else line[:79] + "…"
    return f"`` {short} ``" if "`" in short else f"`{short}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or look whether it is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is stale")
    if parser.parse_args(arguments).check:
        if FILE.exists() and FILE.read_text(encoding="utf-8") == render():
            return 0
        print(f"{FILE} is stale: run `python tools/documents.py`", file=sys.stderr)
        return 1
    FILE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

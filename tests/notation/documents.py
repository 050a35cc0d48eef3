"""The listings of the founding documents, numbered, and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.notation.snippets import Mend, Snippet
from tests.notation.snippets_attributes import MHLO, PAGE
from tests.notation.snippets_forum import FORUM
from tests.notation.snippets_sdy import MESHES, REFERENCE
from tests.notation.snippets_slides import SLIDES

__all__ = ["DOCUMENTS", "Listing", "idle", "listings", "snippet"]

DOCUMENTS = {
    "000": "MHLO sharding format",
    "001": "MLIR, `mesh.sharding`",
    "002": 'the slides "Sharding Framework Design for Device Mesh"',
    "003": "the mesh RFC on LLVM's forum",
    "004": "the reference of the `sdy` dialect",
}
_HERE = "tests/notation/test_documents.py"
_LOCAL = "of one device, with nothing but an op of nobody"
_IDLE = (
    ("tensor<?", "its sizes are not known"),
    ('"mhlo.reduce_scatter"', _LOCAL),
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A listing of a document.

    Attributes:
        number: The document and the place in it: `002.7`.
        title: What it shows.
        mends: What is wrong in print, and what was meant.
        refused: The words that refuse it, where it is refused.
        idle: Why it is not run, where it is not.
        printed: Whether it runs as it is printed only: it names its devices, or is written for one of so many.
        test: The test that reads it.
    """

    number: str
    title: str
    mends: tuple[Mend, ...]
    refused: str
    idle: str
    test: str
    printed: bool = False


def snippet(number: str) -> Snippet:
    """A listing of 002, 003 or 004 that is a module, by its number."""
    document, _, place = number.partition(".")
    return {"002": SLIDES, "003": FORUM, "004": REFERENCE}[document][int(place) - 1]


def idle(snippet: Snippet) -> str:
    """Why a snippet cannot be run; nothing where it can."""
    if snippet.refused:
        return "refused"
    if "func.func" not in snippet.module:
        return "no program"
    if '"use"' in snippet.module and "#mesh.shard" not in snippet.module:
        return _LOCAL if "mesh.annotate" not in snippet.module else ""
    return next((reason for text, reason in _IDLE if text in snippet.module), "")


def listings() -> Iterator[Listing]:
    """All there are, in order."""
    yield from _of_attributes("000", MHLO, "test_annotations_of_mhlo_give_devices_the_parts_that_are_shown")
    yield from _of_attributes("001", PAGE, "test_shardings_of_the_dialect_page")
    reading = "test_it_is_told_from_upstream_reads_and_says_what_it_says"
    yield from _of_programs("002", SLIDES, reading)
    yield from _of_programs("003", FORUM, reading)
    yield from _of_programs("004", REFERENCE, "test_examples_of_the_reference_say_what_they_say")
    for number, (text, axes, _) in enumerate(MESHES, len(REFERENCE) + 1):
        test = f"{_HERE}::test_meshes_of_the_reference"
        yield Listing(f"004.{number}", f"`{text}`", (), "", "" if axes else "one device", test, printed=True)


def _of_attributes(document: str, texts: Sequence[tuple], test: str) -> Iterator[Listing]:
    for number, (text, mends, *_) in enumerate(texts, 1):
        yield Listing(f"{document}.{number}", f"`{text}`", mends, "", "", f"{_HERE}::{test}", printed=True)


def _of_programs(document: str, snippets: Sequence[Snippet], test: str) -> Iterator[Listing]:
    for number, one in enumerate(snippets, 1):
        title, why = one.origin.partition(", ")[2], idle(one)
        if (why == _LOCAL and "use" not in one.module) or "mesh.idx" in one.module:  # in a test of its own
            why = ""
        where = f"{_HERE}::{test}[{one.origin}]"
        yield Listing(f"{document}.{number}", title, one.mends, one.refused, why, where, printed=bool(idle(one)))

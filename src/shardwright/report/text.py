"""Summaries as text that folds on narrow terminals and stays plain when it is piped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shardwright.report.assessment import ASSESSMENT_PARTS
from shardwright.report.devices import mesh_line
from shardwright.report.layout import Page
from shardwright.report.summary import Summary
from shardwright.words import bytes_text, cost_text, counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["difference_text", "print_summary", "seconds_text", "summary_page"]

_MAX_NOTES = 12
_MAX_REASONS = 20


def print_summary(out: Console, summary: Summary) -> None:
    """Print a summary, folded to the width of a terminal."""
    summary_page(summary, out.width if out.is_terminal else None).print(out)


def summary_page(summary: Summary, width: int | None = None) -> Page:
    """Every part of a summary that is there, in the order in which the work is done."""
    page = Page(width)
    for part, show in _PARTS.items():
        if part in summary:
            show(page, summary)
    return page


def seconds_text(seconds: float) -> str:
    """A time as people read it: `seconds_text(0.0123)` is `12 ms`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def difference_text(value: float | None) -> str:
    """A relative difference in two digits; `None` is one that is not finite."""
    if value is None:
        return "not finite"
    return f"{value:.1e}" if value else "0"


def _program(page: Page, summary: Summary) -> None:
    program = summary["program"]
    counts = ", ".join(counted(program[f"{noun}s"], noun, ",") for noun in ("op", "argument", "result"))
    page.line(f"{program['name']}: {counts}", indent=0, style="bold")
    page.line(mesh_line(summary["mesh"]), indent=0)
    if "hardware" in summary:
        page.line(f"decided for {summary['hardware']['name']}", indent=0)


_NONE = 5e-5
"""What part of its time is none."""


def _search(page: Page, summary: Summary) -> None:
    """What looking for the best way to split ops came to."""
    searched = summary["search"]
    page.heading("Search for the fastest way to split ops, by the price")
    before, after = searched["seconds_before"], searched["seconds"]
    share = f", {after / before:.2f} times that" if before else ""
    least, alike = searched["seconds_least"], searched["seconds_least_alike"]
    of_all = "least" if searched["most_held"] is None else "least, with no larger tensors"
    page.pairs(
        [
            ("each op by itself", f"{before * 1e6:,.2f} µs"),
            ("best found", f"{after * 1e6:,.2f} µs{share}" if not searched["is_left"] else "left: see the notes"),
            *([("least, with layers alike", _least(alike, after, searched["is_left"]))] if alike > least else ()),
            (of_all, _least(least, after, searched["is_left"])),
            ("programs tried", f"{searched['trials']:,}"),
            ("decided otherwise", counted(searched["otherwise"], "op", ",")),
        ]
    )


def _least(least: float, found: float, is_left: bool) -> str:
    """What a program takes at least, and how far that is from what was found, unless that was left."""
    if not least and found:
        return "not known, for a program of this size"
    said, gap = f"{least * 1e6:,.2f} µs", found / least - 1 if least else 0.0
    if is_left:
        return said
    if gap > 1:
        return f"{said}, as far as is known of a program of this size"
    return f"{said}: none is better" if gap < _NONE else f"{said}, to which {gap:.2%} are missing"


def _optimization(page: Page, summary: Summary) -> None:
    """What was made better of collectives, by passes."""
    found = summary["optimization"]
    page.heading("Collectives made fewer, smaller and later, by the price")
    times = Counter(one["by"] for one in found["log"])
    rows = [(name, counted(count, "change", ",")) for name, count in times.items()]
    saved = f"{found['seconds_saved'] * 1e6:,.2f} µs, {bytes_text(found['bytes_saved'])} less sent"
    page.pairs([*rows, ("saved", saved)] if rows else [("found", "nothing to make better")])


def _tensors(page: Page, summary: Summary) -> None:
    counts = summary["tensors"]
    page.heading("Tensors")
    page.pairs([("annotated by you", f"{counts['annotated']:,}"), ("completed", f"{counts['completed']:,}")])


def _collectives(page: Page, summary: Summary) -> None:
    traffic = summary["collectives"]
    page.heading("Collectives")
    if not traffic["kinds"]:
        page.line("none: no device needs anything of another")
        return
    rows = [
        (kind, f"{use['static']:,}", f"{use['executed']:,}", bytes_text(use["executed_bytes"]))
        for kind, use in [*traffic["kinds"].items(), ("total", traffic["total"])]
    ]
    page.table(("", "in program", "executed", "sent per device"), rows)
    if not traffic["trip_counts_known"]:
        page.line("a loop does not say how often it runs: it is counted once")


def _memory(page: Page, summary: Summary) -> None:
    use = summary["memory"]
    page.heading("Memory per device")
    donated = f" ({bytes_text(use['donated'])} donated)" if use["donated"] else ""
    where = f" ({use['peak_at']})" if use["peak_at"] else ""
    page.pairs(
        [
            ("arguments", bytes_text(use["arguments"]) + donated),
            ("peak", bytes_text(use["peak"]) + where),
            ("allocated", bytes_text(use["allocated"]) + " (once compilers have fused ops)"),
        ]
    )
    if "fits" in use:
        hardware = summary["hardware"]
        verdict = "fits into" if use["fits"] else "does NOT fit into"
        page.line(f"what is allocated {verdict} the {bytes_text(hardware['memory'])} of {hardware['name']}")


def _verification(page: Page, summary: Summary) -> None:
    facts = summary["verification"]
    verdict = "equal to the unsharded program" if facts["ok"] else "NOT equal to the unsharded program"
    page.heading(f"Results: {verdict}", style="bold green" if facts["ok"] else "bold red")
    rows = [
        (
            group["name"],
            str(group["outputs"]),
            difference_text(group["largest_element_difference"]),
            difference_text(group["allowed_element_difference"]),
            _fraction_text(group["fraction_of_allowed"]),
            difference_text(group["largest_norm_difference"]),
            "" if group["ok"] else "differs",
        )
        for group in facts["groups"]
    ]
    page.table(("", "outputs", "largest difference", "allowed", "of it", "in norm", ""), rows)
    failures = [*facts["failures"], *facts["replica_failures"]]
    for failure in failures[:_MAX_NOTES]:
        page.line(failure)
    if len(failures) > _MAX_NOTES:
        page.line(f"… and {len(failures) - _MAX_NOTES} more; --json lists all")
    for note in facts["notes"]:
        page.line(note)
    if facts["runs"]:
        page.line(f"allowed is what {facts['runs']} runs of the unsharded program with other roundings tell")
    unsharded, sharded = seconds_text(facts["unsharded_seconds"]), seconds_text(facts["sharded_seconds"])
    page.line(f"one run takes {unsharded} unsharded, {sharded} sharded on virtual devices")
    if "in_processes" in facts:
        _in_processes(page, facts["in_processes"])


def _in_processes(page: Page, facts: Summary) -> None:
    """The run in several processes, and what of it is not right."""
    who = f"{counted(facts['processes'], 'process')} of {counted(facts['devices'], 'device')} each"
    difference = f"{difference_text(facts['difference'])} in norm"
    equal = "bit for bit" if facts["identical"] else f"but for the order of sums, {difference}"
    verdict = f"equal to one process, {equal}"
    if facts["failures"]:
        verdict = f"NOT equal to the unsharded program, and unlike one process by {difference}"
    page.line(f"{who}: {verdict}; one run takes {seconds_text(facts['seconds'])}")
    for failure in facts["failures"][:_MAX_NOTES]:
        page.line(failure)


def _fraction_text(fraction: float | None) -> str:
    return "beyond" if fraction is None else f"{100 * fraction:.0f}%"


def _notes(page: Page, summary: Summary) -> None:
    """Fallbacks first, each with what would avoid it; of the rest, where that is much, those of one message once."""
    notes = summary["notes"]
    if not notes:
        return
    fallbacks = sum(note["is_fallback"] for note in notes)
    page.heading(f"Notes ({len(notes)}, {counted(fallbacks, 'fallback')})" if fallbacks else f"Notes ({len(notes)})")
    groups = _grouped(notes)
    if len(groups) > _MAX_NOTES:
        groups = _of_one_message(groups)
    for note, _, again in groups[:_MAX_NOTES]:
        cost = cost_text(note["bytes"], note["measure"], note["work"])
        place = f"{note['location']}: " if note["location"] else ""
        page.line(f"{place}{note['op']}: {note['message']}{f', {cost}' if cost else ''}{again}")
        if note["is_fallback"] and note["remedy"]:
            page.line(f"  change: {note['remedy']}")
    if len(groups) > _MAX_NOTES:
        page.line(f"… and {len(groups) - _MAX_NOTES} more; --json lists all")


def _reasons(page: Page, summary: Summary) -> None:
    """Why ops are split as they are: what matters most."""
    reasons = summary["reasons"]
    page.heading(f"Why ops are split as they are, by the price ({counted(len(reasons), 'choice', ',')})")
    for one in reasons[:_MAX_REASONS]:
        alike = f", {one['alike']:,} alike" if one["alike"] > 1 else ""
        place = f"{one['location']}: " if one["location"] else ""
        page.line(f"{place}{one['op']}{alike}: {one['split']}")
        page.line(f"the next best takes {_more_text(one['seconds_more'])}: {one['next_best']}", indent=6)
    if len(reasons) > _MAX_REASONS:
        page.line(f"… and {len(reasons) - _MAX_REASONS:,} that matter less; --json lists all")


def _more_text(seconds: float) -> str:
    if abs(seconds) < 5e-12:
        return "as long"
    return f"{abs(seconds) * 1e6:,.2f} µs {'more' if seconds > 0 else 'less'}"


def _seconds(page: Page, summary: Summary) -> None:
    page.heading("Time")
    page.pairs([(stage, seconds_text(seconds)) for stage, seconds in summary["seconds"].items()])


def _results(page: Page, summary: Summary) -> None:
    page.heading("Results of each device")
    rows = [
        (name, f"{'x'.join(map(str, [*result['shape'], result['dtype']]))}", f"{result['distinct']:,}")
        for name, result in summary["results"].items()
    ]
    page.table(("", "on a device", "distinct"), rows)


def _written(page: Page, summary: Summary) -> None:
    page.heading("Written")
    page.pairs(list(summary["written"].items()))


_PARTS: dict[str, Callable[[Page, Summary], None]] = {
    "program": _program,
    "search": _search,
    "optimization": _optimization,
    "tensors": _tensors,
    "collectives": _collectives,
    "memory": _memory,
    **ASSESSMENT_PARTS,
    "verification": _verification,
    "results": _results,
    "notes": _notes,
    "reasons": _reasons,
    "seconds": _seconds,
    "written": _written,
}


def _grouped(notes: Iterable[Summary]) -> list[_Group]:
    """Equal notes once each with their costs added: fallbacks first, then the costliest."""
    groups: dict[tuple[Any, ...], list[Summary]] = {}
    for note in notes:
        groups.setdefault((note["op"], note["location"], note["message"]), []).append(note)
    found = [
        _Group(_added(alike), len(alike), f" ({len(alike)} times)" if len(alike) > 1 else "")
        for alike in groups.values()
    ]
    return sorted(found, key=_first_fallbacks)


def _of_one_message(groups: Iterable[_Group]) -> list[_Group]:
    """What is said of several places once, with the costs of all, at the first of them; fallbacks as they are."""
    found: dict[tuple[Any, ...], list[_Group]] = {}
    for number, group in enumerate(groups):
        key = (number,) if group.note["is_fallback"] else (group.note["message"], group.note["measure"])
        found.setdefault(key, []).append(group)
    said = list[_Group]()
    for alike in found.values():
        note, times = _added([one.note for one in alike]), sum(one.times for one in alike)
        said.append(_Group(note, times, f" ({times:,} such, the costliest there)") if len(alike) > 1 else alike[0])
    return sorted(said, key=_first_fallbacks)


def _added(notes: Sequence[Summary]) -> Summary:
    """The first of some notes, with the costs of all."""
    return {**notes[0], **{what: sum(note[what] for note in notes) for what in ("bytes", "work")}}


def _first_fallbacks(group: _Group) -> tuple[bool, int, int]:
    note = group.note
    return not note["is_fallback"], -note["bytes"], -note["work"]


class _Group(NamedTuple):
    """A note, how many there are of it, and how that is said."""

    note: Summary
    times: int
    again: str

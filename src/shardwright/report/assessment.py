"""What a program comes to on each device, as plain data and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shardwright.report.layout import Page
from shardwright.report.summary import Summary
from shardwright.words import bytes_text, counted

if TYPE_CHECKING:
    from shardwright.analysis.memory import Buffer
    from shardwright.analysis.traffic import KindTraffic
    from shardwright.assess import Assessment
    from shardwright.assess.work import OpWork

__all__ = ["ASSESSMENT_PARTS", "curve", "describe_assessment"]

_MAX_ROWS = 10
_COLUMNS, _LEAST_COLUMNS = 64, 8
_HEIGHTS = " ▁▂▃▄▅▆▇█"


def describe_assessment(assessment: Assessment) -> Summary:
    """All of it: bytes per device, multiply-adds, seconds; the largest first."""
    times = assessment.times
    return {
        "held": {"over": list(assessment.over), "at_peak": [_buffer(one) for one in assessment.held]},
        "work": None
        if assessment.work is None
        else {
            "needed": assessment.needed,
            "done": assessment.done,
            "unknown": assessment.unknown,
            "redundant": _alike([_work(one) for one in assessment.redundant]),
        },
        "traffic": {
            "by_axes": _rows({"+".join(axes): use for axes, use in assessment.by_axes.items()}),
            "by_place": _rows(assessment.by_place),
        },
        "modelled": {
            "hardware": assessment.hardware,
            "computing": times.computing,
            "links": times.links,
            "network": times.network,
            "one_after_the_other": times.one_after_the_other,
            "overlapped": times.overlapped,
        },
    }


def _buffer(buffer: Buffer) -> Summary:
    location = str(buffer.location) if buffer.op else ""
    return {"bytes": buffer.bytes, "what": buffer.op or f"argument {buffer.name}", "location": location}


def _work(work: OpWork) -> Summary:
    return {
        "op": work.op,
        "location": str(work.location),
        "copies": work.copies,
        "needed": work.runs * work.needed,
        "wasted": work.wasted,
    }


def _alike(rows: Iterable[Summary]) -> list[Summary]:
    """Ops of one line that are computed as often as each other, together."""
    found: dict[tuple[object, ...], Summary] = {}
    for row in rows:
        key = row["op"], row["location"], row["copies"]
        known = found.setdefault(key, {**row, "needed": 0.0, "wasted": 0.0, "ops": 0})
        for name, more in (("needed", row["needed"]), ("wasted", row["wasted"]), ("ops", 1)):
            known[name] += more
    return sorted(found.values(), key=lambda row: -row["wasted"])


def _rows(uses: Mapping[str, KindTraffic]) -> Summary:
    return {name: {"executed": use.executed, "bytes": use.executed_bytes} for name, use in uses.items()}


def curve(numbers: Sequence[float], columns: int = _COLUMNS) -> str:
    """Numbers as a line of bars, of each stretch of them the greatest.

    >>> curve([1, 2, 4, 8, 8, 0])
    '▁▂▄██ '
    """
    top, count = max(numbers, default=0), len(numbers)
    if not top:
        return ""
    cuts = [count * column // columns for column in range(columns + 1)] if count > columns else range(count + 1)
    tallest = [max(numbers[first:end]) for first, end in pairwise(cuts)]
    return "".join(_HEIGHTS[round(number / top * (len(_HEIGHTS) - 1))] for number in tallest)


def _held(page: Page, summary: Summary) -> None:
    """When how much is held, and what at the peak."""
    held = summary["held"]
    if not any(held["over"]):
        return
    words = "from the first op to the last: "
    room = _COLUMNS if page.width is None else page.width - len(words) - 4
    page.line(f"{words}|{curve(held['over'], min(_COLUMNS, max(_LEAST_COLUMNS, room)))}|")
    buffers: dict[tuple[str, str], list[int]] = {}
    for one in held["at_peak"]:
        buffers.setdefault((one["what"], one["location"]), []).append(one["bytes"])
    page.heading("At the peak")
    rows = sorted(buffers.items(), key=lambda row: -sum(row[1]))
    page.table(
        ("", "buffers", "bytes", "from"),
        [(what, f"{len(sizes):,}", bytes_text(sum(sizes)), location) for (what, location), sizes in rows[:_MAX_ROWS]],
    )
    _more(page, len(rows), bytes_text(sum(sum(sizes) for _, sizes in rows[_MAX_ROWS:])))


def _work_part(page: Page, summary: Summary) -> None:
    """What is computed several times."""
    work = summary["work"]
    page.heading("Work")
    if work is None:
        page.line("a program of one device does not say what would be needed if there were no others")
        return
    if work["unknown"]:
        page.line(
            f"of {counted(work['unknown'], 'op', ',')} written for the devices it is not known what one would need"
        )
    if not work["needed"]:
        page.line("nothing is computed")
        return
    extra = work["done"] / work["needed"] - 1
    pairs = [("one device needs", _adds(work["needed"])), ("all devices do", _adds(work["done"]))]
    page.pairs(pairs)
    redundant = work["redundant"]
    if not redundant:
        page.line("no op is computed more than once")
        return
    page.line(f"{extra:.2%} more than needed:")
    page.table(
        ("", "times over", "ops", "multiply-adds not needed", "at"),
        [
            (row["op"], f"{row['copies']:.3g}", f"{row['ops']:,}", f"{row['wasted']:,.0f}", row["location"])
            for row in redundant[:_MAX_ROWS]
        ],
    )
    _more(page, len(redundant), _adds(sum(row["wasted"] for row in redundant[_MAX_ROWS:])))


def _traffic(page: Page, summary: Summary) -> None:
    """What is sent along which axes, and for which lines."""
    traffic = summary["traffic"]
    if not traffic["by_axes"]:
        return
    for words, name in (("Along the axes", "by_axes"), ("For the lines", "by_place")):
        page.heading(words)
        rows = list(traffic[name].items())
        page.table(
            ("", "executed", "sent per device"),
            [(key or "none", f"{use['executed']:,}", bytes_text(use["bytes"])) for key, use in rows[:_MAX_ROWS]],
        )
        _more(page, len(rows), bytes_text(sum(use["bytes"] for _, use in rows[_MAX_ROWS:])))


def _modelled(page: Page, summary: Summary) -> None:
    """How long it takes by the price."""
    times = summary["modelled"]
    page.heading(f"Time of a run by the price on {times['hardware']}")
    names = (
        ("computing", "computing"),
        ("sending over links", "links"),
        ("sending over the network", "network"),
        ("one after the other", "one_after_the_other"),
        ("collectives beside what computes", "overlapped"),
    )
    page.pairs([(words, _micro(times[name])) for words, name in names if times[name] or name != "network"])


def _more(page: Page, count: int, sum: str) -> None:
    if count > _MAX_ROWS:
        page.line(f"… and {count - _MAX_ROWS:,} more, together {sum}; --json lists all")


def _adds(count: float) -> str:
    return f"{count:,.0f} multiply-adds"


def _micro(seconds: float) -> str:
    micro = seconds * 1e6
    return f"{micro:,.3f} µs" if micro >= 1 or not micro else f"{micro:.2g} µs"


ASSESSMENT_PARTS: dict[str, Callable[[Page, dict[str, Any]], None]] = {
    "held": _held,
    "work": _work_part,
    "traffic": _traffic,
    "modelled": _modelled,
}
"""The parts of a page, by their names in the data."""

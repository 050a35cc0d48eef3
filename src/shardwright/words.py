"""Words of messages that depend on what they are about.

>>> counted(1, "axis"), counted(3, "axis"), counted(12345, "op", ",")
('1 axis', '3 axes', '12,345 ops')
>>> kind_of(5), kind_of(None), kind_of("x")
('an int', 'None', 'a str')
"""

from __future__ import annotations

__all__ = ["bytes_text", "cost_text", "counted", "kind_of"]

_PLURALS = {
    "axis": "axes",
    "entry": "entries",
    "index": "indices",
    "leaf": "leaves",
    "copy": "copies",
    "process": "processes",
}

_MEASURES = {"sent": "sent", "held": "more on each device", "spared": "not sent"}


def bytes_text(count: float) -> str:
    """A size in bytes as people read it: `bytes_text(1536)` is `1.5 KiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def cost_text(bytes: int, measure: str, work: int) -> str:
    """What something costs each device in bytes, `sent`, `held` or `spared`, and in multiply-adds beyond its share.

    >>> cost_text(1536, "held", 4096), cost_text(0, "sent", 0)
    ('1.5 KiB more on each device, 4,096 multiply-adds more on each device', '')
    """
    parts = [f"{bytes_text(bytes)} {_MEASURES[measure]}"] if bytes else []
    return ", ".join([*parts, *([f"{counted(work, 'multiply-add', ',')} more on each device"] if work else [])])


def counted(number: int, noun: str, grouping: str = "") -> str:
    """A number and what it counts; `grouping` is `,` where thousands are to be told apart."""
    return f"{number:{grouping}} {noun if number == 1 else _PLURALS.get(noun, f'{noun}s')}"


def kind_of(value: object) -> str:
    """What a value is, by its type and with the article."""
    name = type(value).__name__
    if value is None:
        return "None"
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"

"""The data sheet of a hardware: its figures, each with where it comes from.

>>> sheet = Sheet(
...     "a box",
...     {"link": Sourced(1e10, "measured"), "start": Sourced(5e-6, "measured"), "compute": Sourced(2e12, "its maker")},
... )
>>> print(sheet.text())
name = "a box"
<BLANKLINE>
[link]
bytes_per_second = 1e10
source = "measured"
<BLANKLINE>
[start]
seconds = 5e-6
source = "measured"
<BLANKLINE>
[compute]
bf16_operations_per_second = 2e12
source = "its maker"
<BLANKLINE>
>>> sheet.hardware.multiply_adds_per_second
1000000000000.0
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from shardwright.cost.hardware.model import Hardware

__all__ = ["FIGURES", "Figure", "Sheet", "Sourced", "number_text"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What a data sheet says in one of its tables.

    Attributes:
        table: The table.
        key: The key of the number there, which names its unit; the table's other key is `source`.
        meaning: What the number is.
        example: One.
        is_needed: Whether a hardware is none without it.
        may_be_infinite: Whether `inf` is allowed, where what it measures is to cost nothing.
    """

    table: str
    key: str
    meaning: str
    example: float
    is_needed: bool = True
    may_be_infinite: bool = False


FIGURES = (
    Figure("link", "bytes_per_second", "what a device sends, one way, while it takes part in a collective", 4.5e11),
    Figure("start", "seconds", "what starting a collective takes before anything is sent", 1e-6),
    Figure(
        "compute",
        "bf16_operations_per_second",
        "the peak, two operations to each multiply-add; inf where work is to cost nothing",
        9.9e14,
        may_be_infinite=True,
    ),
    Figure("memory", "bytes", "what a device holds", 8e10, is_needed=False),
)
"""All that a data sheet says beside the name."""


@dataclass(frozen=True, slots=True)
class Sourced:
    """A number and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A data sheet.

    Attributes:
        name: What messages call the hardware.
        figures: The number of each table of `FIGURES` that it has.
    """

    name: str
    figures: Mapping[str, Sourced]

    @property
    def hardware(self) -> Hardware:
        """What decisions are made by."""
        number = {table: figure.value for table, figure in self.figures.items()}
        return Hardware(self.name, number["link"], number["start"], number["compute"] / 2, number.get("memory"))

    def text(self) -> str:
        """As TOML, which the reader takes back."""
        parts = [f"name = {_quoted(self.name)}\n"]
        for figure in FIGURES:
            if (known := self.figures.get(figure.table)) is not None:
                number = f"{figure.key} = {number_text(known.value)}"
                parts.append(f"[{figure.table}]\n{number}\nsource = {_quoted(known.source)}\n")
        return "\n".join(parts)

    def summary(self) -> dict[str, Any]:
        """As JSON values by name; a number that is infinite has none in JSON: `None`."""
        tables = {
            figure.table: {figure.key: known.value if math.isfinite(known.value) else None, "source": known.source}
            for figure in FIGURES
            if (known := self.figures.get(figure.table)) is not None
        }
        return {"name": self.name, **tables}


def number_text(value: float) -> str:
    """A positive number in the fewest digits that give it back.

    >>> number_text(4.5e11), number_text(6.6e-6), number_text(16.0), number_text(math.inf)
    ('4.5e11', '6.6e-6', '16.0', 'inf')
    """
    if math.isinf(value) or 1e-3 <= value < 1e6:
        return repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{first}{'.' if rest else ''}{''.join(rest)}e{int(exponent) + len(rest)}"


def _quoted(text: str) -> str:
    """A string of TOML; its escapes are those of JSON, and it wants one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

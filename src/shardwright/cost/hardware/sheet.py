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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from shardwright.cost.hardware.figures import FIGURES, Figure, hardware_of
from shardwright.cost.hardware.model import Hardware
from shardwright.toml import quoted

__all__ = ["Sheet", "Sourced", "number_text"]


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
        figures: Those of `FIGURES` that it has, by name.
    """

    name: str
    figures: Mapping[str, Sourced]

    @property
    def hardware(self) -> Hardware:
        """What decisions are made by."""
        return hardware_of(self.name, {name: figure.value for name, figure in self.figures.items()})

    def text(self) -> str:
        """As TOML, which the reader takes back."""
        parts = [f"name = {quoted(self.name)}\n"]
        for table, figures in self._tables().items():
            lines = [f"[{table}]\n"]
            for figure, known in figures:
                lines.append(f"{figure.key} = {number_text(known.value)}\n")
                lines.append(f"{figure.source_key} = {quoted(known.source)}\n")
            parts.append("".join(lines))
        return "\n".join(parts)

    def summary(self) -> dict[str, Any]:
        """As JSON values by name; a number that is infinite has none in JSON: `None`."""
        summary: dict[str, Any] = {"name": self.name}
        for table, figures in self._tables().items():
            values = summary[table] = {}
            for figure, known in figures:
                values[figure.key] = known.value if math.isfinite(known.value) else None
                values[figure.source_key] = known.source
        return summary

    def _tables(self) -> dict[str, list[tuple[Figure, Sourced]]]:
        """The figures by table."""
        tables: dict[str, list[tuple[Figure, Sourced]]] = {}
        for figure in FIGURES:
            if (known := self.figures.get(figure.name)) is not None:
                tables.setdefault(figure.table, []).append((figure, known))
        return tables


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

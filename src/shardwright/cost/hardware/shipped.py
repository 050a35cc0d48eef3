"""The hardware that comes along, of data sheets that the tests have checked: what decisions need of one, and no more.

Whoever partitions without a choice of hardware waits for that of the default, so this loads neither what checks the
data sheets of users nor what tells where a figure is from.

    >>> shipped("h100").bytes_per_second
    450000000000.0
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from shardwright.cost.hardware.figures import FIGURES, hardware_of
from shardwright.cost.hardware.model import Hardware

__all__ = ["DATA", "DEFAULT", "shipped"]

DATA = Path(__file__).parent / "data"
"""The folder of the data sheets."""

DEFAULT = "tpu_v5p"
"""The name of the one that is taken where none is given."""


@cache
def shipped(name: str) -> Hardware:
    """The hardware whose data sheet is that file in `data/`."""
    tables = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    numbers = {
        figure.name: float(tables[figure.table][figure.key])
        for figure in FIGURES
        if figure.key in tables.get(figure.table, ())
    }
    return hardware_of(tables["name"], numbers)

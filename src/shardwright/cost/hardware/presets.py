"""The hardware that comes along, a data sheet each in `data/`, and hardware from users' own files.

    >>> hardware("h100").bytes_per_second
    450000000000.0
    >>> BYTES.seconds(bytes_sent=1024)
    1024.0

A name is that of a file in `data/`; capitals, and what stands between words, make no difference. What ends in `.toml`
or has a folder is a file.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import cache

from shardwright.cost.hardware.model import Hardware
from shardwright.cost.hardware.read import parse_sheet
from shardwright.cost.hardware.sheet import Sheet
from shardwright.cost.hardware.shipped import DATA, DEFAULT, shipped
from shardwright.errors import ShardingError
from shardwright.files import printable, read_file
from shardwright.words import kind_of

__all__ = ["BYTES", "TPU_V5P", "hardware", "name_of", "preset_names", "sheet_of"]

_REMEDY = "give a name that `shardwright hardware` lists, or the path of a TOML file like those that it prints"


def hardware(choice: str | os.PathLike[str]) -> Hardware:
    """The hardware of a name, or of a data sheet of your own.

    Arguments:
        choice: A name that `shardwright hardware` lists, or the path of a TOML file: `shardwright hardware h100` prints
            one to start from.

    Raises:
        ShardingError: no such name, a file that cannot be read, or one that is no data sheet; with its line.

    Example:
        with sw.Session(hardware=sw.hardware("h100")):
            spmd = plan.partition()  # what is cheap on that
    """
    return sheet_of(choice).hardware


def sheet_of(choice: str | os.PathLike[str]) -> Sheet:
    """The data sheet of a name, or of a file.

    Raises:
        ShardingError: as `hardware`.
    """
    if isinstance(choice, os.PathLike):
        return _read(os.fspath(choice))
    if not isinstance(choice, str):
        raise ShardingError(f"not a hardware: {choice!r}"[:200], cause=f"it is {kind_of(choice)}", remedy=_REMEDY)
    if choice.lower().endswith(".toml") or os.sep in choice:
        return _read(choice)
    name = _plain(choice)
    if name not in preset_names():
        close = get_close_matches(name[:200], preset_names(), n=3, cutoff=0.4) or preset_names()
        raise ShardingError(
            f"there is no hardware called {printable(choice[:200])!r}",
            cause=f"{'the nearest are' if len(close) < len(preset_names()) else 'there are'} {', '.join(close)}",
            remedy=_REMEDY,
        )
    return _preset(name)


def name_of(known: Hardware) -> str:
    """The name that `hardware` takes for a hardware that comes along; of any other what messages call it.

    >>> name_of(hardware("h100")), name_of(Hardware("a box", 1.0, 1.0, 1.0))
    ('h100', 'a box')
    """
    return next((name for name in preset_names() if shipped(name) == known), known.name)


def preset_names() -> tuple[str, ...]:
    """The names there are."""
    return tuple(sorted(file.stem for file in DATA.glob("*.toml")))


@cache
def _preset(name: str) -> Sheet:
    return _read(str(DATA / f"{name}.toml"))


def _read(path: str) -> Sheet:
    """A data sheet from a file."""
    try:
        text = read_file(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ShardingError(
            "the data sheet of a hardware is not TOML",
            location=printable(path),
            cause=f"byte {error.start} is not UTF-8",
            remedy=_REMEDY,
        ) from None
    except ShardingError as error:
        raise error.replaced(remedy=_REMEDY) from None
    return parse_sheet(text, printable(path))


def _plain(name: str) -> str:
    """A name in small letters, its words joined by `_`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


BYTES = shipped("bytes")
"""No machine: orders by bytes sent, and by the number of collectives where these are the same. A second is a byte."""

TPU_V5P = shipped(DEFAULT)
"""A TPU v5p: one way of one link of its torus, about a microsecond a hop, and bfloat16 operations."""

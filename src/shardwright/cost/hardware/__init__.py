"""The hardware that prices are made for: what it is, data sheets of it, and which one a session has.

    >>> from shardwright.memo import Session
    >>> with Session(hardware=hardware("h100")):
    ...     current_hardware().name
    'NVIDIA H100 SXM'

A preset is a file in `data/`, and needs no other change.
"""

from __future__ import annotations

from shardwright.cost.hardware.current import chosen_hardware, current_hardware
from shardwright.cost.hardware.model import Hardware
from shardwright.cost.hardware.presets import BYTES, DEFAULT, TPU_V5P, hardware, preset_names, sheet_of
from shardwright.cost.hardware.sheet import Sheet

__all__ = [
    "BYTES",
    "DEFAULT",
    "TPU_V5P",
    "Hardware",
    "Sheet",
    "chosen_hardware",
    "current_hardware",
    "hardware",
    "preset_names",
    "sheet_of",
]

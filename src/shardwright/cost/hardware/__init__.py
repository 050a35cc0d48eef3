"""The hardware that prices are made for: what it is, data sheets of it, and which one a session has.

    >>> from shardwright.cost.hardware import current_hardware, hardware
    >>> from shardwright.memo import Session
    >>> with Session(hardware=hardware("h100")):
    ...     current_hardware().name
    'NVIDIA H100 SXM'

A preset is a file in `data/`, and needs no other change. Data sheets are read when a hardware is first asked for: to
start a command takes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardwright.lazy import names_at

if TYPE_CHECKING:
    from shardwright.cost.hardware.current import chosen_hardware, current_hardware
    from shardwright.cost.hardware.model import Hardware, Links
    from shardwright.cost.hardware.presets import BYTES, TPU_V5P, hardware, preset_names, sheet_of
    from shardwright.cost.hardware.sheet import Sheet
    from shardwright.cost.hardware.shipped import DEFAULT

__all__ = [
    "BYTES",
    "DEFAULT",
    "TPU_V5P",
    "Hardware",
    "Links",
    "Sheet",
    "chosen_hardware",
    "current_hardware",
    "hardware",
    "preset_names",
    "sheet_of",
]

_HOMES = {
    "BYTES": "shardwright.cost.hardware.presets:BYTES",
    "DEFAULT": "shardwright.cost.hardware.shipped:DEFAULT",
    "TPU_V5P": "shardwright.cost.hardware.presets:TPU_V5P",
    "Hardware": "shardwright.cost.hardware.model:Hardware",
    "Links": "shardwright.cost.hardware.model:Links",
    "Sheet": "shardwright.cost.hardware.sheet:Sheet",
    "chosen_hardware": "shardwright.cost.hardware.current:chosen_hardware",
    "current_hardware": "shardwright.cost.hardware.current:current_hardware",
    "hardware": "shardwright.cost.hardware.presets:hardware",
    "preset_names": "shardwright.cost.hardware.presets:preset_names",
    "sheet_of": "shardwright.cost.hardware.presets:sheet_of",
}
"""Name → where it is defined: loaded when it is asked for."""

if not TYPE_CHECKING:
    __getattr__ = names_at(__name__, _HOMES)

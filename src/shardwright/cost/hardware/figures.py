"""The figures of a hardware: what each is called, where a data sheet says it, and the hardware that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from shardwright.cost.hardware.model import LOST_IN_PARTS, Hardware

__all__ = ["FIGURES", "PEAKS", "Figure", "hardware_of"]


class Figure(NamedTuple):
    """A number that a data sheet says.

    Attributes:
        name: What it is called here.
        table: The table that it stands in.
        key: The key of the number there, which names its unit.
        source_key: The key there that tells where it is from; if there is none, `source` does.
        meaning: What the number is.
        example: One.
        is_needed: Whether a hardware is none without it.
        may_be_infinite: Whether `inf` is allowed, where what it measures is to cost nothing.
        is_whole: Whether it counts something: only whole numbers are allowed.
    """

    name: str
    table: str
    key: str
    source_key: str
    meaning: str
    example: float
    is_needed: bool = True
    may_be_infinite: bool = False
    is_whole: bool = False


PEAKS = ("f64", "f32", "tf32", "f8", "i8")
"""Types of elements beside bf16 whose peaks a data sheet may say: what each stands for is told in `cost.roofline`."""

FIGURES = (
    Figure(
        "link",
        "link",
        "bytes_per_second",
        "source",
        "what a device sends, one way, while it takes part in a collective",
        4.5e11,
    ),
    Figure("start", "start", "seconds", "source", "what starting a collective takes before anything is sent", 1e-6),
    Figure(
        "compute",
        "compute",
        "bf16_operations_per_second",
        "source",
        "the peak, two operations to each multiply-add; inf where work is to cost nothing",
        9.9e14,
        may_be_infinite=True,
    ),
    *(
        Figure(
            name,
            "compute",
            f"{name}_operations_per_second",
            f"{name}_source",
            f"the peak of {name}, two operations to each multiply-add",
            9.9e14,
            is_needed=False,
            may_be_infinite=True,
        )
        for name in PEAKS
    ),
    Figure("memory", "memory", "bytes", "source", "what a device holds", 8e10, is_needed=False),
    Figure(
        "memory_traffic",
        "memory",
        "bytes_per_second",
        "bytes_per_second_source",
        "what a device reads from its memory and writes to it",
        3.3e12,
        is_needed=False,
    ),
    Figure(
        "node",
        "node",
        "devices",
        "source",
        "how many devices, one behind the other, links of their own join; others are reached by a network",
        8.0,
        is_needed=False,
        is_whole=True,
    ),
    Figure(
        "network",
        "network",
        "bytes_per_second",
        "source",
        "what a device sends, one way, to devices of other nodes",
        5e10,
        is_needed=False,
    ),
    Figure(
        "torus",
        "torus",
        "dimensions",
        "source",
        "how many dimensions the torus has that links make, along each of which a device has one to either side",
        3.0,
        is_needed=False,
        is_whole=True,
    ),
    Figure(
        "ring",
        "torus",
        "ring",
        "ring_source",
        "of what number the lengths of all dimensions are multiples where they close into rings",
        4.0,
        is_needed=False,
        is_whole=True,
    ),
    Figure(
        "copies",
        "copies",
        "bytes_per_second",
        "source",
        "what a device lays out anew, read and written, for collectives along inner dimensions and products by parts",
        1.7e12,
        is_needed=False,
    ),
    Figure(
        "parts",
        "parts",
        "lost",
        "source",
        "which part of their time products lose that are computed part by part, as those that go round rings are",
        0.35,
        is_needed=False,
    ),
)
"""All that a data sheet says beside the name."""


def hardware_of(name: str, numbers: Mapping[str, float]) -> Hardware:
    """What decisions are made by.

    Arguments:
        name: What messages call the hardware.
        numbers: What is known of it, by the names of `FIGURES`.
    """
    return Hardware(
        name,
        numbers["link"],
        numbers["start"],
        numbers["compute"] / 2,
        numbers.get("memory"),
        numbers.get("memory_traffic"),
        tuple([(peak, numbers[peak]) for peak in PEAKS if peak in numbers]),
        round(numbers["node"]) if "node" in numbers else None,
        numbers.get("copies", math.inf),
        numbers.get("parts", LOST_IN_PARTS),
        numbers.get("network"),
        round(numbers["torus"]) if "torus" in numbers else None,
        round(numbers["ring"]) if "ring" in numbers else None,
    )

"""On GPUs devices talk along the first dimension in memory where others are as good: little is laid out anew."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import pytest

import shardwright as sw
from shardwright.cost.hardware import Hardware, hardware
from shardwright.ir.graph import Block
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.partition.edges import copies_of
from shardwright.steps import AllSlice
from tests.models.large.all import LARGE

GPU = replace(hardware("h100"), start_seconds=1e-9, memory_bytes_per_second=None)
"""Of programs as small as these hardly anything would count but starts, and what ops move through memory."""


class Total(NamedTuple):
    """What all collectives of a program take of each device, in bytes, and what the program takes on a GPU, in seconds."""

    bytes_sent: float = 0.0
    bytes_copied: float = 0.0
    seconds: float = 0.0


def total(name: str, chosen_for: Hardware) -> Total:
    """What all of a small program sends, lays out anew and takes, that was chosen for some hardware."""
    with sw.Session(hardware=chosen_for):
        explicit = LARGE[name](True).partition(effort="default").explicit
    with sw.Session(hardware=GPU):
        program = ExplicitProgram(explicit)

        def of(block: Block, times: float) -> Total:
            sent, copied, seconds = 0.0, 0.0, 0.0
            for op in block.ops:
                step, cost = program.step(op), program.cost(op)
                sent += times * cost.bytes_sent
                if step is not None:
                    (value,) = op.operands
                    layout = program.layout(value)
                    assert layout is not None
                    copies = copies_of(program.type(value), layout, (step,)).bytes_copied
                    copied += 0.0 if isinstance(step, AllSlice) else times * copies
                    cost = cost._replace(bytes_copied=copies)
                seconds += times * program.seconds(cost)
                for region in op.regions:
                    inside = of(region, times * program.times_inside(region, op))
                    sent, copied = sent + inside.bytes_sent, copied + inside.bytes_copied
                    seconds += inside.seconds
            return Total(sent, copied, seconds)

        return of(program.graph.main.block, 1.0)


TENSOR = ("llama.tensor", "llama_scan.tensor", "llama.data_and_tensor", "llama_scan.data_and_tensor")


@pytest.mark.parametrize("name", [*TENSOR, "llama_scan.fsdp"])
def test_less_is_laid_out_anew_where_that_takes_time(name: str) -> None:
    """Sequences of activations would do as well as a batch, and have to be laid out anew."""
    anywhere, there = total(name, replace(GPU, copied_bytes_per_second=math.inf)), total(name, GPU)
    assert anywhere.bytes_copied > 0.2 * anywhere.bytes_sent
    assert there.bytes_copied <= (0.55 if name in TENSOR else 1) * anywhere.bytes_copied
    assert there.seconds <= anywhere.seconds

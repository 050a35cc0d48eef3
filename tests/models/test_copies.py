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
    """What all collectives of a program take of each device, in bytes."""

    bytes_sent: float = 0.0
    bytes_copied: float = 0.0


def total(name: str, there: Hardware) -> Total:
    """What all of a small program sends, and lays out anew."""
    with sw.Session(hardware=there):
        program = ExplicitProgram(LARGE[name](True).partition(effort="default").explicit)

        def of(block: Block, times: float) -> Total:
            sent, copied = 0.0, 0.0
            for op in block.ops:
                step = program.step(op)
                sent += times * program.cost(op).bytes_sent
                if step is not None and not isinstance(step, AllSlice):
                    (value,) = op.operands
                    layout = program.layout(value)
                    assert layout is not None
                    copied += times * copies_of(program.type(value), layout, (step,)).bytes_copied
                for region in op.regions:
                    inside = of(region, times * program.times_inside(region, op))
                    sent, copied = sent + inside.bytes_sent, copied + inside.bytes_copied
            return Total(sent, copied)

        return of(program.graph.main.block, 1.0)


@pytest.mark.parametrize("name", ["llama.tensor", "llama_scan.tensor"])
def test_activations_in_parts_are_gathered_along_the_batch(name: str) -> None:
    """Sequences would do as well. A scan stacks them for the way back, and would have to lay the whole stack out anew."""
    anywhere, there = total(name, replace(GPU, copied_bytes_per_second=math.inf)), total(name, GPU)
    assert anywhere.bytes_copied > 0.2 * anywhere.bytes_sent
    assert there.bytes_copied == 0
    assert there.bytes_sent <= 1.15 * anywhere.bytes_sent


def test_weights_in_parts_are_laid_out_anew_less() -> None:
    """Those that are split along their second dimension have to be; in a loop others are not, in front of it."""
    anywhere, there = (total("llama_scan.fsdp", one) for one in (replace(GPU, copied_bytes_per_second=math.inf), GPU))
    assert 0 < there.bytes_copied < 0.5 * anywhere.bytes_copied
    assert there.bytes_sent <= 1.02 * anywhere.bytes_sent

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
from shardwright.partition import materialize
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
        made = LARGE[name](True)
        explicit = materialize(made.graph, made.annotated, "default").graph  # memory is not weighed against time
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


ANYWHERE = replace(GPU, copied_bytes_per_second=math.inf)
"""Where it takes no time to lay out anything."""

NOTHING_LAID_OUT = {"llama.tensor": 2.180e-7, "llama_scan.tensor": 2.098e-7, "llama_scan.fsdp": 3.037e-7}
"""What programs take that compute layers once more, in seconds, as they lay without any choice at the barriers of that:
of the first two nothing was laid out anew.
"""


def test_activations_in_parts_are_gathered_along_the_batch() -> None:
    """Sequences would do as well, and would have to be laid out anew."""
    anywhere, there = total("prefill.tensor", ANYWHERE), total("prefill.tensor", GPU)
    assert anywhere.bytes_copied > 0.2 * anywhere.bytes_sent
    assert there.bytes_copied == 0
    assert there.bytes_sent <= 1.15 * anywhere.bytes_sent


def test_weights_in_parts_are_laid_out_anew_less() -> None:
    """Those that are split along their second dimension have to be; in a loop others are not, in front of it."""
    anywhere, there = (total("llama_scan.data_and_tensor", one) for one in (ANYWHERE, GPU))
    assert 0 < there.bytes_copied < 0.5 * anywhere.bytes_copied
    assert there.bytes_sent <= 1.02 * anywhere.bytes_sent


@pytest.mark.parametrize("name", NOTHING_LAID_OUT)
def test_what_is_laid_out_anew_takes_less_than_to_avoid_it(name: str) -> None:
    anywhere, there = total(name, ANYWHERE), total(name, GPU)
    assert anywhere.bytes_copied > 0.2 * anywhere.bytes_sent
    assert there.bytes_copied <= anywhere.bytes_copied
    assert there.bytes_sent <= (1.02 if name == "llama_scan.fsdp" else 1.15) * anywhere.bytes_sent
    assert there.seconds <= anywhere.seconds
    assert there.seconds < 0.91 * NOTHING_LAID_OUT[name]

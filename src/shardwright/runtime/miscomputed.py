"""Ops for which XLA on CPUs gives wrong numbers, and how they are written instead in a program that others are held to:
see `partition.localize.unit_windows` and `starts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shardwright.ir.builder import Builder
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.partition.localize.starts import has_unsigned_starts, with_clamped_starts
from shardwright.partition.localize.unit_windows import append_in_order, is_out_of_order

__all__ = ["Miscomputed", "miscomputed", "notes_of"]


class Miscomputed(NamedTuple):
    """What is to be known of such ops.

    Attributes:
        is_so: Whether an op is one.
        append: Appends what is written instead, by its signature and operands; gives the results.
        note: What users are told.
    """

    is_so: Callable[[Signature], bool]
    append: Callable[[Builder, Signature, Sequence[int]], tuple[int, ...]]
    note: str


def _in_order(ctx: Builder, signature: Signature, operands: Sequence[int]) -> tuple[int, ...]:
    image, kernel = operands
    return append_in_order(ctx, signature, image, kernel)


_EVERY = (
    Miscomputed(
        is_out_of_order,
        _in_order,
        "XLA on CPUs gives wrong numbers for a convolution of one-element windows whose result has its dimensions in "
        "another order: in the unsharded program it stands in the order of its image",
    ),
    Miscomputed(
        has_unsigned_starts,
        with_clamped_starts,
        "XLA on CPUs reads constant starts of slices that are of an unsigned type as if they were signed: in the "
        "unsharded program they are clamped by an op of their own",
    ),
)


def miscomputed(signature: Signature) -> Miscomputed | None:
    """What is to be known of an op; `None` where XLA on CPUs computes it as it is meant."""
    return next((one for one in _EVERY if one.is_so(signature)), None)


def notes_of(graph: Graph) -> tuple[str, ...]:
    """What to say of the ops of a program that are written otherwise, once of each kind."""
    found = {one: None for op in graph.walk() if (one := miscomputed(op.signature)) is not None}
    return tuple([one.note for one in _EVERY if one in found])

"""Variants of a program that its results are judged by."""

from __future__ import annotations

from shardwright.ir.copying import Copier
from shardwright.ir.graph import Graph

__all__ = ["Variant"]

_DONATION = frozenset({"jax.buffer_donor", "tf.aliasing_output"})


class Variant(Copier):
    """A copy that keeps its arguments' buffers: it is run more than once and may have results of other types."""

    def run(self) -> Graph:
        """The copy."""
        made = super().run()
        made.main.argument_attributes = [
            {name: text for name, text in row.items() if name not in _DONATION} for row in made.main.argument_attributes
        ]
        return made

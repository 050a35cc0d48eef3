"""What a propagated program computes twice, lays out anew around a product, or pads with the number that it repeats,
left out before anything is decided.
"""

from __future__ import annotations

from shardwright.ir.graph import Graph
from shardwright.partition.as_one import AsOne
from shardwright.partition.merged import Merging
from shardwright.partition.padded_fills import padded_fills
from shardwright.partition.turned_products import turned_products
from shardwright.partition.unmerged import unmerged

__all__ = ["FewerOps", "with_fewer_ops"]


def with_fewer_ops(graph: Graph) -> Graph:
    """A propagated graph that computes the same by fewer ops; the graph itself where there are none to spare.

    The graph given stays as it is.
    """
    return FewerOps().of(graph)


class FewerOps:
    """Leaves ops out of programs that share blocks."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._as_one = AsOne()
        self._fills = Merging(padded_fills)
        self._products = Merging(turned_products)
        self._unmerged = Merging(unmerged)

    def of(self, graph: Graph) -> Graph:
        """As `with_fewer_ops`: of one block, where the same ops are left out, the same block each time."""
        return self._unmerged.of(self._products.of(self._fills.of(self._as_one.of(graph))))

"""How many times over the ops of an explicit program are computed: the work of all devices beside that of one.

An op whose tensors lie whole on all devices is computed by each of them; one that is split along some axes of the mesh
only, as often as there are devices along the others. What only moves elements, and what any device can make of nothing,
is not counted. Work is in multiply-adds, as the price has it (`cost.price`): iterations of the loops of an op.

Source: "No redundant computation", of the 2D weight-stationary layout in the device-mesh RFC.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.analysis.loops import block_times
from shardwright.cost.hardware import BYTES
from shardwright.ir.graph import Graph, Op
from shardwright.ir.locations import Location
from shardwright.ir.ops import MANUAL
from shardwright.partition.search.total import computed_cost
from shardwright.partition.splits import splits_of
from shardwright.rules.traits import facts_of
from shardwright.sharding import replicated

__all__ = ["OpWork", "works"]


@dataclass(frozen=True, slots=True)
class OpWork:
    """What an op computes.

    Attributes:
        op: Its name.
        location: Where it comes from.
        runs: How often it runs.
        needed: Multiply-adds of one run of the whole op, each of its iterations once.
        done: Those of all devices together.
    """

    op: str
    location: Location
    runs: float
    needed: float
    done: float

    @property
    def copies(self) -> float:
        """How many times over it is computed."""
        return self.done / self.needed

    @property
    def wasted(self) -> float:
        """Multiply-adds of all runs and devices that were not needed."""
        return self.runs * (self.done - self.needed)


def works(graph: Graph) -> tuple[list[OpWork], int]:
    """What the ops of an explicit program compute, in order, and of how many that compute something it is not known.

    Those of manual computations are written for the devices, and nobody knows what one device would need of them.
    """
    found: list[OpWork] = []
    unknown = 0
    times = block_times(graph)
    inside = {inner for op in graph.walk() if op.name == MANUAL for region in op.regions for inner in region.walk()}
    for block, runs in times.items():
        for op in block.ops:
            if not _computes(op):
                continue
            work = None if op in inside else _of(graph, op, runs)
            if work is None:
                unknown += 1
            elif work.needed:
                found.append(work)
    return found, unknown


def _computes(op: Op) -> bool:
    """Whether an op computes something by itself: it neither only moves elements, nor is what its regions are."""
    facts = facts_of(op.name)
    moves = facts.moves or (facts.exact and not (facts.elementwise or facts.typed or op.regions))
    if moves or facts.constant or facts.shares_buffer or not op.results or op.name.startswith("sdy."):
        return False
    return not op.regions or splits_of(op.signature) is not None


def _of(graph: Graph, op: Op, runs: float) -> OpWork | None:
    """What an op computes; `None` where it is not known what it would be on one device."""
    values = (*op.operands, *op.results)
    layouts = tuple([layout.closed() for value in values if (layout := graph.shardings[value]) is not None])
    if len(layouts) < len(values) or splits_of(op.signature) is None:
        return None
    count, mesh = len(op.operands), layouts[0].mesh
    whole = tuple([replicated(mesh, graph.types[value].rank) for value in values])
    needed, done = (
        computed_cost(op.signature, some[:count], some[count:], BYTES).multiply_adds for some in (whole, layouts)
    )
    return OpWork(op.signature.label, graph.locations[op.location], runs, needed, done * mesh.size)

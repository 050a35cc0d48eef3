"""What explanations are made of: annotations, how an axis came from one, and where it stopped."""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.axes import AxisRef
from shardwright.sharding import TensorSharding

__all__ = ["Annotation", "Chain", "Link", "Stop"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a program says about a sharding.

    Attributes:
        where: What it stands on: `argument x`, `result 0`, `sdy.sharding_constraint`, `stablehlo.dot_general`, ….
        location: `FILE:LINE`, or empty where nothing is known.
        sharding: The sharding as it is said.
        priority: Its user priority, where the dimension waited for its turn.
    """

    where: str
    location: str
    sharding: TensorSharding | None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """One step of an axis on its way.

    Attributes:
        kind: `step` through an op, `edge` of control flow, `return` between `main`'s result and what it returns,
            `constraint` given to what it constrains, `group` of values split alike, `spread` from an edge, or `use`,
            from a use to the argument or the reshard that it reads.
        op: The op, as users know it.
        location: `FILE:LINE`, or empty.
        source: Where the axis was: `operand 1`.
        target: Where it went: `result 0`.
        axis: The axis, or the part of one, that came.
        dim: The dimension of the target that it splits.
        step: Number of the step, or -1.
        phase: User priority, round of op priority and strategy, as text.
    """

    kind: str
    op: str
    location: str
    source: str
    target: str
    axis: AxisRef
    dim: int
    step: int = -1
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """How an axis, or a part of one, came to dimension `dim`: from its annotation through the links, in order.

    What callers may not see is cut at the boundary of the program in the end; such an axis is not `kept`.
    """

    axis: AxisRef
    dim: int
    annotation: Annotation
    links: tuple[Link, ...]
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Stop:
    """Where an axis went no further.

    Attributes:
        axis: The axis.
        op: The op that it did not get through.
        location: `FILE:LINE`, or empty.
        source: Where it is: `operand 1`; at the boundary of the program, the dimension.
        target: Where it did not get to.
        reason: `conflict`, `divisibility`, `overflow`, `closed`, `barrier`, `blocked`, `priority`, `replicated`,
            `unreduced`, `reduced`, `manual`, `mesh`, `no rule`, `elementwise`, `basic`, `conservative`, `strided`,
            `boundary` or `late`.
        detail: Why, in a sentence.
        inward: Whether it is the axis of a neighbour that did not come; else one of the value's own that did not go on.
    """

    axis: AxisRef
    op: str
    location: str
    source: str
    target: str
    reason: str
    detail: str
    inward: bool = False

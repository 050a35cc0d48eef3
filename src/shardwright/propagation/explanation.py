"""What there is to say about the sharding of one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.mesh import AxisRef, Mesh
from shardwright.propagation.outline import outline
from shardwright.sharding import TensorSharding

__all__ = [
    "Annotation",
    "Chain",
    "Explanation",
    "Explanations",
    "Link",
    "Stop",
    "format_explanation",
    "shown_unasked",
]

_VALUES = 20
"""So many values are explained unasked; a line of a model that is unrolled makes hundreds."""


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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a value is sharded as it is; `str` makes it text.

    Attributes:
        name: The value as users know it.
        location: `FILE:LINE`, or empty.
        sharding: Its sharding; `None` in a program without a mesh.
        chains: How each of its axes came, dimension by dimension.
        stops: Where these axes went no further, and which axes of neighbours did not come.
        printed: What MLIR calls it in the program as propagated, `%12`; empty for arguments and results of `main`.
        annotation: What the program says about the value itself, if anything.
        meshes: The meshes of the program.
        dropped: Hints for it that the strategy `rfc` could not follow, and why, in sentences.
        whole: Why no axis splits it, where stops do not tell.
    """

    name: str
    location: str
    sharding: TensorSharding | None
    chains: tuple[Chain, ...]
    stops: tuple[Stop, ...]
    printed: str = ""
    annotation: Annotation | None = None
    meshes: tuple[Mesh, ...] = ()
    dropped: tuple[str, ...] = ()
    whole: str = ""

    def axis_text(self, axis: AxisRef) -> str:
        """`data`, or `data:(1)2` for a part of it."""
        whole = any(axis.name in mesh.sizes and mesh.is_full(axis) for mesh in self.meshes)
        return axis.name if whole else f"{axis.name}:({axis.pre}){axis.size}"

    def __str__(self) -> str:
        """What `shardwright explain` prints."""
        return format_explanation(self)


class Explanations(tuple[Explanation, ...]):
    """Why some values are sharded as they are; prints as `shardwright explain` does."""

    __slots__ = ()

    def __str__(self) -> str:
        """The explanations, an empty line between them; of many, the first."""
        shown, rest = shown_unasked(self)
        return "\n\n".join([*map(str, shown), *([rest] if rest else [])])

    __repr__ = __str__


def shown_unasked(explanations: Sequence[Explanation]) -> tuple[Sequence[Explanation], str]:
    """The first of many explanations, and how many more there are in words; of few all of them, and nothing."""
    if len(explanations) <= _VALUES + 1:
        return explanations, ""
    return explanations[:_VALUES], f"… and {len(explanations) - _VALUES} more values; --all lists them"


def format_explanation(explanation: Explanation, *, everything: bool = False) -> str:
    """An explanation as aligned plain text.

    Arguments:
        explanation: The explanation.
        everything: Whether to write every link and stop, and when it happened; else long lists are cut short.
    """
    return "\n".join(line for section in outline(explanation, everything) for line in section.lines())

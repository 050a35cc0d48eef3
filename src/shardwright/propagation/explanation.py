"""What there is to say about the sharding of one value, and how it reads as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardwright.mesh import AxisRef, Mesh
from shardwright.sharding import TensorSharding

__all__ = ["Annotation", "Chain", "Explanation", "Link", "Stop", "format_explanation"]


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
            `constraint` given to what it constrains, `group` of values split alike, or `spread` from an edge.
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
    """How an axis, or a part of one, came to dimension `dim`: from its annotation through the links, in order."""

    axis: AxisRef
    dim: int
    annotation: Annotation
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where an axis went no further.

    Attributes:
        axis: The axis.
        op: The op that it did not get through.
        location: `FILE:LINE`, or empty.
        source: Where it is: `operand 1`, with the dimension.
        target: Where it did not get to.
        reason: `conflict`, `divisibility`, `overflow`, `closed`, `barrier`, `blocked`, `priority`, `replicated`,
            `unreduced`, `mesh`, `no rule`, `elementwise`, `conservative`, `strided`, `boundary` or `late`.
        detail: Why, in a sentence.
    """

    axis: AxisRef
    op: str
    location: str
    source: str
    target: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a value is sharded as it is.

    Attributes:
        name: The value as users know it.
        location: `FILE:LINE`, or empty.
        sharding: Its sharding; `None` in a program without a mesh.
        chains: How each of its axes came, dimension by dimension.
        stops: Where these axes went no further, and which axes of neighbours did not come.
    """

    name: str
    location: str
    sharding: TensorSharding | None
    chains: tuple[Chain, ...]
    stops: tuple[Stop, ...]


def format_explanation(explanation: Explanation) -> str:
    """An explanation as aligned plain text."""
    at = f"  ({explanation.location})" if explanation.location else ""
    lines = [f"{explanation.name}: {explanation.sharding!r}{at}"]
    mesh = explanation.sharding.mesh if explanation.sharding is not None else Mesh()
    if not explanation.chains:
        lines.append("  no axis splits it")
    for alike in _alike(explanation.chains):
        lines += _chain_lines(alike, mesh)
    if explanation.stops:
        lines.append("  stops")
        rows = [
            (
                _axis(stop.axis, mesh),
                stop.op,
                f"{stop.source} -> {stop.target}",
                stop.reason,
                stop.detail,
                stop.location,
            )
            for stop in explanation.stops
        ]
        lines += ["    " + line for line in _aligned(rows)]
    return "\n".join(lines)


def _alike(chains: Sequence[Chain]) -> list[list[Chain]]:
    """Neighbouring chains that differ in the axis only, together."""
    groups: list[list[Chain]] = []
    for chain in chains:
        if groups and _way(groups[-1][-1]) == _way(chain):
            groups[-1].append(chain)
        else:
            groups.append([chain])
    return groups


def _way(chain: Chain) -> tuple[int, Annotation, tuple[Link, ...]]:
    return chain.dim, chain.annotation, tuple(replace(link, axis=AxisRef("", 1, 1)) for link in chain.links)


def _chain_lines(alike: Sequence[Chain], mesh: Mesh) -> list[str]:
    chain = alike[0]
    said = chain.annotation
    priority = f", priority {said.priority}" if said.priority else ""
    at = f"  ({said.location})" if said.location else ""
    axes = ", ".join(_axis(one.axis, mesh) for one in alike)
    lines = [f"  {axes} on dimension {chain.dim}: from {said.where} {said.sharding!r}{priority}{at}"]
    rows = [
        (link.op, f"{link.source} -> {link.target}", f"dimension {link.dim}", link.phase, link.location)
        for link in chain.links
    ]
    return lines + ["    " + line for line in _aligned(rows)]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines whose columns begin at the same places."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _axis(axis: AxisRef, mesh: Mesh) -> str:
    whole = axis.name in mesh.sizes and mesh.is_full(axis)
    return axis.name if whole else f"{axis.name}:({axis.pre}){axis.size}"

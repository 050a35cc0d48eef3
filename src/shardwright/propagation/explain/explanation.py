"""Why values are sharded as they are, and how that reads: sections of aligned rows, long lists in short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardwright.axes import AxisRef
from shardwright.mesh import Mesh
from shardwright.propagation.explain.chain import Annotation, Chain, Link, Stop
from shardwright.propagation.explain.condense import Gap, Repeat, condensed
from shardwright.sharding import TensorSharding

__all__ = ["Explanation", "Explanations", "format_explanation", "outline", "shown_unasked"]

_VALUES = 20
"""So many values are explained unasked; a line of a model that is unrolled makes hundreds."""
_ENDS = 8
"""So many links of a long chain are shown at each end."""
_STOPS = 12
"""So many stops are shown each way."""

_Row = tuple[str, ...]


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
        return axis.name if whole else axis.name + axis.part

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


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it: rows of cells, and notes of one cell."""

    heading: str
    depth: int
    rows: tuple[_Row, ...] = ()

    def lines(self, width: int | None = None) -> Iterator[str]:
        """The heading and the rows, columns aligned if that fits into `width`; no line is broken."""
        yield "  " * self.depth + self.heading
        tables = [row for row in self.rows if len(row) > 1]
        widths = [max(map(len, column)) for column in zip(*tables, strict=True)]
        indent = "  " * (self.depth + 1)
        fits = width is None or len(indent) + sum(widths) + 2 * (len(widths) - 1) <= width
        for row in self.rows:
            if len(row) > 1 and fits:
                row = tuple(cell.ljust(size) for cell, size in zip(row, widths, strict=True))
            yield indent + "  ".join(cell for cell in row if cell).rstrip()


def outline(explanation: Explanation, everything: bool = False) -> list[Section]:
    """The sections of an explanation; with `everything`, all links and stops, and when axes came."""
    name = f"{explanation.printed} = {explanation.name}" if explanation.printed else explanation.name
    sections = [Section(f"{name}: {explanation.sharding!r}{_at(explanation.location)}", 0)]
    annotation = explanation.annotation
    if annotation is not None and not any(
        chain.annotation == annotation and not chain.links for chain in explanation.chains
    ):
        sections.append(Section(f"its annotation is {annotation.sharding!r}", 1))
    if not explanation.chains:
        sections.append(Section(_why_whole(explanation), 1))
    sections += [_chain(explanation, alike, everything) for alike in _alike(explanation.chains)]
    inward = [stop for stop in explanation.stops if stop.inward]
    outward = [stop for stop in explanation.stops if not stop.inward]
    sections += _stops(explanation, "did not come here", inward, everything)
    sections += _stops(explanation, "did not go on", outward, everything)
    sections += [Section(sentence, 1) for sentence in explanation.dropped]
    return sections


def _why_whole(explanation: Explanation) -> str:
    if explanation.sharding is None:
        return "the program has no mesh"
    if not explanation.sharding.dims:
        return "it has no dimension to split"
    if explanation.whole:
        return explanation.whole
    if any(stop.inward for stop in explanation.stops):
        return "no axis splits it"
    return "no axis splits it, and no neighbour has one for it"


def _chain(explanation: Explanation, alike: Sequence[Chain], everything: bool) -> Section:
    chain = alike[0]
    axes = ", ".join(explanation.axis_text(one.axis) for one in alike)
    until = "" if chain.kept else ", until it was cut at the boundary"
    heading = f"{axes} on dimension {chain.dim}{until}: {_from(chain)}"
    return Section(heading, 1, tuple(_links(chain.links, everything)))


def _from(chain: Chain) -> str:
    annotation = chain.annotation
    priority = f", priority {annotation.priority}" if annotation.priority else ""
    if not chain.links:
        return f"from its own annotation {annotation.sharding!r}{priority}"
    return f"from {annotation.where} {annotation.sharding!r}{priority}{_at(annotation.location)}"


def _links(links: Sequence[Link], everything: bool) -> Iterator[_Row]:
    rows = [_link(link, everything) for link in links]
    for item in rows if everything else condensed(rows, _ENDS):
        if isinstance(item, Gap):
            yield (f"… {item.count} more; --all lists them",)
        elif isinstance(item, Repeat):
            steps = f"these {item.period} steps" if item.period > 1 else "this step"
            yield (f"{steps} {item.times} more times",)
        else:
            yield item


def _link(link: Link, everything: bool) -> _Row:
    phase = (link.phase,) if everything else ()
    return (link.op, f"{link.source} -> {link.target}", f"dimension {link.dim}", *phase, link.location)


def _stops(explanation: Explanation, heading: str, stops: Sequence[Stop], everything: bool) -> Iterator[Section]:
    shown = stops if everything or len(stops) <= _STOPS + 1 else stops[:_STOPS]
    rows: list[_Row] = [_stop(explanation, stop) for stop in shown]
    if len(shown) < len(stops):
        rows.append((f"… {len(stops) - len(shown)} more; --all lists them",))
    if rows:
        yield Section(heading, 1, tuple(rows))


def _stop(explanation: Explanation, stop: Stop) -> _Row:
    way = f"{stop.source} -> {stop.target}"
    return (explanation.axis_text(stop.axis), stop.op, way, f"{stop.reason}: {stop.detail}", stop.location)


def _alike(chains: Sequence[Chain]) -> list[list[Chain]]:
    """Neighbouring chains that differ in the axis only, together."""
    groups: list[list[Chain]] = []
    for chain in chains:
        if groups and _way(groups[-1][-1]) == _way(chain):
            groups[-1].append(chain)
        else:
            groups.append([chain])
    return groups


def _way(chain: Chain) -> tuple[int, bool, Annotation, tuple[Link, ...]]:
    links = tuple(replace(link, axis=AxisRef("", 1, 1)) for link in chain.links)
    return chain.dim, chain.kept, chain.annotation, links


def _at(location: str) -> str:
    return f"  ({location})" if location else ""

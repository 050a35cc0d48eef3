"""How an explanation reads: sections of aligned rows, long lists in short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardwright.mesh import AxisRef
from shardwright.propagation.condense import Gap, Repeat, condensed

if TYPE_CHECKING:
    from shardwright.propagation.explanation import Annotation, Chain, Explanation, Link, Stop

__all__ = ["Section", "outline"]

_ENDS = 8
"""So many links of a long chain are shown at each end."""
_STOPS = 12
"""So many stops are shown each way."""

_Row = tuple[str, ...]


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
    said = explanation.annotation
    if said is not None and not any(chain.annotation == said and not chain.links for chain in explanation.chains):
        sections.append(Section(f"its annotation is {said.sharding!r}", 1))
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
    said = chain.annotation
    priority = f", priority {said.priority}" if said.priority else ""
    if not chain.links:
        return f"from its own annotation {said.sharding!r}{priority}"
    return f"from {said.where} {said.sharding!r}{priority}{_at(said.location)}"


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

"""How far shardings came along which edges: `#sdy.propagation_edges<…>` as plain data, text both ways.

    >>> text = '#sdy.propagation_edges<[{step-2 = [{"y" = operand-1 -> [operand-0, result-0]}]}]>'
    >>> (step,) = parse_edges(text)
    >>> step.number, str(step.flows[0].source), print_edges([step]) == text
    (2, 'operand-1', True)

Source: the sdy dialect reference (PropagationEdgesAttr, PropagationOneStepAttr, AxisToPropagationDetailsAttr,
EdgeValueRefAttr, EdgeNodeType).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, cast

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.notation.axis_scanner import AxisScanner
from shardwright.notation.names import STRING, quoted, unquoted

__all__ = ["EdgeValue", "AxisFlow", "PropagationStep", "parse_edges", "print_edges"]

_HEAD = "#sdy.propagation_edges"


@dataclass(frozen=True, slots=True)
class EdgeValue:
    """An operand or result of an op, by its number."""

    type: Literal["operand", "result"]
    index: int

    def __str__(self) -> str:
        """`operand-0`."""
        return f"{self.type}-{self.index}"


@dataclass(frozen=True, slots=True)
class AxisFlow:
    """That an axis came from one value to others; `part` is `(pre-size, size)` of a part of the axis."""

    axis: str
    part: tuple[int, int] | None
    source: EdgeValue
    targets: tuple[EdgeValue, ...]

    def __str__(self) -> str:
        """`"y" = operand-1 -> [operand-0, result-0]`."""
        part = AxisRef(self.axis, *self.part).part if self.part else ""
        return f"{quoted(self.axis)}{part} = {self.source} -> [{', '.join(map(str, self.targets))}]"


@dataclass(frozen=True, slots=True)
class PropagationStep:
    """What one step of propagation did at an op."""

    number: int
    flows: tuple[AxisFlow, ...]

    def __str__(self) -> str:
        """`{step-2 = [{"y" = operand-1 -> [result-0]}]}`."""
        return f"{{step-{self.number} = [{', '.join(f'{{{flow}}}' for flow in self.flows)}]}}"


def print_edges(steps: Iterable[PropagationStep]) -> str:
    """The steps as one attribute."""
    return f"{_HEAD}<[{', '.join(map(str, steps))}]>"


def parse_edges(text: str) -> tuple[PropagationStep, ...]:
    """The steps that an attribute lists.

    Raises:
        ShardingError: malformed text.
    """
    parser = _EdgesParser(text)
    for token in (_HEAD, "<", "["):
        parser.take(token)
    steps = parser.separated("]", parser.step)
    parser.take(">")
    if parser.peek():
        parser.refuse("expected the end")
    return tuple(steps)


class _EdgesParser(AxisScanner):
    """Recursive descent over the tokens of one attribute."""

    TOKEN = re.compile(rf"\s*({STRING}|#sdy\.propagation_edges|->|[a-z]+-[0-9]{{1,18}}|[0-9]{{1,18}}|\S)")

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        raise ShardingError(
            f"malformed propagation edges {self.text[:200]!r}",
            cause=f"{cause}, got {self.peek()[:40]!r}",
            remedy=remedy,
        )

    def step(self) -> PropagationStep:
        self.take("{")
        number = self.numbered("step")[1]
        for token in ("=", "["):
            self.take(token)
        flows = self.separated("]", self.flow)
        self.take("}")
        return PropagationStep(number, tuple(flows))

    def flow(self) -> AxisFlow:
        self.take("{")
        if not self.peek().startswith('"'):
            self.refuse("expected the name of an axis")
        axis = unquoted(self.take())
        part = self.part()
        self.take("=")
        source = self.value()
        for token in ("->", "["):
            self.take(token)
        targets = self.separated("]", self.value)
        self.take("}")
        return AxisFlow(axis, part, source, tuple(targets))

    def value(self) -> EdgeValue:
        type, index = self.numbered("operand", "result")
        return EdgeValue(cast(Literal["operand", "result"], type), index)

    def integer(self) -> int:
        if not self.peek().isdecimal():
            self.refuse("expected a number")
        return int(self.take())

    def numbered(self, *types: str) -> tuple[str, int]:
        type, _, index = self.peek().partition("-")
        if type not in types or not index.isdecimal():
            self.refuse(f"expected {' or '.join(f'{type}-0' for type in types)}")
        self.at += 1
        return type, int(index)

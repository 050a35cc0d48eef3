"""The loops of ops for people.

stablehlo.dot_general
  2 times, the first at examples/gpt.py:33
  loop types: [parallel, parallel, reduction_sum]
  indexing maps:
  (d0, d1, d2) -> (d0, d2)   operand 0  tensor<4x8xf32>
  (d0, d1, d2) -> (d2, d1)   operand 1  tensor<8x16xf32>
  (d0, d1, d2) -> (d0, d1)   result 0  tensor<4x16xf32>
  rule: ([i, k], [k, j])->([i, j]) {i=4, j=16, k=8} reduction={k}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardwright.report.layout import Page
from shardwright.rules.text import format_rule

if TYPE_CHECKING:
    from shardwright.propagation.rfc.interface import FoundInterface, Interface
    from shardwright.report.summary import Summary

__all__ = ["interface_summary", "interfaces_page"]


def interfaces_page(found: Sequence[FoundInterface], width: int | None = None) -> Page:
    """Ops of a program with an empty line between them."""
    page = Page(width)
    for one in found:
        interface = one.interface
        times = f"{one.count} times, the first at " if one.count > 1 and one.location else ""
        page.heading(interface.op)
        if one.location:
            page.line(times + one.location)
        page.line(f"loop types: [{', '.join(interface.loop_iterator_types)}]")
        page.line("indexing maps:")
        page.table((), list(_tensors(interface)))
        page.line(f"rule: {_rule(interface)}")
    return page


def interface_summary(one: FoundInterface) -> Summary:
    """An op of a program for machines."""
    interface = one.interface
    return {
        "op": interface.op,
        "count": one.count,
        "location": one.location,
        "loop_iterator_types": list(interface.loop_iterator_types),
        "loop_sizes": list(interface.loop_sizes),
        "indexing_maps": [{"map": map, "tensor": name, "type": type} for map, name, type in _tensors(interface)],
        "rule": _rule(interface),
    }


def _tensors(interface: Interface) -> Iterator[tuple[str, str, str]]:
    """The map of each tensor, its name, and its type."""
    signature = interface.signature
    named = [("operand", number, type) for number, type in enumerate(signature.operands)]
    named += [("result", number, type) for number, type in enumerate(signature.results)]
    for map, (side, number, type) in zip(interface.indexing_maps, named, strict=True):
        yield map, f"{side} {number}", str(type)


def _rule(interface: Interface) -> str:
    return format_rule(interface.rule).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")

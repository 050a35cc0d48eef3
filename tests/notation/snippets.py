"""IR printed in public texts: as it stands there, with what mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass

Mend = tuple[str, str, str]

ARROW: Mend = (" > ", " -> ", "the arrow lost its dash")
DOT = "dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>"
BRACKETS: Mend = ("[[[], ", "[[], ", "one bracket too many: lists of numbers are not nested deeper")
NESTED: Mend = ("[[[]], ", "[[], ", "brackets around an empty list")
ALL_DOT: Mend = ("{...}", f"{{{DOT}}}", "elided attributes")
SOME_DOT: Mend = ("{..., ", f"{{{DOT}, ", "elided attributes")


@dataclass(frozen=True)
class Snippet:
    """IR as printed, its mends, the module it is put into (`{}`), what its import says, or what refuses it."""

    origin: str
    text: str
    mends: tuple[Mend, ...] = ()
    frame: str = "{}"
    says: tuple[str, ...] = ()
    refused: str = ""

    @property
    def module(self) -> str:
        text = self.text
        for wrong, right, reason in self.mends:
            assert wrong in text, (wrong, reason)
            text = text.replace(wrong, right)
        return self.frame.replace("{}", text, 1)

    @property
    def program(self) -> str:
        """The module as something that can be run: what its op `"use"` reads, an op of nobody, is its result."""
        used = _USE.search(self.module)
        if used is None:
            return self.module
        value, type = used.groups()
        text = self.module.replace(used[0], f"return {value} : {type}")
        head = text.index("attributes", text.index("func.func"))
        return f"{text[:head].rstrip().removesuffix('-> ()')} -> {type} {text[head:]}"


_USE = re.compile(r'"use"\((%\w+)\) : \((.*)\) -> \(\)\s*return')
_MESH_SIZES = re.compile(r"dim_sizes = \[(\d+(?:, \d+)*)\]")
_SHAPES: dict[int, dict[int, tuple[int, ...]]] = {
    1: {1: (1,), 2: (2,), 4: (4,), 8: (8,)},
    2: {2: (2, 1), 8: (2, 4)},
    3: {2: (2, 1, 1), 8: (2, 2, 2)},
}
"""By the number of its axes, the sizes of a cluster of so many devices."""
_SDY_MESH = re.compile(r"(sdy\.mesh @mesh = )<\[.*\]>")
_LARGER = {"tensor<2x4xf32": "tensor<8x8xf32", "tensor<2xf32": "tensor<8xf32"}
"""Tensors that collectives cannot cut into 8 parts, and others."""


def on_devices(text: str, devices: int) -> str:
    """A program on another number of devices, 2 or 8; clusters between which it sends share them."""
    if "sdy.mesh" in text:
        names = re.findall(r'"(\w)"=', text)
        text = text if devices > 2 else text.replace('"c":(1)2', '"c"')  # of two devices there is no part
        axes = ", ".join(f'"{name}"={size}' for name, size in zip(names, _sdy_sizes(names, devices), strict=True))
        return _SDY_MESH.sub(lambda match: f"{match[1]}<[{axes}]>", text)
    text = text.replace("tensor<3xf32", "tensor<8xf32")  # on 3 devices
    if devices == 8 and "dot" not in text:
        for small, large in _LARGER.items():
            text = text.replace(small, large)
    clusters = len(_MESH_SIZES.findall(text))

    def sizes(match: re.Match[str]) -> str:
        return f"dim_sizes = {list(_SHAPES[match[1].count(',') + 1][devices // clusters])}"

    return _MESH_SIZES.sub(sizes, text)


def _sdy_sizes(names: list[str], devices: int) -> tuple[int, ...]:
    """The sizes of the axes of an example of `sdy` on so many devices; where one is named in parts, it has four."""
    if len(names) == 6:
        return (1, 1, 2, 1, 1, 1) if devices == 2 else (1, 2, 4, 1, 1, 1)
    if len(names) == 2:
        return _SHAPES[2][devices]
    return (2, 1, 1, 1) if devices == 2 else (2, 2, 2, 1)


def body(cluster: str, arguments: str = "", result: str = "", attributes: str = "mesh_cluster = @mesh0") -> str:
    """A function around ops on a cluster, which returns `result`, given as `%1: tensor<4xf32>`."""
    value, _, type = result.partition(": ")
    arrow, returned = (f" -> {type}", f"return {value} : {type}") if result else ("", "return")
    return f"{cluster}\nfunc.func @f({arguments}){arrow} attributes {{{attributes}}} {{\n{{}}\n{returned}\n}}"


ONE = "mesh.cluster @mesh0(rank = 1, dim_sizes = [2])"
TWO = "mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])"
THREE = "mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])"

OP0: Mend = ("op0 ...", "stablehlo.iota dim = 0 : tensor<2x5xf32>", "elided")
BOTH_USED = (
    f"{TWO}\nfunc.func @f() -> (tensor<2x5xf32>, tensor<2x5xf32>) attributes {{mesh_cluster = @mesh0}} {{\n"
    "{}\nreturn %3, %5 : tensor<2x5xf32>, tensor<2x5xf32>\n}"
)
"""A function around the annotations that two ops read."""

"""Random meshes and random shardings on them, as text of the sdy dialect."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Annotator", "random_annotator"]

_AXIS_SIZES = (2, 2, 2, 2, 4, 4, 4, 8, 8, 3, 5, 6, 6, 7, 9, 10, 12, 12, 1)
_NAMES = ("x", "y", "z", "w")


@dataclass
class Annotator:
    """How shardings are drawn: the meshes of a program, and its taste.

    Attributes:
        meshes: Axes of each mesh by symbol; the first is used most, one without axes is maximal.
        manual: Axes that what is being written may not use.
        within: The mesh of the manual computation being written, if any.
    """

    random: random.Random
    meshes: dict[str, list[tuple[str, int]]]
    priorities: bool
    closed: float
    cutting: float
    replicated: float
    unreduced: float
    used: float
    manual: frozenset[str] = frozenset()
    within: str = ""
    device_orders: dict[str, list[int]] = field(default_factory=dict)

    def declarations(self) -> list[str]:
        """The `sdy.mesh` ops."""
        lines = []
        for symbol, axes in self.meshes.items():
            sizes = ", ".join(f'"{name}"={size}' for name, size in axes)
            order = self.device_orders.get(symbol)
            ids = f", device_ids={order}" if order else ""
            lines.append(f"sdy.mesh @{symbol} = <[{sizes}]{ids}>")
        return lines

    def pick_mesh(self) -> str:
        """A mesh that has axes."""
        if self.within:
            return self.within
        symbols = [symbol for symbol, axes in self.meshes.items() if axes]
        return symbols[0] if self.random.random() < 0.85 else self.random.choice(symbols)

    def maximal(self) -> str | None:
        """The sharding that puts a value on one device, if there is a mesh for it."""
        symbols = [symbol for symbol, axes in self.meshes.items() if not axes]
        return f"<@{symbols[0]}, []>" if symbols and not self.within else None

    def free(self, mesh: str) -> list[tuple[str, int]]:
        """The axes of a mesh that are not manual."""
        return [axis for axis in self.meshes[mesh] if axis[0] not in self.manual]

    def pieces(self, axes: Sequence[tuple[str, int]]) -> list[str]:
        """Whole axes and parts of axes that do not overlap, in mesh order."""
        texts: list[str] = []
        for name, size in axes:
            cuts = _chain(self.random, size) if self.random.random() < self.cutting else []
            if not cuts:
                texts.append(f'"{name}"')
                continue
            bounds = [1, *cuts, size]
            texts += [f'"{name}":({low}){high // low}' for low, high in pairwise(bounds)]
        return texts

    def sharding(
        self, shape: Sequence[int], closed: float | None = None, priorities: bool = True, mesh: str = ""
    ) -> str:
        """A sharding of a tensor of this shape."""
        mesh = mesh or self.pick_mesh()
        pieces = self.pieces(self.free(mesh))
        dims: list[list[str]] = [[] for _ in shape]
        left = []
        for piece in self.random.sample(pieces, len(pieces)):
            if dims and self.random.random() < self.used:
                dims[self.random.randrange(len(dims))].append(piece)
            else:
                left.append(piece)
        dims = [_apart(dim) for dim in dims]
        return f"<@{mesh}, [{', '.join(self.dims(dims, closed, priorities))}]{self.tail(pieces, left)}>"

    def dims(self, dims: Sequence[Sequence[str]], closed: float | None, priorities: bool) -> list[str]:
        """Each dimension's text, open or closed, some with a priority."""
        texts = []
        for dim in dims:
            open_ = self.random.random() > (self.closed if closed is None else closed)
            priority = ""
            if priorities and self.priorities and (open_ or dim) and self.random.random() < 0.4:
                priority = f"p{self.random.randrange(4)}"
            texts.append("{" + ", ".join([*dim, *(["?"] if open_ else [])]) + "}" + priority)
        return texts

    def tail(self, pieces: Sequence[str], left: Sequence[str]) -> str:
        """Replicated and unreduced axes among those left, in mesh order, no two parts of an axis side by side."""
        replicated: list[str] = []
        unreduced: list[str] = []
        for piece in [piece for piece in pieces if piece in left]:
            axis = piece.split(":")[0]
            drawn = self.random.random()
            if drawn < self.replicated and not any(its.split(":")[0] == axis for its in replicated):
                replicated.append(piece)
            elif drawn > 1 - self.unreduced and not any(its.split(":")[0] == axis for its in unreduced):
                unreduced.append(piece)
        text = f", replicated={{{', '.join(replicated)}}}" if replicated else ""
        return text + (f", unreduced={{{', '.join(unreduced)}}}" if unreduced else "")


def random_annotator(chance: random.Random) -> Annotator:
    """One to four axes; sometimes a second mesh of as many devices, or a maximal one."""
    axes = [(name, chance.choice(_AXIS_SIZES)) for name in _NAMES[: chance.choice((1, 2, 2, 3, 3, 4))]]
    meshes = {"mesh": axes}
    orders: dict[str, list[int]] = {}
    if chance.random() < 0.1:
        kind = chance.choice(("shuffled", "ordered", "flat", "split"))
        count = 1
        for _, size in axes:
            count *= size
        meshes["other"] = _other_axes(axes, kind, count)
        if kind == "ordered" and 1 < count <= 64:
            orders["other"] = list(range(count))[::-1]
    if chance.random() < 0.06:
        meshes["max"] = []
        orders["max"] = [0]
    return Annotator(
        chance,
        meshes,
        priorities=chance.random() < 0.25,
        closed=chance.choice((0.0, 0.2, 0.4, 0.7)),
        cutting=chance.choice((0.0, 0.3, 0.3, 0.8)),
        replicated=chance.choice((0.0, 0.1, 0.25)),
        unreduced=chance.choice((0.0, 0.0, 0.08, 0.15)),
        used=chance.choice((0.4, 0.55, 0.8)),
        device_orders=orders,
    )


def _other_axes(axes: list[tuple[str, int]], kind: str, count: int) -> list[tuple[str, int]]:
    if kind == "shuffled":
        return axes[::-1]
    if kind == "flat":
        return [("x", count)]
    if kind == "split" and axes[0][1] % 2 == 0:
        return [("u", 2), ("v", axes[0][1] // 2), *axes[1:]]
    return list(axes)


def _apart(pieces: Sequence[str]) -> list[str]:
    """The pieces so ordered that none stands right after the one it would merge with."""
    if not any(_merge(one, other) for one, other in pairwise(pieces)):
        return list(pieces)
    axes = [piece.split(":")[0] for piece in pieces]
    return [
        sorted((p for p, its in zip(pieces, axes, strict=True) if its == axis), key=_bounds)[-1 - axes[:at].count(axis)]
        for at, axis in enumerate(axes)
    ]


def _merge(one: str, other: str) -> bool:
    same = one.split(":")[0] == other.split(":")[0]
    return same and _bounds(one)[1] == _bounds(other)[0]


def _bounds(piece: str) -> tuple[int, int]:
    """The sizes before and up to the end of a part of an axis."""
    _, _, part = piece.partition(":(")
    low, _, size = part.partition(")")
    return (int(low), int(low) * int(size)) if part else (0, 0)


def _chain(chance: random.Random, size: int) -> list[int]:
    """Bounds at which an axis is cut, each a multiple of the one before."""
    cuts: list[int] = []
    low = 1
    while True:
        fitting = [cut for cut in range(low + 1, size) if cut % low == 0 and size % cut == 0]
        if not fitting or (cuts and chance.random() < 0.5):
            return cuts
        low = chance.choice(fitting)
        cuts.append(low)

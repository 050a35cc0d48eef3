"""Random manual computations: parts of axes manual, replicated and unreduced, groups inside and outside, with and without
data-flow edges in what follows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["random_manual"]

_SIZES = {"a": 4, "b": 2, "c": 4}
_MESH = "sdy.mesh @mesh = <[" + ", ".join(f'"{name}"={size}' for name, size in _SIZES.items()) + "]>"
_SIDE = 32
_OUTSIDE = "  "
"""What lines begin with that stand in no computation."""

_GLOBAL = f"tensor<{_SIDE}x{_SIDE}xf32>"


def random_manual(seed: int) -> str:
    """A function with one to three manual computations."""
    return _Writer(random.Random(seed)).module()


@dataclass(frozen=True)
class _Piece:
    """An axis, or a part of one."""

    name: str
    pre: int
    size: int

    def __str__(self) -> str:
        return f'"{self.name}"' if self.size == _SIZES[self.name] else f'"{self.name}":({self.pre}){self.size}'


@dataclass(frozen=True)
class _Stated:
    """What is stated at the boundary, and the type that it makes inside."""

    text: str
    local: str


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.count = 0
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self.groups: dict[tuple[str, str], int] = {}

    def module(self) -> str:
        arguments = [f"%arg{number}" for number in range(3)]
        values = list(arguments)
        self.types.update(dict.fromkeys(values, _GLOBAL))
        for _ in range(self.chance.randint(1, 3)):
            values += self._around(values)
        returned = self.chance.sample(values, 2)
        stated = ", ".join(f"{name}: {_GLOBAL}{self._attribute()}" for name in arguments)
        head = f"func.func @main({stated}) -> ({_GLOBAL}{self._attribute()}, {_GLOBAL}) {{"
        last = f"  return {', '.join(returned)} : {_GLOBAL}, {_GLOBAL}"
        return "\n".join([_MESH, head, *self.lines, last, "}"]) + "\n"

    def _around(self, values: list[str]) -> list[str]:
        """A computation, or what stands between two."""
        if self.chance.random() < 0.6:
            return self._computation(values)
        if self.chance.random() < 0.3:
            self.lines.append(f"  sdy.sharding_group {self.chance.choice(values)} group_id=0 : {_GLOBAL}")
            return []
        return [self._op(values, _GLOBAL, _OUTSIDE)]

    def _op(self, values: list[str], type: str, indent: str) -> str:
        name = self._name()
        kind = self.chance.random()
        operands = [self.chance.choice(values) for _ in range(2)]
        if kind < 0.4:
            self.lines.append(f"{indent}{name} = stablehlo.add {operands[0]}, {operands[1]} : {type}")
        elif kind < 0.6 or indent != _OUTSIDE:
            self.lines.append(f"{indent}{name} = stablehlo.tanh {operands[0]} : {type}")
        else:
            self.lines.append(f"{indent}{name} = sdy.sharding_constraint {operands[0]} {self._outside()} : {type}")
        self.types[name] = type
        return name

    def _computation(self, values: list[str]) -> list[str]:
        manual = self.chance.sample(list(_SIZES), self.chance.randint(1, 2))
        operands = [self.chance.choice(values) for _ in range(self.chance.randint(1, 3))]
        entering = [self._boundary(manual) for _ in operands]
        inside = [self._name() for _ in operands]
        self.types.update({name: stated.local for name, stated in zip(inside, entering, strict=True)})
        outer, self.lines = self.lines, []
        returned, leaving = self._body(inside, entering, manual)
        body, self.lines = self.lines, outer
        result, count = self._name(), len(returned)
        axes = ", ".join(f'"{name}"' for name in manual)
        block = ", ".join(f"{name}: {self.types[name]}" for name in inside)
        ins, outs = (", ".join(stated.text for stated in side) for side in (entering, leaving))
        self.lines += [
            f"  {result}{f':{count}' if count > 1 else ''} = sdy.manual_computation({', '.join(operands)}) "
            f"in_shardings=[{ins}] out_shardings=[{outs}] manual_axes={{{axes}}} ({block}) {{",
            *body,
            f"    sdy.return {', '.join(returned)} : {', '.join(self.types[name] for name in returned)}",
            f"  }} : ({', '.join([_GLOBAL] * len(operands))}) -> ({', '.join([_GLOBAL] * count)})",
        ]
        return [f"{result}#{number}" for number in range(count)] if count > 1 else [result]

    def _body(self, inside: list[str], entering: list[_Stated], manual: list[str]) -> tuple[list[str], list[_Stated]]:
        """Write a body; what it returns, and what is stated of that."""
        values = list(inside)
        for _ in range(self.chance.randint(0, 4)):
            name = self.chance.choice(values)
            alike = [other for other in values if self.types[other] == self.types[name]]
            if self.chance.random() < 0.4:
                number = self.groups.setdefault((inside[0], self.types[name]), len(self.groups) + 1)
                self.lines += [
                    f"    sdy.sharding_group {other} group_id={number} : {self.types[other]}" for other in alike
                ]
            else:
                values.append(self._op(alike, self.types[name], "    "))
        locals = {stated.local for stated in entering}
        returned, leaving = [], []
        for name in self.chance.sample(values, min(len(values), self.chance.randint(1, 2))):
            assert self.types[name] in locals
            returned.append(name)
            leaving.append(self._boundary_like(self.types[name], entering, manual))
        return returned, leaving

    def _boundary_like(self, local: str, entering: list[_Stated], manual: list[str]) -> _Stated:
        """A boundary that makes this type inside: a new one if chance finds one, else that of an operand."""
        for _ in range(4):
            stated = self._boundary(manual)
            if stated.local == local:
                return stated
        return next(stated for stated in entering if stated.local == local)

    def _boundary(self, manual: list[str]) -> _Stated:
        dims: list[list[_Piece]] = [[], []]
        apart: dict[str, list[_Piece]] = {"replicated": [], "unreduced": []}
        for piece in self._pieces(manual):
            where = self.chance.random()
            if where < 0.5:
                self._put(dims[self.chance.randrange(2)], piece)
            elif where < 0.65:
                self._put(apart["replicated"], piece)
            elif where < 0.7:
                self._put(apart["unreduced"], piece)
        local = "x".join(str(_SIDE // _product(dim)) for dim in dims)
        for piece in self._pieces([name for name in _SIZES if name not in manual]):
            if self.chance.random() < 0.3:
                self._put(dims[self.chance.randrange(2)], piece)
        texts = [
            "{" + ", ".join([*map(str, dim), *(["?"] if self.chance.random() < 0.4 else [])]) + "}" for dim in dims
        ]
        order = list(_SIZES)
        tail = "".join(
            f", {kind}={{{', '.join(map(str, sorted(pieces, key=lambda piece: (order.index(piece.name), piece.pre))))}}}"
            for kind, pieces in apart.items()
            if pieces
        )
        return _Stated(f"<@mesh, [{', '.join(texts)}]{tail}>", f"tensor<{local}xf32>")

    def _pieces(self, names: list[str]) -> list[_Piece]:
        """Axes, some in two parts, in any order."""
        pieces: list[_Piece] = []
        for name in names:
            if _SIZES[name] == 4 and self.chance.random() < 0.35:
                pieces += [_Piece(name, 1, 2), _Piece(name, 2, 2)]
            else:
                pieces.append(_Piece(name, 1, _SIZES[name]))
        self.chance.shuffle(pieces)
        return pieces

    def _put(self, into: list[_Piece], piece: _Piece) -> None:
        """Add a part to a list, unless the two parts of an axis would meet there, which are to be one."""
        if not any(other.name == piece.name for other in into):
            into.append(piece)

    def _outside(self) -> str:
        return self._boundary([]).text

    def _attribute(self) -> str:
        return f" {{sdy.sharding = #sdy.sharding{self._outside()}}}" if self.chance.random() < 0.5 else ""

    def _name(self) -> str:
        self.count += 1
        return f"%v{self.count}"


def _product(pieces: list[_Piece]) -> int:
    product = 1
    for piece in pieces:
        product *= piece.size
    return product

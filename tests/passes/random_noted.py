"""Random modules for debug attributes: values that have origins before propagation, and axes that come to them then.

Shardings stand on arguments, results, constraints and manual computations alone: the C++ ends on those of other ops.
"""

from __future__ import annotations

import random

__all__ = ["random_noted"]

_T = "tensor<16x16xf32>"
_MESH = 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>'
_AXES = ('"a"', '"b"', '"c"', '"c":(1)2', '"c":(2)2', "")


def random_noted(seed: int) -> str:
    """A function of constraints, open and closed, elementwise ops, products and manual computations."""
    chance = random.Random(seed)
    values = [f"%arg{number}" for number in range(3)]
    lines: list[str] = []
    for number in range(chance.randint(3, 12)):
        name = f"%v{number}"
        one, other = chance.choice(values), chance.choice(values[-4:])
        kind = chance.random()
        if kind < 0.35:
            lines.append(f"  {name} = sdy.sharding_constraint {one} {_sharding(chance)} : {_T}")
        elif kind < 0.6:
            lines.append(f"  {name} = stablehlo.add {one}, {other} : {_T}")
        elif kind < 0.7:
            lines.append(f"  {name} = stablehlo.transpose {one}, dims = [1, 0] : ({_T}) -> {_T}")
        elif kind < 0.8:
            lines.append(f"  {name} = stablehlo.dot {one}, {other} : ({_T}, {_T}) -> {_T}")
        elif kind < 0.9:
            lines += _barrier(chance, name, one, other)
        else:
            lines += _manual(chance, name, one)
        values.append(name)
    returned = [chance.choice(values[-3:]), values[-1]]
    arguments = ", ".join(f"%arg{number}: {_T}{_attribute(chance)}" for number in range(3))
    results = ", ".join(f"{_T}{_attribute(chance)}" for _ in returned)
    head = f"func.func @main({arguments}) -> ({results}) {{"
    return "\n".join([_MESH, head, *lines, f"  return {', '.join(returned)} : {_T}, {_T}", "}"]) + "\n"


def _barrier(chance: random.Random, name: str, one: str, other: str) -> list[str]:
    both = f"  {name}_both:2 = stablehlo.optimization_barrier {one}, {other} : {_T}, {_T}"
    return [both, f"  {name} = stablehlo.negate {name}_both#{chance.randrange(2)} : {_T}"]


def _manual(chance: random.Random, name: str, operand: str) -> list[str]:
    free = chance.choice(('"b"', '"c"', '"c":(1)2', "?", '"b", ?'))
    local = "tensor<8x16xf32>"
    return [
        f'  {name} = sdy.manual_computation({operand}) in_shardings=[<@mesh, [{{"a"}}, {{{free}}}]>] '
        f'out_shardings=[<@mesh, [{{"a", ?}}, {{?}}]>] manual_axes={{"a"}} (%i{name[2:]}: {local}) {{',
        f"    %j{name[2:]} = stablehlo.tanh %i{name[2:]} : {local}",
        f"    sdy.return %j{name[2:]} : {local}",
        f"  }} : ({_T}) -> {_T}",
    ]


def _attribute(chance: random.Random) -> str:
    return f" {{sdy.sharding = #sdy.sharding{_sharding(chance)}}}" if chance.random() < 0.4 else ""


def _sharding(chance: random.Random) -> str:
    first, second = chance.sample(_AXES, 2)
    while first and second and first[:3] == second[:3]:
        first, second = chance.sample(_AXES, 2)
    return f"<@mesh, [{_dim(chance, first)}, {_dim(chance, second)}]>"


def _dim(chance: random.Random, axis: str) -> str:
    return "{" + ", ".join([axis] * bool(axis) + ["?"] * (chance.random() < 0.5)) + "}"

"""Random modules of functions and their calls, for edges of data flow between them: open shardings, loops, groups."""

from __future__ import annotations

import random

__all__ = ["random_calling"]

_T = "tensor<16x16xf32>"
_MESH = 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>'
_DIMS = ("{}", "{?}", '{"a", ?}', '{"b", ?}', '{"c":(1)2, ?}', '{"a"}', '{"c", ?}', '{"b", ?}p1', '{"a", "b", ?}')


def random_calling(seed: int) -> str:
    """`@main` and up to four functions, of which each calls some behind it; of one or two values."""
    chance = random.Random(seed)
    names = ["main", *(f"f{number}" for number in range(1, chance.randint(2, 5)))]
    arity = {name: (chance.randint(1, 2), chance.randint(1, 2)) for name in names}
    functions = [_function(chance, names, number, arity) for number in range(len(names))]
    chance.shuffle(functions)
    return "\n".join([_MESH, *functions]) + "\n"


def _function(chance: random.Random, names: list[str], number: int, arity: dict[str, tuple[int, int]]) -> str:
    name = names[number]
    takes, gives = arity[name]
    values = [f"%a{index}" for index in range(takes)]
    lines: list[str] = []
    for index in range(chance.randint(1, 6)):
        kind = chance.random()
        value, operands = f"%v{index}", [chance.choice(values) for _ in range(2)]
        if kind < 0.45 and number + 1 < len(names):
            values += _call(chance, lines, value, chance.choice(names[number + 1 :]), arity, values)
            continue
        if kind < 0.6:
            lines.append(f"  {value} = stablehlo.dot {operands[0]}, {operands[1]} : ({_T}, {_T}) -> {_T}")
        elif kind < 0.7:
            lines.append(f"  {value} = sdy.sharding_constraint {operands[0]} {_sharding(chance)} : {_T}")
        elif kind < 0.78:
            lines.append(f"  {value} = stablehlo.transpose {operands[0]}, dims = [1, 0] : ({_T}) -> {_T}")
        elif kind < 0.84:
            lines.append(f"  sdy.sharding_group {operands[0]} group_id={chance.randint(0, 2)} : {_T}")
            continue
        else:
            lines.append(f"  {value} = stablehlo.add {operands[0]}, {operands[1]}{_per_value(chance, 1, 0.15)} : {_T}")
        values.append(value)
    returned = [chance.choice(values) for _ in range(gives)]
    head = ", ".join(f"%a{index}: {_T}{_attribute(chance)}" for index in range(takes))
    results = ", ".join(f"{_T}{_attribute(chance)}" for _ in range(gives))
    visibility = "private " if number else ""
    last = f"  return {', '.join(returned)} : {', '.join([_T] * gives)}"
    return "\n".join([f"func.func {visibility}@{name}({head}) -> ({results}) {{", *lines, last, "}"])


def _call(
    chance: random.Random,
    lines: list[str],
    value: str,
    callee: str,
    arity: dict[str, tuple[int, int]],
    values: list[str],
) -> list[str]:
    takes, gives = arity[callee]
    operands = ", ".join(chance.choice(values) for _ in range(takes))
    type = f"({', '.join([_T] * takes)}) -> ({', '.join([_T] * gives)})"
    many = f":{gives}" if gives > 1 else ""
    lines.append(f"  {value}{many} = call @{callee}({operands}){_per_value(chance, gives, 0.3)} : {type}")
    return [f"{value}#{index}" for index in range(gives)] if gives > 1 else [value]


def _sharding(chance: random.Random) -> str:
    first, second = chance.sample(_DIMS, 2)
    while any(axis in first and axis in second for axis in ('"a"', '"b"', '"c"')):
        first, second = chance.sample(_DIMS, 2)
    return f"<@mesh, [{first}, {second}]>"


def _per_value(chance: random.Random, count: int, part: float) -> str:
    if chance.random() >= part:
        return ""
    return f" {{sdy.sharding = #sdy.sharding_per_value<[{', '.join(_sharding(chance) for _ in range(count))}]>}}"


def _attribute(chance: random.Random) -> str:
    return f" {{sdy.sharding = #sdy.sharding{_sharding(chance)}}}" if chance.random() < 0.3 else ""

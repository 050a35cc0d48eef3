"""Modules for the passes before propagation: hand-written ones beside this file, one behaviour each, and random ones."""

from __future__ import annotations

import random
from pathlib import Path

__all__ = ["HAND_WRITTEN", "hand_written", "random_calls", "random_constraints", "random_groups", "random_meshes"]

_FOLDER = Path(__file__).parent / "import_modules"
HAND_WRITTEN = tuple(sorted(path.stem for path in _FOLDER.glob("*.mlir")))

_T = "tensor<8x8xf32>"
_MESH = 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>'
_DIMS = ("{}", "{?}", '{"a"}', '{"b"}', '{"b", ?}', '{"c":(1)2}', '{"a", "b"}', '{"c"}p1', '{"b", ?}p2')


def hand_written(name: str) -> str:
    """The text of a hand-written module."""
    return (_FOLDER / f"{name}.mlir").read_text()


def _sharding(chance: random.Random, mesh: str = "@mesh") -> str:
    dims = chance.choice(_DIMS[:7]), chance.choice(("{}", "{?}"))
    tail = chance.choice(("", "", "", ', replicated={"c":(2)2}', ', unreduced={"c":(2)2}'))
    return f"<{mesh}, [{', '.join(chance.sample(dims, 2))}]{tail}>"


def _per_value(chance: random.Random) -> str:
    return f" {{sdy.sharding = #sdy.sharding_per_value<[{_sharding(chance)}]>}}" if chance.random() < 0.3 else ""


def _attribute(chance: random.Random) -> str:
    return f" {{sdy.sharding = #sdy.sharding{_sharding(chance)}}}" if chance.random() < 0.4 else ""


def random_calls(seed: int) -> str:
    """Functions that call others further down, some on constants."""
    chance = random.Random(seed)
    count = chance.randint(2, 5)
    names = ["main", *(f"f{number}" for number in range(1, count))]
    functions = []
    for number, name in enumerate(names):
        values, lines = ["%a"], []
        for index in range(chance.randint(1, 5)):
            value = f"%v{index}"
            operand = chance.choice(values)
            kind = chance.random()
            if kind < 0.5 and number + 1 < count:
                callee = chance.choice(names[number + 1 :])
                lines.append(f"  {value} = call @{callee}({operand}){_per_value(chance)} : ({_T}) -> {_T}")
            elif kind < 0.7:
                lines.append(f"  {value} = stablehlo.constant dense<{float(chance.randint(0, 2))}> : {_T}")
            else:
                lines.append(f"  {value} = stablehlo.add {operand}, {chance.choice(values)}{_per_value(chance)} : {_T}")
            values.append(value)
        lines.append(f"  return {chance.choice(values)} : {_T}")
        private = "private " if number and chance.random() < 0.8 else ""
        head = f"func.func {private}@{name}(%a: {_T}{_attribute(chance)}) -> ({_T}{_attribute(chance)}) {{"
        functions.append("\n".join([head, *lines, "}"]))
    chance.shuffle(functions)
    return "\n".join([_MESH, *functions])


def random_groups(seed: int) -> str:
    """Sharding groups over a few values, overlapping at random."""
    chance = random.Random(seed)
    values = [f"%a{number}" for number in range(chance.randint(1, 5))]
    head = f"func.func @main({', '.join(f'{value}: {_T}' for value in values)}) {{"
    lines = []
    for number in range(chance.randint(1, 14)):
        if chance.random() < 0.2:
            lines.append(f"  %v{number} = stablehlo.abs {chance.choice(values)} : {_T}")
            values.append(f"%v{number}")
        lines.append(f"  sdy.sharding_group {chance.choice(values)} group_id={chance.randint(0, 7)} : {_T}")
    return "\n".join([head, *lines, "  return", "}"])


def random_constraints(seed: int) -> str:
    """Chains of constraints, data-flow edges between them, and manual computations that constrain their operands."""
    chance = random.Random(seed)
    values, lines = ["%a", "%b"], []
    shardings = [_sharding(chance) for _ in range(3)]
    for number in range(chance.randint(3, 14)):
        value, operand, kind = f"%v{number}", chance.choice(values[-4:]), chance.random()
        if kind < 0.5:
            lines.append(f"  {value} = sdy.sharding_constraint {operand} {chance.choice(shardings)} : {_T}")
        elif kind < 0.65:
            lines += [
                f"  %w{number} = stablehlo.optimization_barrier {operand} : {_T}",
                f"  {value} = sdy.data_flow_edge %w{number} : {_T}",
            ]
        elif kind < 0.8:
            local = "tensor<4x8xf32>"
            lines += [
                f'  %m{number} = sdy.manual_computation({operand}) in_shardings=[<@mesh, [{{"a", "b"}}, {{}}]>] '
                f'out_shardings=[<@mesh, [{{"a"}}, {{}}]>] manual_axes={{"a"}} (%i: {local}) {{',
                f'    %e = sdy.data_flow_edge %i sharding=<@mesh, [{{"b"}}, {{}}]> : {local}',
                f'    %k = sdy.sharding_constraint %e <@mesh, [{{}}, {{"b"}}]> : {local}',
                f"    sdy.return %k : {local}",
                f"  }} : ({_T}) -> {_T}",
                f'  {value} = sdy.data_flow_edge %m{number} sharding=<@mesh, [{{"a"}}, {{}}]> : {_T}',
            ]
        else:
            lines.append(f"  {value} = stablehlo.add {operand}, {chance.choice(values)}{_per_value(chance)} : {_T}")
        values.append(value)
    head = f"func.func @main(%a: {_T}{_attribute(chance)}, %b: {_T}) -> ({_T}, {_T}) {{"
    last = f"  return {chance.choice(values)}, {values[-1]} : {_T}, {_T}"
    return "\n".join([_MESH, head, *lines, last, "}"])


def random_meshes(seed: int) -> str:
    """Meshes with names, some alike, and others that shardings spell out; axes of size 1 among them."""
    chance = random.Random(seed)
    kinds = [
        '["a"=2, "one"=1, "b"=4]',
        '["a"=2, "one"=1, "b"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]',
        '["a"=8, "b"=1]',
    ]
    names = chance.sample(["mesh", "mesh_0", "mesh_1", "other", "maximal_mesh_3"], chance.randint(0, 4))
    declared = [f"sdy.mesh @{name} = <{chance.choice(kinds)}>" for name in names]
    places = (
        [f"@{name}" for name in names] + [f"mesh<{kind}>" for kind in kinds] + ["mesh<[], device_ids=[3]>", "mesh<[]>"]
    )

    def sharding() -> str:
        place = chance.choice(places)
        axes = chance.sample(('"a"', '"b"'), 2) if place.startswith("@") or '["' in place else ["", ""]
        dims = "[]" if "device_ids=[3]" in place else f"[{{{axes[0]}}}, {{{axes[1]}}}]"
        return f"<{place}, {dims}>"

    lines = [
        f"  %v{number} = stablehlo.abs %a {{sdy.sharding = #sdy.sharding_per_value<[{sharding()}]>}} : {_T}"
        if chance.random() < 0.6
        else f"  %v{number} = sdy.sharding_constraint %a {sharding()} : {_T}"
        for number in range(chance.randint(1, 6))
    ]
    head = f"func.func @main(%a: {_T} {{sdy.sharding = #sdy.sharding{sharding()}}}) -> ({_T}) {{"
    return "\n".join([*declared, head, *lines, f"  return %a : {_T}", "}"])

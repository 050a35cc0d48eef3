"""Random annotations put into a module's text, in the words of its notation."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

__all__ = ["annotated", "closed_bracket", "dims_of", "mesh_axes", "sharding_of"]

_TENSOR = r"tensor<(?:\d+x)*[a-z]\w*(?:<\w+>)?>"
_ARGUMENT = re.compile(rf"(?<=: )({_TENSOR})(?=[,)])")
_RESULT = re.compile(rf"(%[\w.-]+) = (?!.*\{{$).*(?:: |-> )({_TENSOR})$", re.MULTILINE)
_LAST_TYPE = re.compile(rf" : (?:\([^()]*\) -> )?{_TENSOR}$")
_BRACKETS = {"{": "}", "(": ")", "[": "]", "<": ">"}


def mesh_axes(text: str) -> list[str]:
    """The axes that the meshes of a text name."""
    return list(dict.fromkeys(re.findall(r'"([^"\\]+)"=\d', text)))


def dims_of(tensor: str) -> int:
    """The rank of a type as text."""
    return len(re.findall(r"\d+x", tensor))


def closed_bracket(text: str, at: int) -> int:
    """Just after the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == text[at]) - (text[place] == _BRACKETS[text[at]])
        if not depth:
            return place + 1
    return len(text)


def sharding_of(text: str, rank: int, rng: random.Random) -> str:
    """A sharding of so many dimensions over a mesh of the text, nearly always one that could be."""
    meshes = re.findall(r"sdy\.mesh @(\w+)", text) or ["mesh"]
    axes = mesh_axes(text) or ["x"]
    free = rng.sample(axes, len(axes))
    dims = []
    for _ in range(rank):
        taken = [free.pop() for _ in range(rng.choice((0, 0, 1, 1, 2))) if free]
        entries = [f'"{axis}"' + rng.choice(("", "", "", "", "", ":(1)2", ":(2)2")) for axis in taken]
        entries += ["?"] * (rng.random() < 0.25)
        dims.append(
            "{" + ", ".join(entries) + "}" + rng.choice(("", "", "", "", f"p{rng.randrange(4)}" if entries else ""))
        )
    tail = ""
    if free and rng.random() < 0.3:
        tail = f', {rng.choice(("replicated", "unreduced"))}={{"{free.pop()}"}}'
    return f"<@{rng.choice(meshes)}, [{', '.join(dims)}]{tail}>"


def annotated(text: str, rng: random.Random) -> str:
    """The text with an annotation more, and with a mesh if it had none."""
    if "mhlo.sharding" in text and rng.random() < 0.7:
        return _on_argument(text, rng, f'mhlo.sharding = "{_tiles(rng)}"')
    if re.search(r"\b(?:shard|mesh)\.(?:grid|mesh|cluster|shard)", text):
        return _shard(text, rng)
    if "sdy.mesh" not in text:
        head = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
        at = re.search(r"^module[^\n]*\{\n", text)
        text = text[: at.end()] + head + text[at.end() :] if at else head + text
    kind = rng.randrange(4)
    if kind <= 1:
        match = _chosen(_ARGUMENT, text, rng)
        return (
            text
            if match is None
            else _on_argument(text, rng, f"sdy.sharding = #sdy.sharding{_for(text, match[1], rng)}", match)
        )
    match = _chosen(_RESULT, text, rng)
    if match is None:
        return text
    if kind == 2:
        return _after(text, match, rng)
    type = _LAST_TYPE.search(match[0])
    if type is None:
        return text
    at_type = match.start() + type.start()
    annotation = f" {{sdy.sharding = #sdy.sharding_per_value<[{_for(text, match[2], rng)}]>}}"
    return text[:at_type] + annotation + text[at_type:]


def _for(text: str, type: str, rng: random.Random) -> str:
    return sharding_of(text, dims_of(type), rng)


def _chosen(pattern: re.Pattern[str], text: str, rng: random.Random) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return rng.choice(matches) if matches else None


def _on_argument(text: str, rng: random.Random, attribute: str, match: re.Match[str] | None = None) -> str:
    match = match or _chosen(_ARGUMENT, text, rng)
    return text if match is None else f"{text[: match.end()]} {{{attribute}}}{text[match.end() :]}"


def _after(text: str, match: re.Match[str], rng: random.Random) -> str:
    """An op of sdy about a value, of whose result the later uses are."""
    name, type = match[1], match[2]
    sharding = _for(text, type, rng)
    fresh = f"%fresh{rng.randrange(1000)}"
    lines: Sequence[str] = (
        f"{fresh} = sdy.sharding_constraint {name} {sharding} : {type}",
        f"{fresh} = sdy.reshard {name} {sharding} : {type}",
        f"sdy.sharding_group {name} group_id = {rng.randrange(3)} : {type}",
        f"{fresh} = sdy.propagation_barrier {name} allowed_direction={rng.choice(('NONE', 'FORWARD', 'BACKWARD'))} : {type}",
        f"{fresh} = stablehlo.optimization_barrier {name} : {type}",
        f'{fresh} = stablehlo.custom_call @Sharding({name}) {{mhlo.sharding = "{_tiles(rng)}"}} : ({type}) -> {type}',
        f"{fresh} = stablehlo.custom_call @anything({name}) : ({type}) -> {type}",
        f'{fresh} = sdy.manual_computation({name}) in_shardings=[{sharding}] out_shardings=[{sharding}] manual_axes={{}} (%m: {type}) {{ sdy.return %m : {type} }} : ({type}) -> {type}',
    )  # fmt: skip
    line = rng.choice(lines)
    rest = text[match.end() :]
    if line.startswith(fresh):
        rest = re.sub(rf"{re.escape(name)}(?![\w#$.-])", fresh, rest)
    return f"{text[: match.end()]}\n    {line}{rest}"


def _tiles(rng: random.Random) -> str:
    return rng.choice((
        "{replicated}", "{devices=[2,1]<=[2]}", "{devices=[2,2]<=[4]}", "{devices=[2,4]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{maximal device=0}", "{manual}", "{devices=[8]<=[8]}", "{unknown}",
        "{devices=[1,2,2]<=[4] last_tile_dims={manual}}", "{{replicated}, {devices=[2]<=[2]}}",
    ))  # fmt: skip


def _shard(text: str, rng: random.Random) -> str:
    """A `shard.shard` after a value."""
    grid = re.search(r"(?:shard\.grid|mesh\.mesh|mesh\.cluster) @(\w+)", text)
    match = _chosen(_RESULT, text, rng)
    if grid is None or match is None:
        return text
    axes = rng.choice(("[[0]]", "[[], [0]]", "[[1], [0]]", "[[0, 1]]", "[]", "[[], [], [1]]"))
    tail = rng.choice(("", "", " annotate_for_users"))
    number = rng.randrange(1000)
    dialect = "mesh" if "mesh.mesh" in text else "shard"
    lines = (
        f"%s{number} = {dialect}.sharding @{grid[1]} split_axes = {axes} : !{dialect}.sharding\n"
        f"%x{number} = {dialect}.shard {match[1]} to %s{number}{tail} : {match[2]}"
    )
    rest = re.sub(rf"{re.escape(match[1])}(?![\w#$.-])", f"%x{number}", text[match.end() :])
    return f"{text[: match.end()]}\n{lines}{rest}"

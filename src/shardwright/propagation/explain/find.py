"""Finding a value by what users call it.

| name | value |
| --- | --- |
| `params/w1` | the argument, or else the result, of that name |
| `result params/w1` | the result, where an argument has that name too |
| `step.py:41` | every value made at that line |
| `jit(step)/mul`, `mul` | what is made where `loc("jit(step)/mul")` says so |
| `%12`, `%12#1`, `%arg0` | as MLIR prints the module |
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.locations import Location
from shardwright.notation.modules import write

__all__ = ["find_value", "printed_names"]

_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9})(?::\d+)?$")
_FRAME = re.compile(r'"([^"]+)":(\d{1,9}):')
_KNOWN = 2_000
"""So many names are looked at for close matches."""
_SHOWN = 5
_REMEDY = "give an argument, a result, FILE:LINE, a location's name or a printed number like %12"

_Made = list[tuple[Location, Op]]
"""Ops with results, and where they are made."""


def find_value(graph: Graph, name: str) -> tuple[int, ...]:
    """The values that a name stands for: one, or for `FILE:LINE` and for ops of several results all of them.

    Arguments:
        graph: The program.
        name: An argument or result name, `FILE:LINE`, a location's name or the end of it, or a printed number.

    Returns:
        Numbers of values; `~n` for result `n` of `main`.

    Raises:
        ShardingError: nothing of that name, or several things.
    """
    if name.startswith("%"):
        return (_printed(graph, name),)
    boundary = _boundary(graph)
    kind, _, rest = name.partition(" ")
    if kind in ("argument", "result") and rest in boundary[kind]:
        return (boundary[kind][rest],)
    for known in boundary.values():
        if name in known:
            return (known[name],)
    made = _made(graph)
    ops = _named(made, name)
    if len(ops) == 1:
        return ops[0].results
    if ops:
        raise _ambiguous(graph, name, [value for op in ops for value in op.results])
    line = _LINE.match(name)
    if line is not None:
        return _at_line(graph, made, line["file"], int(line["line"]))
    if name.isdecimal():
        raise _bare_number(graph, name)
    raise _unknown(name, [*boundary["argument"], *boundary["result"], *_location_names(made)])


def printed_names(graph: Graph) -> dict[str, list[int]]:
    """The values by the names that MLIR prints; regions beside each other use the same names again."""
    module = write(graph)  # with shardings: of what does not verify without them, MLIR prints other names
    function = next(op for op in module.body.operations if op.operation.name == "func.func").operation
    names: dict[str, list[int]] = {}
    _name_block(graph.main.block, function.regions[0].blocks[0], ir.AsmState(function), names)
    return names


def _boundary(graph: Graph) -> dict[str, dict[str, int]]:
    """Arguments and results of `main` by name; an argument goes before a result of its name."""
    main = graph.main
    return {
        "argument": dict(zip(main.argument_names, main.block.arguments, strict=True)),
        "result": {result: ~index for index, result in enumerate(main.result_names)},
    }


def _made(graph: Graph) -> _Made:
    places: dict[int, Location] = {}
    made: _Made = []
    for op in graph.walk():
        if op.results:
            location = places.get(op.location)
            if location is None:
                location = places[op.location] = graph.locations[op.location]
            made.append((location, op))
    return made


def _is_same_file(location: Location, file: str) -> bool:
    """Whether a file is the one of a location; the end of its path is enough."""
    return location.file == file or location.file.endswith("/" + file)


def _named(made: _Made, name: str) -> list[Op]:
    """The ops whose location has a name, or else those where the last parts of a path of names are it."""
    return [op for location, op in made if name and location.name == name] or [
        op for location, op in made if name and location.name.endswith("/" + name)
    ]


def _at_line(graph: Graph, made: _Made, file: str, line: int) -> tuple[int, ...]:
    """What is made at a line of a file, or else by what is called there.

    Raises:
        ShardingError: nothing is.
    """
    there = [(location.line, op) for location, op in made if _is_same_file(location, file)]
    values = [value for number, op in there if number == line for value in op.results]
    values = values or _called_at(graph, file, line)
    if values:
        return tuple(sorted(values))
    lines = sorted({number for number, _ in there}, key=lambda number: (abs(number - line), number))
    nearest = [f"{file}:{number}" for number in lines[:_SHOWN]]
    files = list(dict.fromkeys(location.file for location, _ in made if location.file))
    raise ShardingError(
        f"no value is made at {file[:200]}:{line}",
        cause=f"the nearest are {', '.join(nearest)}" if nearest else f"values are made in {', '.join(files[:_SHOWN])}",
        remedy=_REMEDY,
    )


def _called_at(graph: Graph, file: str, line: int) -> list[int]:
    """What is made by calls at a line of a file."""
    passes: dict[int, bool] = {}
    values: list[int] = []
    for op in graph.walk():
        if op.location not in passes:
            frames = _FRAME.findall(str(graph.locations.handle(op.location)))
            places = [Location(graph.locations.source if name == "-" else name, int(at)) for name, at in frames]
            passes[op.location] = any(place.line == line and _is_same_file(place, file) for place in places)
        if passes[op.location]:
            values += op.results
    return values


def _location_names(made: _Made) -> list[str]:
    names: dict[str, None] = {}
    for location, _ in made:
        if location.name:
            names[location.name] = None
        if location.file:
            names[str(location)] = None
    return list(names)


def _ambiguous(graph: Graph, name: str, values: list[int]) -> ShardingError:
    printed = {value: text for text, several in printed_names(graph).items() for value in several}
    makers = {value: op for op in graph.walk() for value in op.results}
    described = [
        f"{printed[value]} ({makers[value].signature.label} at {graph.locations[makers[value].location]})"
        if value in makers
        else f"{printed[value]} (an argument of a region)"
        for value in values[:_SHOWN]
    ]
    return ShardingError(
        f"several values are called {name!r}",
        cause=", ".join(described) + (f", and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""),
        remedy="name one by FILE:LINE or by its location's name"
        + ("" if name[0] == "%" else ", or by its number, %12"),
    )


def _unknown(name: str, known: Iterable[str]) -> ShardingError:
    names = list(known)
    close = difflib.get_close_matches(name[:200], names[:_KNOWN], _SHOWN, 0.5)
    some = close or names[:_SHOWN]
    return ShardingError(
        f"there is no value called {name[:200]!r}",
        cause=f"{'close to it' if close else 'for example'}: {', '.join(some)}" if some else "",
        remedy=_REMEDY,
    )


def _bare_number(graph: Graph, name: str) -> ShardingError:
    arguments = graph.main.argument_names
    number = int(name[:9])
    also = f"; argument {number} is called {arguments[number]}" if number < len(arguments) else ""
    return ShardingError(
        f"there is no value called {name[:200]!r}",
        cause=f"a bare number may be that of a value or of an argument{also}",
        remedy=f"give %{name[:9]} for the value that MLIR prints so, or the argument's name",
    )


def _printed(graph: Graph, name: str) -> int:
    """The value that MLIR prints as `name`."""
    names = printed_names(graph)
    values = names.get(name) or names.get(name.removesuffix("#0")) or []
    if values and _is_carried(graph, values):
        return values[-1]
    if values:
        raise _ambiguous(graph, name, values)
    if name + "#0" in names:
        raise ShardingError(f"{name} is an op of several results", remedy=f"name one of them: {name}#0")
    boundary = _boundary(graph)
    is_name = any(name[1:] in known for known in boundary.values())
    raise _unknown(name, [name[1:]] if is_name else names)


def _is_carried(graph: Graph, values: list[int]) -> bool:
    """Whether values are one, or what a loop carries: its condition and its body call that alike."""
    value_set = set(values)
    return len(values) == 1 or any(
        value_set == set(carried)
        for op in graph.walk()
        if op.name == "stablehlo.while"
        for carried in zip(*(region.arguments for region in op.regions), strict=True)
    )


def _name_block(block: Block, written: ir.Block, state: ir.AsmState, names: dict[str, list[int]]) -> None:
    for value, argument in zip(block.arguments, written.arguments, strict=True):
        names.setdefault(argument.get_name(state), []).append(value)
    for op, made in zip(block.ops, written.operations, strict=True):
        for value, handle in zip(op.results, made.operation.results, strict=True):
            names.setdefault(handle.get_name(state), []).append(value)
        regions = list(made.operation.regions)
        for inner, region in zip(op.regions, regions[len(regions) - len(op.regions) :], strict=True):
            _name_block(inner, region.blocks[0], state, names)

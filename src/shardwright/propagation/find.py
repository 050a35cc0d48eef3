"""Finding a value by what users call it.

| name | value |
| --- | --- |
| `params/w1` | the argument, or else the result, of that name |
| `step.py:41` | every value made at that line |
| `jit(step)/mul` | what is made where `loc("jit(step)/mul")` says so |
| `%12`, `%12#1`, `%arg0` | as MLIR prints the module |
"""

from __future__ import annotations

import difflib
import re

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation.modules import write

__all__ = ["find_value"]

_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})(?::\d+)?$")
_KNOWN = 2_000
"""So many names are looked at for close matches."""


def find_value(graph: Graph, name: str) -> tuple[int, ...]:
    """The values that a name stands for: one, or for `FILE:LINE` and for ops of several results all of them.

    Arguments:
        graph: The program.
        name: An argument or result name, `FILE:LINE`, a location's name, or a printed number.

    Returns:
        Numbers of values; `~n` for result `n` of `main`.

    Raises:
        ShardingError: nothing of that name, or several things.
    """
    if name.startswith("%"):
        return (_printed(graph, name),)
    main = graph.main
    arguments = dict(zip(main.argument_names, main.block.arguments, strict=True))
    if name in arguments:
        return (arguments[name],)
    results = {result: ~index for index, result in enumerate(main.result_names)}
    if name in results:
        return (results[name],)
    made = _by_location(graph)
    line = _LINE.match(name)
    if line is not None:
        found = _at_line(graph, made, line["file"], int(line["line"]))
        if found:
            return found
    ops = [op for number, several in made.items() if graph.locations[number].name == name for op in several]
    if len(ops) == 1:
        return ops[0].results
    if ops:
        raise _ambiguous(graph, name, ops)
    raise _unknown(graph, name, [*arguments, *results, *_location_names(graph, made)])


def _by_location(graph: Graph) -> dict[int, list[Op]]:
    """Ops with results by the number of their location."""
    made: dict[int, list[Op]] = {}
    for op in graph.walk():
        if op.results:
            made.setdefault(op.location, []).append(op)
    return made


def _at_line(graph: Graph, made: dict[int, list[Op]], file: str, line: int) -> tuple[int, ...]:
    """What is made at a line of a file, which may be given by the end of its path."""
    values: list[int] = []
    for number, ops in made.items():
        found = graph.locations[number]
        if found.line == line and (found.file == file or found.file.endswith("/" + file)):
            values += [value for op in ops for value in op.results]
    return tuple(sorted(values))


def _location_names(graph: Graph, made: dict[int, list[Op]]) -> list[str]:
    names: dict[str, None] = {}
    for number in made:
        found = graph.locations[number]
        if found.name:
            names[found.name] = None
        if found.file:
            names[str(found)] = None
    return list(names)


def _ambiguous(graph: Graph, name: str, ops: list[Op]) -> ShardingError:
    places = [f"{op.signature.label} at {graph.locations[op.location]}" for op in ops[:5]]
    more = f", and {len(ops) - 5} more" if len(ops) > 5 else ""
    return ShardingError(
        f"several values are called {name!r}",
        cause=", ".join(places) + more,
        remedy="name one by FILE:LINE, by its location's name or by its printed number, %12",
    )


def _unknown(graph: Graph, name: str, known: list[str]) -> ShardingError:
    close = difflib.get_close_matches(name[:200], known[:_KNOWN], 5, 0.5)
    some = close or known[:5]
    return ShardingError(
        f"there is no value called {name[:200]!r}",
        cause=f"{'close to it' if close else 'for example'}: {', '.join(some)}" if some else "",
        remedy="give an argument, a result, FILE:LINE, a location's name or a printed number like %12",
    )


def _printed(graph: Graph, name: str) -> int:
    """The value that MLIR prints as `name`; regions beside each other use the same names again."""
    module = write(graph, shardings=False)
    function = next(op for op in module.body.operations if op.operation.name == "func.func").operation
    names: dict[str, list[int]] = {}
    _name_block(graph.main.block, function.regions[0].blocks[0], ir.AsmState(function), names)
    found = names.get(name) or names.get(name.removesuffix("#0")) or []
    if len(found) == 1:
        return found[0]
    if found:
        ops = [op for op in graph.walk() if any(value in op.results for value in found)]
        raise _ambiguous(graph, name, ops)
    if name + "#0" in names:
        raise ShardingError(f"{name} is an op of several results", remedy=f"name one of them: {name}#0")
    raise _unknown(graph, name, list(names))


def _name_block(block: Block, written: ir.Block, state: ir.AsmState, names: dict[str, list[int]]) -> None:
    for value, argument in zip(block.arguments, written.arguments, strict=True):
        names.setdefault(argument.get_name(state), []).append(value)
    for op, made in zip(block.ops, written.operations, strict=True):
        for value, handle in zip(op.results, made.operation.results, strict=True):
            names.setdefault(handle.get_name(state), []).append(value)
        regions = list(made.operation.regions)
        for inner, region in zip(op.regions, regions[len(regions) - len(op.regions) :], strict=True):
            _name_block(inner, region.blocks[0], state, names)

"""Shardings of what modules take and give, as constraints in the program of a model.

What a module gives lies so for all who read it. What it takes lies so inside of it alone: for the ops that come before
the last of what it gives, of those that read the value; who reads it later, such as a sum with a residual, or the
gradient, reads it as it was. Where nothing reads it in between, as another module brought it into its form already,
there is nothing to constrain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.frontends.pytrees import Boundary, spread
from shardwright.frontends.selection import select_values
from shardwright.frontends.specs import sharding_of
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.sharding import TensorSharding
from shardwright.toml import quoted

__all__ = ["constrain_parts", "placed_parts", "stated_parts", "with_parts"]

_CONSTRAINT = "sdy.sharding_constraint"
_NOUN = "module tensor"


def with_parts(graph: Graph, parts: Sequence[ModuleTensor], given: Any, source: str = "-") -> Graph:
    """A copy of a program with shardings that users give for what its modules take and give.

    Arguments:
        graph: The program, on its mesh.
        parts: What its modules take and give.
        given: As `select_values` and `spread` take it: by name, `blocks.0.attn.inputs.x`, by the beginning of one or by
            a pattern, with what `sharding_of` takes.
        source: What diagnostics call the program.

    Raises:
        ShardingError: a program that was made of no modules, no such tensor, or a sharding that does not fit it.
    """
    return constrain_parts(graph, parts, _selected(graph, parts, given, source))


def _selected(graph: Graph, parts: Sequence[ModuleTensor], given: Any, source: str) -> dict[int, TensorSharding]:
    """What is given for tensors that modules take and give, by their numbers."""
    if not parts:
        raise ShardingError(
            "nothing is known of what modules take and give",
            location=source,
            cause="the program was made of no PyTorch model, or of one without parts that could be told apart",
            remedy="make it by sw.from_torch, or give shardings of arguments and results alone",
        )
    types = {str(part): graph.types[part.value] for part in parts}
    asked = select_values(list(types), spread(given, Boundary(types, None, source, _NOUN)), source, _NOUN)
    chosen: dict[int, TensorSharding] = {}
    for number, (key, spec) in asked.items():
        try:
            chosen[number] = sharding_of(spec, graph.mesh, types[str(parts[number])].rank)
        except ShardingError as error:
            what = f"{parts[number]}, {types[str(parts[number])]}"
            raise error.replaced(op=what, location=f"{key}={spec!s}"[:200]) from None
    return chosen


def constrain_parts(graph: Graph, parts: Sequence[ModuleTensor], given: Mapping[int, TensorSharding]) -> Graph:
    """A copy of a program with shardings of what its modules take and give.

    Arguments:
        graph: The program; it is left as it was.
        parts: What its modules take and give.
        given: Number of one of these → how it is to lie, on a mesh of the program.
    """
    return _Constrainer(graph, parts, given).graph if given else graph


def stated_parts(graph: Graph, parts: Sequence[ModuleTensor]) -> dict[str, int]:
    """What `constrain_parts` put into a program: name of a tensor → the value that lies so."""
    names = {str(part) for part in parts}
    ops = [op for op in graph.main.block.ops if op.name == _CONSTRAINT] if names else []
    found = {graph.locations[op.location].name: op.results[0] for op in ops}
    return {name: value for name, value in found.items() if name in names}


def placed_parts(graph: Graph, parts: Sequence[ModuleTensor]) -> list[ModuleTensor]:
    """The tensors with the values by which they are read in a program with constraints on them."""
    stated = stated_parts(graph, parts)
    values = _values(parts, lambda number, part, value: stated.get(str(part)))
    return [replace(part, value=value) for part, value in zip(parts, values, strict=True)]


def _values(parts: Sequence[ModuleTensor], made: Callable[[int, ModuleTensor, int], int | None]) -> Iterator[int]:
    """The value of each tensor in turn, where `made` tells of the constraint on it, of number, tensor and value."""
    now: dict[int, int] = {}
    before: dict[str, list[tuple[int, int]]] = {}
    for number, part in enumerate(parts):
        if not part.is_input:  # what its call takes is so inside of it alone
            now.update(reversed(before.pop(part.call, [])))
        value = now.get(part.value, part.value)
        result = made(number, part, value)
        if result is not None:
            if part.is_input:
                before.setdefault(part.call, []).append((part.value, value))
            now[part.value] = result
        yield value if result is None else result


class _Constrainer:
    """Puts constraints into a copy of a program."""

    def __init__(self, graph: Graph, parts: Sequence[ModuleTensor], given: Mapping[int, TensorSharding]) -> None:
        self._ops = [Op(op.signature, op.operands, op.results, op.regions, op.location) for op in graph.main.block.ops]
        self._given = given
        self._maker = dict.fromkeys(graph.main.block.arguments, -1)
        self._maker |= {result: place for place, op in enumerate(self._ops) for result in op.results}
        self._readers: dict[int, list[int]] = {}
        for place, op in enumerate(self._ops):
            for value in dict.fromkeys(op.operands):
                self._readers.setdefault(value, []).append(place)
        self._behind: dict[int, list[Op]] = {}
        self._ends: dict[str, int] = {}
        for part in parts:
            if not part.is_input:
                self._ends[part.call] = max(self._ends.get(part.call, -1), self._maker[part.value])
        self.graph = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
        for _ in _values(parts, self._made):
            pass
        ops = [one for place in range(-1, len(self._ops)) for one in self._at(place)]
        self.graph.main = replace(graph.main, block=Block(graph.main.block.arguments, ops))

    def _at(self, place: int) -> list[Op]:
        """An op, and the constraints on what it makes; those on arguments stand before all ops."""
        own = self._ops[place : place + 1] if place >= 0 else []
        return [*own, *self._behind.get(place, [])]

    def _made(self, number: int, part: ModuleTensor, value: int) -> int | None:
        """The result of a constraint on a value, which is read in its place; `None` where nothing is stated."""
        end = self._ends.get(part.call)
        if number not in self._given or end is None:
            return None
        readers = [place for place in self._readers.get(value, []) if not part.is_input or place <= end]
        if not readers:
            return None
        type, made_at = self.graph.types[value], self._maker[value]
        result = self.graph.new_value(type, self._given[number])
        signature = Signature(_CONSTRAINT, (), (type,), (type,))
        self._behind.setdefault(made_at, []).append(Op(signature, (value,), (result,), (), self._place(part, made_at)))
        self._maker[result], self._readers[result] = made_at, readers
        self._readers[value] = [place for place in self._readers[value] if place not in readers]
        for place in readers:
            op = self._ops[place]
            op.operands = tuple(result if operand == value else operand for operand in op.operands)
        return result

    def _place(self, part: ModuleTensor, made_at: int) -> int:
        """Where the value is made, by the name of the tensor, by which it is found again."""
        locations = self.graph.locations
        inside = str(locations.handle(self._ops[made_at].location))[4:-1] if made_at >= 0 else "unknown"
        return locations.of_text(f"{quoted(str(part))}({inside})")

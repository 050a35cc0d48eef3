"""What was made of a module's graph, back into the module: only what changed is touched.

Shardings become `sdy.sharding` and its like, other attributes of the `sdy` dialect are set as they are, constraints
that were added stand behind the values they are of, and ops that are gone are erased.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDINGS
from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.ir.graph import Graph, Op
from shardwright.ir.opaque import attribute
from shardwright.ir.ops import COMPUTATIONS, SHARDING_ATTRIBUTES
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.ir.write import boundary_texts
from shardwright.notation.carriers import carrier_text, needs_carrier
from shardwright.notation.modules import PRINTERS
from shardwright.passes.edits import put_behind
from shardwright.passes.module_graph import FunctionPart, ModuleGraph
from shardwright.passes.module_ops import ARGUMENTS, RESULTS, Row, rows_of, set_rows
from shardwright.passes.module_shardings import SHARDING, per_value, say_in_row, single
from shardwright.propagation.working import CONSTRAINT
from shardwright.sharding import TensorSharding

__all__ = ["write_back"]

_PLACE = re.compile(r'"(input|output): (\d+)"')
_Stated = tuple[TensorType, TensorSharding | None, dict[str, str]]
"""The type, sharding and attributes of an argument or result."""

_Shardings = tuple[TensorSharding | None, ...]


def write_back(read: ModuleGraph, made: Graph) -> tuple[tuple[Any, Op], ...]:
    """Change the module that was read to what was made of its graph; values keep their numbers in that.

    Ops may have been taken out, and their handles must not be used any more; constraints may have been added.

    Returns:
        The constraints added, with their handles.
    """
    return _WriteBack(read, made).run()


class _WriteBack:
    def __init__(self, read: ModuleGraph, made: Graph) -> None:
        self.read = read
        self.made = made
        self.makers = {op.results[0]: op for op in made.walk() if op.results}
        self.attributes: dict[object, tuple[tuple[str, Any], ...]] = {}
        self.stated = {which: (_stated(read.graph, which), _stated(made, which)) for which in (ARGUMENTS, RESULTS)}

    def run(self) -> tuple[tuple[Any, Op], ...]:
        """All parts; a part's dead ops last, readers before what they read, and with them what their regions hold."""
        count = len(self.read.graph.types)
        new = [op for op in self.made.walk() if op.results and op.results[0] >= count]
        added = self._constraints(new) if new else ()
        for part in self.read.parts:
            self._boundary(part)
            dead: list[Any] = []
            inside: set[Op] = set()
            for handle, op in part.ops:
                maker = self.makers.get(op.results[0]) if op.results else None
                if maker is not None:
                    self._op(part, handle, op, maker)
                elif op.results and op not in inside:
                    dead.append(handle)
                    inside.update(op.walk())
            for handle in reversed(dead):
                erase(handle)
        return added

    def _constraints(self, new: Sequence[Op]) -> tuple[tuple[Any, Op], ...]:
        """Put constraints behind what they are of, for all its users to read."""
        values = self.read.values()
        return tuple([(self._constraint(op, values[op.operands[0]]), op) for op in reversed(new)])

    def _constraint(self, op: Op, value: Any) -> Any:
        sharding = self.made.shardings[op.results[0]]
        assert sharding is not None, "a constraint has a sharding"
        return put_behind(value, CONSTRAINT, {"sharding": single(sharding)}, value.location)

    # Functions

    def _boundary(self, part: FunctionPart) -> None:
        for which, places in ((ARGUMENTS, part.arguments), (RESULTS, part.results)):
            rows = rows_of(part.handle, which)
            old, new = self.stated[which]
            changed = [_row(row, old[place], new[place], part) for row, place in zip(rows, places, strict=False)]
            if any(changed):
                set_rows(part.handle, which, rows)

    # Ops

    def _op(self, part: FunctionPart, handle: Any, old: Op, new: Op) -> None:
        before = tuple([self.read.graph.shardings[value] for value in old.results])
        after = tuple([self.made.shardings[value] for value in old.results])
        if before != after and handle.name not in COMPUTATIONS:  # which state them at their boundary
            key = (handle.name, after)
            attributes = self.attributes.get(key)
            if attributes is None:
                types = [self.read.graph.types[value] for value in old.results]
                attributes = self.attributes[key] = _attributes(handle.name, after, types)
            for name, value in attributes:
                handle.attributes[name] = value
        if new.signature is not old.signature:
            known = _texts(old.signature)
            for name, text in _texts(new.signature).items():
                if known.get(name) != text:
                    handle.attributes[name] = attribute(_renumbered(text, part))


def _texts(signature: Signature) -> dict[str, str]:
    return {**dict(signature.attributes), **boundary_texts(signature, PRINTERS)}


def _stated(graph: Graph, which: str) -> list[_Stated]:
    main = graph.main
    values = main.block.arguments if which == ARGUMENTS else main.block.terminator.operands
    types = [graph.types[value] for value in values]
    if which == ARGUMENTS:
        return list(zip(types, [graph.shardings[value] for value in values], main.argument_attributes, strict=True))
    return list(zip(types, main.result_shardings, main.result_attributes, strict=True))


def _row(row: Row, old: _Stated, new: _Stated, part: FunctionPart) -> bool:
    """Give the attributes of an argument or result what is new; whether anything is."""
    (type, before, known), (_, after, texts) = old, new
    added = [name for name, text in texts.items() if known.get(name) != text]
    for name in added:
        row[name] = attribute(_renumbered(texts[name], part))
    if after is None or after == before:
        return bool(added)
    say_in_row(row, after, type.dims)
    return True


def _block(part: FunctionPart) -> Any:
    return part.handle.regions[0].blocks[0]


def _attributes(name: str, stated: _Shardings, types: Sequence[TensorType]) -> tuple[tuple[str, Any], ...]:
    """The attributes in which an op says the shardings of its results; one that says nothing is open."""
    first = next(sharding for sharding in stated if sharding is not None)
    shardings = [
        sharding or TensorSharding.of(first.mesh, [()] * type.rank, open=type.is_tensor)
        for sharding, type in zip(stated, types, strict=True)
    ]
    if name == CARRIED_CONSTRAINT:
        return (("sharding", ir.StringAttr.get(carrier_text(first, types[0].dims), context=context())),)
    if name in SHARDING_ATTRIBUTES:
        return ((SHARDING_ATTRIBUTES[name], single(first)),)
    if not any(map(needs_carrier, shardings)):
        return ((SHARDING, per_value(shardings)),)
    texts = [carrier_text(sharding, type.dims) for sharding, type in zip(shardings, types, strict=True)]
    listed = [ir.StringAttr.get(text, context=context()) for text in texts]
    return ((CARRIED_SHARDINGS, ir.ArrayAttr.get(listed, context=context())),)


def _renumbered(text: str, part: FunctionPart) -> str:
    """Debug attributes name arguments and results by number: that in their function."""
    starts = {"input": part.arguments.start, "output": part.results.start}
    if not any(starts.values()):
        return text
    return _PLACE.sub(lambda match: f'"{match[1]}: {int(match[2]) - starts[match[1]]}"', text)

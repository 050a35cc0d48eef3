"""Import of `mesh.annotate`: what it says is noted where the value is defined, or becomes an `sdy.sharding_constraint`.

A module has thousands of them and few distinct ones, each read once.

Source: the mesh RFC on LLVM's forum, AnnotateOp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.notation.rfc.reading import FunctionOps, ModuleReading, StatedLayout, ValueLayout

__all__ = ["import_annotations"]

_NAME = "mesh.annotate"
_CONSTRAINT = "sdy.sharding_constraint"


def import_annotations(reading: ModuleReading, function: FunctionOps) -> None:
    """Take the annotations out of one function.

    Raises:
        ShardingError: what the RFC forbids, or two annotations of one value or result that differ; at the annotation.
    """
    work = _Annotations(reading, function)
    for name, op in function.ops:
        if name != _NAME:
            continue
        try:
            work.take(op)
        except ShardingError as error:
            raise error.at(_NAME, reading.where(op.location)) from None


@dataclass(frozen=True, slots=True)
class _Annotation:
    """What annotations of equal attributes and type say, and whether they say it of the value or for its users."""

    statement: StatedLayout
    as_result: bool


class _Annotations:
    """The annotations of one function.

    Attributes:
        entry: The arguments of the function; those of inner regions have no place for a sharding.
        returned: As which results of the function the annotated values are returned.
        sources: What constraints are given, by their results.
    """

    def __init__(self, reading: ModuleReading, function: FunctionOps) -> None:
        self.reading = reading
        self.function = function
        self.entry = set(function.arguments)
        self.returned: dict[Any, list[int]] = {}
        self.sources: dict[Any, Any] = {}
        self._read: dict[tuple[Any, ...], _Annotation] = {}
        for name, op in function.ops:
            if name == "func.return":  # a user's name is looked for among Python modules: the ops tell it here
                for number, value in enumerate(op.operands):
                    self.returned.setdefault(value, []).append(number)
            elif name == _CONSTRAINT:
                self.sources[op.results[0]] = op.operands[0]

    def take(self, op: Any) -> None:
        """One annotation, which goes."""
        value, result = op.operands[0], op.results[0]
        annotation = self._annotation(value.type, op.attributes)
        returned = self.returned.get(result)
        if annotation.as_result and (not isinstance(value, ir.BlockArgument) or value in self.entry):
            self.reading.say(self._source(value), ValueLayout(annotation.statement, op.location))
        elif returned and not annotation.as_result and len(returned) == len(list(result.uses)):
            self._return(returned, ValueLayout(annotation.statement, op.location))
        else:
            value = self._constrained(op, value, annotation.statement)
        result.replace_all_uses_with(value)
        erase(op)

    def _annotation(self, type: Any, attributes: Any) -> _Annotation:
        sharding, required, as_result = map(attributes.get, ("sharding", "required", "as_result"))
        key = (type, sharding, required, as_result)
        annotation = self._read.get(key)
        if annotation is not None:
            return annotation
        rank = self.reading.type(type).rank
        if rank is None:
            raise ShardingError(f"{type} is not a ranked tensor", remedy="annotate a tensor of known rank")
        if sharding is None:
            raise ShardingError("mesh.annotate lacks its attribute sharding", remedy="give it")
        open_ = required is not None and not ir.BoolAttr(required).value and rank > 0
        statement = self.reading.statement(self.reading.layout(sharding, rank).on(self.function.symbol), open_)
        _ = statement.sharding  # refuses here, where the op is known
        annotation = _Annotation(statement, as_result is None or ir.BoolAttr(as_result).value)
        self._read[key] = annotation
        return annotation

    def _source(self, value: Any) -> Any:
        """The value that is annotated, behind annotations of it for other users."""
        while value in self.sources:
            value = self.sources[value]
        return value

    def _return(self, numbers: list[int], stated: ValueLayout) -> None:
        for number in numbers:
            before = self.function.results.get(number)
            if before is not None and before.layout != stated.layout:
                raise ShardingError(
                    f"result {number} of @{self.function.name} is said to be {before.layout.text}"
                    f" and {stated.layout.text}",
                    cause=f"the first is at {self.reading.where(before.location)}",
                    remedy="take one of the two away",
                )
            self.function.results[number] = stated

    def _constrained(self, op: Any, value: Any, statement: StatedLayout) -> Any:
        created = ir.Operation.create(
            _CONSTRAINT,
            results=[value.type],
            operands=[value],
            attributes={"sharding": statement.attribute},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        self.sources[created.result] = value
        return created.result

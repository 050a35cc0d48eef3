"""Export of programs without collectives: a `mesh.annotate` for each sharding.

    %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"axis_0"}, {}]>]>} : tensor<4x8xf32>
    %1 = mesh.annotate %0 {required = true, sharding = [[0]]} : tensor<4x8xf32>          which its users read

Source: the mesh RFC on LLVM's forum, AnnotateOp.
"""

from __future__ import annotations

from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.notation.rfc.mesh import line_of
from shardwright.notation.rfc.reading import located
from shardwright.notation.rfc.writing import REQUESTS, SHARDING, Writing
from shardwright.sharding import TensorSharding

__all__ = ["annotate"]


def annotate(writing: Writing, function: Any, ops: list[tuple[str, Any]]) -> None:
    """Rewrite one function of a program without collectives.

    Raises:
        ShardingError: what an annotation cannot say, at its op.
    """
    _Annotating(writing).run(function, ops)


class _Annotating:
    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._ready: dict[Any, list[dict[str, Any]]] = {}

    def run(self, function: Any, ops: list[tuple[str, Any]]) -> None:
        arguments, results = self.writing.boundary(function)
        block = function.regions[0].blocks[0] if len(function.regions[0].blocks) else None
        where = line_of(function, self.writing.name)
        if block is None:
            if arguments or results:
                why = "annotations stand within a function"
                self.writing.refuse("func.func", function, "a declaration has shardings", why, "define it")
            return
        ops = self._without_returned(ops, results)
        for index, sharding in sorted(arguments.items(), reverse=True):
            with located("func.func", where):
                at = ir.InsertionPoint.at_block_begin(block)
                self._annotated(block.arguments[index], sharding, function.location, at)
        for name, op in ops:
            if name in REQUESTS:
                self._for_users(op, self.writing.shardings(op.attributes["sharding"])[0])
                continue
            attribute = op.attributes.get(SHARDING)
            if attribute is not None:
                self._defined(name, op, attribute)
            elif name == "func.return" and results:
                self._returned(op, results, where)

    def _without_returned(
        self, ops: list[tuple[str, Any]], results: dict[int, TensorSharding]
    ) -> list[tuple[str, Any]]:
        """Ops without constraints that only the function's return reads: these are shardings of its results.

        One that says of a result what the function does not say of it already stays as it is.
        """
        kept = []
        for name, op in ops:
            numbers = [use.operand_number for use in op.results[0].uses] if name in REQUESTS else []
            returned = numbers and all(use.owner.name == "func.return" for use in op.results[0].uses)
            sharding = self.writing.shardings(op.attributes["sharding"])[0] if returned else None
            if sharding is None or any(results.get(number, sharding) != sharding for number in numbers):
                kept.append((name, op))
                continue
            results.update(dict.fromkeys(numbers, sharding))
            op.results[0].replace_all_uses_with(op.operands[0])
            erase(op)
        return kept

    def _annotated(self, value: Any, sharding: TensorSharding, location: Any, at: Any, as_result: bool = True) -> Any:
        """A `mesh.annotate` of a value at an insertion point, which all its users read from now on."""
        created = _created(value, value.type, self._annotation(sharding, as_result), location, at)
        if as_result:
            value.replace_all_uses_except(created.result, created)
        return created.result

    def _annotation(self, sharding: TensorSharding, as_result: bool = True) -> dict[str, Any]:
        opened = [dim.open for dim in sharding.dims]
        if any(opened) and not all(opened):
            raise ShardingError(
                "the RFC cannot express a sharding of which only some dimensions are open",
                cause=f"sharding {sharding!r}: an annotation is required or a hint as a whole",
                remedy="open all of its dimensions, or close them",
            )
        attributes = {
            "required": ir.BoolAttr.get(not any(opened)),
            "sharding": self.writing.attribute(self.writing.spelled(self.writing.layout(sharding), "{}")),
        }
        return attributes if as_result else {"as_result": ir.BoolAttr.get(False), **attributes}

    def _defined(self, name: str, op: Any, attribute: Any) -> None:
        ready = self._ready.get(attribute)
        if ready is None:
            with located(name, line_of(op, self.writing.name)):
                ready = self._ready[attribute] = [
                    self._annotation(sharding) for sharding in self.writing.shardings(attribute)
                ]
        del op.attributes[SHARDING]
        results, location, after = op.results, op.location, ir.InsertionPoint.after(op)
        for number in range(len(ready) - 1, -1, -1):
            value = results[number]
            type = value.type
            if isinstance(type, ir.RankedTensorType):
                created = _created(value, type, ready[number], location, after)
                value.replace_all_uses_except(created.result, created)

    def _for_users(self, op: Any, sharding: TensorSharding) -> None:
        with located(op.name, line_of(op, self.writing.name)):
            new = self._annotated(op.operands[0], sharding, op.location, ir.InsertionPoint(op), as_result=False)
        op.results[0].replace_all_uses_with(new)
        erase(op)

    def _returned(self, op: Any, results: dict[int, TensorSharding], where: str) -> None:
        for index, sharding in sorted(results.items()):
            with located("func.func", where):
                at = ir.InsertionPoint(op)
                op.operands[index] = self._annotated(op.operands[index], sharding, op.location, at, as_result=False)


def _created(value: Any, type: Any, attributes: dict[str, Any], location: Any, at: Any) -> Any:
    return ir.Operation.create(
        "mesh.annotate", results=[type], operands=[value], attributes=attributes, loc=location, ip=at
    )

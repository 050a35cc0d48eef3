"""Where a module in sdy says shardings, and changing them there.

Functions say them on arguments and results, `sdy` ops in attributes of their own (`sharding`, `out_sharding`,
`in_shardings`, `out_shardings`), other ops in `sdy.sharding`, one per result. Shardings that this jaxlib's sdy does not
know are said by carriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shardwright.boundary import without_manual_axes
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS, carried_text, carried_texts
from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.ops import COMPUTATIONS, SHARDING_ATTRIBUTES
from shardwright.mesh import Mesh
from shardwright.notation.carriers import carrier_text, needs_carrier, parse_carrier
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings, print_sharding, print_shardings
from shardwright.passes.module_ops import (
    ARGUMENTS,
    Row,
    change_rows,
    edge_of,
    manual_axes_of,
    operations,
    rows_of,
    set_rows,
    static_shape,
    symbol_of,
    types_of,
)
from shardwright.sharding import TensorSharding, replicated

__all__ = [
    "SHARDING",
    "Shardings",
    "can_say",
    "meshes_of",
    "per_value",
    "say_in_row",
    "single",
    "unsaid",
]

SHARDING = "sdy.sharding"
Change = Callable[[TensorSharding], TensorSharding]
_PER_VALUE = "#sdy.sharding_per_value<"
_IN_SHARDINGS = "in_shardings"
_WITH_ARGUMENTS = frozenset({"func.func", "stablehlo.while"}) | COMPUTATIONS


def meshes_of(module: ir.Module) -> dict[str, Mesh]:
    """The meshes of a module by name."""
    ops = [view.operation for view in module.body.operations if view.operation.name == "sdy.mesh"]
    return {symbol_of(op): parse_mesh(str(op.attributes["mesh"]), symbol_of(op)) for op in ops}


class Shardings:
    """The shardings of one module: attributes ↔ model, and what is attached to a value.

    Attributes:
        meshes: The meshes of the module by name.
    """

    def __init__(self, module: ir.Module) -> None:
        """Know the meshes of `module`."""
        self.meshes = meshes_of(module)
        self._read: dict[Any, tuple[TensorSharding, ...]] = {}

    def read(self, attribute: Any) -> tuple[TensorSharding, ...]:
        """What an attribute says: of one tensor, or one per value."""
        shardings = self._read.get(attribute)
        if shardings is None:
            shardings = self._read[attribute] = parse_shardings(str(attribute), self.meshes)
        return shardings

    def one(self, attribute: Any) -> TensorSharding:
        """What an attribute says of one tensor."""
        return self.read(attribute)[0]

    def carried(self, text: str, type: Any) -> TensorSharding | None:
        """What a carrier says of a value of this type; `None` where it says nothing."""
        shape = static_shape(type)
        return parse_carrier(text, shape, self.meshes) if text and shape is not None else None

    def of(self, value: Any) -> TensorSharding | None:
        """The sharding attached to a value, or to the edge of data flow that the value owns.

        That of an argument inside a manual computation is without the manual axes, which are not seen there.
        """
        edge = edge_of(value)
        if edge is not None:
            return self.one(edge.attributes["sharding"]) if "sharding" in edge.attributes else None
        if isinstance(value, ir.BlockArgument):
            return self._of_argument(value)
        return self._of_result(ir.OpResult(value))

    def _of_argument(self, value: Any) -> TensorSharding | None:
        op, index = value.owner.owner.operation, value.arg_number
        if op.name == "func.func":
            return self.of_row(rows_of(op, ARGUMENTS)[index], value.type)
        if op.name in COMPUTATIONS:
            return self._of_boundary(op, index)
        if op.name == "stablehlo.while":
            return self.of(op.results[index])
        return None

    def _of_boundary(self, op: Any, index: int) -> TensorSharding | None:
        """What a computation says of its argument, seen from inside."""
        if _IN_SHARDINGS not in op.attributes:
            return None
        outside = self.read(op.attributes[_IN_SHARDINGS])[index]
        return without_manual_axes(outside, manual_axes_of(op))

    def of_row(self, row: Mapping[str, Any], type: Any) -> TensorSharding | None:
        """What the attributes of an argument or result of a function say."""
        if SHARDING in row:
            return self.one(row[SHARDING])
        return self.carried(carried_text(row[CARRIED_SHARDING]), type) if CARRIED_SHARDING in row else None

    def of_rows(self, function: Any, which: str) -> list[TensorSharding | None]:
        """What a function says of all its arguments or results."""
        pairs = zip(rows_of(function, which), types_of(function, which), strict=True)
        return [self.of_row(row, type) for row, type in pairs]

    def of_all(self, function: Any, which: str) -> tuple[TensorSharding, ...] | None:
        """What calls say of all arguments or results of a function together; `None` if none is split over a mesh.

        One of which the function says nothing is open, on the first mesh of the others.
        """
        shardings = self.of_rows(function, which)
        mesh = next((one.mesh for one in shardings if one is not None and not one.mesh.is_maximal), None)
        if mesh is None:
            return None
        pairs = zip(shardings, types_of(function, which), strict=True)
        return tuple([sharding or unsaid(mesh, type, open=True) for sharding, type in pairs])

    def say(self, value: Any, sharding: TensorSharding) -> None:
        """Attach a sharding to a value that can have one and has no edge; other results of its op are open then."""
        if isinstance(value, ir.OpResult):
            op = value.owner.operation
            name = "out_shardings" if op.name in COMPUTATIONS else SHARDING
            self._say_one(op, name, op.results, value.result_number, sharding)
            return
        op, index = value.owner.owner.operation, value.arg_number
        if op.name == "func.func":
            rows = rows_of(op, ARGUMENTS)
            rows[index][SHARDING] = single(sharding)
            set_rows(op, ARGUMENTS, rows)
        elif op.name == "stablehlo.while":
            self.say(op.results[index], sharding)
        else:
            self._say_one(op, _IN_SHARDINGS, op.operands, index, sharding)

    def _say_one(self, op: Any, name: str, values: Any, index: int, sharding: TensorSharding) -> None:
        """Say the sharding of one of several values in the attribute for all of them."""
        if name in op.attributes:
            shardings = list(self.read(op.attributes[name]))
        else:
            shardings = [unsaid(sharding.mesh, value.type, open=True) for value in values]
        shardings[index] = sharding
        op.attributes[name] = per_value(shardings)

    def _of_result(self, value: Any) -> TensorSharding | None:
        op, index = value.owner.operation, value.result_number
        name, attributes = op.name, op.attributes
        attribute = attributes.get(SHARDING_ATTRIBUTES.get(name, SHARDING))
        if attribute is not None:
            read = self.read(attribute)
            return read[index] if index < len(read) else None
        if name != CARRIED_CONSTRAINT and CARRIED_SHARDINGS not in attributes:
            return None
        texts = carried_texts(name, attributes, len(op.results))
        return self.carried(texts[index], value.type) if texts else None

    def changed_everywhere(self, module: ir.Module, change: Change, *, carriers: bool = True) -> None:
        """Replace every sharding that a module says, those in carriers if wanted, by what `change` makes of it."""
        rewriting = _ShardingRewriting(self, change, carriers)
        for op in operations(module):
            rewriting.visit(op)


class _ShardingRewriting:
    """Puts what `change` makes of shardings in their place."""

    def __init__(self, shardings: Shardings, change: Change, carriers: bool) -> None:
        self.shardings = shardings
        self.change = change
        self.carriers = carriers
        self.done: dict[Any, Any] = {}

    def visit(self, op: Any) -> None:
        """What one op says."""
        attributes = op.attributes
        if op.name == "func.func":
            change_rows(op, self._row)
            return
        incoming = (_IN_SHARDINGS,) if op.name in COMPUTATIONS else ()
        for key in (*incoming, SHARDING_ATTRIBUTES.get(op.name, SHARDING)):
            if key in attributes:
                attributes[key] = self._changed(attributes[key])
        if self.carriers and CARRIED_SHARDINGS in attributes:
            texts = carried_texts(op.name, attributes, len(op.results)) or []
            carried = [self._carried(text, value.type) for text, value in zip(texts, op.results, strict=True)]
            attributes[CARRIED_SHARDINGS] = ir.ArrayAttr.get(carried, context=context())

    def _row(self, row: Row, type: Any) -> None:
        if SHARDING in row:
            row[SHARDING] = self._changed(row[SHARDING])
        elif self.carriers and CARRIED_SHARDING in row:
            row[CARRIED_SHARDING] = self._carried(carried_text(row[CARRIED_SHARDING]), type)

    def _changed(self, attribute: Any) -> Any:
        rewritten = self.done.get(attribute)
        if rewritten is None:
            shardings = self.shardings.read(attribute)
            rewritten, changed = attribute, tuple(map(self.change, shardings))
            if changed != shardings:
                rewritten = per_value(changed) if str(attribute).startswith(_PER_VALUE) else single(changed[0])
            self.done[attribute] = rewritten
        return rewritten

    def _carried(self, text: str, type: Any) -> Any:
        sharding = self.shardings.carried(text, type)
        return _text(text if sharding is None else carrier_text(self.change(sharding), static_shape(type)))


def single(sharding: TensorSharding) -> Any:
    """The attribute of one tensor."""
    return parse_attribute(print_sharding(sharding))


def per_value(shardings: Iterable[TensorSharding]) -> Any:
    """The attribute of an op's results."""
    return parse_attribute(print_shardings(list(shardings)))


def say_in_row(row: Row, sharding: TensorSharding | None, shape: tuple[int, ...]) -> None:
    """Let an argument or result of a function, a tensor of this shape, have a sharding, or none."""
    row.pop(SHARDING, None)
    row.pop(CARRIED_SHARDING, None)
    if sharding is not None and needs_carrier(sharding):
        row[CARRIED_SHARDING] = _text(carrier_text(sharding, shape))
    elif sharding is not None:
        row[SHARDING] = single(sharding)


def _text(text: str) -> Any:
    return ir.StringAttr.get(text, context=context())


def unsaid(mesh: Mesh, type: Any, *, open: bool) -> TensorSharding:
    """The sharding of a value of this type that is split along nothing; rank 0 for what is no tensor."""
    return replicated(mesh, len(static_shape(type) or ()), open=open)


def can_say(value: Any) -> bool:
    """Whether a sharding can be attached to a value: not to arguments of regions such as that of a reduction."""
    return isinstance(value, ir.OpResult) or value.owner.owner.operation.name in _WITH_ARGUMENTS

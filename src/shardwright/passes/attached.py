"""Where a module in sdy says shardings, and changing them there.

Functions say them on arguments and results, `sdy` ops in attributes of their own (`sharding`, `out_sharding`,
`in_shardings`, `out_shardings`), other ops in `sdy.sharding`, one per result. Shardings that this jaxlib's sdy does not
know are said by carriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shardwright.boundary import without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS, carried_text, carried_texts
from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.locations import read_location
from shardwright.ir.ops import COMPUTATIONS, SHARDING_ATTRIBUTES
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.carriers import carrier_text, needs_carrier, parse_carrier
from shardwright.notation.sdy.attributes import parse_manual_axes
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings, print_sharding, print_shardings
from shardwright.sharding import TensorSharding

__all__ = [
    "ARGUMENTS",
    "EDGE",
    "MANUAL_AXES",
    "RESULTS",
    "SHARDING",
    "Row",
    "Shardings",
    "change_rows",
    "drop_attributes",
    "edge_of",
    "error_at",
    "functions",
    "manual_axes_of",
    "meshes_of",
    "operations",
    "per_value",
    "rows_of",
    "say_in_row",
    "set_rows",
    "single",
    "static_shape",
    "symbol_of",
    "types_of",
]

SHARDING = "sdy.sharding"
EDGE = "sdy.data_flow_edge"
"""Ops that say shardings of their block arguments, `in_shardings`, and of their results, `out_shardings`."""

ARGUMENTS, RESULTS = "arg_attrs", "res_attrs"
"""The attributes of a function that hold those of its arguments and results."""

MANUAL_AXES = "manual_axes"

Change = Callable[[TensorSharding], TensorSharding]
Row = dict[str, Any]
"""The attributes of an argument or result of a function."""

_PER_VALUE = "#sdy.sharding_per_value<"
_IN_SHARDINGS = "in_shardings"


def operations(root: Any, *, inner_first: bool = False) -> list[Any]:
    """The ops within `root` and `root` itself, in program order: an op before what its regions hold, or after."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    walk(root.operation, visit, outer_first=not inner_first)
    return found


def functions(module: ir.Module) -> list[Any]:
    """The functions of a module, in order."""
    return [view.operation for view in module.body.operations if view.operation.name == "func.func"]


def symbol_of(op: Any) -> str:
    """The name of a function or mesh."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def meshes_of(module: ir.Module) -> dict[str, Mesh]:
    """The meshes of a module by name."""
    ops = [view.operation for view in module.body.operations if view.operation.name == "sdy.mesh"]
    return {symbol_of(op): parse_mesh(str(op.attributes["mesh"]), symbol_of(op)) for op in ops}


def rows_of(function: Any, which: str) -> list[Row]:
    """The attributes of every argument or result of a function."""
    found = function.attributes.get(which)
    if found is not None:
        return [{named.name: named.attr for named in row} for row in _dictionaries(found)]
    return [{} for _ in types_of(function, which)]


def types_of(function: Any, which: str) -> list[Any]:
    """The types of a function's arguments or results."""
    type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(type.inputs if which == ARGUMENTS else type.results)


def _dictionaries(array: Any) -> list[Any]:
    return [ir.DictAttr(row) for row in ir.ArrayAttr(array)]


def set_rows(function: Any, which: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Give every argument or result of a function its attributes."""
    if any(rows):
        listed = [ir.DictAttr.get(dict(row), context=context()) for row in rows]
        function.attributes[which] = ir.ArrayAttr.get(listed, context=context())
    elif which in function.attributes:
        del function.attributes[which]


def change_rows(function: Any, change: Callable[[Row, Any], None]) -> None:
    """Change the attributes of arguments and results of a function; `change` is given those of one, and its type."""
    for which in (ARGUMENTS, RESULTS):
        if which in function.attributes:
            rows = rows_of(function, which)
            for row, type in zip(rows, types_of(function, which), strict=True):
                change(row, type)
            set_rows(function, which, rows)


def drop_attributes(module: ir.Module, names: Sequence[str]) -> None:
    """Take attributes of these names from all ops, and from arguments and results of functions."""

    def drop(row: Row, type: Any) -> None:
        for name in names:
            row.pop(name, None)

    for op in operations(module):
        if op.name == "func.func":
            change_rows(op, drop)
        for name in names:
            if name in op.attributes:
                del op.attributes[name]


def static_shape(type: Any) -> tuple[int, ...] | None:
    """The shape of a ranked tensor type, in elements, where all of it is known."""
    if isinstance(type, ir.ShapedType) and type.has_rank and type.has_static_shape:
        return tuple(type.shape)
    return None


def error_at(op: Any, message: str, *, cause: str = "", remedy: str = "") -> ShardingError:
    """An error that stands at an op."""
    found = read_location(str(op.location))
    where = f"{found.file}:{found.line}:{found.column}" if found.file else found.name
    return ShardingError(message, op=op.name, location=where, cause=cause, remedy=remedy)


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
        found = self._read.get(attribute)
        if found is None:
            found = self._read[attribute] = parse_shardings(str(attribute), self.meshes)
        return found

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
        said = self.read(op.attributes[_IN_SHARDINGS])[index]
        return without_manual_axes(said, manual_axes_of(op))

    def of_row(self, row: Mapping[str, Any], type: Any) -> TensorSharding | None:
        """What the attributes of an argument or result of a function say."""
        if SHARDING in row:
            return self.one(row[SHARDING])
        return self.carried(carried_text(row[CARRIED_SHARDING]), type) if CARRIED_SHARDING in row else None

    def of_rows(self, function: Any, which: str) -> list[TensorSharding | None]:
        """What a function says of all its arguments or results."""
        pairs = zip(rows_of(function, which), types_of(function, which), strict=True)
        return [self.of_row(row, type) for row, type in pairs]

    def _of_result(self, value: Any) -> TensorSharding | None:
        op, index = value.owner.operation, value.result_number
        name, attributes = op.name, op.attributes
        found = attributes.get(SHARDING_ATTRIBUTES.get(name, SHARDING))
        if found is not None:
            read = self.read(found)
            return read[index] if index < len(read) else None
        if name != CARRIED_CONSTRAINT and CARRIED_SHARDINGS not in attributes:
            return None
        texts = carried_texts(name, attributes, len(op.results))
        return self.carried(texts[index], value.type) if texts else None

    def changed_everywhere(self, module: ir.Module, change: Change, *, carriers: bool = True) -> None:
        """Replace every sharding that a module says, those in carriers if wanted, by what `change` makes of it."""
        rewriting = _Rewriting(self, change, carriers)
        for op in operations(module):
            rewriting.visit(op)


def manual_axes_of(op: Any) -> tuple[str, ...]:
    """The axes that a computation is manual in; none for one that is not."""
    said = op.attributes.get(MANUAL_AXES)
    return () if said is None else parse_manual_axes(str(said))


def edge_of(value: Any, name: str = EDGE) -> Any | None:
    """The edge of which `value` is the owner."""
    for use in value.uses:
        if use.owner.operation.name == name:
            return use.owner.operation
    return None


class _Rewriting:
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
        found = self.done.get(attribute)
        if found is None:
            said = self.shardings.read(attribute)
            found, changed = attribute, tuple(map(self.change, said))
            if changed != said:
                found = per_value(changed) if str(attribute).startswith(_PER_VALUE) else single(changed[0])
            self.done[attribute] = found
        return found

    def _carried(self, text: str, type: Any) -> Any:
        said = self.shardings.carried(text, type)
        return _text(text if said is None else carrier_text(self.change(said), static_shape(type)))


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

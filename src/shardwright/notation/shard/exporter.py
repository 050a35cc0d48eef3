"""`sdy` → `shard`: meshes become grids, shardings of values annotations after their definers, constraints for users.

Every op is met once, in one walk; nothing is changed before all of the module is known to be expressible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.carriers import (
    CARRIED_CONSTRAINT,
    CARRIED_SHARDING,
    CARRIED_SHARDINGS,
    carried_text,
    carried_texts,
)
from shardwright.ir.context import context, ir, parse_type
from shardwright.ir.erasing import erase
from shardwright.ir.locations import LocationTable
from shardwright.ir.ops import LAYOUTS, SHARDING_ATTRIBUTES
from shardwright.ir.walk import walk
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.notation.carriers import parse_carrier
from shardwright.notation.sdy import sharding as sdy
from shardwright.notation.shard.read import returns_of, static_shape, tensor_rank
from shardwright.notation.shard.spell import Spelled, spell
from shardwright.sharding import TensorSharding

__all__ = ["export_module"]

_LAYOUTS = LAYOUTS - {"sdy.data_flow_edge", "sdy.propagation_barrier"}
"""Ops of sdy that ask for a layout, as an annotation for users does."""

_REFUSED = {
    "sdy.manual_computation": (
        "its body is written for one device along some axes",
        "write the local stage of the partitioned program",
    ),
    "sdy.named_computation": ("the dialect has no computation with shardings of its own", "inline it first"),
    "sdy.sharding_group": ("it ties values for propagation, which the dialect cannot say", "propagate first"),
    "sdy.propagation_barrier": ("it steers propagation, which the dialect cannot say", "propagate first"),
    "sdy.data_flow_edge": ("it steers propagation, which the dialect cannot say", "propagate first"),
}


@uncollected
def export_module(module: ir.Module, name: str = "-") -> None:
    """Rewrite the meshes and shardings of a module in `sdy` into `shard`, in place; `name` is the file in diagnostics.

    A value's sharding is stated after its definer, arguments' at the start of the function, results' of functions for
    the users that return has; constraints, reshards and collectives between ops become annotations for users. Each
    function names each of its shardings once. Open dimensions and replicated axes stay as discardable attributes.

    Nothing is changed where this raises.

    Raises:
        ShardingError: at its op and line: parts of axes, priorities, a device order, a mesh without axes or one that no
            symbol names, and ops of sdy that the dialect has nothing like.
    """
    with context():
        _Exporter(module, name).run()


@dataclass(slots=True)
class _Function:
    """What is to be stated in one function.

    Attributes:
        op: The function.
        arguments: By number.
        results: By number.
        values: Ops whose results have shardings, the attribute that says so, and the shardings by number.
        layouts: Ops that ask for a layout.
        named: The values that name shardings, by their text.
    """

    op: Any
    arguments: dict[int, Spelled] = field(default_factory=dict)
    results: dict[int, Spelled] = field(default_factory=dict)
    values: list[tuple[Any, str, list[Spelled | None]]] = field(default_factory=list)
    layouts: list[tuple[Any, Spelled]] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)


_NAME = re.compile(r"[ !#-?A-\[\]-~]+")
"""Printable ASCII without `"`, `@` and `\\`."""


class _Exporter:
    def __init__(self, module: ir.Module, name: str) -> None:
        self.module = module
        self.locations = LocationTable(name)
        self.meshes: dict[str, Mesh] = {}
        self.mesh_ops: list[Any] = []
        self.functions: list[_Function] = []
        self._spelled: dict[Any, list[Spelled | None]] = {}
        self.type = parse_type("!shard.sharding")

    def run(self) -> None:
        self._read_meshes()
        failed: list[ShardingError] = []

        advance = ir.WalkResult.ADVANCE

        def visit(op: Any) -> Any:
            try:
                self._visit(op)
            except ShardingError as error:
                failed.append(self._at(op, error))
                return ir.WalkResult.INTERRUPT
            return advance

        walk(self.module.operation, visit, outer_first=True)
        if failed:
            raise failed[0] from None
        for function in self.functions:
            self._state(function)
        for op in self.mesh_ops:
            self._grid(op)

    def _at(self, op: Any, error: ShardingError) -> ShardingError:
        return error.replaced(op=op.name, location=self.locations.where(op.location))

    # --- what there is

    def _read_meshes(self) -> None:
        for view in self.module.body.operations:
            op = view.operation
            if op.name != "sdy.mesh":
                continue
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            mesh = sdy.parse_mesh(str(op.attributes["mesh"]), symbol)
            try:
                _check_mesh(mesh)
            except ShardingError as error:
                raise self._at(op, error) from None
            self.meshes[symbol] = mesh
            _check_names(mesh)
            self.mesh_ops.append(op)

    def _visit(self, op: Any) -> None:
        name = op.name
        if name == "func.func":
            self.functions.append(self._read_function(op))
            return
        attributes = op.attributes
        if name.startswith("sdy."):
            self._read_sdy(op, name, attributes)
            return
        if name == CARRIED_CONSTRAINT or CARRIED_SHARDINGS in attributes:
            texts = carried_texts(name, attributes, len(op.results)) or []
            spelled = self._carried(texts, [result.type for result in op.results])
            if name == CARRIED_CONSTRAINT:
                self._ask(op, spelled)
            else:
                self._inside(op).values.append((op, CARRIED_SHARDINGS, spelled))
            return
        handle = attributes.get("sdy.sharding")
        if handle is not None:
            spelled = self._attribute(handle, [result.type for result in op.results])
            self._inside(op).values.append((op, "sdy.sharding", spelled))

    def _inside(self, op: Any) -> _Function:
        if self.functions:
            return self.functions[-1]
        raise ShardingError(f"{op.name} stands outside of any function", remedy="put it into a func.func")

    def _read_sdy(self, op: Any, name: str, attributes: Any) -> None:
        if name in _LAYOUTS:
            self._ask(op, self._attribute(attributes[SHARDING_ATTRIBUTES[name]], [op.results[0].type]))
        elif name not in ("sdy.mesh", "sdy.return"):
            cause, remedy = _REFUSED.get(name, ("the dialect has nothing like it", "remove it first"))
            raise ShardingError(f"the shard dialect cannot express {name}", cause=cause, remedy=remedy)

    def _ask(self, op: Any, spelled: list[Spelled | None]) -> None:
        (one,) = spelled
        if one is None:
            raise ShardingError(f"{op.name} says no sharding of a tensor", remedy="give one, or remove the op")
        self._inside(op).layouts.append((op, one))

    def _read_function(self, op: Any) -> _Function:
        function = _Function(op)
        type = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        for key, types, into in (
            ("arg_attrs", type.inputs, function.arguments),
            ("res_attrs", type.results, function.results),
        ):
            rows = op.attributes.get(key, ())
            for number, (row, value) in enumerate(zip(rows, types, strict=False)):
                if CARRIED_SHARDING in row:
                    (spelled,) = self._carried([carried_text(row[CARRIED_SHARDING])], [value])
                elif "sdy.sharding" in row:
                    (spelled,) = self._attribute(row["sdy.sharding"], [value])
                else:
                    continue
                if spelled is not None:
                    into[number] = spelled
        if (function.arguments or function.results) and not op.regions[0].blocks:
            raise ShardingError(
                "a function without a body has shardings",
                cause="annotations stand in the body",
                remedy="define the function, or take the shardings of its declaration away",
            )
        return function

    # --- shardings, spelled once per attribute and types

    def _attribute(self, handle: Any, types: list[Any]) -> list[Spelled | None]:
        key = (handle, *types)
        spelled = self._spelled.get(key)
        if spelled is None:
            shardings = sdy.parse_shardings(str(handle), self.meshes)
            spelled = self._spelled[key] = self._spell_all(list(shardings), types)
        return spelled

    def _carried(self, texts: list[str], types: list[Any]) -> list[Spelled | None]:
        shardings = [
            parse_carrier(text, static_shape(type) or (), self.meshes) if text else None
            for text, type in zip(texts, types, strict=True)
        ]
        return self._spell_all(shardings, types)

    def _spell_all(self, shardings: list[TensorSharding | None], types: list[Any]) -> list[Spelled | None]:
        """Of several results those of which nothing is said are left out, as they are filled in when read."""
        spelled = [
            self._spell(sharding, type) if sharding is not None and tensor_rank(type) is not None else None
            for sharding, type in zip(shardings, types, strict=True)
        ]
        if any(one is not None and one.says_something for one in spelled):
            return [one if one is not None and one.says_something else None for one in spelled]
        return spelled

    def _spell(self, sharding: TensorSharding, type: Any) -> Spelled:
        if self.meshes.get(sharding.mesh.name) != sharding.mesh:
            raise ShardingError(
                "the shard dialect cannot express a mesh without a name",
                cause=f"sharding {sharding!r} of {sharding.mesh!r}",
                remedy="define the mesh with sdy.mesh and name it",
            )
        return spell(sharding, type)

    # --- what is written

    def _state(self, function: _Function) -> None:
        op = function.op
        if not op.regions[0].blocks:
            return
        block = op.regions[0].blocks[0]
        self._name_shardings(function, block)
        start = ir.InsertionPoint(block.operations[len(function.named)])
        for number, spelled in function.arguments.items():
            _annotate(block.arguments[number], spelled, function, op.location, start)
        for definer, attribute, several in function.values:
            _state_results(definer, several, function)
            del definer.attributes[attribute]
        self._state_returned(function)
        for asking, spelled in function.layouts:
            _ask_for(asking, spelled, function)
        bare: dict[Any, Any] = {}  # rows are many, distinct ones few
        for key in ("arg_attrs", "res_attrs"):
            if key in op.attributes:
                rows = list(op.attributes[key])
                bare.update((row, _bare(row)) for row in dict.fromkeys(rows) if row not in bare)
                op.attributes[key] = ir.ArrayAttr.get([bare[row] for row in rows])

    def _name_shardings(self, function: _Function, block: Any) -> None:
        """One `shard.sharding` for each sharding, at the start, in the order in which the function needs them."""
        values = [one for _, _, several in function.values for one in several if one is not None]
        layouts = [one for _, one in function.layouts]
        start = ir.InsertionPoint(block.operations[0])
        for one in (*function.arguments.values(), *values, *layouts, *function.results.values()):
            if one.text not in function.named:
                made = ir.Operation.create(
                    one.name, results=[self.type], attributes=one.attributes, loc=function.op.location, ip=start
                )
                function.named[one.text] = made.results[0]

    def _state_returned(self, function: _Function) -> None:
        if not function.results:
            return
        for block in function.op.regions[0].blocks:
            last = block.operations[len(block.operations) - 1].operation
            if last.name != "func.return":
                continue
            for number, spelled in function.results.items():
                made = _for_users(last.operands[number], spelled, function, last.location, ir.InsertionPoint(last))
                last.operands[number] = made.results[0]

    def _grid(self, op: Any) -> None:
        attributes = op.attributes
        mesh = self.meshes[ir.StringAttr(attributes["sym_name"]).value]
        made = {key: value for key, value in attributes.items() if key != "mesh"}
        made["shape"] = ir.DenseI64ArrayAttr.get([size for _, size in mesh.axes])
        if any(name != f"axis_{number}" for number, (name, _) in enumerate(mesh.axes)):
            made["axis_names"] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name, _ in mesh.axes])
        ir.Operation.create("shard.grid", attributes=made, loc=op.location, ip=ir.InsertionPoint(op))
        erase(op)


def _check_names(mesh: Mesh) -> None:
    odd = next((name for name in (mesh.name, *mesh.sizes) if not _NAME.fullmatch(name)), None)
    if odd is not None:
        raise ShardingError(
            f"the name {odd!r} cannot be carried over",
            op="sdy.mesh",
            cause="the names of grids and their axes are printed as they are",
            remedy="use printable ASCII without quotes, @ and backslashes in the names of meshes and axes",
        )


def _check_mesh(mesh: Mesh) -> None:
    if not mesh.axes:
        raise ShardingError(
            f"the shard dialect cannot express the mesh @{mesh.name} without axes",
            cause="a grid has at least one axis, and none stands for a single device",
            remedy="give it an axis of size 1, or take it out of the module",
        )
    if mesh.device_ids is not None:
        raise ShardingError(
            f"the shard dialect cannot express the device order of the mesh @{mesh.name}",
            cause=f"{mesh!r}; the devices of a grid are counted row by row",
            remedy="leave device_ids out, and order the devices where the program is run",
        )


def _for_users(value: Any, spelled: Spelled, function: _Function, location: Any, at: Any) -> Any:
    attributes = {**spelled.notes, "annotate_for_users": ir.UnitAttr.get()}
    operands = [value, function.named[spelled.text]]
    return ir.Operation.create(
        "shard.shard", results=[value.type], operands=operands, attributes=attributes, loc=location, ip=at
    )


def _annotate(value: Any, spelled: Spelled, function: _Function, location: Any, at: Any) -> None:
    """State how a value lies; all its users read the statement."""
    made = ir.Operation.create(
        "shard.shard",
        results=[value.type],
        operands=[value, function.named[spelled.text]],
        attributes=spelled.notes,
        loc=location,
        ip=at,
    )
    value.replace_all_uses_except(made.result, made)


def _state_results(definer: Any, several: list[Spelled | None], function: _Function) -> None:
    results, location, after = definer.results, definer.location, ir.InsertionPoint.after(definer)
    for number, spelled in enumerate(several):
        if spelled is not None:
            _annotate(results[number], spelled, function, location, after)


def _ask_for(op: Any, spelled: Spelled, function: _Function) -> None:
    made = _for_users(op.operands[0], spelled, function, op.location, ir.InsertionPoint(op))
    if returns_of(op.results[0]):
        made.attributes["as_constraint"] = ir.UnitAttr.get()
    op.results[0].replace_all_uses_with(made.results[0])
    erase(op)


def _bare(row: Any) -> Any:
    """The attributes of an argument or result without its sharding."""
    entries = {named.name: named.attr for named in row if named.name not in ("sdy.sharding", CARRIED_SHARDING)}
    return ir.DictAttr.get(entries)

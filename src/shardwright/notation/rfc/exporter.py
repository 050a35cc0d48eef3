"""A module of the sdy dialect → the same module in the form of the mesh RFC, generic ops, in place.

A module with sdy collectives is *materialized*: every tensor's type says how it is distributed. Any other gets a
`mesh.annotate` for each sharding: after what defines the value, or for users where a constraint stood.

Source: the mesh RFC on LLVM's forum, AnnotateOp, MeshShardingAttr and the collectives.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.mesh import Mesh
from shardwright.notation.rfc.distribute import distribute, verified
from shardwright.notation.rfc.layouts import Layout, spelled_lists, symbol_text, trimmed
from shardwright.notation.rfc.mesh import line_of, read_cluster, write_cluster
from shardwright.notation.rfc.options import EXPLICIT, FUNCTION_MESH, OPTION
from shardwright.notation.rfc.reading import entries_of, located, ops_of
from shardwright.notation.scan import layout as closed_layout
from shardwright.notation.scan import positions
from shardwright.notation.sdy.names import symbol_name
from shardwright.notation.sdy.sharding import parse_shardings
from shardwright.sharding import TensorSharding

__all__ = ["Exporter"]

_SHARDING = "sdy.sharding"
_SDY = "write the module as sdy"
_CARRIERS = ("shardwright.shardings", "shardwright.sharding")
_SAID = frozenset({"sdy.sharding_constraint", "sdy.reshard"})
_WHY = {
    "sdy.manual_computation": "its ops see one device's part within a program for all devices",
    "sdy.named_computation": "the RFC has no regions with shardings of their own",
    "sdy.sharding_group": "the RFC cannot say that two values are sharded alike",
    "sdy.propagation_barrier": "the RFC cannot stop propagation",
    "sdy.data_flow_edge": "the RFC has no edges between regions",
    "shardwright.constraint": "its sharding has offsets, halos or a reduction that is not a sum",
}


class Exporter:
    """Rewrites one module; see `rfc_modules.export_module`."""

    def __init__(self, module: Any, name: str) -> None:
        """Read the meshes and functions of the module of the file `name`."""
        self.module = module
        self.name = name
        self.meshes: dict[str, Mesh] = {}
        self.symbol = ""
        self._mesh_ops: list[Any] = []
        self._read: dict[Any, tuple[TensorSharding, ...]] = {}
        self._layouts: dict[TensorSharding, Layout] = {}
        self._parsed: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}
        self._ready: dict[Any, list[dict[str, Any]]] = {}
        self.functions: list[tuple[Any, list[tuple[str, Any]]]] = []
        for view in module.body.operations:
            op = view.operation
            if op.name == "sdy.mesh":
                mesh = read_cluster(op, name)
                self.meshes[mesh.name] = mesh
                self._mesh_ops.append(op)
            elif op.name == "func.func":
                self.functions.append((op, ops_of(op)))

    def run(self) -> None:
        """Rewrite all functions, then the meshes."""
        materialized = any(name in EXPLICIT for _, ops in self.functions for name, _ in ops)
        for function, ops in self.functions:
            for name, op in ops:
                attributes = op.attributes
                self._check(name, op, attributes, materialized)
                if OPTION in attributes:  # goes by the RFC's own name
                    attributes["sharding"] = attributes[OPTION]
                    del attributes[OPTION]
            self.symbol = self._function_mesh(function, ops)
            self._ready.clear()
            if materialized:
                distribute(self, function, ops)
            else:
                self._annotate(function, ops)
        for op in self._mesh_ops:
            with ir.InsertionPoint(op):
                write_cluster(self.meshes[ir.StringAttr(op.attributes["sym_name"]).value])
            erase(op)
        if materialized:
            verified(self.module, self.name)

    # What the form cannot say.

    def _check(self, name: str, op: Any, attributes: Any, materialized: bool) -> None:
        if name not in self._reasons:
            self._reasons[name] = _why_not(name, materialized)
        why = self._reasons[name]
        if not why and _CARRIERS[0] in attributes:
            why = _WHY["shardwright.constraint"]
        if why:
            self.refuse(name, op, f"the RFC cannot express {name}", why, f"take it out, or {_SDY}")

    def refuse(self, name: str, op: Any, what: str, why: str, remedy: str) -> NoReturn:
        """Raise at an op."""
        raise ShardingError(what, op=name, location=line_of(op, self.name), cause=why, remedy=remedy)

    def shardings(self, attribute: Any) -> tuple[TensorSharding, ...]:
        """The shardings of an sdy attribute, read once."""
        found = self._read.get(attribute)
        if found is None:
            found = self._read[attribute] = parse_shardings(str(attribute), self.meshes)
        return found

    def layout(self, sharding: TensorSharding) -> Layout:
        """The layout of a sharding, its openness left aside.

        Raises:
            ShardingError: parts of axes, priorities, reductions other than sums, or a mesh without a name.
        """
        found = self._layouts.get(sharding)
        if found is None:
            if self.meshes.get(sharding.mesh.name) != sharding.mesh:
                raise ShardingError(
                    "the RFC cannot express a mesh without a name",
                    cause=f"sharding {sharding!r} of {sharding.mesh!r}",
                    remedy="define the mesh with sdy.mesh and name it: shardwright-opt -sdy-lift-inlined-meshes",
                )
            found = self._layouts[sharding] = _layout(sharding)
        return found

    def attribute(self, text: str) -> Any:
        """The MLIR attribute of a text, parsed once."""
        found = self._parsed.get(text)
        if found is None:
            found = self._parsed[text] = parse_attribute(text)
        return found

    def _function_mesh(self, function: Any, ops: list[tuple[str, Any]]) -> str:
        """The mesh that the function names from now on: what it said, or the first that it uses."""
        if FUNCTION_MESH in function.attributes:
            symbol = symbol_name(str(function.attributes[FUNCTION_MESH]))
            del function.attributes[FUNCTION_MESH]
        elif len(self.meshes) > 1:
            symbol = self._first_mesh(function, ops)
        else:
            symbol = next(iter(self.meshes), "")
        if symbol in self.meshes:
            function.attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(symbol)
        return symbol

    def _first_mesh(self, function: Any, ops: list[tuple[str, Any]]) -> str:
        rows = [ir.DictAttr(row) for key in ("arg_attrs", "res_attrs") for row in _rows(function, key)]
        found = [row[_SHARDING] for row in rows if _SHARDING in row]
        for _, op in ops:
            said = [op.attributes[key] for key in (_SHARDING, "sharding", "out_sharding") if key in op.attributes]
            found += [attribute for attribute in said if str(attribute).startswith("#sdy.sharding")]
        return next((sharding.mesh.name for attr in found for sharding in self.shardings(attr)), "")

    # Annotated programs.

    def _annotate(self, function: Any, ops: list[tuple[str, Any]]) -> None:
        arguments, results = self.boundary(function)
        block = function.regions[0].blocks[0] if len(function.regions[0].blocks) else None
        where = line_of(function, self.name)
        if block is None:
            if arguments or results:
                why = "annotations stand within a function"
                self.refuse("func.func", function, "a declaration has shardings", why, "define it")
            return
        ops = self._without_returned(ops, results)
        for index, sharding in sorted(arguments.items(), reverse=True):
            with located("func.func", where):
                at = ir.InsertionPoint.at_block_begin(block)
                self._annotated(block.arguments[index], sharding, function.location, at)
        for name, op in ops:
            if name in _SAID:
                self._for_users(op, self.shardings(op.attributes["sharding"])[0])
                continue
            attribute = op.attributes.get(_SHARDING)
            if attribute is not None:
                self._defined(name, op, attribute)
            elif name == "func.return" and results:
                self._returned(op, results, where)

    def _without_returned(
        self, ops: list[tuple[str, Any]], results: dict[int, TensorSharding]
    ) -> list[tuple[str, Any]]:
        """Ops without constraints that only the function's return reads: these are shardings of its results."""
        kept = []
        for name, op in ops:
            numbers = [use.operand_number for use in op.results[0].uses] if name in _SAID else []
            returned = numbers and all(use.owner.name == "func.return" for use in op.results[0].uses)
            if not returned or any(number in results for number in numbers):
                kept.append((name, op))
                continue
            sharding = self.shardings(op.attributes["sharding"])[0]
            results.update(dict.fromkeys(numbers, sharding))
            op.results[0].replace_all_uses_with(op.operands[0])
            erase(op)
        return kept

    def boundary(self, function: Any) -> tuple[dict[int, TensorSharding], dict[int, TensorSharding]]:
        """Shardings of arguments and results by number; their attributes are taken away."""
        found = []
        bare: dict[Any, Any] = {}  # rows are many, distinct ones few
        for key in ("arg_attrs", "res_attrs"):
            shardings: dict[int, TensorSharding] = {}
            rows = _rows(function, key)
            for index, row in enumerate(rows):
                if _CARRIERS[1] in row:
                    which = f"{'argument' if key == 'arg_attrs' else 'result'} {index}"
                    why = _WHY["shardwright.constraint"]
                    self.refuse("func.func", function, f"the RFC cannot express the sharding of {which}", why, _SDY)
                if _SHARDING in row:
                    shardings[index] = self.shardings(row[_SHARDING])[0]
                if row not in bare:
                    entries = {named.name: named.attr for named in entries_of(row) if named.name != _SHARDING}
                    bare[row] = ir.DictAttr.get(entries)
            if shardings:
                function.attributes[key] = ir.ArrayAttr.get([bare[row] for row in rows])
            found.append(shardings)
        return found[0], found[1]

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
            "sharding": self.attribute(self.spelled(self.layout(sharding), "{}")),
        }
        return attributes if as_result else {"as_result": ir.BoolAttr.get(False), **attributes}

    def spelled(self, layout: Layout, plain: str) -> str:
        """The lists of a layout, put into `plain` where it is on the function's mesh, else `#mesh.shard<@m, …>`."""
        lists = spelled_lists(trimmed((*layout.dims, layout.partial)))
        if layout.symbol == self.symbol:
            return plain.format(lists)
        return f"#mesh.shard<{symbol_text(layout.symbol)}, {lists}>"

    def _defined(self, name: str, op: Any, attribute: Any) -> None:
        ready = self._ready.get(attribute)
        if ready is None:
            with located(name, line_of(op, self.name)):
                ready = self._ready[attribute] = [self._annotation(said) for said in self.shardings(attribute)]
        del op.attributes[_SHARDING]
        results, location, after = op.results, op.location, ir.InsertionPoint.after(op)
        for number in range(len(ready) - 1, -1, -1):
            value = results[number]
            type = value.type
            if isinstance(type, ir.RankedTensorType):
                created = _created(value, type, ready[number], location, after)
                value.replace_all_uses_except(created.result, created)

    def _for_users(self, op: Any, sharding: TensorSharding) -> None:
        with located(op.name, line_of(op, self.name)):
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


def _why_not(name: str, materialized: bool) -> str:
    """Why the RFC cannot express ops of this name, or nothing."""
    if name in _WHY:
        return _WHY[name]
    if name.startswith("sdy.") and name not in EXPLICIT and name not in _SAID:
        return "the RFC has no such op"
    if materialized and name in _SAID:
        return "among collectives every tensor's type is what it is, and nothing is left to be asked for"
    return ""


def _rows(function: Any, key: str) -> list[Any]:
    """The dictionaries of arguments or results."""
    return list(function.attributes[key]) if key in function.attributes else []


def _layout(sharding: TensorSharding) -> Layout:
    said = f"sharding {sharding!r}"
    if any(dim.priority is not None for dim in sharding.dims):
        raise ShardingError("the RFC cannot express priorities", cause=said, remedy="take the priorities out")
    if sharding.replicated and any(dim.open for dim in sharding.dims):
        raise ShardingError(
            "the RFC cannot express axes that open dimensions must not use", cause=said, remedy="close the dimensions"
        )
    plain = closed_layout(sharding.closed(), "the RFC")
    odd = next((p.kind for p in plain.partial if p.kind != "sum"), None)
    if odd is not None:
        raise ShardingError(f"the RFC cannot express a tensor partial by {odd}", cause=said, remedy="reduce it first")
    dims = positions([*plain.axes, plain.partial_axes], plain.mesh)
    *split, partial = (tuple(axes) for axes in dims)
    return Layout(plain.mesh.name, tuple(split), partial)

"""What an export of a module to the mesh RFC knows: its meshes, its functions, and the layout of each sharding."""

from __future__ import annotations

from typing import Any, NoReturn

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.axis_positions import layout as closed_layout
from shardwright.notation.axis_positions import positions
from shardwright.notation.names import symbol_text
from shardwright.notation.rfc.layouts import Layout, spelled_lists, trimmed
from shardwright.notation.rfc.mesh import line_of, read_cluster
from shardwright.notation.rfc.reading import entries_of, ops_of
from shardwright.notation.sdy.sharding import parse_shardings
from shardwright.sharding import TensorSharding

__all__ = ["AS_SDY", "CARRIED", "REQUESTS", "SHARDING", "Writing", "rows"]

SHARDING = "sdy.sharding"
REQUESTS = frozenset({"sdy.sharding_constraint", "sdy.reshard"})
"""What asks for a sharding in a program without collectives."""
AS_SDY = "write the module as sdy"
CARRIED = "its sharding has offsets, halos or a reduction that is not a sum"
"""Why the RFC cannot express what attributes of ours carry."""
_CARRIER = "shardwright.sharding"


class Writing:
    """A module that is being exported.

    Attributes:
        module: The module.
        name: The file.
        meshes: Its meshes by name.
        mesh_ops: The ops that define them.
        functions: Its functions, each with its ops and their names.
        symbol: The mesh that the function at hand names.
    """

    def __init__(self, module: Any, name: str) -> None:
        """Read the meshes and functions of the module of the file `name`."""
        self.module = module
        self.name = name
        self.meshes: dict[str, Mesh] = {}
        self.symbol = ""
        self.mesh_ops: list[Any] = []
        self._read: dict[Any, tuple[TensorSharding, ...]] = {}
        self._layouts: dict[TensorSharding, Layout] = {}
        self._parsed: dict[str, Any] = {}
        self.functions: list[tuple[Any, list[tuple[str, Any]]]] = []
        for view in module.body.operations:
            op = view.operation
            if op.name == "sdy.mesh":
                mesh = read_cluster(op, name)
                self.meshes[mesh.name] = mesh
                self.mesh_ops.append(op)
            elif op.name == "func.func":
                self.functions.append((op, ops_of(op)))

    def refuse(self, name: str, op: Any, what: str, why: str, remedy: str) -> NoReturn:
        """Raise at an op."""
        raise ShardingError(what, op=name, location=line_of(op, self.name), cause=why, remedy=remedy)

    def shardings(self, attribute: Any) -> tuple[TensorSharding, ...]:
        """The shardings of an sdy attribute, read once."""
        shardings = self._read.get(attribute)
        if shardings is None:
            shardings = self._read[attribute] = parse_shardings(str(attribute), self.meshes)
        return shardings

    def layout(self, sharding: TensorSharding) -> Layout:
        """The layout of a sharding, its openness left aside.

        Raises:
            ShardingError: parts of axes, priorities, reductions other than sums, or a mesh without a name.
        """
        layout = self._layouts.get(sharding)
        if layout is None:
            if self.meshes.get(sharding.mesh.name) != sharding.mesh:
                raise ShardingError(
                    "the RFC cannot express a mesh without a name",
                    cause=f"sharding {sharding!r} of {sharding.mesh!r}",
                    remedy="define the mesh with sdy.mesh and name it: shardwright-opt -sdy-lift-inlined-meshes",
                )
            layout = self._layouts[sharding] = _layout(sharding)
        return layout

    def attribute(self, text: str) -> Any:
        """The MLIR attribute of a text, parsed once."""
        attribute = self._parsed.get(text)
        if attribute is None:
            attribute = self._parsed[text] = parse_attribute(text)
        return attribute

    def boundary(self, function: Any) -> tuple[dict[int, TensorSharding], dict[int, TensorSharding]]:
        """Shardings of arguments and results by number; their attributes are taken away."""
        boundary = []
        bare: dict[Any, Any] = {}  # rows are many, distinct ones few
        for key in ("arg_attrs", "res_attrs"):
            shardings: dict[int, TensorSharding] = {}
            given = rows(function, key)
            for index, row in enumerate(given):
                if _CARRIER in row:
                    which = f"{'argument' if key == 'arg_attrs' else 'result'} {index}"
                    what = f"the RFC cannot express the sharding of {which}"
                    self.refuse("func.func", function, what, CARRIED, AS_SDY)
                if SHARDING in row:
                    shardings[index] = self.shardings(row[SHARDING])[0]
                if row not in bare:
                    entries = {named.name: named.attr for named in entries_of(row) if named.name != SHARDING}
                    bare[row] = ir.DictAttr.get(entries)
            if shardings:
                function.attributes[key] = ir.ArrayAttr.get([bare[row] for row in given])
            boundary.append(shardings)
        return boundary[0], boundary[1]

    def spelled(self, layout: Layout, plain: str) -> str:
        """The lists of a layout, put into `plain` where it is on the function's mesh, else `#mesh.shard<@m, …>`."""
        lists = spelled_lists(trimmed((*layout.dims, layout.partial)))
        if layout.symbol == self.symbol:
            return plain.format(lists)
        return f"#mesh.shard<{symbol_text(layout.symbol)}, {lists}>"


def rows(function: Any, key: str) -> list[Any]:
    """The dictionaries of arguments (`arg_attrs`) or results (`res_attrs`)."""
    return list(function.attributes[key]) if key in function.attributes else []


def _layout(sharding: TensorSharding) -> Layout:
    cause = f"sharding {sharding!r}"
    if any(dim.priority is not None for dim in sharding.dims):
        raise ShardingError("the RFC cannot express priorities", cause=cause, remedy="take the priorities out")
    if sharding.replicated and any(dim.open for dim in sharding.dims):
        raise ShardingError(
            "the RFC cannot express axes that open dimensions must not use", cause=cause, remedy="close the dimensions"
        )
    plain = closed_layout(sharding.closed(), "the RFC")
    odd = next((p.kind for p in plain.partial if p.kind != "sum"), None)
    if odd is not None:
        raise ShardingError(f"the RFC cannot express a tensor partial by {odd}", cause=cause, remedy="reduce it first")
    dims = positions([*plain.axes, plain.partial_axes], plain.mesh)
    *split, partial = (tuple(axes) for axes in dims)
    return Layout(plain.mesh.name, tuple(split), partial)

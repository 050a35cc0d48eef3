"""What an import of a module of the mesh RFC knows: its clusters, its functions, and what is said of each value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute, parse_type
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.axis_positions import axes_at
from shardwright.notation.names import symbol_name, symbol_text
from shardwright.notation.rfc.layouts import ENCODED, Layout, layout, rank_of
from shardwright.notation.rfc.mesh import Cluster, line_at, line_of
from shardwright.notation.sdy.sharding import print_sharding, print_shardings
from shardwright.sharding import DimSharding, Partial, TensorSharding

_ADVANCE = ir.WalkResult.ADVANCE

__all__ = [
    "FunctionOps",
    "ModuleReading",
    "ValueLayout",
    "StatedLayout",
    "entries_of",
    "located",
    "ops_of",
    "sharding_on",
]


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What is known of an MLIR type: the type without its encoding, its rank, and the layout that it says."""

    plain: Any
    rank: int | None
    layout: Layout | None


@dataclass(frozen=True, eq=False)
class StatedLayout:
    """A layout that is required, or a hint (`open`); its sharding and attributes are made once.

    They raise as `ModuleReading.sharding` does.
    """

    reading: ModuleReading
    layout: Layout
    open: bool

    @cached_property
    def sharding(self) -> TensorSharding:
        """On the mesh that the layout names."""
        return self.reading.sharding(self.layout, self.open)

    @cached_property
    def attribute(self) -> Any:
        """`#sdy.sharding<…>`."""
        return parse_attribute(print_sharding(self.sharding))

    @cached_property
    def per_value(self) -> Any:
        """`#sdy.sharding_per_value<[<…>]>`, of an op of one result."""
        return parse_attribute(print_shardings([self.sharding]))


@dataclass(slots=True)
class ValueLayout:
    """What is said of a value, and MLIR's location of what says it."""

    statement: StatedLayout
    location: Any

    @property
    def layout(self) -> Layout:
        """The layout that is said."""
        return self.statement.layout


@dataclass(slots=True)
class FunctionOps:
    """A function with its ops, all regions included, in order."""

    op: Any
    name: str
    symbol: str
    ops: list[tuple[str, Any]] = field(default_factory=list)
    results: dict[int, ValueLayout] = field(default_factory=dict)
    options: bool = False
    declared: dict[int, Layout] = field(default_factory=dict)

    @property
    def arguments(self) -> list[Any]:
        """The values that it takes."""
        blocks = self.op.regions[0].blocks
        return list(blocks[0].arguments) if len(blocks) else []


def ops_of(function: Any) -> list[tuple[str, Any]]:
    """All ops in an op with their names, those of regions after the op that has them."""
    ops: list[tuple[str, Any]] = []

    def visit(op: Any) -> Any:
        ops.append((op.name, op))
        return _ADVANCE

    walk(function, visit, outer_first=True)  # iterating over blocks looks for a Python module of `mesh` each time
    return ops[1:]


class ModuleReading:
    """One module being imported: its clusters and functions, what is said of its values, and what is known of types."""

    def __init__(self, module: Any, name: str, distributed: bool = True) -> None:
        """Survey the module of the file `name`; `distributed`: whether its types may say how tensors lie."""
        self.name = name
        self.distributed = distributed
        self.clusters: dict[str, Cluster] = {}
        self.functions: list[FunctionOps] = []
        self.stated: dict[Any, ValueLayout] = {}
        self._types: dict[Any, TypeFacts] = {}
        self._layouts: dict[Any, Layout] = {}
        self._attributes: dict[Any, Any] = {}
        self._statements: dict[tuple[Layout, bool], StatedLayout] = {}
        functions = []
        for view in module.body.operations:
            op = view.operation
            if op.name == "mesh.cluster":
                cluster = Cluster(op, name)
                self.clusters[cluster.symbol] = cluster
            elif op.name == "func.func":
                functions.append(op)
        self.functions = [self._surveyed(op) for op in functions]

    def _surveyed(self, op: Any) -> FunctionOps:
        function = FunctionOps(op, ir.StringAttr(op.attributes["sym_name"]).value, self._function_mesh(op))
        function.ops = ops_of(op)
        return function

    def _function_mesh(self, op: Any) -> str:
        if "mesh_cluster" not in op.attributes:
            return next(iter(self.clusters)) if len(self.clusters) == 1 else ""
        symbol = symbol_name(str(op.attributes["mesh_cluster"]))
        if symbol not in self.clusters:
            raise ShardingError(
                f"there is no cluster {symbol_text(symbol)}",
                op="func.func",
                location=line_of(op, self.name),
                cause=f"the module has {', '.join(map(symbol_text, self.clusters)) or 'none'}",
                remedy="define it, or name another in mesh_cluster",
            )
        return symbol

    # Types and layouts.

    def type(self, handle: Any, op: Any = None) -> TypeFacts:
        """What is known of a type, which stands at `op`.

        Raises:
            ShardingError: its sharding does not fit its rank.
        """
        known = self._types.get(handle)
        if known is None:
            with located("", line_of(op, self.name) if op is not None else ""):
                known = self._types[handle] = _read_type(handle)
        return known

    def layout(self, attribute: Any, rank: int) -> Layout:
        """What `[[0], [1]]` or `#mesh.shard<…>` says of a tensor of `rank` dimensions; raises as `layout` does."""
        key = (attribute, rank)
        known = self._layouts.get(key)
        if known is None:
            known = self._layouts[key] = layout(str(attribute), rank)
        return known

    def statement(self, layout: Layout, open_: bool = False) -> StatedLayout:
        """The one statement of a layout whose mesh is named."""
        key = (layout, open_)
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = StatedLayout(self, layout, open_)
        return statement

    def sharding(self, layout: Layout, open_: bool = False) -> TensorSharding:
        """The sharding of a layout whose mesh is named.

        Raises:
            ShardingError: no such mesh, one of unknown size, or an axis that it lacks.
        """
        return sharding_on(layout, self._mesh(layout.symbol), open_)

    def where(self, location: Any) -> str:
        """`FILE:LINE` of an MLIR location."""
        return line_at(location, self.name)

    def _mesh(self, symbol: str) -> Mesh:
        if symbol not in self.clusters:
            raise ShardingError(
                f"there is no cluster {symbol_text(symbol)}" if symbol else "a sharding names no cluster",
                cause=f"the module has {', '.join(map(symbol_text, self.clusters)) or 'none'}",
                remedy="name the function's cluster: attributes {mesh_cluster = @mesh0}",
            )
        return self.clusters[symbol].mesh()

    def attribute(self, text: str) -> Any:
        """The MLIR attribute of a text, parsed once."""
        attribute = self._attributes.get(text)
        if attribute is None:
            attribute = self._attributes[text] = parse_attribute(text)
        return attribute

    def say(self, value: Any, stated: ValueLayout) -> None:
        """Note what is said of a value.

        Raises:
            ShardingError: something else was said before.
        """
        before = self.stated.get(value)
        if before is None:
            self.stated[value] = stated
        elif before.statement is stated.statement:
            return
        elif before.layout != stated.layout:
            raise self._conflict(before, stated)
        elif before.statement.open:
            self.stated[value] = stated

    def _conflict(self, before: ValueLayout, stated: ValueLayout) -> ShardingError:
        return ShardingError(
            f"a value is annotated as {before.layout.text} and as {stated.layout.text}",
            op="mesh.annotate",
            location=self.where(stated.location),
            cause=f"the first is at {self.where(before.location)}; a value has one sharding where it is defined",
            remedy="take one of the two away, or give one with as_result = false, for users",
        )


def entries_of(dictionary: Any) -> Any:
    """The entries of a dictionary attribute, each with `name` and `attr`."""
    return ir.DictAttr(dictionary)


@contextmanager
def located(op: str, location: str) -> Iterator[None]:
    """Refusals from within name the op and where it stands, unless they do already."""
    try:
        yield
    except ShardingError as error:
        raise error.at(op, location) from None


def _read_type(handle: Any) -> TypeFacts:
    if not isinstance(handle, ir.RankedTensorType):
        return TypeFacts(handle, None, None)
    text = str(handle)
    match = ENCODED.match(text)
    rank = rank_of(text)
    if match is None or rank is None:
        return TypeFacts(handle, rank, None)
    plain = parse_type(f"tensor<{match.group(1)}{match.group(2)}>")
    return TypeFacts(plain, rank, layout(match.group(3), rank))


def sharding_on(layout: Layout, mesh: Mesh, open_: bool) -> TensorSharding:
    """The sharding of a layout on `mesh`, all dimensions open or all closed.

    Raises:
        ShardingError: an axis that the mesh lacks.
    """
    *dims, along = axes_at([*layout.dims, layout.partial], mesh)
    partial = tuple(Partial(axis) for axis in sorted(along, key=mesh.sort_key))
    return TensorSharding(mesh, tuple(DimSharding(axes, open_) for axes in dims), partial=partial)

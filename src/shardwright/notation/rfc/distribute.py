"""Export of explicit programs: every tensor's type becomes that of a distributed tensor, sdy collectives the RFC's.

    sdy.all_gather [{"axis_0"}, {}] %0 out_sharding=<@m, [{}, {}]> : tensor<4x8xf32>
    mesh.all_gather %0 {mesh_axis = [[0]]} : tensor<4x8xf32, #mesh.shard<[[0]]>> -> tensor<4x8xf32>

Source: the mesh RFC on LLVM's forum, MeshShardingAttr and the collectives.
"""

from __future__ import annotations

from typing import Any

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute, parse_type
from shardwright.ir.erasing import erase
from shardwright.ir.locations import read_location
from shardwright.ir.ops import COLLECTIVES
from shardwright.mesh import Mesh
from shardwright.notation.axis_positions import positions
from shardwright.notation.rfc.collectives import Collective, Move, spelled
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.layouts import Layout
from shardwright.notation.rfc.mesh import line_of
from shardwright.notation.rfc.reading import located
from shardwright.notation.rfc.rolls import is_roll, roll_of
from shardwright.notation.rfc.writing import Writing
from shardwright.notation.sdy.collectives import parse_step
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, AllToAll, ReduceScatter

__all__ = ["distribute", "verified"]

_CONSTANTS = frozenset({"stablehlo.constant", "mhlo.constant", "arith.constant"})
_LOOPS = frozenset({"stablehlo.while", "mhlo.while"})


def distribute(writing: Writing, function: Any, ops: list[tuple[str, Any]]) -> None:
    """Rewrite one function of an explicit program.

    Raises:
        ShardingError: what a distributed tensor's type cannot say, at its op.
    """
    _Distributing(writing, function).run(ops)


class _Distributing:
    def __init__(self, writing: Writing, function: Any) -> None:
        self.writing = writing
        self.function = function
        self.known: dict[Any, Layout] = {}
        self._types: dict[tuple[Any, Layout], Any] = {}

    def run(self, ops: list[tuple[str, Any]]) -> None:
        writing, function = self.writing, self.function
        where = line_of(function, writing.name)
        arguments, results = writing.boundary(function)
        blocks = function.regions[0].blocks
        values = list(blocks[0].arguments) if len(blocks) else []
        with located("func.func", where):
            for index, sharding in arguments.items():
                if index < len(values):
                    self._set(values[index], self._layout(sharding))
            declared = {index: self._layout(sharding) for index, sharding in results.items()}
        for name, op in ops:
            with located(name, line_of(op, writing.name)):
                self._op(name, op)
        type: Any = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        if not values and arguments:
            with located("func.func", where):
                inputs = [
                    self._type(t, self._layout(arguments[i])) if i in arguments else t
                    for i, t in enumerate(type.inputs)
                ]
        else:
            inputs = [value.type for value in values] if len(blocks) else list(type.inputs)
        outputs = [self._type(t, declared[i]) if i in declared else t for i, t in enumerate(type.results)]
        if len(blocks):
            outputs = self._returned(list(blocks[0].operations)[-1].operation, declared)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))

    def _layout(self, sharding: TensorSharding) -> Layout:
        if any(dim.open for dim in sharding.dims):
            raise ShardingError(
                "the RFC cannot express open dimensions in an explicit program",
                cause=f"sharding {sharding!r}: a distributed tensor's type says how it lies, not how it may",
                remedy="close its dimensions",
            )
        return self.writing.layout(sharding)

    def _type(self, type: Any, layout: Layout) -> Any:
        """The type of a distributed tensor; one that is whole everywhere keeps its standard type."""
        if not layout.axes:
            return type
        key = (type, layout)
        distributed = self._types.get(key)
        if distributed is None:
            encoding = self.writing.spelled(layout, "#mesh.shard<{}>")
            distributed = self._types[key] = parse_type(f"{str(type)[:-1]}, {encoding}>")
        return distributed

    def _set(self, value: Any, layout: Layout) -> None:
        if isinstance(value.type, ir.RankedTensorType):
            self.known[value] = layout
            value.set_type(self._type(value.type, layout))

    def _op(self, name: str, op: Any) -> None:
        if name in COLLECTIVES:
            self._collective(name, op)
            return
        if is_roll(name, op):
            self._roll(op)
            return
        if "sdy.sharding" not in op.attributes:
            return
        shardings = self.writing.shardings(op.attributes["sdy.sharding"])
        del op.attributes["sdy.sharding"]
        layouts = [
            self._layout(sharding) if isinstance(value.type, ir.RankedTensorType) else None
            for value, sharding in zip(op.results, shardings, strict=True)
        ]
        carried = [op.results, *(region.blocks[0].arguments for region in op.regions if name in _LOOPS)]
        for values in carried:
            for value, layout in zip(values, layouts, strict=True):
                if layout is not None:
                    self._set(value, layout)
        if name in _CONSTANTS and layouts[0] is not None and layouts[0].axes:
            encoding = self.writing.spelled(layouts[0], "#mesh.shard<{}>")
            op.attributes["value"] = parse_attribute(f"{str(op.attributes['value'])[:-1]}, {encoding}>")

    def _collective(self, name: str, op: Any) -> None:
        target = self.writing.shardings(op.attributes["out_sharding"])[0]
        layout = self._layout(target)
        value, old = op.operands[0], op.results[0]
        source = self.known.get(value) or Layout(layout.symbol, ((),) * len(layout.dims))
        plain = old.type
        for move in _moves(name[4:], op, target.mesh, source, layout):
            for collective in spelled(source, move):
                value = self._created(op, value, collective, self._type(plain, collective.target))
            source = move.target
        self.known[value] = layout
        old.replace_all_uses_with(value)
        erase(op)

    def _roll(self, op: Any) -> None:
        layout = self._layout(self.writing.shardings(op.attributes["sdy.sharding"])[0])
        value, slices, collective = roll_of(op, layout)
        made = self._created(op, value, collective, value.type)
        self.known[made] = layout
        op.results[0].replace_all_uses_with(made)
        for one in (op, *slices):
            erase(one)

    def _created(self, op: Any, value: Any, collective: Collective, type: Any) -> Any:
        form = RFC.forms[f"mesh.{collective.name}"]
        attributes = {
            entry.name: self.writing.attribute(entry.kind.generic(collective.attributes[entry.name]))
            for entry in form.attributes
            if entry.name in collective.attributes
        }
        created = ir.Operation.create(
            form.name,
            results=[type],
            operands=[value],
            attributes=attributes,
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        return created.result

    def _returned(self, op: Any, declared: dict[int, Layout]) -> list[Any]:
        for index, layout in declared.items():
            value = op.operands[index]
            returned = self.known.get(value) or Layout(layout.symbol, ((),) * len(layout.dims))
            if returned != layout:
                raise ShardingError(
                    f"result {index} is said to be {layout.text}, and what is returned is {returned.text}",
                    op="func.return",
                    location=line_of(op, self.writing.name),
                    cause="a result's type is that of the value that is returned",
                    remedy="reshard the value before it is returned",
                )
        return [value.type for value in op.operands]


def _moves(name: str, op: Any, mesh: Mesh, source: Layout, target: Layout) -> list[Move]:
    """The sdy op as single moves: an all_to_all may hold several."""
    step, _ = parse_step(op.name, tuple((key, str(value)) for key, value in op.attributes.items()), None, mesh)
    if isinstance(step, AllGather | AllSlice | ReduceScatter):
        return [Move(name, target, _whole(step.axes, mesh))]
    if isinstance(step, AllReduce):
        return [Move(name, target, partial=_whole((step.axes,), mesh)[0])]
    if not isinstance(step, AllToAll):
        return [Move(name, target)]
    moves: list[Move] = []
    dims = list(source.dims)
    for axes, start, end in step.moves:
        moved = _whole((axes,), mesh)[0]
        dims[start] = dims[start][: len(dims[start]) - len(moved)]
        dims[end] = dims[end] + moved
        moves.append(Move(name, Layout(target.symbol, tuple(dims), target.partial), (moved,), between=(start, end)))
    return moves


def _whole(lists: tuple[Axes, ...], mesh: Mesh) -> tuple[tuple[int, ...], ...]:
    """Axes as positions.

    Raises:
        ShardingError: a part of an axis.
    """
    for axis in (axis for axes in lists for axis in axes):
        if not mesh.is_full(axis):
            raise ShardingError(
                "the RFC cannot express parts of a mesh axis",
                cause=f"{axis.name!r}{axis.part} is a part of {mesh!r}",
                remedy="give the mesh an axis for each part",
            )
    return tuple(tuple(axes) for axes in positions(lists, mesh))


def verified(module: Any, name: str) -> None:
    """Check that MLIR takes the types.

    Raises:
        ShardingError: it does not: values that an op wants alike are distributed differently.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = read_location(str(first.location))
        raise ShardingError(
            "the RFC cannot express this explicit program",
            location=f"{name if place.file in ('', '-') else place.file}:{place.line}",
            cause=first.message.partition("\n")[0],
            remedy="let the values that the op wants alike be sharded alike, or write the module as sdy",
        ) from None

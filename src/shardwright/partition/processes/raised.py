"""A program of one device in StableHLO → the same in the collectives and queries of the `shard` dialect.

It is what `lower` takes back:

    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0, replica_groups = …axes = ["y"]…}>
    %1 = shard.all_gather %0 on @mesh grid_axes = [1] gather_axis = 0

Slices by a device's place have been written as `shard.all_slice` already: `localize(…, grid=True)`.

Raised is what goes along whole axes of a grid. A permutation is a `shard.shift` where every device sends as far along
one axis, and what arrives nowhere is not read. All else stays StableHLO: collectives of several tensors, along parts of
axes or among devices in another order, and permutations of other kinds, for which the dialect has no words.

Source: MLIR's `shard` dialect page.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shardwright.axes import Axes
from shardwright.ir.attributes import i16_array
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Graph, Op
from shardwright.ir.opaque import dense_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, symbol_text, unquoted
from shardwright.partition.localize.collectives import dense_groups, replica_groups
from shardwright.partition.localize.renumber import group_axes
from shardwright.partition.processes.groups import shift_pairs

__all__ = ["raised"]

_AXIS = re.compile(rf"axis_ref<name = ({STRING})")
_KINDS = {
    "sum": "sum",
    "max": "max",
    "min": "min",
    "product": "product",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_INDEX, _I32 = TensorType(None, "index"), TensorType(None, "i32")

_Attributes = dict[str, str]


def raised(graph: Graph) -> Graph:
    """A new graph of the program, with ops of the `shard` dialect on the first of its meshes."""
    return _Raiser(graph).run()


class _Raiser(Copier):
    def __init__(self, source: Graph) -> None:
        super().__init__(source)
        self.mesh = source.mesh
        self.grid = {"grid": symbol_text(self.mesh.name)}

    def op(self, op: Op, into: list[Op]) -> None:
        """One op, raised where the dialect has words for it."""
        if op.name == "stablehlo.partition_id" and self.mesh.axes:
            self._position(op, into)
            return
        raise_op = _RAISED.get(op.name)
        made = raise_op(op.signature, self.mesh) if raise_op and self.mesh.axes else None
        if made is None:
            self.copy(op, _listed(op.signature, self.source), into)
            return
        name, attributes = made
        pairs = tuple(sorted({**self.grid, **attributes}.items()))
        self.copy(op, Signature(name, pairs, op.signature.operands, op.signature.results), into)

    def _position(self, op: Op, into: list[Op]) -> None:
        """The position in the grid as the tensor that StableHLO has it in."""
        (type,), scalar = op.signature.results, TensorType((), "i32")
        made = self.emit(
            into,
            Signature("shard.process_linear_index", tuple(self.grid.items()), (), (_INDEX,)),
            (),
            op.location,
        )
        for name, before, after in (
            ("arith.index_castui", _INDEX, _I32),
            ("tensor.from_elements", _I32, scalar),
            ("stablehlo.convert", scalar, type),
        ):
            made = self.emit(into, Signature(name, (), (before,), (after,)), (made,), op.location)
        self.values[op.results[0]] = made


def _listed(signature: Signature, graph: Graph) -> Signature:
    """A collective that stays StableHLO, whose groups are device by device: the module has no sdy mesh to name."""
    axes = group_axes(signature.text("replica_groups") or "", graph)
    return signature if axes is None else signature.replace(replica_groups=dense_groups(axes, graph.mesh, graph.mesh))


def _grid_axes(signature: Signature, mesh: Mesh) -> str | None:
    """The axes of the groups of a collective, by number; none where they are not whole axes of the mesh."""
    text = signature.text("replica_groups") or ""
    names = [unquoted(name) for name in _AXIS.findall(text)]
    axes: Axes = tuple(mesh.axis(name) for name in names if name in mesh.sizes)
    if not axes or replica_groups(axes, mesh, mesh) != text:
        return None
    return i16_array([mesh.order[axis.name] for axis in axes])


def _index(signature: Signature, name: str) -> str:
    return f"{signature.get(name)} : index"


# --- what each collective of StableHLO is; `None` where the dialect has no words for it

_Made = tuple[str, _Attributes] | None


def _all_gather(signature: Signature, mesh: Mesh) -> _Made:
    axes = _grid_axes(signature, mesh)
    if axes is None or len(signature.operands) != 1:
        return None
    return "shard.all_gather", {"grid_axes": axes, "gather_axis": _index(signature, "all_gather_dim")}


def _all_reduce(signature: Signature, mesh: Mesh) -> _Made:
    axes, kind = _grid_axes(signature, mesh), _kind(signature)
    if axes is None or kind is None:
        return None
    return "shard.all_reduce", {"grid_axes": axes, "reduction": kind}


def _reduce_scatter(signature: Signature, mesh: Mesh) -> _Made:
    axes, kind = _grid_axes(signature, mesh), _kind(signature)
    if axes is None or kind is None:
        return None
    dim = _index(signature, "scatter_dimension")
    return "shard.reduce_scatter", {"grid_axes": axes, "reduction": kind, "scatter_dim": dim}


def _all_to_all(signature: Signature, mesh: Mesh) -> _Made:
    axes = _grid_axes(signature, mesh)
    if axes is None or len(signature.operands) != 1:
        return None
    split, concat = _index(signature, "split_dimension"), _index(signature, "concat_dimension")
    return "shard.all_to_all", {"grid_axes": axes, "split_axis": split, "concat_axis": concat}


def _collective_permute(signature: Signature, mesh: Mesh) -> _Made:
    pairs = {tuple(map(int, pair)) for pair in dense_array(signature.text("source_target_pairs") or "")}
    for number, (name, size) in enumerate(mesh.axes):
        for offset in (step for distance in range(1, size) for step in (distance, -distance)):
            for rotate in (False, True):
                if pairs == shift_pairs(mesh, (mesh.axis(name),), offset, rotate):
                    round_the_end = {"rotate": "unit"} if rotate else {}
                    axis = {"grid_axes": i16_array([number]), "shift_axis": f"{number} : index"}
                    return "shard.shift", {**axis, "offset": f"{offset} : i64", **round_the_end}
    return None


def _kind(signature: Signature) -> str | None:
    """How the dialect calls what an op combines by, in the element type of its one operand."""
    kind = signature.bodies[0].reduction if signature.bodies and len(signature.operands) == 1 else None
    return f"#shard<partial {_KINDS[kind]}>" if kind in _KINDS else None


_RAISED: dict[str, Callable[[Signature, Mesh], _Made]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _collective_permute,
}

"""The annotated program for XLA to partition: the reference of a program that one device cannot run."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.analysis.groups import replica_groups, source_target_pairs
from shardwright.boundary import Boundary
from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.channels import tell_channels_apart
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import COLLECTIVES, MANUAL, OWN_COLLECTIVES
from shardwright.ir.signature import Signature
from shardwright.partition.localize.by_hand import is_by_hand, written_by_hand
from shardwright.partition.localize.renumber import over_partitions
from shardwright.runtime.variant import Variant
from shardwright.sharding import TensorSharding, replicated

__all__ = ["annotated", "needs_devices"]

_CONSTRAINT = "sdy.sharding_constraint"
_LEFT_OUT = COLLECTIVES.keys() | {"sdy.data_flow_edge", "sdy.reshard"}


def needs_devices(graph: Graph) -> bool:
    """Whether a program says what devices do: one device cannot run a manual computation."""
    return any(op.name == MANUAL for op in graph.walk())


def annotated(graph: Graph, in_shardings: Sequence[TensorSharding], out_shardings: Sequence[TensorSharding]) -> Graph:
    """The program with what divides of these shardings at its boundary: of an uneven one XLA's partitioner takes it.

    Collectives of the `sdy` dialect are left out, of which XLA's partitioner makes nothing: where shapes are global
    they move data and change none. So are reshards and edges, and calls with shardings are what they call: XLA reads
    none of these as they stand. Collectives of a manual computation's body that are written for its devices stay.

    Raises:
        ShardingError: a layout at the boundary that XLA's partitioner does not know.
    """
    for sharding in (*in_shardings, *out_shardings):
        is_ordered = sharding.mesh.device_ids is None or list(sharding.mesh.device_ids) == list(
            range(sharding.mesh.size)
        )
        if sharding.partial or sharding.halos or sharding.offsets or not is_ordered:
            raise ShardingError(
                "a program with a manual computation cannot be verified with this layout at its boundary",
                op="sdy.manual_computation",
                cause=f"one device cannot run it, and XLA's own partitioner does not take {sharding!r}",
                remedy="leave arguments and results whole or split evenly, on a mesh in the order of its devices",
            )
    made = _Annotated(graph).run()
    tell_channels_apart(made)
    block = made.main.block
    for value, sharding in zip(block.arguments, in_shardings, strict=True):
        made.shardings[value] = sharding.evenly_dividing(made.types[value].dims)
    types = [made.types[value].dims for value in block.terminator.operands]
    made.main.result_shardings = [one.evenly_dividing(dims) for one, dims in zip(out_shardings, types, strict=True)]
    return made


class _Annotated(Variant):
    """A copy without collectives that only say where data lies."""

    _manual: tuple[str, ...] = ()

    def value(self, value: int) -> int:
        made = super().value(value)
        sharding = self.target.shardings[made]
        if sharding is not None and sharding.partial:
            self.target.shardings[made] = None
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        if op.name in _LEFT_OUT or (op.name in OWN_COLLECTIVES and _is_alone(op.signature, self.source)):
            self.pass_on(op)
        elif op.name == "sdy.named_computation":
            self.inline(op, into)
        elif is_by_hand(op.signature):
            self._by_hand(op, into)
        elif op.name == MANUAL:
            self._constrain(op, into)
            around, self._manual = self._manual, (*self._manual, *op.signature.boundary.manual_axes)
            super().op(op, into)
            self._manual = around
        elif op.name == "stablehlo.partition_id":
            self._number(op, into)
        else:
            super().op(op, into)

    def _by_hand(self, op: Op, into: list[Op]) -> None:
        """A collective that XLA does not do, in others."""
        signature, builder = op.signature, Builder(self.target, into, op.location)
        operands = [self.values[value] for value in op.operands]
        made = written_by_hand(builder, signature, operands, lambda: signature.text("channel_handle") or "")
        self.values.update(zip(op.results, made, strict=True))

    def _number(self, op: Op, into: list[Op]) -> None:
        """The number of a device, which XLA's partitioner knows only where all axes are manual."""
        mesh = self.source.mesh
        free = tuple([name for name, _ in mesh.axes if name not in self._manual])
        if not free:
            super().op(op, into)
            return
        types = op.signature.results
        inside = tuple(map(self.target.new_value, types))
        number = Op(op.signature, (), inside, (), op.location)
        end = Op(Signature("sdy.return", (), types, ()), inside, (), (), op.location)
        outer = Signature(MANUAL, (), (), types, boundary=Boundary((), (replicated(mesh, 0),), free))
        results = tuple(map(self.value, op.results))
        into.append(Op(outer, (), results, (Block((), [number, end]),), op.location))

    def _constrain(self, op: Op, into: list[Op]) -> None:
        """Say before a manual computation which of its operands await sums, or sdy from jaxlib 0.11 on refuses it."""
        boundary = op.signature.boundary
        for value, sharding in zip(op.operands, boundary.in_shardings or (), strict=True):
            if sharding.partial:
                type = self.source.types[value]
                made = self.target.new_value(type, sharding)
                constraint = Signature(_CONSTRAINT, (), (type,), (type,))
                into.append(Op(constraint, (self.values[value],), (made,), (), op.location))
                self.values[value] = made


def _is_alone(signature: Signature, graph: Graph) -> bool:
    """Whether each device hears from itself alone, which XLA's partitioner takes for a collective outside of a body."""
    if not over_partitions(signature):
        return False
    is_permute = signature.name == "stablehlo.collective_permute"
    devices = graph.mesh.listed
    rows = source_target_pairs(signature) if is_permute else replica_groups(signature, graph.meshes, devices).rows
    return sorted([sorted(set(row)) for row in rows]) == [[device] for device in range(devices)]

"""Arguments that every device takes whole, where they are not there in parts yet: it slices its own part out of each.

Document 003 has both results of a partition. Of

    func.func @main(%a: tensor<8xf32> [{"x"}])

over two devices a device takes 4 elements, or all 8, and then reads

    %0 = sdy.all_slice [{"x"}] %a       global shapes
    %0 = stablehlo.dynamic_slice %a …   local shapes: 4 elements from where its partition id says

What is computed and sent from there on is the same. Contributions of several devices to an argument stay what they are:
no device has the whole of it.
"""

from __future__ import annotations

from shardwright.axes import axes_size
from shardwright.extents import filled_shape
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.types import TensorType
from shardwright.partition.emit import collective
from shardwright.partition.localize.local import identity_value
from shardwright.partition.localize.uneven import enters
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import AllSlice

__all__ = ["with_whole_arguments"]

_DONATION = frozenset({"jax.buffer_donor", "tf.aliasing_output"})


def with_whole_arguments(graph: Graph) -> Graph:
    """An explicit program whose arguments are whole on every device. The graph given is left as it is.

    An argument that was split is donated no more, since no result has its size.
    """
    return _Slicer(graph).run()


class _Slicer(Copier):
    def __init__(self, source: Graph) -> None:
        super().__init__(source)
        self.read = {value for op in source.walk() for value in op.operands}
        self.uneven: dict[int, TensorSharding] = {}

    def entry(self, block: Block) -> Block:
        """The block, whose arguments are sliced first."""
        main = self.target.main
        main.argument_attributes = [
            self._attributes(value, row) for value, row in zip(block.arguments, main.argument_attributes, strict=True)
        ]
        places = main.argument_locations or [0] * len(block.arguments)
        builder = Builder(self.target, [])
        arguments: list[int] = []
        for value, builder.location in zip(block.arguments, places, strict=True):
            arguments.append(self._argument(value, builder))
        for op in block.ops[:-1]:
            self.op(op, builder.ops)
        builder.location = block.terminator.location
        for value in self.uneven.keys() & set(block.terminator.operands):
            self.values[value] = self._split_unevenly(value, builder)
        self.op(block.terminator, builder.ops)
        return Block(tuple(arguments), builder.ops)

    def op(self, op: Op, into: list[Op]) -> None:
        """An op; of one that pads an uneven argument the result is sliced, since the argument cannot be."""
        super().op(op, into)
        layouts = [[self.source.shardings[value] for value in values] for values in (op.operands, op.results)]
        if op.operands and op.operands[0] in self.uneven and enters(op.signature, *layouts):
            (value,) = op.results
            self.target.shardings[self.values[value]] = _whole(self.uneven[op.operands[0]])
            self.values[value] = self._sliced(value, Builder(self.target, into, op.location))

    def _argument(self, value: int, builder: Builder) -> int:
        """A new argument, of which a part stands for the one of the source, where that is one and is read."""
        layout, type = self.source.shardings[value], self.source.types[value]
        made = self.value(value)
        if layout is None or not _is_split(layout):
            return made
        self.target.shardings[made] = _whole(layout)
        if not layout.divides(type.dims):
            self.uneven[value] = layout
        elif value in self.read:
            self.values[value] = self._sliced(value, builder)
        return made

    def _sliced(self, value: int, builder: Builder) -> int:
        """The part that each device has of what stands for a value of the source."""
        return self._part(self.values[value], self.source.shardings[value], builder)

    def _part(self, number: int, layout: TensorSharding | None, builder: Builder) -> int:
        assert layout is not None, "a tensor of an explicit program has a layout"
        step = AllSlice(layout.axes)
        return builder.append(collective(step, builder.type(number)), (number,), (layout,))[0]

    def _split_unevenly(self, value: int, builder: Builder) -> int:
        """An uneven argument that is returned as it is: padded, sliced, and cut with all shards as they are."""
        layout, whole, type = self.uneven[value], self.values[value], self.source.types[value]
        shape = filled_shape(layout, type.dims)
        none, scalar = i64_array([0] * type.rank), TensorType((), type.dtype)
        zero = builder.constant(identity_value("sum", type.dtype), scalar)
        self.target.shardings[zero] = replicated(layout.mesh, 0)
        high = i64_array([new - old for new, old in zip(shape, type.dims, strict=True)])
        attributes = {"edge_padding_low": none, "edge_padding_high": high, "interior_padding": none}
        wider = type.with_shape(shape)
        padded = builder.emit("pad", (whole, zero), wider, attributes, sharding=_whole(layout))
        part = self._part(padded, layout, builder)
        ends = {"start_indices": none, "limit_indices": i64_array(type.dims), "strides": i64_array([1] * type.rank)}
        return builder.emit("slice", (part,), type, ends, sharding=layout)

    def _attributes(self, value: int, row: dict[str, str]) -> dict[str, str]:
        layout = self.source.shardings[value]
        if layout is None or not _is_split(layout):
            return row
        return {name: text for name, text in row.items() if name not in _DONATION}


def _is_split(layout: TensorSharding) -> bool:
    return any(axes_size(axes) > 1 for axes in layout.axes)


def _whole(layout: TensorSharding) -> TensorSharding:
    """The layout in which every device has all that a device has a part of."""
    return layout.with_axes([()] * layout.rank, layout.partial)

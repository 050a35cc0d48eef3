"""A propagated program whose dimensions do not all divide by their shards → one whose dimensions do, padded.

    %0 = add (%a, %b)     tensor<7xf32> [{"x"}]     over x=4
    %0 = add (%a, %b)     tensor<8xf32> [{"x"}]     two elements on each device

Of the last two elements one is padding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.axes import overlaps_any
from shardwright.extents import filled_shape
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.bodies import copied_body, unknown_regions
from shardwright.partition.localize.uneven import OPEN, enters, leaves
from shardwright.partition.padding.boundary import is_kept_uneven
from shardwright.partition.padding.elsewhere import split_elsewhere
from shardwright.partition.padding.kernels import by_windows, padded_kernels, resized_kernels, seen_by_kernels
from shardwright.partition.padding.ops import Seen, index_limits, minor_size, paddable, resized, seen_padding
from shardwright.partition.padding.shifts import shifted
from shardwright.partition.padding.sizes import has_uneven, padded_shapes
from shardwright.partition.padding.versions import Versions
from shardwright.partition.padding.windows import padded_windows, resized_windows, seen_by_windows
from shardwright.rules.facts import names
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding

__all__ = ["Padded", "pad_uneven"]

Shape = tuple[int, ...]

_BRANCHES = frozenset(names("stablehlo", "case if"))

_CARRYING = _BRANCHES | frozenset(names("stablehlo", "optimization_barrier while"))
"""Ops that hand values on to what their regions hold, and out of it."""

_KEEP_ZEROS = frozenset(names("stablehlo", "convert negate reshape transpose"))
"""Ops of one operand that make zeros of zeros."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A padded program.

    Attributes:
        graph: The program.
        resizes: Its ops that pad and cut, and bring uneven results where they shall lie. One that cuts padding off for
            an op that cannot be computed on padded dimensions has the name of that op, one that brings a result that of
            the return; all others have none.
        is_even: Whether the shardings of all values divided these before.
    """

    graph: Graph
    resizes: Mapping[Op, str]
    is_even: bool = False


def pad_uneven(graph: Graph) -> Padded:
    """A propagated program with its uneven dimensions padded. The graph given is left as it is, and given back where
    nothing is padded: where all dimensions divide, or padding them would leave devices with no less to hold.

    Arguments and results keep their shapes. One whose sharding does not divide it is padded by an op that leaves every
    shard as it is, and is cut so: see `localize.uneven`. Ops that cannot be computed on padded dimensions are computed
    on their own.

    Raises:
        ShardingError: an op with regions of no known meaning; the program has no mesh.
    """
    is_even = not has_uneven(graph)
    shapes = {} if is_even else padded_shapes(graph)
    main = graph.main
    outside = [(graph.shardings[value], value) for value in main.block.arguments]
    outside += zip(main.result_shardings, main.block.terminator.operands, strict=True)
    kept = any(sharding is not None and is_kept_uneven(sharding, graph.types[value]) for sharding, value in outside)
    return _Padder(graph, shapes).run() if shapes or kept else Padded(graph, {}, is_even)


class _Padder:
    def __init__(self, graph: Graph, shapes: dict[int, Shape]) -> None:
        self.source = graph
        self.shapes = shapes
        self.target = graph.skeleton()
        self.builder = Builder(self.target, [])
        self.versions = Versions(graph, self.builder)
        self.kept: dict[int, int] = {}
        self.entering: list[Op] = []
        self.left: dict[tuple[int, TensorSharding], int] = {}
        inner = (op for op in graph.walk() if op is not graph.main.block.terminator)
        self.read = {value for op in inner if not enters(*self._layouts(op)) for value in op.operands}

    def run(self) -> Padded:
        """The padded program."""
        source, main = self.source, self.target.main
        block = source.main.block
        places = main.argument_locations or [0] * len(block.arguments)
        arguments = tuple(map(self._argument, block.arguments, places))
        self._ops(block.ops[:-1])
        last = block.terminator
        self.builder.location = last.location
        pairs = zip(last.operands, main.result_shardings, strict=True)
        self._end(last, [self._returned(value, stated) for value, stated in pairs])
        main.block = Block(arguments, self.builder.ops)
        for pad in self.entering:
            if pad.results[0] not in self.versions.relied:
                attributes: dict[str, Any] = {OPEN: "unit"}
                pad.signature = pad.signature.replace(**attributes)
        return Padded(self.target, self.versions.resizes)

    # --- arguments and results

    def _argument(self, value: int, place: int) -> int:
        """An argument in its own shape; one that lies unevenly is padded, its shards as they are, once for all."""
        type, sharding = self.source.types[value], self.source.shardings[value]
        number = self.target.new_value(type, sharding)
        self.versions.define(value, number)
        if sharding is not None and is_kept_uneven(sharding, type):
            self.kept[value] = number
            if value not in self.read:
                return number
            self.builder.location = place
            self.versions.define(value, self.versions.read(value, filled_shape(sharding, type.dims)))
            self.entering.append(self.builder.ops[-1])
        return number

    def _returned(self, value: int, stated: TensorSharding | None) -> int:
        """A result in its own shape; one that is to lie unevenly is cut from its padded shape by shards as they are."""
        type, own = self.source.types[value], self.source.shardings[value]
        sharding = stated or own
        if sharding is None or not is_kept_uneven(sharding, type):
            return self.versions.read(value, type.dims)
        if value in self.kept and own is not None and own.closed() == sharding.closed():
            return self.kept[value]
        number, sharding = self.versions.read(value, filled_shape(sharding, type.dims)), sharding.closed()
        key = number, sharding
        if key in self.left:
            return self.left[key]
        if own is None or own.closed() != sharding:
            wider = self.builder.type(number)
            (number,) = self.builder.append(Signature("sdy.reshard", (), (wider,), (wider,)), (number,), (sharding,))
            self.versions.resizes[self.builder.ops[-1]] = "func.return"
        self.left[key] = self.versions.cut(number, type.dims, sharding)
        return self.left[key]

    # --- ops

    def _ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.builder.location = op.location
            if op.name == "sdy.named_computation":
                self._inline(op)
            elif op.name == "sdy.manual_computation":
                self._manual(op)
            elif op.name in _CARRYING:
                self._carry(op)
            elif op.regions:
                raise unknown_regions(self.source, op)
            elif op.name != "sdy.sharding_group":  # it has told propagation all that it tells
                self._op(op)

    def _layouts(self, op: Op) -> tuple[Signature, list[TensorSharding | None], list[TensorSharding | None]]:
        """An op, and how its operands and results lie."""
        shardings = self.source.shardings
        return op.signature, [shardings[value] for value in op.operands], [shardings[value] for value in op.results]

    def _op(self, op: Op) -> None:
        signature = op.signature
        if op.operands and op.operands[0] in self.kept and enters(*self._layouts(op)):
            self._write(op, signature, [self.kept[op.operands[0]], self.versions.read(op.operands[1], ())])
            return
        if leaves(*self._layouts(op)):
            self.versions.define(op.results[0], self.versions.read(op.operands[0], signature.operands[0].dims))
            return
        is_splat = op.name == "stablehlo.broadcast_in_dim" and not signature.operands[0].rank
        if is_splat or facts_of(op.name).constant:
            self.versions.define_by(op.results[0], signature, op.operands)
            return
        moved = shifted(op, self.source, self.shapes, self.versions)
        if moved is not None:
            self.versions.define(op.results[0], moved)
            return
        self._padded_op(op, paddable(signature))

    def _padded_op(self, op: Op, known: tuple[ShardingRule, frozenset[int]] | None) -> None:
        """An op in the sizes to which its factors, and dimensions that its windows slide along, are padded."""
        signature, graph = op.signature, self.source
        sizes = self._sizes(op, *known) if known is not None else {}
        windows, kernels = padded_windows(op, graph, self.shapes), padded_kernels(op, graph, self.shapes)
        sizes_along = (*(one.sizes for one in windows), *(one.sizes for one in kernels))
        slid = frozenset((tensor, dim) for of in sizes_along for tensor, dim, _ in of)
        elsewhere = None
        self.versions.reader = "" if self._can_be_padded(op, known, slid) else signature.label
        if self.versions.reader and not slid:
            elsewhere = split_elsewhere(op, graph, self.shapes, sizes)
            sizes |= elsewhere.padded if elsewhere is not None else {}
        factors = frozenset(sizes)
        made = resized_kernels(resized_windows(resized(signature, sizes), windows), kernels)
        seen = (*seen_padding(signature, factors), *seen_by_windows(signature, windows))
        seen += tuple(seen_by_kernels(signature, kernels))
        operands = self._operands(op, made, factors, seen, elsewhere.operands if elsewhere else ())
        self.versions.reader = ""
        if kernels:
            lying = graph.shardings[op.results[0]]
            assert lying is not None, "without a layout of the result no kernel is padded"
            self.versions.define(op.results[0], by_windows(self.versions, made, kernels, operands, lying))
            return
        results = self._write(op, made, operands, shardings=elsewhere.results if elsewhere else ())
        if known is not None and sizes and op.name in _KEEP_ZEROS:
            (source,), (target,) = known[0].operands, known[0].results
            zeros = {source[dim][:1] for dim in self.versions.zeros(operands[0])}
            along = frozenset(dim for dim, of in enumerate(target) if of[:1] in zeros)
            self.versions.set_zeros(results[0], along, operands[0])

    def _operands(
        self,
        op: Op,
        padded: Signature,
        factors: frozenset[int],
        seen: Iterable[Seen],
        lying: Sequence[TensorSharding | None],
    ) -> list[int]:
        """The operands of an op that is padded along some factors, masked where it would see padding; those made for it
        `lying` so, if that is given.
        """
        wanted = zip(op.operands, padded.operands, lying or (None,) * len(op.operands), strict=True)
        operands = [self.versions.read(value, of.dims, sharding) for value, of, sharding in wanted]
        for one in seen:
            initial = None if one.initial is None else operands[one.initial]
            value = op.operands[one.operand]
            operands[one.operand] = self.versions.masked(operands[one.operand], one, value, initial)
        for number, vector, limits in index_limits(op.signature, factors):
            operands[number] = self.versions.limited(operands[number], vector, limits)
        return operands

    def _sizes(self, op: Op, rule: ShardingRule, factors: frozenset[int]) -> dict[int, int]:
        """The sizes of the factors along which some tensor of an op is padded.

        An operand of a product alone does not ask for it where its axes are taken: it is gathered then.
        """
        sizes = dict(self._padded(op.results, rule.results, rule, factors))
        if not facts_of(op.name).product:
            return dict(self._padded(op.operands, rule.operands, rule, factors)) | sizes
        taken = [axis for value in op.results if (own := self.source.shardings[value]) for axis in own.used_axes]
        for number, mapping in enumerate(rule.operands):
            value = op.operands[number]
            for factor, size in self._padded((value,), (mapping,), rule, factors):
                sharding = self.source.shardings[value]
                axes = sharding.axes[mapping.index((factor,))] if sharding is not None else ()
                if factor in rule.reduction or not any(overlaps_any(axis, taken) for axis in axes):
                    sizes.setdefault(factor, size)
        return sizes

    def _can_be_padded(
        self, op: Op, known: tuple[ShardingRule, frozenset[int]] | None, slid: Collection[tuple[int, int]]
    ) -> bool:
        """Whether an op can be computed on all padded dimensions of its operands, as it can those `slid` along."""
        for number, value in enumerate(op.operands):
            padded = zip(self.shapes.get(value, ()), op.signature.operands[number].dims, strict=value in self.shapes)
            dims = [(dim, size) for dim, (size, own) in enumerate(padded) if size != own and (number, dim) not in slid]
            if known is None:
                if dims:
                    return False
                continue
            rule, factors = known
            for dim, size in dims:
                of = rule.operands[number][dim]
                if of and (of[0] not in factors or size % minor_size(rule, of)):
                    return False
        return True

    def _padded(
        self, values: Sequence[int], mappings: Sequence[TensorMapping], rule: ShardingRule, factors: frozenset[int]
    ) -> Iterator[tuple[int, int]]:
        """The factors along which some of these tensors of an op are padded, and to what."""
        for value, mapping in zip(values, mappings, strict=True):
            for size, of in zip(self.shapes.get(value, ()), mapping, strict=value in self.shapes):
                if of and of[0] in factors:
                    count, left = divmod(size, minor_size(rule, of))
                    if not left and count != rule.sizes[of[0]]:
                        yield of[0], count

    def _write(
        self,
        op: Op,
        signature: Signature,
        operands: Sequence[int],
        regions: tuple[Block, ...] = (),
        shardings: Sequence[TensorSharding | None] = (),
    ) -> tuple[int, ...]:
        """An op, whose results take the place of its results in the source, and lie as these unless it is said."""
        shardings = shardings or [self.source.shardings[value] for value in op.results]
        made = self.builder.append(signature, operands, shardings, regions)
        for value, number in zip(op.results, made, strict=True):
            self.versions.define(value, number)
        return made

    def _end(self, op: Op, operands: Sequence[int]) -> None:
        """A terminator, which yields these values."""
        self.builder.location = op.location
        self.builder.append(op.signature.replace(operands=tuple(map(self.builder.type, operands))), operands)

    # --- ops that hold programs

    def _manual(self, op: Op) -> None:
        """What is written for one device takes the shards that it says, of tensors as they are."""
        operands = [self.versions.read(value, self.source.types[value].dims) for value in op.operands]
        self._write(op, op.signature, operands, (copied_body(self.source, self.target, op.regions[0]),))

    def _carry(self, op: Op) -> None:
        """A loop, a case or a barrier: what goes in, is taken and yielded by regions, and comes out has one shape."""
        shapes = [self.shapes.get(value, self.source.types[value].dims) for value in op.results]
        chooses = op.name in _BRANCHES
        taken = [()] if chooses else shapes
        operands = [self.versions.read(value, shape) for value, shape in zip(op.operands, taken, strict=True)]
        yields = [shapes] * len(op.regions)
        if op.name == "stablehlo.while":
            yields[0] = [()]  # of its condition
        inward = [] if chooses else shapes
        regions = tuple([self._region(block, inward, out) for block, out in zip(op.regions, yields, strict=True)])
        self.builder.location = op.location
        types = map(_shaped, op.signature.results, shapes)
        signature = op.signature.replace(operands=tuple(map(self.builder.type, operands)), results=tuple(types))
        self._write(op, signature, operands, regions)

    def _region(self, block: Block, taken: Sequence[Shape], yielded: Sequence[Shape]) -> Block:
        """A region that takes values of these shapes and yields values of those."""
        outer, self.builder.ops = self.builder.ops, []
        arguments: list[int] = []
        for value, shape in zip(block.arguments, taken, strict=True):
            type = _shaped(self.source.types[value], shape)
            arguments.append(self.target.new_value(type, self.source.shardings[value]))
            self.versions.define(value, arguments[-1])
        with self.versions.scope.region():
            self._ops(block.ops[:-1])
            last = block.terminator
            self.builder.location = last.location
            self._end(last, [self.versions.read(*pair) for pair in zip(last.operands, yielded, strict=True)])
        made, self.builder.ops = Block(tuple(arguments), self.builder.ops), outer
        return made

    def _inline(self, op: Op) -> None:
        """A named computation is its body."""
        (block,) = op.regions
        for argument, operand in zip(block.arguments, op.operands, strict=True):
            self.versions.alias(argument, operand)
        self._ops(block.ops[:-1])
        for result, value in zip(op.results, block.terminator.operands, strict=True):
            self.versions.alias(result, value)


def _shaped(type: TensorType, shape: Shape) -> TensorType:
    """A tensor's type in a shape; what is not a tensor stays as it is."""
    return type.with_shape(shape) if type.is_tensor else type

"""Ops that read a padded dimension in its own size, as a sort along it does: its axes split another one meanwhile.

    sort along dimension 0     tensor<130x7xf32> [{"x"}, {}]     over x=4, padded to 132x7

    grown to 132x8  [{}, {"x"}]    another dimension takes the axes, padded if it does not divide: an all_to_all
    cut to 130x8    [{}, {"x"}]    and rows are cut where they are whole
    sorted, grown to 132x8 [{"x"}, {}] and cut to 132x7 again

Else a dimension is gathered where its padding is cut off, and the op is computed whole by every device. So it is, too,
where tensors without that dimension would lie otherwise and that takes longer: a kernel of three rows is small beside
the image.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, axes_size, merge_axes, overlaps_any
from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.graph import Graph, Op
from shardwright.ir.types import TensorType
from shardwright.partition.padding.ops import paddable
from shardwright.partition.padding.sizes import next_multiple
from shardwright.partition.splits import Splits, splits_of
from shardwright.reshard.plan import plan
from shardwright.rules.rule import ShardingRule, TensorMapping, factors_in
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Elsewhere", "split_elsewhere"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How an op is split whose padded dimensions it reads in their own sizes.

    Attributes:
        factor: The factor that takes the axes of these.
        own: Its size.
        size: What that becomes.
        operands: How each operand lies then.
        results: How each result does.
    """

    factor: int
    own: int
    size: int
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]

    @property
    def padded(self) -> dict[int, int]:
        """The factor with what its size becomes, where that is another."""
        return {self.factor: self.size} if self.size != self.own else {}


def split_elsewhere(op: Op, graph: Graph, shapes: Mapping[int, Shape], sizes: Mapping[int, int]) -> Elsewhere | None:
    """How an op that cannot be computed on some padded dimensions is split along another one.

    Arguments:
        op: The op.
        graph: The program that it is in.
        shapes: The shapes of values that are padded.
        sizes: Factors of its rule along which it is padded, with their sizes.

    Returns:
        The split; `None` where no factor can take the axes, or half of what it would become is padding.
    """
    splits, values = splits_of(op.signature), (*op.operands, *op.results)
    types = [graph.types[value] for value in values]
    lying = [None if one is None or not one.mesh.axes else one for one in map(graph.shardings.__getitem__, values)]
    if splits is None or not all(type.elements for type in types):
        return None
    if any(one is not None and one.partial for one in lying) or _is_on_one_device(op, graph):
        return None
    rule, known = splits.rule, paddable(op.signature)
    factors: frozenset[int] = known[1] if known is not None else frozenset()
    mappings = (*rule.operands, *rule.results)
    lost: dict[int, Axes] = {}
    for number, (value, mapping) in enumerate(zip(values, mappings, strict=True)):
        if number == len(op.operands) and not lost:
            return None
        lost |= _lost(shapes.get(value, types[number].dims), types[number].dims, lying[number], mapping, factors)
        if number < len(op.operands) and any(len(of) > 1 and not lost.keys().isdisjoint(of) for of in mapping):
            return None  # windows, or what is reshaped: a part of the dimension's axes may stay where it is
    mesh = next(one.mesh for one in lying if one is not None)
    whole = [one or replicated(mesh, type.rank) for one, type in zip(lying, types, strict=True)]
    concerned = [mapping for mapping in mappings if not factors_in(mapping).isdisjoint(lost)]
    found: list[Elsewhere] = []
    for factor in sorted((splits.allowed & rule.pass_through).difference(splits.exchanged, lost)):
        if all((factor,) in mapping for mapping in concerned):
            made = _taken_by(whole, rule, factor, lost, sizes.get(factor, rule.sizes[factor]))
            if made is not None and (factor in factors or made.size == made.own):
                found.append(made)
    best = min(found, key=lambda one: one.size / one.own, default=None)
    if best is None:
        return None
    padded = [
        _padded(type, shapes.get(value), of, best) for type, value, of in zip(types, values, mappings, strict=True)
    ]
    return best if _pays(splits, padded, whole, best, lost.keys()) else None


def _padded(type: TensorType, shape: Shape | None, mapping: TensorMapping, elsewhere: Elsewhere) -> TensorType:
    """A tensor as large as it is where it lies, and where the op takes it."""
    sizes = zip(mapping, shape or type.dims, strict=True)
    return type.with_shape(tuple([elsewhere.size if of == (elsewhere.factor,) else size for of, size in sizes]))


def _pays(
    splits: Splits,
    types: Sequence[TensorType],
    lying: Sequence[TensorSharding],
    elsewhere: Elsewhere,
    lost: Collection[int],
) -> bool:
    """Whether a split takes less time than whole lost dimensions do, where others lie otherwise for it.

    Arguments:
        splits: How the op can be split.
        types: Its tensors as they are padded.
        lying: How they lie.
        elsewhere: The split.
        lost: The factors that are to be in their own sizes.
    """
    mappings, count = (*splits.rule.operands, *splits.rule.results), len(elsewhere.operands)
    split = (*elsewhere.operands, *elsewhere.results)
    others = [number for number, mapping in enumerate(mappings) if factors_in(mapping).isdisjoint(lost)]
    if all(split[number] == lying[number] for number in others):
        return True
    gathered = [
        one.with_axes(
            [own if factors_in((of,)).isdisjoint(lost) else () for of, own in zip(dims, one.axes, strict=True)]
        )
        for one, dims in zip(lying, mappings, strict=True)
    ]
    hardware = current_hardware()

    def seconds(layouts: Sequence[TensorSharding]) -> float:
        along = [
            next(filter(None, (_along(factor, *one) for one in zip(layouts, mappings, strict=True))), ())
            for factor in range(len(splits.rule.sizes))
        ]
        total = splits.work(list(map(axes_size, along)), hardware)
        for number, (type, outside, inside) in enumerate(zip(types, lying, layouts, strict=True)):
            before, after = (outside, inside) if number < count else (inside, outside)
            element_bytes = type.bytes // max(1, type.elements)
            total += plan(type.dims, element_bytes, before, after, hardware, dtype=type.dtype).cost
        return price(total, hardware)

    return seconds(split) <= seconds(gathered)


def _is_on_one_device(op: Op, graph: Graph) -> bool:
    """Whether a tensor of an op lies on a single device: its sharding has no dimensions."""
    shardings = map(graph.shardings.__getitem__, (*op.operands, *op.results))
    return any(one is not None and one.mesh.is_maximal for one in shardings)


def _lost(
    padded: Shape, own: Shape, sharding: TensorSharding | None, mapping: TensorMapping, factors: frozenset[int]
) -> dict[int, Axes]:
    """The factors of padded dimensions of a tensor that are to be in their own sizes, with their axes.

    Arguments:
        padded: The shape that it is padded to.
        own: Its own shape.
        sharding: How it lies.
        mapping: Its factors.
        factors: Those along which the op can be padded.
    """
    if sharding is None or not mapping:
        return {}
    dims = [dim for dim, of in enumerate(mapping) if padded[dim] != own[dim] and of and of[0] not in factors]
    return {factor: sharding.axes[dim] for dim in dims for factor in mapping[dim]}


def _taken_by(
    lying: Sequence[TensorSharding], rule: ShardingRule, factor: int, lost: Mapping[int, Axes], size: int
) -> Elsewhere | None:
    """The split of which a factor, of some size, takes the axes of others; `None` where others have these."""
    mappings = (*rule.operands, *rule.results)
    held = (_along(factor, *one) for one in zip(lying, mappings, strict=True))
    kept = next(filter(None, held), ())
    taken = merge_axes(kept + tuple(axis for axes in dict.fromkeys(lost.values()) for axis in axes))
    if any(overlaps_any(axis, taken[:number]) for number, axis in enumerate(taken)):
        return None
    wider = next_multiple(size, axes_size(taken))
    if wider >= 2 * rule.sizes[factor]:
        return None
    made = [_lies(*one, factor, taken, lost.keys()) for one in zip(lying, mappings, strict=True)]
    possible = tuple([one for one in made if one is not None])
    if len(possible) < len(made):
        return None
    count = len(rule.operands)
    return Elsewhere(factor, rule.sizes[factor], wider, possible[:count], possible[count:])


def _lies(
    sharding: TensorSharding, mapping: TensorMapping, factor: int, taken: Axes, lost: Collection[int]
) -> TensorSharding | None:
    """How a tensor lies whose axes of lost factors are taken by another; `None` where it has these elsewhere."""
    axes = [
        taken if of == (factor,) else () if not factors_in((of,)).isdisjoint(lost) else own
        for of, own in zip(mapping, sharding.axes, strict=True)
    ]
    others = [axis for of, own in zip(mapping, axes, strict=True) if of != (factor,) for axis in own]
    return (
        None if (factor,) in mapping and any(overlaps_any(axis, others) for axis in taken) else sharding.with_axes(axes)
    )


def _along(factor: int, sharding: TensorSharding, mapping: TensorMapping) -> Axes:
    """The axes that a tensor has along a factor."""
    return next((own for of, own in zip(mapping, sharding.axes, strict=True) if of == (factor,)), ())

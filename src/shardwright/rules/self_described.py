"""Rules of ops that describe themselves by loops: `indexing_maps` and `iterator_types`, as `linalg.generic` does.

    "my.matmul"(%a, %b) {iterator_types = ["parallel", "parallel", "reduction"], indexing_maps = [
      affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>]}

Every loop is a factor. Maps of results are projected permutations; a dimension of an operand may be
`c0 * d0 + c1 * d1 + …`. Such a sum reaches into neighbouring shards when the first loop of it that a result has is
split, so that loop is a permutation factor, and its other loops are whole. `d0 * 2` over all of a dimension is local.
A loop that runs over two dimensions of one tensor, a diagonal, is whole.

Named ops of `linalg` have maps alone: loops that results have are parallel then, others are reductions.

A loop whose step the op's body asks for, by `linalg.index`, is whole.

Where `operandSegmentSizes` tells `outs` from other operands, as in `linalg`, the maps are those of the operands, and
results have those of `outs`. What is summed is added to `outs`, by each part anew: loops that sum are whole.

| iterator type | factor |
| --- | --- |
| `parallel` | pass-through |
| `reduction`, `reduction_sum` | reduction: parts are summed |
| `window`, `invalid`, any other reduction | whole |

Sources: the mesh RFC on LLVM's forum, ShardingInterface; MLIR's `linalg` dialect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from shardwright.ir.ops import INDEXING_MAPS
from shardwright.ir.signature import Body, Signature
from shardwright.rules.rule import ShardingRule, TensorMapping

__all__ = ["interface_rule"]

_MAP = re.compile(r"affine_map<\s*\(([^()]*)\)\s*(?:\[[^\]]*\]\s*)?->\s*\(((?:[^()>]|\([^()]*\)|(?<=-)>)*)\)\s*>")
_SUM = re.compile(r"\s*([+-])\s*")
_TERM = re.compile(r"(?:(-?\d+)\s*\*\s*)?(\w+?)(?:\s*\*\s*(-?\d+))?")
_ITERATOR = re.compile(r'"(\w+)"|#\w+\.iterator_type<(\w+)>|#\w+<iterator_type\s+(\w+)>')
_SEGMENTS = re.compile(r"array<i32: (\d+), (\d+)>")
_SUMMED = frozenset({"reduction", "reduction_sum"})

_CONSTANT = -1

_Sum = tuple[tuple[int, int], ...]
"""`(loop, its coefficient)` pairs, `_CONSTANT` for a loop where a constant is added."""


@dataclass(slots=True)
class _Loops:
    """What is known of the loops.

    Attributes:
        kinds: Iterator types.
        sizes: Sizes, in elements, as far as they follow from the types.
        shifted: Loops that need data of neighbouring shards.
        whole: Loops that must not be split.
    """

    kinds: list[str]
    sizes: dict[int, int] = field(default_factory=dict)
    shifted: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)


def interface_rule(signature: Signature) -> ShardingRule | None:
    """The rule of an op that describes itself; `None` where its maps are not of the form above, or do not fit it."""
    described = signature.text(INDEXING_MAPS)
    if described is None:
        return None
    stated = signature.text("iterator_types")
    kinds = [next(filter(None, groups)) for groups in _ITERATOR.findall(stated)] if stated is not None else None
    count = len(kinds) if kinds is not None else _count_loops(described)
    maps = _maps(described, count)
    types = (*signature.operands, *signature.results)
    outs = _count_outs(signature)
    if maps is not None and len(maps) == len(signature.operands):
        maps = [*maps, *maps[len(maps) - outs :]]
    if maps is None or len(maps) != len(types):
        return None
    if any(len(map) != type.rank for map, type in zip(maps, types, strict=True)):
        return None
    results = maps[len(signature.operands) :]
    if not all(_is_projected_permutation(map) for map in results):
        return None
    returned = {loop for map in results for sum in map if sum for loop, _ in sum}
    loops = _Loops(kinds or ["parallel" if loop in returned else "reduction" for loop in range(count)])
    if not _find_sizes(loops, maps, [type.dims for type in types]):
        return None
    if outs:
        loops.whole.update(set(range(count)) - returned)
    loops.whole.update(_asked_for(signature.bodies, count))
    for map, type in zip(maps, signature.operands, strict=False):
        _classify_all(loops, map, type.dims, returned)
    return _rule(loops, maps, [type.dims for type in types], len(signature.operands), returned)


def _count_loops(text: str) -> int:
    """Over how many loops the first of some maps is."""
    first = _MAP.search(text)
    return len([name for name in first[1].split(",") if name.strip()]) if first else 0


def _asked_for(bodies: Sequence[Body], count: int) -> Iterator[int]:
    """Loops whose step a body asks for: on a shard it would be another."""
    for op in (op for body in bodies for op in body.ops):
        if op.name == "linalg.index":
            number = re.match(r"\d+", dict(op.attributes).get("dim", ""))
            yield from [int(number[0])] if number else range(count)
        yield from _asked_for(op.bodies, count)


def _count_outs(signature: Signature) -> int:
    """How many of the last operands are what the results begin with."""
    segments = _SEGMENTS.fullmatch(signature.text("operandSegmentSizes") or "")
    if segments is None:
        return 0
    inputs, outs = map(int, segments.groups())
    fits = inputs + outs == len(signature.operands) and signature.operands[inputs:] == signature.results
    return outs if fits else 0


def _maps(text: str, loops: int) -> list[list[_Sum | None]] | None:
    """For every map over so many loops its results, as sums; `None` for a result that is no sum."""
    matches = _MAP.findall(text)
    if len(matches) != text.count("affine_map"):
        return None
    maps = []
    for dims, results in matches:
        names = [name.strip() for name in dims.split(",") if name.strip()]
        if len(names) != loops:
            return None
        numbers = {name: number for number, name in enumerate(names)}
        maps.append([_sum(expression, numbers) for expression in results.split(",") if expression.strip()])
    return maps


def _sum(expression: str, numbers: dict[str, int]) -> _Sum | None:
    coefficients: dict[int, int] = {}
    parts = _SUM.split(expression.strip())
    for sign, part in zip(["+", *parts[1::2]], parts[::2], strict=True):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            return None
        before, name, after = match.groups()
        factor = int(before or 1) * int(after or 1) * (-1 if sign == "-" else 1)
        if not name.isdigit() and name not in numbers:
            return None
        loop = numbers.get(name, _CONSTANT)
        factor *= int(name) if loop == _CONSTANT else 1
        coefficients[loop] = coefficients.get(loop, 0) + factor
    return tuple((loop, factor) for loop, factor in coefficients.items() if factor)


def _is_projected_permutation(map: Sequence[_Sum | None]) -> bool:
    loops = [sum[0][0] for sum in map if _is_plain(sum)]
    return len(loops) == len(map) == len(set(loops))


def _is_plain(sum: _Sum | None) -> TypeGuard[_Sum]:
    """Whether a dimension is one loop."""
    return sum is not None and len(sum) == 1 and sum[0][0] != _CONSTANT and sum[0][1] == 1


def _find_sizes(loops: _Loops, maps: Sequence[Sequence[_Sum | None]], shapes: Sequence[tuple[int, ...]]) -> bool:
    """The sizes of loops that are a dimension somewhere; whether these agree."""
    for map, shape in zip(maps, shapes, strict=True):
        for sum, size in zip(map, shape, strict=True):
            if _is_plain(sum) and loops.sizes.setdefault(sum[0][0], size) != size:
                return False
    return True


def _classify_all(loops: _Loops, map: Sequence[_Sum | None], shape: tuple[int, ...], returned: set[int]) -> None:
    counts = Counter(loop for sum in map for loop, _ in sum or () if loop != _CONSTANT)
    loops.whole.update(loop for loop, count in counts.items() if count > 1)
    for sum, size in zip(map, shape, strict=True):
        _classify(loops, sum, size, returned)


def _classify(loops: _Loops, sum: _Sum | None, size: int, returned: set[int]) -> None:
    """What a dimension of an operand means for the loops that index it."""
    if sum is None:
        loops.whole.update(range(len(loops.kinds)))
        return
    if len(sum) == 1 and sum[0][1] >= 1 and loops.sizes.get(sum[0][0], -1) * sum[0][1] == size:
        return
    first = _first(sum, returned)
    for loop, _ in sum:
        if loop != _CONSTANT:
            (loops.shifted if loop == first else loops.whole).add(loop)


def _first(sum: _Sum, returned: set[int]) -> int | None:
    """The loop that a dimension of several loops is split along."""
    return next((loop for loop, factor in sum if loop in returned and factor > 0), None)


def _rule(
    loops: _Loops,
    maps: Sequence[Sequence[_Sum | None]],
    shapes: Sequence[tuple[int, ...]],
    operands: int,
    returned: set[int],
) -> ShardingRule:
    order = sorted(loops.sizes)
    numbers = {loop: number for number, loop in enumerate(order)}
    sizes = [loops.sizes[loop] for loop in order]
    inner: set[int] = set()

    def alone(size: int) -> int:
        sizes.append(size)
        return len(sizes) - 1

    def dim(sum: _Sum | None, size: int, seen: set[int]) -> tuple[int, ...]:
        if not sum:
            return (alone(1),)
        loop = sum[0][0] if len(sum) == 1 else _first(sum, returned)
        if loop not in numbers or loop in seen:
            return (alone(1),)
        seen.add(loop)
        stride = dict(sum)[loop]
        if len(sum) > 1 or stride == 1 or loops.sizes[loop] * stride != size:
            return (numbers[loop],)
        inner.add(alone(stride))
        return (numbers[loop], len(sizes) - 1)

    tensors: list[TensorMapping] = []
    for map, shape in zip(maps, shapes, strict=True):
        seen: set[int] = set()
        tensors.append(tuple(dim(sum, size, seen) for sum, size in zip(map, shape, strict=True)))
    summed = {loop for loop in order if loops.kinds[loop] in _SUMMED and loop not in returned}
    free = {loop for loop in order if loops.kinds[loop] == "parallel" and loop in returned}
    whole = (set(order) - summed - free) | loops.whole
    shifted = loops.shifted - whole
    return ShardingRule(
        tuple(sizes),
        tuple(tensors[:operands]),
        tuple(tensors[operands:]),
        frozenset(numbers[loop] for loop in summed - whole - shifted),
        frozenset(numbers[loop] for loop in whole if loop in numbers) | frozenset(inner),
        frozenset(numbers[loop] for loop in shifted if loop in numbers),
    )

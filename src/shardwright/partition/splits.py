"""Along which factors of its rule an op may be computed in parts, and what that takes.

Pass-through factors split every tensor alike: the op is local as it is. Reduction factors leave a partial result, whose
kind comes from the op: it is local with a reduction behind it. Along others devices exchange something inside the op
(`localize/exchanges.py`). Everything else, and whatever a local form is not known for, is not split: its operands are
gathered first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost
from shardwright.cost.roofline import adds_waited
from shardwright.errors import ShardingError
from shardwright.ir.callees import called_by
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.exchanges import exchanged_factors
from shardwright.partition.localize.registry import covered_factors, rule_in_parts
from shardwright.rules.custom_call import is_splittable_call
from shardwright.rules.given import corresponding_factors, is_opaque, stated_factors
from shardwright.rules.iterations import iterations_of
from shardwright.rules.registry import gone_through, is_given, known_rule, local_factors_by, rule_for
from shardwright.rules.rule import ShardingRule, factors_in
from shardwright.rules.traits import facts_of

__all__ = ["Splits", "counted_once", "linear_operands", "refusal", "splits_of"]

_BUSY = frozenset({"stablehlo.custom_call", "stablehlo.cholesky", "stablehlo.triangular_solve"})
"""Ops beside products that take as long as their work, or of which nobody knows it."""

_UNFUSED = 0.25
"""How often an op moves its largest tensor through memory: a kernel that reads two tensors and writes one is of a dozen
ops. By the kernels of `tests/oracles/hlo_work.py` that is 0.30 to 0.36 times in steps of llamas of four layers, 0.53 in
one of a mixture of experts and 1.06 in one of a ResNet-50. Less than any of them is what any program pays.
"""


class Splits(NamedTuple):
    """How an op may be computed in parts.

    Attributes:
        rule: The op's sharding rule; where parts follow another than shardings do, that one: see `localizer`.
        allowed: Factors along which it may be split.
        kind: Reduction kind of the result along its reduction factors.
        linear: Sets of operands in which, all others fixed, the op is linear: see `linear_operands`.
        once: Operands that count once, whatever else contributes to results: see `counted_once`.
        exchanged: Those of `allowed` along which devices exchange something inside the op.
        completed: Those of `exchanged` that are reductions and leave nothing partial: what devices make is combined
            inside as well.
        iterations: Of the loops of the op computed whole: its work, which is shared out by splitting factors.
        bounds: For each factor the greatest number of shards that it can have, which any other number of them divides:
            its size or, of `exchanged` ones, what all dimensions have in common that it stands for. None given where
            all are sizes.
        idle: Those of `allowed` whose splitting leaves each device as much to do: contributions of an op that moves
            elements, or looks them up, are as large as its result, and all of what is put into parts is gone through.
        moved: Bytes that an iteration reads from memory and writes to it; none of products.
        streamed: Of products, the bytes of each tensor and the factors that split it: a kernel of its own reads or
            writes them while it computes.
        multiplied: The type of elements that products multiply, as `cost.roofline` names it.
    """

    rule: ShardingRule
    allowed: frozenset[int]
    kind: str
    linear: tuple[tuple[int, ...], ...]
    iterations: int
    exchanged: frozenset[int] = frozenset()
    completed: frozenset[int] = frozenset()
    bounds: tuple[int, ...] = ()
    idle: frozenset[int] = frozenset()
    moved: float = 0.0
    streamed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    multiplied: str = "bf16"
    once: frozenset[int] = frozenset()

    def work(self, parts: Sequence[int], hardware: Hardware) -> Cost:
        """What is left on a device of the op; of products with what they take beyond that by the roofline.

        Arguments:
            parts: Into how many parts each factor is split.
            hardware: Where.
        """
        if self.idle:
            parts = [1 if factor in self.idle else count for factor, count in enumerate(parts)]
        left = self.iterations / math.prod(parts)
        if not self.streamed:
            return Cost(multiply_adds=left, bytes_moved=self.moved * left)
        moved = sum([bytes / math.prod([parts[factor] for factor in held]) for bytes, held in self.streamed])
        return Cost(multiply_adds=left, adds_waited=adds_waited(hardware, left, moved, self.multiplied))

    @property
    def contributing(self) -> frozenset[int]:
        """Factors along which results are left partial."""
        return self.rule.reduction - self.completed


def refusal(signature: Signature, location: str) -> ShardingError:
    """What to say of an op at a place that has no meaning in a program written for one device."""
    return ShardingError(
        f"{signature.name} cannot be partitioned",
        op=signature.label,
        location=location,
        cause=facts_of(signature.name).refused,
        remedy="write the program for one device, or put the op inside sdy.manual_computation",
    )


@memoize
def splits_of(signature: Signature) -> Splits | None:
    """How an op may be split, or `None` if it is computed whole on every device."""
    rule = rule_for(signature)
    if rule is None:
        return None
    if not is_given(signature):
        return _known_splits(signature, rule)
    known = known_rule(signature)
    own = _known_splits(signature, known) if known is not None else None
    if own is not None:
        sets = (own.allowed, own.exchanged, own.completed)
        allowed, exchanged, completed = (corresponding_factors(rule, own.rule, some) for some in sets)
        bounds = _bounds(signature, rule, exchanged)
        moves = own.moved, _streamed(signature, rule), own.multiplied, own.once
        return Splits(
            rule, allowed, own.kind, own.linear, own.iterations, exchanged, completed, bounds, frozenset(), *moves
        )
    if not is_opaque(signature):
        return None
    return Splits(rule, stated_factors(signature, rule), "sum", (), iterations_of(signature, rule))


def _known_splits(signature: Signature, rule: ShardingRule) -> Splits | None:
    """How an op may be split by the rule that it has by its meaning."""
    if signature.name == "stablehlo.custom_call" and not is_splittable_call(signature, bool(called_by(signature))):
        return None
    iterations, splittable = iterations_of(signature, rule), local_factors_by(signature, rule)
    rule, kind = rule_in_parts(signature, rule), _reduction_kind(signature)
    if kind is not None:
        splittable |= rule.reduction - rule.need_replication - rule.permutation
    exchanged = exchanged_factors(signature, rule)
    allowed = covered_factors(signature, rule, splittable | exchanged)
    exchanged &= allowed
    completed = rule.reduction & exchanged if kind is None else frozenset[int]()
    linear, bounds = linear_operands(signature), _bounds(signature, rule, exchanged)
    idle = allowed & _idle(signature, rule)
    moved = _moved(signature) / max(1, iterations)
    moves = moved, _streamed(signature, rule), _multiplied(signature), counted_once(signature)
    return Splits(rule, allowed, kind or "sum", linear, iterations, exchanged, completed, bounds, idle, *moves)


def _idle(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """Factors that have nothing to do with how much there is to do."""
    number = gone_through(signature)
    idle = rule.reduction if facts_of(signature.name).moves else frozenset[int]()
    if number is None:
        return idle
    return idle | (frozenset(range(len(rule.sizes))) - factors_in((*rule.operands, *rule.results)[number]))


def _moved(signature: Signature) -> float:
    """Bytes that an op moves through memory, as one of many of which compilers make few kernels.

    Of what is only taken from a tensor the rest is not read.
    """
    facts, number = facts_of(signature.name), gone_through(signature)
    is_free = facts.constant or facts.shares_buffer or facts.computed_where_read
    if is_free or _is_product(signature) or signature.name in _BUSY:
        return 0.0
    tensors = (*signature.operands, *signature.results)
    if number is not None:
        return _UNFUSED * tensors[number].bytes
    touched = signature.operands[1:] if facts.in_place else signature.results if facts.moves else tensors
    return _UNFUSED * max([type.bytes for type in touched], default=0)


def _is_product(signature: Signature) -> bool:
    return facts_of(signature.name).product or signature.name == "stablehlo.convolution"


def _streamed(signature: Signature, rule: ShardingRule) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Of a product, the bytes of each tensor and the factors of its dimensions."""
    if not _is_product(signature):
        return ()
    tensors = zip((*signature.operands, *signature.results), (*rule.operands, *rule.results), strict=True)
    return tuple([(type.bytes, tuple(itertools.chain.from_iterable(mapping))) for type, mapping in tensors])


def _multiplied(signature: Signature) -> str:
    """The type of elements that a product multiplies: the wider of both, f32 in the way of the default precision."""
    if not _is_product(signature):
        return "bf16"
    wider = max(signature.operands[:2], key=lambda type: type.bytes / max(1, type.elements)).dtype
    exact = "HIGH" in (signature.text("precision_config") or "")
    return "tf32" if wider == "f32" and not exact else wider


def _bounds(signature: Signature, rule: ShardingRule, exchanged: frozenset[int]) -> tuple[int, ...]:
    """The bounds of an op's factors: dimensions of several sizes have shards of one number."""
    if not exchanged:
        return ()
    bounds = list(rule.sizes)
    tensors = zip((*signature.operands, *signature.results), (*rule.operands, *rule.results), strict=True)
    for type, mapping in tensors:
        for size, factors in zip(type.dims, mapping, strict=True):
            for major in exchanged.intersection(factors[:1]):
                bounds[major] = math.gcd(bounds[major], size)
    return tuple(bounds)


def _reduction_kind(signature: Signature) -> str | None:
    if not signature.bodies:
        return "sum"
    return signature.bodies[0].reduction


_EXACT = ("f32", "f64", "bf16", "f16", "complex<f32>", "complex<f64>")


_IDEMPOTENT = frozenset({"max", "min", "and", "or"})
"""Kinds by which a value combined with itself is itself: what is complete may be combined with each contribution."""


def linear_operands(signature: Signature, kind: str = "sum") -> tuple[tuple[int, ...], ...]:
    """Sets of operands in which, all others fixed, the op is linear: what is partial by `kind` may pass through it.

    Of sums integers and booleans are left out, as are conversions: a sum of rounded parts is not the rounded sum. To
    another kind ops are linear that move elements, and the one that combines by it: a maximum of two maxima is one of
    all that these are of. A reduction that sums takes parts of sums, its initial value once (`localize.reduction`); a
    scatter that adds takes updates that are parts, and what it adds them to once (`counted_once`).
    """
    facts = facts_of(signature.name)
    if signature.name == "stablehlo.scatter":
        once = counted_once(signature) if kind == "sum" else frozenset()
        return (tuple(range(len(once) + 1, len(signature.operands))),) if once else ()
    if signature.name == "stablehlo.reduce":
        is_sum = kind == "sum" and len(signature.results) == 1 and signature.bodies[0].reduction == kind
        return ((0,),) if is_sum and signature.results[0].dtype in _EXACT else ()
    if kind != "sum":
        if signature.name != REDUCTIONS.get(kind):
            return facts.linear if facts.moves else ()
        return ((0, 1), (0,), (1,)) if kind in _IDEMPOTENT else ((0, 1),)
    if not facts.linear or facts.converts or not all(type.dtype in _EXACT for type in signature.results):
        return ()
    return tuple([together or tuple(range(len(signature.operands))) for together in facts.linear])


@memoize
def counted_once(signature: Signature) -> frozenset[int]:
    """Operands that count once in sums which an op leaves partial, however many devices contribute to them.

    So each may be a sum of parts along any of the axes along which the results are, and need not be reduced before:
    what a scatter adds to, which may be what another one has left.
    """
    if signature.name != "stablehlo.scatter" or not signature.bodies or signature.bodies[0].reduction != "sum":
        return frozenset()
    count = len(signature.results)
    return frozenset(range(count)) if all(type.dtype in _EXACT for type in signature.results) else frozenset()

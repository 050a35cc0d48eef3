"""How an op is split: which axes go to which factor, so that what it communicates is least.

A candidate says what the op itself costs and, apart from that, every edge: resharding each operand from each version
of it that exists, and bringing each result to the sharding that it should have. `choices` lists the candidates, those
that tensors at hand propose or all that the mesh allows (see `proposals`); `assign` takes the cheapest of the former by
the one price of `cost.price`. Most of the time goes into plans for edges, so `assign` asks for those of a candidate
only where bounds of what they cost (`reshard.bound`) do not come to more than the cheapest so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from shardwright.axes import axes_size
from shardwright.cost.hardware import Hardware, current_hardware
from shardwright.cost.price import Cost, price, work_cost
from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.partition.edges import NOTHING, read_costs, write_costs
from shardwright.partition.factors import local_parts, merge, project
from shardwright.partition.in_place import choice_in_place
from shardwright.partition.proposals import (
    Intended,
    Proposals,
    Shardings,
    Source,
    from_tensors,
    mesh_of,
    without_sums,
)
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.ways import (
    ROUNDED,
    Choice,
    Question,
    Way,
    held_in_one_way,
    is_dearer,
    least_with,
    priced,
    question_of,
    ways_of,
)
from shardwright.rules.rule import TensorMapping, factors_in
from shardwright.sharding import replicated
from shardwright.words import counted

__all__ = ["MOST", "WORTH", "assign", "choice_of", "choices"]

MOST = 1 << 14
"""Ways to split an op that are listed and priced."""

WORTH = 1.75
"""How many times as long as the fastest a way may take in which devices repeat less work.

Work is priced at the peak of a device, which few ops come near, and what several devices compute alike each of them
reads and holds. So operands that lie as the parts of a sum are not gathered to spare a part of what that would send:
shards of another dimension, one all_to_all away, and of the result, to be gathered, are half as much again between two
devices, and less between more. It is less than 2, so that an op of which only starts count takes no second collective.
"""

NEARLY = 7 / 6
"""How many times as long as the fastest a way may take in which devices repeat less work and exchange more inside the
op, but send no more besides: more and smaller shards, of which windows take more rows of the next ones.
"""


def assign(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    hardware: Hardware | None = None,
    unread: frozenset[int] = frozenset(),
    intended: Intended = (),
) -> Choice:
    """The cheapest of the `choices` to split an op.

    Arguments:
        signature: The op.
        sources: For each operand, the shardings it exists in.
        targets: The sharding each result should have in the end.
        passing: Operands whose partial sum may pass through this op (it is their only use).
        hardware: What it is to be cheap on; that of the session where it is not said.
        unread: Results that nobody reads: bringing them to their targets costs nothing.
        intended: How operands shall lie that are sums so far, which proposes ways as the tensors do that are there.
    """
    hardware = hardware or current_hardware()
    splits = splits_of(signature)
    if splits is None:
        return _whole(signature, sources, targets, hardware)
    in_place = choice_in_place(splits, sources, targets, hardware)
    if in_place is not None:
        return in_place
    return _cheapest(question_of(signature, splits, sources, targets, passing, hardware, unread, intended))


def choices(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    proposals: Proposals = from_tensors,
) -> tuple[Choice, ...]:
    """The ways to split an op, each priced for the hardware of the session.

    Arguments:
        signature: The op.
        sources: For each operand, the shardings it exists in.
        targets: The sharding each result should have in the end.
        passing: Operands whose partial sum may pass through this op (it is their only use).
        proposals: Where the ways come from: `from_tensors` gives those that `assign` compares, `from_mesh` all legal
            ones, of which a tensor may have none.

    Raises:
        ShardingError: there are more than `MOST`.
    """
    splits, hardware = splits_of(signature), current_hardware()
    if splits is None:
        return (_whole(signature, sources, targets, hardware),)
    question = question_of(signature, splits, sources, targets, passing, hardware)
    proposed = tuple(itertools.islice(proposals(splits, sources, targets), MOST + 1))
    if len(proposed) > MOST:
        raise ShardingError(
            f"there are more than {MOST} ways to split {signature.name}",
            op=signature.label,
            cause=f"{counted(len(splits.allowed), 'loop')} may be split over {mesh_of(sources, targets)!r}",
            remedy="take the ways that tensors at hand propose, or a mesh of fewer axes",
        )
    gathered, whole = _undivided(question)
    listed = [priced(question, way) for factors in proposed for way in ways_of(question, factors)]
    return tuple([choice._replace(gathered=gathered, whole=whole) for choice in listed])


def choice_of(
    way: Way,
    signature: Signature,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    hardware: Hardware,
    unread: frozenset[int],
) -> Choice:
    """A way to split an op that is given; the other arguments are those of `assign`.

    What its edges cost is not told: it is compared with no other, and its results need not be brought to their targets.
    """
    splits = splits_of(signature)
    assert splits is not None, "only of ops that can be split there are ways"
    question = question_of(signature, splits, sources, targets, passing, hardware, unread)
    return _told(question, Choice(way.operands, way.results, splits.kind, way.own, way.exchange, (), ()))


def _cheapest(question: Question) -> Choice:
    """The fastest way; where devices repeat work in it, one in which they repeat less, if it is not much slower."""
    best, hardware = _fastest(question), question.hardware
    work = price(Cost(multiply_adds=best.own.multiply_adds), hardware)
    if not question.moves and work > price(_least_work(question), hardware):
        best = _with_less_work(question, best)
    return _told(question, best)


def _told(question: Question, choice: Choice) -> Choice:
    """A choice with the tensors that it leaves less split than they were, or should be."""
    gathered, whole = _undivided(question, choice)
    return choice._replace(gathered=gathered, whole=whole) if gathered or whole else choice


def _fastest(question: Question) -> Choice:
    """The cheapest way, by price; among equals the one with less work, then the one through which more partial sums
    pass, then one whose results need not be added up, then the first.
    """
    hardware, iterations, work = question.hardware, question.splits.iterations, _least_work(question).multiply_adds
    best: Choice | None = None
    least = math.inf, math.inf, 0, 0
    operands = held_in_one_way(question)
    at_hand = question.splits, question.proposing, question.targets
    # parts of a table may be brought elsewhere, where each device has all to look up in them
    elsewhere = without_sums(*at_hand) if question.splits.idle else ()
    for factors in itertools.chain(from_tensors(*at_hand), elsewhere):
        if best is not None and price(least_with(iterations, factors, operands), hardware) * ROUNDED > least[0]:
            continue
        for way in ways_of(question, factors):
            if best is not None and is_dearer(question, way, least[0]):
                continue
            choice = priced(question, way)
            passing = sum([bool(sharding.partial) for sharding in choice.operands])
            made = sum([bool(sharding.partial) for sharding in choice.results])
            merit = choice.price(hardware), choice.own.multiply_adds, -passing, made
            if best is None or merit < least:
                best, least = choice, merit
        # Nothing is sent then, and the others leave no less work: no need to ask what they cost.
        is_least = best is not None and least[1] <= work and least[0] <= price(best.own, hardware)
        if is_least and not question.passing:
            break
    assert best is not None, "a way that splits nothing is among them"
    return best


def _with_less_work(question: Question, fastest: Choice) -> Choice:
    """Of the ways that take at most `WORTH` times as long as the fastest one with the least work; of several the
    cheapest. More than that it sends only where the op could be computed as its operands lie, parts of a sum, or, a
    little more, inside the op.
    """
    hardware, iterations = question.hardware, question.splits.iterations
    seconds = fastest.price(hardware)
    best, least, limit = fastest, (fastest.own.multiply_adds, seconds), WORTH * seconds
    most = math.inf if _is_gathered_for_a_sum(question, fastest) else fastest.total(hardware).bytes_sent
    at_hand = question.splits, question.proposing, question.targets
    for factors in itertools.chain(from_tensors(*at_hand), without_sums(*at_hand)):
        if work_cost(iterations, factors).multiply_adds > least[0]:
            continue
        for way in ways_of(question, factors):
            if is_dearer(question, way, limit):
                continue
            choice = priced(question, way)
            merit = choice.own.multiply_adds, choice.price(hardware)
            if merit >= least or merit[1] > limit:
                continue
            more_inside = max(0.0, choice.exchange.bytes_sent - fastest.exchange.bytes_sent)
            allowed = most + more_inside if merit[1] <= NEARLY * seconds else most
            if choice.total(hardware).bytes_sent <= allowed:
                best, least = choice, merit
    return best


def _is_gathered_for_a_sum(question: Question, choice: Choice) -> bool:
    """Whether an op leaves more work than if it made parts of a sum of operands that lie alike along what is summed."""
    splits, sizes = question.splits, question.splits.rule.sizes
    operands = [
        (factors_in(mapping), project(mapping, sizes, source[0].axes))
        for mapping, source in zip(splits.rule.operands, question.sources, strict=True)
        if source
    ]
    alike = set[int]()
    for factor in splits.contributing:
        lying = {axes[factor] for held, axes in operands if factor in held}
        if len(lying) == 1 and any(lying):
            alike.add(factor)
    results = [project(m, sizes, target.axes) for m, target in zip(splits.rule.results, question.targets, strict=True)]
    proposed = [*[axes for _, axes in operands], *results]
    factors = merge(len(sizes), proposed, splits.allowed - splits.contributing | alike)
    return bool(alike) and choice.own.multiply_adds > work_cost(splits.iterations, factors).multiply_adds


def _least_work(question: Question) -> Cost:
    """The work of the op if all axes split it that tensors at hand have: what they propose leaves no less."""
    shardings = itertools.chain(question.targets, *[source[:2] for source in question.proposing])
    axes = set(itertools.chain.from_iterable([sharding.used_axes for sharding in shardings]))
    return work_cost(question.splits.iterations, (axes,))


def _whole(signature: Signature, sources: tuple[Source, ...], targets: Shardings, hardware: Hardware) -> Choice:
    """The op computed whole on every device, about whose work nothing is known."""
    mesh = mesh_of(sources, targets)
    operands = tuple(replicated(mesh, type.rank) for type in signature.operands)
    results = tuple(replicated(mesh, type.rank) for type in signature.results)
    return Choice(
        operands,
        results,
        "sum",
        NOTHING,
        NOTHING,
        read_costs(signature.operands, sources, operands, hardware),
        write_costs(signature.results, results, targets, hardware),
        gathered=tuple(i for i, source in enumerate(sources) if source and any(source[0].axes)),
        whole=tuple(i for i, target in enumerate(targets) if any(target.axes)),
    )


def _undivided(question: Question, choice: Choice | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operands, and the results, of which a dimension is split by more than its factors can be, however it is, or
    can be with an exchange inside alone. Those that a choice reads or computes as they are need no look.
    """
    splits, sources = question.splits, question.sources
    targets: tuple[Source, ...] = tuple([(target,) for target in question.targets])
    if choice is not None and not splits.exchanged:
        sources, targets = _changed(sources, choice.operands), _changed(targets, choice.results)
    rule = splits.rule
    return tuple(_lost(rule.operands, splits, sources)), tuple(_lost(rule.results, splits, targets))


def _changed(sources: Sequence[Source], chosen: Shardings) -> tuple[Source, ...]:
    """Of tensors what they are, if something else was chosen for them."""
    return tuple([() if source[:1] == (one,) else source for source, one in zip(sources, chosen, strict=True)])


def _lost(mappings: Sequence[TensorMapping], splits: Splits, sources: Sequence[Source]) -> Iterator[int]:
    """Operands, or results, of which a dimension is split by more than its factors can be with no exchange inside."""
    for operand, (mapping, source) in enumerate(zip(mappings, sources, strict=True)):
        if not source or not any(source[0].axes):
            continue
        dims = zip(local_parts(splits, mapping, source[0]), source[0].axes, strict=True)
        if any(axes_size(axes) > parts for parts, axes in dims):
            yield operand

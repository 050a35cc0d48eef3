"""All that a mesh allows: compared with what a search of everything finds, and with what the tensors at hand propose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.axes import Axes, AxisRef, axes_size, can_coexist, merge_axes
from shardwright.cost.hardware import BYTES
from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.partition.assign import assign, choices
from shardwright.partition.factors import FactorAxes
from shardwright.partition.proposals import from_mesh, from_tensors, legal_splits
from shardwright.partition.splits import Splits, splits_of
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.sharding import TensorSharding, replicated
from tests.reshard.strategies import shardings
from tests.rules.corpus import MAKERS, instances, program
from tests.rules.programs import ops_of

PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
MESHES = (Mesh(x=2, y=2), Mesh(x=4), Mesh(x=6), Mesh(x=2, y=3), Mesh(x=1, y=4), Mesh(x=2, y=4), Mesh(x=8))
NONE: frozenset[int] = frozenset()


def divisors(size: int) -> list[int]:
    return [part for part in range(1, size + 1) if size % part == 0]


@st.composite
def some_splits(draw: st.DrawFn) -> Splits:
    """An op of one to three factors, dimensions made of any of them, some factors reduced and some never split."""
    count = draw(st.integers(1, 3))
    sizes = tuple(draw(st.lists(st.sampled_from((1, 2, 4, 6, 8, 12)), min_size=count, max_size=count)))
    never = draw(st.none() | st.integers(0, count - 1))
    allowed = frozenset(range(count)) - {never}

    def mapping() -> TensorMapping:
        ends = sorted(draw(st.lists(st.integers(0, count), max_size=2)))
        order = draw(st.permutations(range(count)))
        return tuple(tuple(order[low:high]) for low, high in itertools.pairwise((0, *ends)))

    rule = ShardingRule(sizes, tuple(mapping() for _ in range(draw(st.integers(1, 2)))), (mapping(),))
    return Splits(rule, allowed, "sum", (), math.prod(rule.sizes))


def every_split(splits: Splits, mesh: Mesh) -> Iterator[FactorAxes]:
    """What is legal, by its definition: lists of disjoint parts of axes that divide, and that every tensor can hold."""
    parts = [
        AxisRef(name, pre, part)
        for name, size in mesh.axes
        for pre in divisors(size)
        for part in divisors(size // pre)
        if part > 1
    ]
    lists = [axes for count in range(4) for axes in itertools.permutations(parts, count) if merge_axes(axes) == axes]
    sizes = splits.rule.sizes
    fitting = [
        [
            axes
            for axes in lists
            if not axes or (factor in splits.allowed and size % axes_size(axes) == 0 and _apart(axes))
        ]
        for factor, size in enumerate(sizes)
    ]
    for factors in itertools.product(*fitting):
        used = tuple(axis for axes in factors for axis in axes)
        tensors = (*splits.rule.operands, *splits.rule.results)
        if _apart(used) and all(_held(dim, sizes, factors) for mapping in tensors for dim in mapping):
            yield factors


def _apart(axes: Axes) -> bool:
    return all(can_coexist(one, other) and not one.overlaps(other) for one, other in itertools.combinations(axes, 2))


def _held(dim: tuple[int, ...], sizes: tuple[int, ...], factors: FactorAxes) -> bool:
    """Whether no factor of a dimension is split below one that is not split to single elements."""
    full = [axes_size(factors[factor]) == sizes[factor] for factor in dim]
    return not any(factors[minor] and not all(full[:place]) for place, minor in enumerate(dim))


def is_dealt(splits: Splits, mesh: Mesh, factors: FactorAxes) -> bool:
    """Whether parts can be taken back one by one, each the most that its factor could take of what was left."""
    if not any(factors):
        return True
    for factor, axes in enumerate(factors):
        if not axes:
            continue
        *held, last = axes
        before = (*factors[:factor], tuple(held), *factors[factor + 1 :])
        end = max([axis.end for kept in before for axis in kept if axis.name == last.name], default=1)
        left = splits.rule.sizes[factor] // axes_size(tuple(held))
        most = math.gcd(mesh.sizes[last.name] // end, left)
        if (last.pre, last.size) == (end, most) and is_dealt(splits, mesh, before):
            return True
    return False


@PROPERTY
@given(some_splits(), st.sampled_from(MESHES))
def test_every_legal_split_is_there_once(splits: Splits, mesh: Mesh) -> None:
    offered = list(legal_splits(splits, mesh, {}))
    legal = set(every_split(splits, mesh))
    assert len(set(offered)) == len(offered)
    assert set(offered) == {factors for factors in legal if is_dealt(splits, mesh, factors)}
    assert {factors for factors in legal if all(mesh.is_full(axis) for axes in factors for axis in axes)} <= set(
        offered
    )


@PROPERTY
@given(some_splits(), st.sampled_from(MESHES))
def test_with_all_cuts_all_is_legal(splits: Splits, mesh: Mesh) -> None:
    offered = list(legal_splits(splits, mesh, {name: divisors(size) for name, size in mesh.axes}))
    assert len(set(offered)) == len(offered)
    assert set(offered) <= set(every_split(splits, mesh))


def test_axes_are_cut_where_a_factor_can_take_a_part() -> None:
    """Four heads over eight devices: four of them at most share out the heads, and two the rows beside that."""
    mesh = Mesh(x=8)
    splits = Splits(ShardingRule((4, 64), (((0,), (1,)),), (((0,), (1,)),)), frozenset({0, 1}), "sum", (), 1)
    heads, rows = mesh.axis("x", 1, 4), mesh.axis("x", 4, 2)
    offered = list(legal_splits(splits, mesh, {}))
    assert offered == [((), ()), ((heads,), ()), ((), (mesh.axis("x"),)), ((heads,), (rows,))]


def test_axes_are_cut_where_a_tensor_cuts_them() -> None:
    mesh = Mesh(x=8)
    splits = Splits(ShardingRule((64, 64), (((0,), (1,)),), (((0,), (1,)),)), frozenset({0, 1}), "sum", (), 1)
    major, minor, whole = mesh.axis("x", 1, 2), mesh.axis("x", 2, 4), mesh.axis("x")
    source = TensorSharding.of(mesh, [[major], []])
    ways = {(), (major,), (minor,), (whole,)}
    expected = {(one, other) for one in ways for other in ways if _apart((*one, *other))}
    assert set(from_mesh(splits, ((source,),), (replicated(mesh, 2),))) == expected


def test_what_is_never_computed_in_parts_is_split_along_nothing() -> None:
    call = Signature("stablehlo.cholesky", (("lower", "true"),), (_type(8, 4, 4),), (_type(8, 4, 4),))
    splits = splits_of(call)
    assert splits is not None
    whole = replicated(Mesh(x=4), 3)
    for factors in from_mesh(splits, ((whole,),), (whole,)):
        assert all(not axes for factor, axes in enumerate(factors) if factor not in splits.allowed)


@PROPERTY
@given(st.data())
def test_what_is_chosen_is_among_what_the_mesh_allows(data: st.DataObject) -> None:
    """Of every op, with tensors that lie at random: each way listed once, and the one chosen priced as there."""
    name = data.draw(st.sampled_from([name for name in MAKERS if name.startswith(("stablehlo.", "chlo."))]))
    (instance,) = instances(name, 1, data.draw(st.integers(0, 20)))
    signature = ops_of(program([instance]))[0].signature
    splits = splits_of(signature)
    if splits is None or not all(type.is_tensor for type in (*signature.operands, *signature.results)):
        return
    mesh = data.draw(st.sampled_from(MESHES))

    def lies(type: TensorType) -> TensorSharding:
        return data.draw(shardings(mesh, type.rank)).evenly_dividing(type.dims).closed()

    sources = tuple((lies(type),) for type in signature.operands)
    targets = tuple(map(lies, signature.results))
    ways = choices(signature, sources, targets, NONE, from_mesh)
    assert len(set(ways)) == len(ways)
    assert assign(signature, sources, targets, NONE) in ways
    proposed = {tuple(map(merge_axes, factors)) for factors in from_tensors(splits, sources, targets)}
    assert proposed <= set(from_mesh(splits, sources, targets))


def _type(*dims: int) -> TensorType:
    return TensorType(dims, "f32")


def _dot(m: int, k: int, n: int) -> Signature:
    numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    operands = (_type(m, k), _type(k, n))
    return Signature("stablehlo.dot_general", (("dot_dimension_numbers", numbers),), operands, (_type(m, n),))


def _question(
    signature: Signature, source: list[list[str]], target: list[list[str]]
) -> tuple[Signature, tuple[tuple[TensorSharding, ...], ...], tuple[TensorSharding, ...], frozenset[int]]:
    mesh = Mesh(x=8)
    others = tuple((replicated(mesh, type.rank),) for type in signature.operands[1:])
    return signature, ((TensorSharding.of(mesh, source),), *others), (TensorSharding.of(mesh, target),), NONE


def test_a_cheaper_way_that_no_tensor_proposes() -> None:
    """Rows of the product need the operand split by rows: neither gathered nor summed."""
    question = _question(_dot(64, 128, 64), [[], ["x"]], [[], []])
    with Session(hardware=BYTES):
        chosen = assign(*question)
        cheapest = min(choices(*question, from_mesh), key=lambda way: way.price(BYTES))
        assert cheapest not in choices(*question)
    assert cheapest.operands[0] == cheapest.results[0] == TensorSharding.of(Mesh(x=8), [["x"], []])
    assert cheapest.price(BYTES) < chosen.price(BYTES)


def test_axes_of_a_factor_that_is_not_split_are_proposed_for_one_that_is() -> None:
    """One all_to_all to the batch, and one back."""
    cholesky = Signature("stablehlo.cholesky", (("lower", "true"),), (_type(8, 64, 64),), (_type(8, 64, 64),))
    question = _question(cholesky, [[], ["x"], []], [[], ["x"], []])
    with Session(hardware=BYTES):
        chosen = assign(*question)
        assert chosen == min(choices(*question, from_mesh), key=lambda way: way.price(BYTES))
    assert chosen.operands[0] == chosen.results[0] == TensorSharding.of(Mesh(x=8), [["x"], [], []])


def test_what_cannot_be_listed_is_refused() -> None:
    mesh = Mesh((name, 2) for name in "abcdefg")
    whole = replicated(mesh, 2)
    with pytest.raises(ShardingError, match="more than 16384 ways to split"):
        choices(_dot(1024, 1024, 1024), ((whole,), (whole,)), (whole,), NONE, from_mesh)


def test_a_mesh_of_many_devices_takes_no_longer() -> None:
    few, many = Mesh(x=4, y=4), Mesh(x=1 << 20, y=1 << 20)
    size = 1 << 40
    counts = []
    for mesh in (few, many):
        whole = replicated(mesh, 2)
        splits = splits_of(_dot(size, size, size))
        assert splits is not None
        counts.append(len(list(from_mesh(splits, ((whole,), (whole,)), (whole,)))))
    assert counts == [19, 19]

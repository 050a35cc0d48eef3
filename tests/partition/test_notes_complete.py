"""Nothing is gathered, and no op computed with more than its share of the work, that the notes do not tell of."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from shardwright.axes import axes_size
from shardwright.cost.price import step_cost, work_cost
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.partition.factors import factor_axes
from shardwright.partition.splits import splits_of
from shardwright.program import Program, Spmd, from_jax
from shardwright.steps import AllGather, local_bytes
from tests.models.ops import CASES, OpCase
from tests.models.test_jax_features import ZOO

_GATHERED = "gathered along dimension"


@cache
def _case(name: str) -> Program:
    case = next(case for case in CASES if case.name == name)
    return from_jax(case.function, *case.arguments)


SPLITS = [
    (case.name, number, dim)
    for case in CASES
    for number, type in enumerate(case.arguments)
    for dim, size in enumerate(type.shape)
    if size % 4 == 0
]
"""Every op with every dimension of its arguments that four devices divide."""


def _seeded(name: str, number: int, axes: Mapping[int, str], mesh: Mesh) -> Spmd:
    """An op with dimensions of an argument split along an axis each."""
    program = _case(name)
    values = program.graph.main.block.arguments
    rank = program.graph.types[values[number]].rank
    spec = ",".join(axes.get(dim, "-") for dim in range(rank))
    return program.shard(mesh, args={number: spec}).partition()


def _gathers(graph: Graph) -> Iterator[tuple[str, float]]:
    """The place and the bytes of every gathering of shards; not that of parts which a reduction left."""
    makers = {value: op for op in graph.walk() for value in op.results}
    for op in graph.walk():
        if not isinstance(op.signature.step, AllGather):
            continue
        (value,) = op.operands
        maker, sharding, type = makers.get(value), graph.shardings[value], graph.types[value]
        if maker is None or maker.name != "sdy.reduce_scatter":
            assert sharding is not None
            held = local_bytes(type.dims, type.bytes // type.elements, sharding)
            yield str(graph.locations[op.location]), step_cost(op.signature.step, sharding, held).bytes_sent


def _check_gathers(spmd: Spmd) -> None:
    """Assert that at every place as many bytes are told of as are sent in gathering, and of none where none are."""
    sent, noted = defaultdict[str, float](float), defaultdict[str, float](float)
    for place, bytes in _gathers(spmd.explicit):
        sent[place] += bytes
    for note in spmd.notes:
        if _GATHERED in note.message:
            noted[note.location] += note.bytes
            assert not note.bytes or sent[note.location], f"no all_gather is there: {note}"
    for place, bytes in sent.items():
        assert noted[place] >= round(bytes), f"{place}: {bytes} sent in gathering, {noted[place]} told of"


def _work(graph: Graph, share: bool) -> dict[tuple[str, str], list[float]]:
    """The multiply-adds on a device of the ops of each name at each place: those done, or the share of one device of
    as many as have a part of a result.
    """
    work = defaultdict[tuple[str, str], list[float]](list)
    for op in graph.walk():
        read = any(type.rank for type in op.signature.operands)  # what reads none is made by any device
        splits = splits_of(op.signature) if read and not op.regions else None
        layouts = [graph.shardings[value] for value in (*op.operands, *op.results)]
        known = [layout for layout in layouts if layout is not None]
        if splits is None or not op.results or len(known) < len(layouts):
            continue
        parts = max(math.prod(map(axes_size, layout.axes)) for layout in known[len(op.operands) :])
        done = work_cost(splits.iterations, factor_axes(splits.rule, known)).multiply_adds
        work[str(graph.locations[op.location]), op.signature.label].append(splits.iterations / parts if share else done)
    return work


def _check_work(spmd: Spmd) -> None:
    """Assert that ops which compute more than their share are told of; padded ones compute some more."""
    shares, noted = _work(spmd.propagated, True), {(note.location, note.op) for note in spmd.notes}
    for key, done in _work(spmd.explicit, False).items():
        share = shares.get(key, [])
        if len(share) == len(done) and sum(done) > 1.25 * sum(share):
            assert key in noted, f"{key}: {done} multiply-adds, a share is {share}"


@pytest.mark.parametrize("devices", [4, 7])
@pytest.mark.parametrize(("name", "number", "dim"), SPLITS)
def test_every_gather_of_an_op_is_told_of(name: str, number: int, dim: int, devices: int) -> None:
    """Seven devices divide nothing."""
    spmd = _seeded(name, number, {dim: "x"}, Mesh(x=devices))
    _check_gathers(spmd)
    _check_work(spmd)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_gather_of_an_op_that_is_split_along_two_dimensions_is_told_of(case: OpCase) -> None:
    for number, type in enumerate(case.arguments):
        for one, other in itertools.permutations(range(len(type.shape)), 2):
            if type.shape[one] % 2 or type.shape[other] % 4:
                continue
            spmd = _seeded(case.name, number, {one: "x", other: "y"}, Mesh(x=2, y=4))
            _check_gathers(spmd)
            _check_work(spmd)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_gather_of_a_program_is_told_of(name: str) -> None:
    function, arguments, args = ZOO[name]
    spmd = from_jax(function, *arguments).shard(Mesh(data=2, model=4), args=args).partition()
    _check_gathers(spmd)
    _check_work(spmd)

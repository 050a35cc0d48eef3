"""Every op, randomly sharded, partitioned, run on eight virtual devices, against the program for one device."""

from __future__ import annotations

import os
import random

import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import print_mesh, print_sharding
from shardwright.runtime.execute import Execution, try_jobs
from shardwright.sharding import TensorSharding
from tests.partition.compare import Case, assert_equal, make_case
from tests.rules.corpus import MAKERS, Instance, instances

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
COUNT = 5
MESHES = (Mesh(x=2, y=4), Mesh(x=2, y=2, z=2), Mesh(x=8), Mesh(x=2, y=3))

REFUSED = ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter")
NO_CPU_KERNEL = ("chlo.bessel_i1e", "stablehlo.custom_call")
TESTED = [name for name in MAKERS if not name.endswith(REFUSED) and not name.startswith(NO_CPU_KERNEL)]


def random_sharding(rng: random.Random, mesh: Mesh, type: TensorType) -> TensorSharding:
    """Axes (whole, or parts of them) dealt to dimensions at random; mostly so that they divide."""
    pieces: list[AxisRef] = []
    for name, size in mesh.axes:
        if size in (4, 8) and rng.random() < 0.3:
            pieces += [AxisRef(name, 1, 2), AxisRef(name, 2, size // 2)]
        else:
            pieces.append(AxisRef(name, 1, size))
    rng.shuffle(pieces)
    dims: list[list[AxisRef]] = [[] for _ in range(type.rank)]
    left = list(type.dims)
    for piece in pieces:
        fits = [dim for dim, size in enumerate(left) if size % piece.size == 0 or rng.random() < 0.05]
        if fits and rng.random() < 0.7:
            dim = rng.choice(fits)
            dims[dim].append(piece)
            left[dim] = max(1, left[dim] // piece.size)
    return TensorSharding.of(mesh, dims).closed()


def annotated(several: list[Instance], mesh: Mesh, rng: random.Random) -> str:
    """A module that returns the results of all instances, arguments and some results sharded."""
    arguments, lines, values, results = [], [], [], []
    for number, instance in enumerate(several):
        names = [f"%a{number}_{index}" for index in range(len(instance.operands))]
        for name, text in zip(names, instance.operands, strict=True):
            sharding = print_sharding(random_sharding(rng, mesh, TensorType.parse(text)))
            arguments.append(f"{name}: {text} {{sdy.sharding = {sharding}, shardwright.input = {_draw(text)}}}")
        lines.append(instance.text(names, f"r{number}"))
        for index, text in enumerate(instance.results):
            values.append((f"%r{number}#{index}", text))
            stated = print_sharding(random_sharding(rng, mesh, TensorType.parse(text)))
            results.append(text + (f" {{sdy.sharding = {stated}}}" if rng.random() < 0.6 else ""))
    body = "\n  ".join(lines)
    returned = ", ".join(value for value, _ in values)
    types = ", ".join(type for _, type in values)
    return (
        f"sdy.mesh @mesh = {print_mesh(mesh).removeprefix('#sdy.mesh')}\n"
        f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  {body}\n  return {returned} : {types}\n}}"
    )


def _draw(text: str) -> str:
    dtype = TensorType.parse(text).dtype
    if dtype.startswith(("f", "bf")):
        return '"uniform 0.1 0.9"'
    return '"integers -3 9"' if dtype in ("i32", "i64") else '"integers 0 2"'


def case_of(name: str, seed: int) -> Case:
    rng = random.Random(f"{name}/{seed}")
    mesh = rng.choice(MESHES)
    return make_case(annotated(list(instances(name, COUNT, seed)), mesh, rng), seed)


Results = dict[str, tuple[Case, Execution | ShardingError, Execution | ShardingError]]


def run_all(cases: dict[str, Case]) -> Results:
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    return {name: (case, done[2 * i], done[2 * i + 1]) for i, (name, case) in enumerate(cases.items())}


@pytest.fixture(scope="module")
def cases() -> dict[str, Case | Exception]:
    made: dict[str, Case | Exception] = {}
    for name in TESTED:
        try:
            made[name] = case_of(name, SEED)
        except Exception as error:  # raised again by the test of this op alone
            made[name] = error
    return made


@pytest.fixture(scope="module")
def results(cases: dict[str, Case | Exception]) -> Results:
    return run_all({name: case for name, case in cases.items() if isinstance(case, Case)})


@pytest.mark.parametrize("name", TESTED)
def test_sharded_is_unsharded(name: str, cases: dict[str, Case | Exception], results: Results) -> None:
    case = cases[name]
    if isinstance(case, Exception):
        raise case
    assert_equal(name, *results[name])


_WRONG_IN_XLA = {
    (
        "stablehlo.scatter",
        15,
    ): "without index components it makes one update of many; StableHLO's interpreter makes all",
}
"""Instances, by op and seed, that XLA 0.10.2 compiles to something else than it says."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 21))
def test_sharded_is_unsharded_long(seed: int) -> None:
    for name, outcome in run_all({name: case_of(name, seed) for name in TESTED}).items():
        if (name, seed) not in _WRONG_IN_XLA:
            assert_equal(name, *outcome)
            continue
        with pytest.raises(AssertionError):
            assert_equal(name, *outcome)

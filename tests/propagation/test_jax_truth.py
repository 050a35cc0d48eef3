"""Programs that JAX compiles: our shardings beside those of the executable.

Between a program and its shardings lies first what XLA does before Shardy sees it, then Shardy's propagation. Of the
former three things matter. Calls are inlined; so they are here, where the C++ pipeline run by itself makes computations
of them. Ops come in another order, without those that nothing reads, on which hangs who wins some conflicts. And so it
does on broadcasts that only add dimensions of size 1, which are reshapes by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read
from shardwright.notation.sdy.sharding import print_axis
from shardwright.propagation import propagate
from shardwright.sharding import TensorSharding
from tests.oracles.shardy import PROPAGATE, run_pipeline
from tests.propagation.comparison import differences
from tests.propagation.jax_compiled import Compiled, compiled
from tests.propagation.jax_programs import PROGRAMS

_NAMED_OTHERWISE = {"stablehlo.dot": "stablehlo.dot_general"}
_SEEDS = range(160, 220)
"""Two of these random programs come out otherwise in the order in which JAX writes their ops."""
_LOOPS = range(0, 24, 2)
"""Loops that are no gradients: of gradients XLA makes another program in one of four cases, by simplifying it."""


@pytest.fixture(scope="module")
def programs() -> list[Compiled]:
    return compiled([*PROGRAMS])


@pytest.mark.oracle
def test_every_value_of_a_jax_program_is_sharded_as_in_its_executable(
    programs: list[Compiled],
    record_property: Callable[[str, object], None],
) -> None:
    compared = values = 0
    for program in programs:
        ours = _propagated(program.lowered)
        assert _boundary(ours) == (program.arguments, program.results), program.name
        mine, its = _kinds(ours), _kinds(_read(program.after))
        common = [kind for kind in mine if kind in its and mine[kind].total() == its[kind].total()]
        assert {kind: mine[kind] for kind in common} == {kind: its[kind] for kind in common}, program.name
        here, all_of_it = (sum(mine[kind].total() for kind in kinds) for kinds in (common, mine))
        assert here > all_of_it / 2, f"XLA changed too much of {program.name} to say anything"
        compared, values = compared + here, values + all_of_it
    record_property("summary", f"propagation: {compared} of {values} values in JAX programs, all as in the executables")


@pytest.mark.oracle
def test_what_xla_propagates_is_sharded_as_xla_does(programs: list[Compiled]) -> None:
    for program in programs:
        assert differences(propagate(_read(program.before)), program.after) == [], program.name


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["jitted_sum_with_transpose", "jits_within_jits"])
def test_xla_inlines_calls_before_it_propagates(name: str, programs: list[Compiled]) -> None:
    program = _named(name, programs)
    assert " call @" in program.lowered
    assert " call @" not in program.before
    assert "sdy.named_computation" not in program.before
    as_computations = _read(run_pipeline(program.lowered, PROPAGATE))
    assert _boundary(as_computations)[1] != program.results
    assert _boundary(propagate(_read(program.lowered)))[1] == program.results


@pytest.mark.oracle
def test_conflicts_between_independent_ops_end_as_in_the_executable(programs: list[Compiled]) -> None:
    program = _named("sums_returned_in_another_order", programs)
    assert _boundary(_propagated(program.lowered)) == (program.arguments, program.results)
    assert _boundary(propagate(_read(program.lowered)))[1] != program.results, "the order in which they are written"


@pytest.mark.oracle
def test_random_jitted_functions_are_sharded_as_in_their_executables(
    record_property: Callable[[str, object], None],
) -> None:
    otherwise = 0
    for program in compiled([str(seed) for seed in _SEEDS]):
        assert differences(propagate(_read(program.before)), program.after) == [], f"seed {program.name}"
        assert _boundary(_propagated(program.lowered)) == (program.arguments, program.results), f"seed {program.name}"
        otherwise += _boundary(propagate(_read(program.lowered)))[1] != program.results
    summary = f"{len(_SEEDS)} random JAX programs as compiled; {otherwise} are not in the order that JAX writes"
    record_property("summary", f"propagation: {summary}")
    assert otherwise, "the programs do not tell the two orders apart"


@pytest.mark.oracle
def test_loops_that_read_what_stands_outside_are_sharded_as_in_their_executables() -> None:
    for program in compiled([f"loop {seed}" for seed in _LOOPS]):
        assert differences(propagate(_read(program.before)), program.after) == [], program.name
        assert _boundary(_propagated(program.lowered)) == (program.arguments, program.results), program.name


def _named(name: str, programs: list[Compiled]) -> Compiled:
    (named,) = (program for program in programs if program.name == name)
    return named


def _propagated(text: str) -> Graph:
    return propagate(_read(text), as_compiled=True)


def _read(text: str) -> Graph:
    return read(load_module(text))


def _boundary(graph: Graph) -> tuple[list[object], list[object]]:
    """How arguments and results lie, as `Compiled` has it."""
    main, types = graph.main, graph.types
    results = zip(main.result_shardings, main.block.terminator.operands, strict=True)
    return (
        [_axes(graph.shardings[value], types[value].rank) for value in main.block.arguments],
        [_axes(sharding, types[value].rank) for sharding, value in results],
    )


def _axes(sharding: TensorSharding | None, rank: int) -> list[list[str]]:
    if sharding is None:
        return [[] for _ in range(rank)]
    return [[print_axis(axis, sharding.mesh).replace('"', "") for axis in axes] for axes in sharding.axes]


def _kinds(graph: Graph) -> dict[tuple[str, str], Counter[str]]:
    """How tensors lie, by the op that makes them and their type: XLA orders ops otherwise, and splits some."""
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for op in graph.walk():
        for value in op.results:
            type = graph.types[value]
            if type.is_tensor and type.dims:
                kind = _NAMED_OTHERWISE.get(op.name, op.name), str(type)
                kinds.setdefault(kind, Counter())[str(_axes(graph.shardings[value], type.rank))] += 1
    return kinds

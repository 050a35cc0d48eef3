"""Each pass on programs that it makes better: what is left of them, and that they compute the same."""

from __future__ import annotations

import pytest

from shardwright.optimize import optimizations
from tests.optimize.cases import CASES, Case
from tests.optimize.explicit import NO_LATENCY, Better, better, names, run_all


def _better(case: Case, exact: bool = False) -> Better:
    hardware = NO_LATENCY if case.needs_bytes else None
    return better(case.text, case.name, exact=exact, hardware=hardware, changes=case.is_exact or not exact)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_leaves_these_ops(name: str) -> None:
    case = CASES[name]
    made = _better(case)
    assert " ".join(names(made.after)) == case.left
    assert {one.by for one in made.improvements} == {case.name}
    assert sum(one.seconds_saved for one in made.improvements) >= 0


@pytest.mark.parametrize("name", CASES)
def test_where_sums_keep_their_order_it_does_so_only_if_they_do(name: str) -> None:
    case = CASES[name]
    made = _better(case, exact=True)
    assert names(made.after) == (case.left.split() if case.is_exact else names(made.before))


def test_programs_compute_what_they_did() -> None:
    run_all((name, _better(case)) for name, case in CASES.items())


def test_where_sums_keep_their_order_not_a_bit_is_another() -> None:
    exact = {name: case for name, case in CASES.items() if case.is_exact}
    run_all(((name, _better(case, exact=True)) for name, case in exact.items()), bits=True)


def test_every_pass_has_a_case() -> None:
    assert {one.name for one in optimizations()} == {case.name for case in CASES.values()}

"""Integer programs, solved by HiGHS."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import highspy
import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds

__all__ = ["Minimum", "Rows", "minimum"]

LONGEST = 120.0
"""Seconds after which what was found is taken, as a last resort: what ends a search otherwise is counted, and the same
wherever and beside whatever it runs.
"""

_FIRST_LOOKS, _LOOKS = 10, 2
"""How often HiGHS may ask whether to go on: so often, and again for each part. With the first part of some programs it
is never done, and rounds of cuts and restarts are all that can be counted there.
"""


_WHOLE = 1e-6
"""What part is none, of a whole number."""

_EXACT = 1e-10
"""How much cheaper another variable may be where linear programs end: HiGHS's own 1e-7 is seen in what is chosen."""


class Rows(NamedTuple):
    """Sums of variables, each of which lies between two numbers.

    Attributes:
        numbers: For each entry its row.
        variables: And its variable.
        factors: And how often that counts there; entries of the same variable in the same row add up.
        low: For each row the least that its sum may be.
        high: And the most.
    """

    numbers: Numbers
    variables: Numbers
    factors: Seconds
    low: Seconds
    high: Seconds


class Minimum(NamedTuple):
    """What was found.

    Attributes:
        values: Of each variable.
        costs: What they cost.
        bound: What any others do at least.
    """

    values: Seconds
    costs: float
    bound: float


def minimum(costs: Seconds, whole: int, rows: Rows, gap: float, nodes: int, relaxes: bool = False) -> Minimum | None:
    """Values of variables, at least 0, that cost the least; `None` where there are none, or none were found in time.

    Arguments:
        costs: What one of each variable costs.
        whole: So many of the first variables are whole numbers.
        rows: What holds of them.
        gap: How far what is found may be from what is proven, relatively.
        nodes: In how many parts all values may be divided to prove that; what HiGHS looks at in each is bounded by it,
            too.
        relaxes: Whether any numbers are looked for first: where those that cost least are whole, that is all, and takes
            half as long, or a third.
    """
    program = _program(costs, whole, rows)
    relaxed = _relaxed(program, whole) if relaxes else None
    if relaxed is not None:
        return relaxed
    solver = _solver({"mip_rel_gap": gap, "mip_max_nodes": nodes})
    looks = itertools.count(1)

    def go_on(event: Any) -> None:
        event.data_in.user_interrupt = next(looks) > _FIRST_LOOKS + _LOOKS * nodes

    solver.cbMipInterrupt.subscribe(go_on)
    done = solver.passModel(program), solver.run()
    assert highspy.HighsStatus.kError not in done, "HiGHS takes any program whose rows are numbers"
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return Minimum(np.array(solver.getSolution().col_value), info.objective_function_value, info.mip_dual_bound)


def _relaxed(program: highspy.HighsLp, whole: int) -> Minimum | None:
    """What costs the least if no variable need be a whole number; `None` if any of those that must be is none."""
    solver = _solver({"solve_relaxation": True, "dual_feasibility_tolerance": _EXACT})
    done = solver.passModel(program), solver.run()
    assert highspy.HighsStatus.kError not in done, "HiGHS takes any program whose rows are numbers"
    values = np.array(solver.getSolution().col_value)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    if np.abs(values[:whole] - values[:whole].round()).max(initial=0.0) > _WHOLE:
        return None
    least = solver.getInfo().objective_function_value
    return Minimum(values, least, least)


def _solver(options: Mapping[str, bool | float | str]) -> highspy.Highs:
    """HiGHS by itself, with these of its options."""
    solver = highspy.Highs()
    own: dict[str, bool | float | str] = {"output_flag": False, "parallel": "off", "time_limit": LONGEST}
    for option, value in (own | dict(options)).items():
        solver.setOptionValue(option, value)
    return solver


def _program(costs: Seconds, whole: int, rows: Rows) -> highspy.HighsLp:
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = costs.size, rows.low.size
    program.col_cost_ = costs
    program.col_lower_, program.col_upper_ = np.zeros(costs.size), np.full(costs.size, np.inf)
    program.row_lower_, program.row_upper_ = rows.low, rows.high
    numbers, variables, factors = _added(rows, costs.size)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.searchsorted(numbers, np.arange(rows.low.size + 1))
    program.a_matrix_.index_, program.a_matrix_.value_ = variables, factors
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger] * whole + [kinds.kContinuous] * (costs.size - whole)
    return program


def _added(rows: Rows, size: int) -> tuple[Numbers, Numbers, Seconds]:
    """The entries in the order of rows and variables, each once."""
    places, entries = np.unique(rows.numbers * size + rows.variables, return_inverse=True)
    added = np.zeros(places.size)
    np.add.at(added, entries, rows.factors)
    return places // size, places % size, added

"""Integer programs, solved by HiGHS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import highspy
import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds

__all__ = ["Minimum", "Rows", "minimum"]

Options = Mapping[str, bool | float | str]
"""Options of HiGHS."""

LONGEST = 120.0
"""Seconds after which what was found is taken, as a last resort: what ends a search otherwise is counted, and the same
wherever and beside whatever it runs.
"""

_FIRST_LOOKS, _LOOKS = 10, 2
"""How often HiGHS may ask whether to go on: so often, and again for each part. With the first part of some programs it
is never done, and rounds of cuts and restarts are all that can be counted there.
"""

_BY_THE_CLOCK = 1 << 10 | 1 << 11
"""Rules of HiGHS's presolve that are off: equations, and free columns, that depend on others are looked for until a
second is over, so that what is found would depend on what else runs. The bits are those of its `PresolveRuleType`.
"""

_WHOLE = 1e-6
"""What part is none, of a whole number."""

_EXACT = 1e-10
"""How much cheaper another variable may be where linear programs end: HiGHS's own 1e-7 is seen in what is chosen."""


_PARTS = 8
"""With fewer parts, what relaxations use will do."""

_AS_GOOD = 0.9
"""What part of how far what is found may be from what is proven is as good: only for what costs less by that are all
variables looked at, which is proven the sooner.
"""

_KNOWN = {f"mip_heuristic_run_{name}": False for name in ("rins", "rens", "root_reduced_cost")} | {
    "mip_allow_restart": False
}
"""Options of HiGHS by which it looks for what is good, and begins anew with what that tells: half of the time and more,
where something good is known.
"""


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
        values: Of each variable; they mean nothing where none were found.
        costs: What they cost; infinite where none were found since all cost more than they may.
        bound: What any others do at least.
    """

    values: Seconds
    costs: float
    bound: float


def minimum(
    costs: Seconds, whole: int, rows: Rows, gap: float, nodes: int, relaxes: bool = False, most: float = math.inf
) -> tuple[Minimum | None, int]:
    """Values of variables, at least 0, that cost the least, and how many iterations of the simplex method they took.

    Arguments:
        costs: What one of each variable costs.
        whole: So many of the first variables are whole numbers.
        rows: What holds of them.
        gap: How far what is found may be from what is proven, relatively.
        nodes: In how many parts all values may be divided to prove that; what HiGHS looks at in each is bounded by it,
            too.
        relaxes: Whether any numbers are looked for first: where those that cost least are whole, or the best whole ones
            among variables that they use are near enough, that is all, and takes half as long, or a fifth.
        most: What they may cost: values that cost more are not looked for; nor those that cost less by less than most
            of the gap, once all variables are looked at because what some of them make is not near enough.

    Returns:
        The values, `None` where there are none, or none were found in time; and the iterations, the same everywhere.
    """
    program = _program(costs, whole, rows)
    near, taken, will_do = _near(program, whole, gap, nodes, most) if relaxes else (None, 0, False)
    if will_do:
        return near, taken
    if near is None:
        found, more = _in_whole_numbers(program, gap, nodes, most)
        return found, taken + more
    known = min(near.costs, most)
    options = _KNOWN if math.isfinite(known) else {}
    found, more = _in_whole_numbers(program, gap, nodes, known / (1 + _AS_GOOD * gap), options)
    return near if found is None else _better(near, found), taken + more


def _in_whole_numbers(
    program: highspy.HighsLp, gap: float, nodes: int, most: float, options: Options | None = None
) -> tuple[Minimum | None, int]:
    """What costs the least with those variables whole numbers that are to be; see `minimum`."""
    solver = _solver({"mip_rel_gap": gap, "mip_max_nodes": nodes, "objective_bound": most, **(options or {})})
    looks = itertools.count(1)

    def go_on(event: Any) -> None:
        event.data_in.user_interrupt = next(looks) > _FIRST_LOOKS + _LOOKS * nodes

    solver.cbMipInterrupt.subscribe(go_on)
    _run(solver, program)
    info, taken = solver.getInfo(), _iterations(solver)
    is_infeasible = solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    bound = most if is_infeasible else min(info.mip_dual_bound, most)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Minimum(np.zeros(program.num_col_), math.inf, bound) if math.isfinite(bound) else None, taken
    return Minimum(np.array(solver.getSolution().col_value), info.objective_function_value, bound), taken


def _near(
    program: highspy.HighsLp, whole: int, gap: float, nodes: int, most: float
) -> tuple[Minimum | None, int, bool]:
    """What costs the least of variables that are used where none need be a whole number, the iterations, and whether
    that will do.

    Source: Danna, Rothberg and Le Pape, "Exploring relaxation induced neighborhoods to improve MIP solutions" (2005),
    of which this is the simplest: what a relaxation does not use at all is left out.
    """
    solver = _solver({"solve_relaxation": True, "dual_feasibility_tolerance": _EXACT})
    _run(solver, program)
    values, taken = np.array(solver.getSolution().col_value), _iterations(solver)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None, taken, False
    least = solver.getInfo().objective_function_value
    if least > most:
        return Minimum(values, math.inf, least), taken, True
    if np.abs(values[:whole] - values[:whole].round()).max(initial=0.0) <= _WHOLE:
        return Minimum(values, least, least), taken, True
    upper = program.col_upper_
    program.col_upper_ = np.concatenate([np.where(values[:whole] > _WHOLE, np.inf, 0.0), upper[whole:]])
    found, more = _in_whole_numbers(program, gap, nodes, most)
    program.col_upper_ = upper
    if found is None:
        return None, taken + more, False
    will_do = found.costs <= least * (1 + gap) or nodes < _PARTS
    return found._replace(bound=least), taken + more, will_do


def _better(near: Minimum, found: Minimum) -> Minimum:
    """What is known to be good, or what was found for less, with what was proven of both."""
    best = found if found.costs < near.costs else near
    return best._replace(bound=max(near.bound, min(found.bound, best.costs)))


def _run(solver: highspy.Highs, program: highspy.HighsLp) -> None:
    """Solve a program, as far as it can be: where rounding leads astray there is no solution."""
    taken = solver.passModel(program)
    assert taken != highspy.HighsStatus.kError, "HiGHS takes any program whose rows are numbers"
    solver.run()


def _iterations(solver: highspy.Highs) -> int:
    """How many iterations of the simplex method it took."""
    return max(0, int(solver.getInfo().simplex_iteration_count))


def _solver(options: Options) -> highspy.Highs:
    """HiGHS by itself, with these of its options."""
    solver = highspy.Highs()
    own: Options = {
        "output_flag": False,
        "parallel": "off",
        "presolve_rule_off": _BY_THE_CLOCK,
        "time_limit": LONGEST,
    }
    for option, value in {**own, **options}.items():
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

"""Plans made by saved ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from shardwright.frontends.annotate import annotate
from shardwright.frontends.load import Source
from shardwright.frontends.selection import select_arguments
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.plans.fit import Fit, fit_plan
from shardwright.plans.load import load_plan
from shardwright.plans.other import OtherPlan, plan_for
from shardwright.plans.saved import SavedPlan
from shardwright.program.planned import Planned
from shardwright.propagation import DEFAULT_STRATEGY, check_strategy

__all__ = ["PlanLike", "fit_of", "fitting", "how_of"]

P = TypeVar("P", bound=Planned)

PlanLike: TypeAlias = SavedPlan | OtherPlan | Mapping[str, Any] | str | os.PathLike[str]
"""A plan that was saved: what `load_plan` reads, the path of its file, or the values of another framework's."""


def fit_of(plan: PlanLike, program: Source, mesh: Mesh | None, strict: bool) -> Fit:
    """What of a saved plan fits a program.

    Raises:
        ShardingError: no plan, another mesh than the program's, or where it is to be strict, all that does not fit.
    """
    read = plan if isinstance(plan, (SavedPlan, OtherPlan)) else load_plan(plan)
    known = plan_for(read, program.graph, mesh, program.parts)
    fit = fit_plan(known, program.graph, mesh, program.name, program.parts)
    if strict:
        fit.check()
    return fit


def how_of(fit: Fit, strategy: str | None, conservative: bool | None) -> tuple[str, bool]:
    """How to propagate: as it is asked for, else as a saved plan says, else as ever.

    Raises:
        ShardingError: no such strategy.
    """
    chosen = next((name for name in (strategy, fit.plan.strategy) if name is not None), DEFAULT_STRATEGY)
    check_strategy(chosen)
    return chosen, bool(fit.plan.conservative if conservative is None else conservative)


def fitting(
    fit: Fit,
    graph: Graph,
    args: Mapping[str | int, Any] | Sequence[Any],
    source: str,
    complete: Callable[[Graph], P],
) -> P:
    """The plan that lies as a saved one says, but for `args`: by what was said when that was made, if that suffices,
    which it does for a program that is as it was; else by all of its layouts.

    Arguments:
        fit: What of the saved plan fits the program.
        graph: The program.
        args: Shardings of arguments that win over the plan.
        source: What the program is called.
        complete: The plan of a program that is annotated.

    Raises:
        ShardingError: what `annotate` and `complete` refuse.
    """
    names = graph.main.argument_names
    besides = {names[number] for number in select_arguments(graph, args, source)}
    plan = complete(annotate(fit.annotated(graph, source), None, args, source))
    if fit.holds(plan.arguments, plan.results, besides):
        return plan
    return complete(annotate(fit.annotated(graph, source, layouts=True), None, args, source))

"""What users ask of programs: in which forms, and whether it is there and can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.plans.saved import Partitioning
from shardwright.stage import ARGUMENTS, DEFAULT_EFFORT, EFFORTS, OPTIMIZATIONS

if TYPE_CHECKING:
    from shardwright.plans.fit import Fit

__all__ = ["MeshLike", "Shardings", "as_asked", "check_arguments", "jit_options"]

MeshLike: TypeAlias = Mesh | Mapping[str, int] | str | Any
"""A mesh as users have it: ours, axis sizes by name, `"data=2,model=4"`, or a `jax.sharding.Mesh`."""

Shardings: TypeAlias = Mapping[Any, Any] | Sequence[Any] | Callable[[str, Any], Any] | Any | None
"""Shardings of arguments or results: by name, number or pattern, as a tree, one for all, or by a function."""


def as_asked(fit: Fit | None, arguments: str | None, effort: str | None, optimize: str | None) -> Partitioning:
    """How to partition: as is asked for, else as the saved plan was that fitted, else as ever.

    Raises:
        ShardingError: there is no such way to take arguments, effort, or optimization.
    """
    usual = (None if fit is None else fit.plan.partitioning) or Partitioning("split", DEFAULT_EFFORT, "off")
    asked = {"arguments": arguments, "effort": effort, "optimize": optimize}
    chosen = replace(usual, hardware="", **{name: value for name, value in asked.items() if value is not None})
    _check_known("no way to take arguments", chosen.arguments, ARGUMENTS)
    _check_known("no such effort", chosen.effort, EFFORTS)
    _check_known("no such optimization", chosen.optimize, OPTIMIZATIONS)
    return chosen


def check_arguments(way: str, annotated: Graph) -> None:
    """Whether each device can take the arguments of a program in a way; in full it cannot always.

    Raises:
        ShardingError: one has offsets or halos.
    """
    if way == "split":
        return
    main = annotated.main
    for number, (name, value) in enumerate(zip(main.argument_names, main.block.arguments, strict=True)):
        sharding = annotated.shardings[value]
        if sharding is not None and bounded_dims(sharding):
            raise ShardingError(
                f"argument {name!r} has offsets or halos, and is to be taken whole",
                op="func.func",
                location=annotated.argument_location(number),
                cause=f"sharding {sharding!r}; of shards that are not of one size nobody slices one out",
                remedy="let devices take their shards of arguments, or leave offsets and halos out",
            )


def jit_options(
    static_argnums: int | Sequence[int],
    static_argnames: str | Sequence[str],
    donate_argnums: int | Sequence[int],
    donate_argnames: str | Sequence[str],
) -> dict[str, Any]:
    """Options of `jax.jit` by name."""
    return {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }


def _check_known(what: str, given: str, known: Mapping[str, str]) -> None:
    if given not in known:
        raise ShardingError(f"{what}: {given!r}", remedy=f"one of {', '.join(known)}")

"""The programs of this folder beside what JAX and XLA make of them: shardings at the boundary, and bytes sent.

The figures that the README gives are the ones that this prints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest

from shardwright.frontends.selection import select_arguments
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.program import Plan, from_jax
from tests.frontends.devices import eight_devices
from tests.models.test_jax_features import ZOO
from tests.oracles.xla import partition

eight_devices()

BEHIND = {"sorting", "variance"}
"""Programs for which XLA sends less: it merges sorted shards instead of gathering, and computes one mean for two."""


def _plan(name: str, *, evenly: bool = False) -> Plan:
    """The plan of a program; `evenly` with that of its arguments' shardings which XLA takes: what divides their sizes."""
    function, arguments, args = ZOO[name]
    program, mesh = from_jax(function, *arguments), Mesh(data=2, model=4)
    graph = program.shard(mesh, args=args).annotated
    if not evenly:
        return program.shard(mesh, args=args)
    given = {value: graph.shardings[value] for value in graph.main.block.arguments}
    even = [one and one.evenly_dividing(graph.types[value].dims) for value, one in given.items()]
    return program.shard(mesh, args=even)


@pytest.mark.oracle
@pytest.mark.long
def test_arguments_and_results_lie_as_in_the_executable(record_property: Callable[[str, object], None]) -> None:
    compared = 0
    for name, (function, arguments, args) in ZOO.items():
        plan = _plan(name)
        chosen = select_arguments(plan.program.graph, args)
        given = tuple(one if number in chosen else None for number, one in enumerate(plan.in_shardings))
        executable = jax.jit(function, keep_unused=True, in_shardings=given).lower(*arguments).compile()
        results = jax.tree.leaves(jax.eval_shape(function, *arguments))
        ours: list[Any] = [*plan.in_shardings, *jax.tree.leaves(plan.out_shardings)]
        theirs = [*executable.input_shardings[0], *jax.tree.leaves(executable.output_shardings)]
        for one, other, value in zip(ours, theirs, [*arguments, *results], strict=True):
            assert one.is_equivalent_to(other, len(value.shape)), name
            compared += 1
    record_property("summary", f"models: {compared} arguments and results of {len(ZOO)} programs as in the executables")


@pytest.mark.oracle
@pytest.mark.long
def test_what_a_device_sends_beside_xla(record_property: Callable[[str, object], None]) -> None:
    sent = {}
    for name in ZOO:
        plan = _plan(name, evenly=True)
        ours = plan.partition(effort="fast").traffic.total.executed_bytes
        sent[name] = (ours, partition(modules.located_text(plan.annotated), 8).sent)
    behind = {name for name, (ours, theirs) in sent.items() if ours > theirs}
    ahead = {name for name, (ours, theirs) in sent.items() if ours < theirs}
    ours, theirs = (sum(column) for column in zip(*sent.values(), strict=True))
    assert behind <= BEHIND, {name: sent[name] for name in behind - BEHIND}
    assert ours <= theirs
    same = len(ZOO) - len(ahead) - len(behind)
    record_property(
        "summary",
        f"models: of {len(ZOO)} programs {len(ahead)} send less than under XLA, {same} the same, {len(behind)} more; "
        f"{ours:,.0f} bytes in all, XLA {theirs:,.0f}",
    )

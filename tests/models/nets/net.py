"""What a model is here: a function, what it takes, and how a user splits some of that over a mesh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from shardwright.mesh import Mesh
from shardwright.program import Plan, Program, from_jax

__all__ = ["GRID", "LINE", "NETS", "ODD", "Net", "Split", "net"]

Split: TypeAlias = dict[str | int, Any]
"""Names of arguments, or paths of names into trees, with how these lie."""

GRID = Mesh(data=2, model=4)
LINE = Mesh(data=8)
ODD = Mesh(data=3, model=2)


@dataclass(frozen=True)
class Net:
    """A model.

    Attributes:
        function: Of the arguments, which are trees of arrays.
        arguments: Their shapes, or arrays where drawn values would not do.
        mesh: The devices.
        args: How some of the arguments lie, by name, or by the path of names of a tree.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Mesh
    args: Split

    def program(self) -> Program:
        return from_jax(self.function, *self.arguments)

    def plan(self, *, evenly: bool = False) -> Plan:
        """The model on its mesh; `evenly` with what divides of the shardings that are given, as XLA takes them."""
        program = self.program()
        if not evenly:
            return program.shard(self.mesh, args=self.args)
        graph = program.shard(self.mesh, args=self.args).annotated
        given = {value: graph.shardings[value] for value in graph.main.block.arguments}
        even = [one and one.evenly_dividing(graph.types[value].dims) for value, one in given.items()]
        return program.shard(self.mesh, args=even)


NETS: dict[str, Net] = {}


def net(*arguments: Any, args: Split, mesh: Mesh = GRID) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function as a model, under its own name."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        assert function.__name__ not in NETS
        NETS[function.__name__] = Net(function, arguments, mesh, args)
        return function

    return keep

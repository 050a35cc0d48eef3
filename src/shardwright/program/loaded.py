"""What there is to know of a program that was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.frontends.load import Source
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.stage import Stage
from shardwright.words import counted

if TYPE_CHECKING:
    from shardwright.runtime.call import Call

__all__ = ["Loaded"]


@dataclass(frozen=True, eq=False, repr=False)
class Loaded:
    """What a `Program` is, but for the ways on from it; see there for what it holds."""

    source: Source
    call: Call | None = None
    clock: Clock = field(default_factory=Clock)

    def __repr__(self) -> str:
        """`Program(step.mlir, 12 arguments, 340 ops)`."""
        return f"Program({self.name}, {counted(len(self.arguments), 'argument')}, {counted(self.graph.op_count, 'op')})"

    def _repr_html_(self) -> str:
        from shardwright.report.tables import program_html

        return program_html(repr(self), self.arguments, self.results)

    @property
    def name(self) -> str:
        """The file it came from, or the function's name."""
        return self.source.name

    @property
    def graph(self) -> Graph:
        """The program, as it was given."""
        return self.source.graph

    @property
    def arguments(self) -> dict[str, TensorType]:
        """The type of each argument by name, in order."""
        return self.graph.arguments

    @property
    def results(self) -> dict[str, TensorType]:
        """The type of each result by name, in order."""
        return self.graph.results

    @property
    def is_per_device(self) -> bool:
        """Whether this is a program of one device of a grid, with its collectives."""
        return self.graph.stage is Stage.LOCAL

    def check_shardable(self) -> None:
        """Whether this is written as for one device, which alone can be sharded.

        Raises:
            ShardingError: it is a program of one device of a grid.
        """
        if self.is_per_device:
            raise ShardingError(
                "the program is written for one device of a grid already",
                location=self.name,
                cause="it communicates by collectives of its grid, and its tensors have local shapes",
                remedy="run it as it is with `shardwright run`, or write its StableHLO with `shardwright partition`",
            )

    def unsharded(self) -> str:
        """The program for one device as MLIR text: what results are held against."""
        from shardwright.runtime.unsharded import unsharded_text

        return unsharded_text(self.source.graph, self.source.content, self.source.name)

"""What there is to know of a program with a sharding for every tensor.

What explains is loaded when asked for: to see where axes go does without.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwright.clock import Clock
from shardwright.errors import ShardingError
from shardwright.files import write_file
from shardwright.frontends.load import Source
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.program.value import FrozenValue
from shardwright.propagation import DEFAULT_STRATEGY
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage
from shardwright.words import kind_of

if TYPE_CHECKING:
    from jax.sharding import NamedSharding

    from shardwright.partition import Note
    from shardwright.plans.fit import Fit
    from shardwright.plans.formats.format import Converted
    from shardwright.plans.saved import SavedPlan
    from shardwright.propagation import Dropped, Explanations, History, Recording
    from shardwright.report.summary import Summary
    from shardwright.runtime.call import Call

__all__ = ["Planned"]


@dataclass(frozen=True, eq=False, repr=False)
class Planned(FrozenValue):
    """What a `Plan` is, but for the ways back to its program and on from it; see there for what it holds."""

    source: Source
    call: Call | None
    annotated: Graph
    graph: Graph
    clock: Clock
    strategy: str = DEFAULT_STRATEGY
    conservative: bool = False
    fit: Fit | None = None

    def __repr__(self) -> str:
        """`Plan(step.mlir, Mesh(data=2, model=4))`."""
        return f"Plan({self.source.name}, {self.mesh!r})"

    def _repr_html_(self) -> str:
        from shardwright.report.tables import plan_html

        annotated, types = self.annotated, (self.source.graph.arguments, self.source.graph.results)
        given = [annotated.shardings[value] for value in annotated.main.block.arguments]
        stated = [one is not None for one in (*given, *annotated.main.result_shardings)]
        return plan_html(self.source.name, self.mesh, types, (self.arguments, self.results), stated)

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return self.graph.mesh

    @property
    def arguments(self) -> dict[str, TensorSharding]:
        """The sharding of each argument by name: the layout in which the sharded program takes it."""
        main = self.graph.main
        return dict(zip(main.argument_names, self._layouts(main.block.arguments), strict=True))

    @property
    def results(self) -> dict[str, TensorSharding]:
        """The sharding of each result by name: the layout in which the sharded program gives it."""
        main = self._bounded.main
        layouts = self._layouts(main.block.terminator.operands, main.result_shardings)
        stated = [
            own is not None and layout.partial for layout, own in zip(layouts, main.result_shardings, strict=True)
        ]
        given = [
            layout if kept else layout.with_axes(layout.axes) for layout, kept in zip(layouts, stated, strict=True)
        ]
        return dict(zip(main.result_names, given, strict=True))

    @property
    def shardings(self) -> dict[str, TensorSharding]:
        """Results and arguments together; where a result is called as an argument is, the argument's."""
        return {**self.results, **self.arguments}

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        """`NamedSharding`s for `jax.jit(..., in_shardings=plan.in_shardings)` and `jax.device_put`: one pytree for
        each positional argument of the function; without a function, one sharding for each argument. JAX's shardings
        divide: of an uneven one this is what does.

        Raises:
            ShardingError: fewer devices here than the mesh has, or a function lowered with keyword arguments.
        """
        leaves = self.in_leaves
        return tuple(leaves) if self.call is None else self.call.in_shardings(leaves)

    @property
    def in_leaves(self) -> list[NamedSharding]:
        """The `NamedSharding` of each argument of the module.

        Raises:
            ShardingError: fewer devices here than the mesh has.
        """
        main = self.graph.main
        return self._named(self.arguments, main.block.arguments, main.argument_attributes)

    @property
    def out_shardings(self) -> Any:
        """`NamedSharding`s in the structure of the function's results; without a function, a tuple.

        Raises:
            ShardingError: fewer devices here than the mesh has.
        """
        leaves = self.out_leaves
        return tuple(leaves) if self.call is None else self.call.out_shardings(leaves)

    @property
    def out_leaves(self) -> list[NamedSharding]:
        """The `NamedSharding` of each result of the module.

        Raises:
            ShardingError: fewer devices here than the mesh has.
        """
        main = self.graph.main
        return self._named(self.results, main.block.terminator.operands, main.result_attributes)

    def constrained(self) -> Callable[..., Any]:
        """The function with these shardings as constraints, for those who keep XLA's partitioner.

        It is called as the function is, static arguments left out, with arguments of the same shapes, and has the same
        derivatives. Arguments, results, and what each equation that JAX traced gives are constrained; what stands in
        loops, and in functions with derivatives of their own, is left to XLA.

        Raises:
            ShardingError: the program came from no function, or it is not at hand; fewer devices than the mesh has.
        """
        from shardwright.program.constraining import constrained  # and JAX
        from shardwright.runtime.call import JaxCall

        if not isinstance(self.call, JaxCall) or self.call.traced is None:
            raise ShardingError(
                "there is no function to constrain",
                location=self.source.name,
                cause="the program came from text or a file, was lowered elsewhere, or came in a pickle",
                remedy="make the program from the function itself",
            )
        boundary = self.in_leaves, self.out_leaves
        return constrained(self.call, self.annotated, boundary, self.strategy, self.conservative)

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """The hints that the strategy `rfc` could not follow; each prints as a sentence with its line. Other strategies
        drop none.
        """
        return tuple(self._recording.dropped) if self.strategy == "rfc" and self.graph.stage is Stage.PROPAGATED else ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is to be told of how the program was propagated: what of a saved plan does not fit, and the hints that
        were dropped.
        """
        from shardwright.partition import Note

        remedy = "leave it out, or change the hints that it loses to"
        fitting = () if self.fit is None else self.fit.notes
        dropped = [Note(one.op, one.hint.line, one.message, 0, remedy=remedy) for one in self.dropped]
        return (*fitting, *dropped)

    @property
    def saved(self) -> SavedPlan:
        """The plan by itself, without its program, as it is written down.

        Raises:
            ShardingError: an argument or a result lies on another mesh than the first.
        """
        from shardwright.frontends.constrained_parts import placed_parts
        from shardwright.frontends.module_tensors import still_there
        from shardwright.plans.record import record

        how = self.strategy, self.conservative, self.source.name
        parts = still_there(placed_parts(self.annotated, self.source.parts), self.graph)
        lie = zip(parts, self._layouts([part.value for part in parts]), strict=True)
        return record(self.annotated, self.arguments, self.results, *how, parts=list(lie))

    def to(self, format: str, *, strict: bool = False, **options: Any) -> Converted:
        """The plan as another framework writes it: `dtensor`, `maxtext`, `torchtitan` or `tp_plan`.

        Arguments:
            format: The name of the format.
            strict: Refuse to leave out what it cannot say.
            **options: What the format may be told: the `axis` of a tp_plan.

        Raises:
            ShardingError: no such format or option; where it is to be strict, all that it cannot say.

        Example:
            >>> from shardwright.program.program import EXAMPLE, load
            >>> plan = load(EXAMPLE).shard(Mesh(data=2, model=4), args={0: "data,-", 1: ".,model"})
            >>> plan.to("dtensor").content["arguments"]["w"]["text"]
            '[Replicate(), Shard(1)]'
        """
        from shardwright.plans.formats.registry import convert_plan

        return convert_plan(self.saved, format, options, strict=strict)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plan to a file, as TOML, for `Program.apply`; on failure nothing is written.

        `Spmd.save` says also how it was partitioned, and what it came to.

        Raises:
            ShardingError: a place that cannot be written, or a sharding that cannot be.
        """
        from shardwright.plans.text import plan_text

        return write_file(path, plan_text(self.saved))

    def summary(self) -> Summary:
        """What `shardwright propagate` tells, as JSON values by name: program, mesh, how many tensors were annotated
        and completed, notes if there are any, and the times so far in seconds.
        """
        from shardwright.report.devices import describe_mesh
        from shardwright.report.summary import describe_program, tensor_counts

        notes = [asdict(note) for note in self.notes]
        return {
            "program": describe_program(self.source),
            "mesh": describe_mesh(self.mesh),
            "tensors": tensor_counts(self.annotated, self.graph),
            **({"notes": notes} if notes else {}),
            "seconds": dict(self.clock.seconds),
        }

    def explain(self, value: str) -> Explanations:
        """Why values are sharded as they are: which annotation each axis came from, through which ops, and where axes
        stopped.

        The program is propagated once more, this time with a record; that is kept.

        Arguments:
            value: An argument or result by name, `FILE:LINE` for what is made there, the name of a location, or a
                number as `module()` prints it (`%12`).

        Returns:
            An explanation for each value; printed, they read as `shardwright explain` writes them.

        Raises:
            ShardingError: nothing or several things are called so, or the program came with all communication
                written, where nothing was propagated.

        Example:
            >>> from shardwright.mesh import Mesh
            >>> from shardwright.program.program import EXAMPLE, load
            >>> plan = load(EXAMPLE).shard(Mesh(data=2, model=4), args={0: "data,-", 1: ".,model"})
            >>> [explanation] = plan.explain("result0")
            >>> [(chain.axis.name, chain.annotation.where) for chain in explanation.chains]
            [('data', 'argument x'), ('model', 'argument w')]
        """
        if not isinstance(value, str):
            raise ShardingError(
                f"not the name of a value: {value!r}"[:200],
                cause=f"it is {kind_of(value)}",
                remedy=f'give a name such as {next(iter(self.shardings), "x")!r}, FILE:LINE, or a printed number "%12"',
            )
        from shardwright.propagation import explain_values, find_value

        try:
            values = find_value(self.graph, value)
        except ShardingError:
            if self._is_left_out(value):
                raise ShardingError(
                    f"what is made at {value!r} is left out",
                    location=self.source.name,
                    cause="nothing reads it, or it is a constant for which another like it stands",
                    remedy="ask for a value that is in `shardwright propagate`'s output, or return this one",
                ) from None
            raise
        return explain_values(self._history, values)

    def _is_left_out(self, value: str) -> bool:
        """Whether the program had a value that is gone; not for one by number, as numbers change."""
        if value.startswith("%"):
            return False
        from shardwright.propagation import find_value

        try:
            before = find_value(self.annotated, value)
        except ShardingError:
            return False
        return {result for op in self.graph.walk() for result in op.results}.isdisjoint(before)

    @cached_property
    def _recording(self) -> Recording:
        if self.graph.stage is Stage.EXPLICIT:
            raise ShardingError(
                "the program was not propagated",
                location=self.source.name,
                cause="it came with all of its communication written",
                remedy="explain the program that it was made from",
            )
        from shardwright.propagation import Recording, propagate

        recording = Recording()
        propagate(
            self.annotated,
            strategy=self.strategy,
            conservative=self.conservative,
            as_compiled=True,
            record=recording,
        )
        return recording

    @cached_property
    def _history(self) -> History:
        from shardwright.propagation import History

        return History(self._recording, self.graph)

    def module(self) -> str:
        """The program with all shardings, as MLIR text."""
        return modules.located_text(self.graph)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write `module()` to a file; on failure nothing is written.

        Raises:
            ShardingError: a place that cannot be written.
        """
        return write_file(path, self.module())

    @cached_property
    def _bounded(self) -> Graph:
        """The program with the uneven shardings at its boundary that users gave, and that propagation cuts."""
        from shardwright.partition import with_stated_boundary

        return with_stated_boundary(self.graph, self.annotated)

    def _layouts(
        self, values: Sequence[int], stated: Sequence[TensorSharding | None] | None = None
    ) -> list[TensorSharding]:
        """Closed layouts at the boundary of the sharded program: those that divide, and those that are kept uneven."""
        from shardwright.partition import is_kept_uneven

        layouts: list[TensorSharding] = []
        for number, value in enumerate(values):
            type = self.graph.types[value]
            sharding = (stated[number] if stated is not None else None) or self._bounded.shardings[value]
            if sharding is None or sharding.mesh.is_maximal:
                sharding = replicated(self.mesh, type.rank)  # every device runs every op, so each holds it
            layout = sharding.closed()
            layouts.append(layout if is_kept_uneven(layout, type) else layout.evenly_dividing(type.dims))
        return layouts

    def _named(
        self, shardings: Mapping[str, TensorSharding], values: Sequence[int], attributes: list[dict[str, str]]
    ) -> list[NamedSharding]:
        """What divides of the shardings of these values, as JAX has it."""
        # imports jax, which most commands do without
        from shardwright.runtime.placement import in_memory, named_shardings

        among = self.call.on(self.mesh) if self.call else None
        shapes = [self.graph.types[value].dims for value in values]
        even = [one.evenly_dividing(shape) for one, shape in zip(shardings.values(), shapes, strict=True)]
        return in_memory(named_shardings(even, among), attributes)

"""The program for one device, and what rounding does to its results: measured by running it in other forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation import modules
from shardwright.runtime.arrays import Array
from shardwright.runtime.compare import Noise
from shardwright.runtime.jobs import Execution, Job
from shardwright.runtime.rounding import perturbed
from shardwright.runtime.wide import is_wide, widen

__all__ = ["Reference"]

_FEW, _MANY = 4, 24
"""Runs with moved roundings: at first, and before a difference is called an error."""


class Reference:
    """A program for one device, run as it is, in wider types, and with its roundings moved.

    Attributes:
        outputs: Its outputs.
        seconds: Time to run it, compilation left out.
        exact: Outputs of the wide program; empty where it could not be run, or has no other types.
        perturbed: Outputs of each run with moved roundings.
        notes: What could not be measured, and why.
    """

    def __init__(
        self,
        module: str,
        inputs: tuple[Array, ...],
        graph: Graph | None = None,
        measured: bool = True,
        layout: Job | None = None,
        callbacks: tuple[Callable[..., Any], ...] = (),
    ) -> None:
        """Prepare the runs.

        Arguments:
            module: The program, MLIR text.
            inputs: Global arrays.
            graph: The same program as a graph, if it is at hand; without shardings, unless there is a `layout`.
            measured: Whether to find out what rounding does.
            layout: A job whose mesh and shardings the program has: XLA partitions it. For one device, if not given.
            callbacks: The Python functions that it calls, by the numbers that it has for them.
        """
        self.module = module
        self.inputs = inputs
        self._job = Job("", inputs) if layout is None else replace(layout, inputs=inputs, partitioned=True)
        self._job = replace(self._job, callbacks=callbacks)
        self.outputs: tuple[Array, ...] = ()
        self.seconds = 0.0
        self.exact: tuple[Array, ...] = ()
        self.perturbed: list[tuple[Array, ...]] = []
        self.notes: list[str] = []
        self._graph = graph
        self._perturbed_module = ""
        self._measured = measured

    @property
    def runs(self) -> int:
        """How many runs tell what rounding does."""
        return len(self.perturbed) + bool(self.exact)

    @property
    def undefined(self) -> int:
        """How many elements of its outputs are no numbers."""
        return sum(int(np.count_nonzero(output != output)) for output in self.outputs)

    def jobs(self) -> list[Job]:
        """What to run before anything can be compared."""
        jobs = [replace(self._job, module=self.module)]
        if not self._measured:
            return jobs
        self._graph = graph = self._graph if self._graph is not None else modules.read(load_module(self.module))
        jobs += self._perturbed_jobs(range(_FEW))
        if not is_wide(graph):
            wide, kept = widen(graph)
            if kept:
                counts = ", ".join(f"{count} {name}" for name, count in sorted(kept.items()))
                self.notes.append(f"not widened in the reference in float64: {counts}")
            jobs.append(replace(self._job, module=self._text(wide), draft=True))
        return jobs

    def _text(self, graph: Graph) -> str:
        return modules.text_of(graph, shardings=self._job.partitioned)

    def _perturbed_jobs(self, seeds: range) -> list[Job]:
        """The program with its roundings moved: one with a seed as its argument, or partitioned, one for each seed."""
        assert self._graph is not None
        if self._job.partitioned:
            modules = [self._text(perturbed(self._graph, seed)) for seed in seeds]
            return [replace(self._job, module=module, draft=True) for module in modules]
        self._perturbed_module = self._perturbed_module or self._text(perturbed(self._graph))
        return [replace(self._job, module=self._perturbed_module, seeds=tuple(seeds), draft=True)]

    def take(self, results: Sequence[Execution | ShardingError]) -> None:
        """What `jobs` gave.

        Raises:
            ShardingError: the program itself cannot be run. A variant that XLA does not take leaves a note.
        """
        own, *variants = results
        if isinstance(own, ShardingError):
            raise own
        self.outputs, self.seconds = own.outputs, own.run_seconds
        count = _FEW if self._job.partitioned else 1
        self.take_more(variants[:count])
        if len(variants) > count:
            wide = variants[count]
            if isinstance(wide, ShardingError):
                self.notes.append(f"the reference cannot be run in float64: {wide.diagnostic.message}")
            else:
                self.exact = wide.outputs

    def more_jobs(self) -> list[Job]:
        """What to run before a difference is called an error."""
        return self._perturbed_jobs(range(_FEW, _FEW + _MANY))

    def take_more(self, results: Sequence[Execution | ShardingError]) -> None:
        """What `more_jobs` gave."""
        for result in results:
            self._take_perturbed(result)

    def noise(self, number: int) -> Noise | None:
        """What is known of an output; `None` where nothing could be measured."""
        if not self.runs:
            return None
        exact = self.exact[number] if self.exact else None
        return Noise(exact, tuple(outputs[number] for outputs in self.perturbed))

    def _take_perturbed(self, result: Execution | ShardingError) -> None:
        if isinstance(result, ShardingError):
            note = f"the reference cannot be run with moved roundings: {result.diagnostic.message}"
            self.notes += [note] if note not in self.notes else []
            return
        each = len(self.outputs)
        starts = range(0, len(result.outputs), each) if each else ()
        self.perturbed += [result.outputs[start : start + each] for start in starts]

"""Programs that are written for one device of a grid already: collectives and queries of the `shard` dialect.

program = sw.load("shifted.mlir")
program.per_device().run()["result0"]    # one row a device
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.files import write_file
from shardwright.frontends.load import Source
from shardwright.ir.context import module_text
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.partition.processes import stacked
from shardwright.process import DEFAULT_TIMEOUT
from shardwright.program.local import LocalValue, local_text
from shardwright.runtime.arrays import Array
from shardwright.runtime.execute import execute_local
from shardwright.runtime.inputs import make_inputs
from shardwright.runtime.limits import check_run
from shardwright.runtime.runnable import check_runnable
from shardwright.runtime.unregistered import told_at_its_call
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from shardwright.report.summary import Summary

__all__ = ["PerDevice"]


@dataclass(frozen=True, eq=False, repr=False)
class PerDevice(LocalValue):
    """A per-device program, its grid's collectives and queries lowered to StableHLO.

    There is no unsharded program to hold its results against: what it computes is what it says.

    Attributes:
        source: The program as it was read.
        local: The program of one device, in StableHLO.
    """

    source: Source
    local: Graph

    def __repr__(self) -> str:
        """`PerDevice(shifted.mlir, Mesh(axis_0=2, axis_1=4))`."""
        return f"PerDevice({self.name}, {self.mesh!r})"

    @property
    def name(self) -> str:
        """The file it came from."""
        return self.source.name

    @property
    def mesh(self) -> Mesh:
        """The grid."""
        return next(iter(self.local.meshes.values()), Mesh())

    def module(self, to: str = "sdy") -> str:
        """The program of one device as MLIR text, its collectives StableHLO's or of the dialect `shard` or `mesh`.

        Raises:
            ShardingError: no such notation, or a name that it cannot spell.
        """
        return local_text(self.local, to)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write `module()` to a file; on failure nothing is written.

        Raises:
            ShardingError: a place that cannot be written.
        """
        return write_file(path, self.module())

    def inputs(self, given: Mapping[str, Any] | None = None, *, seed: int = 0) -> list[Array]:
        """One array for each argument, with a first dimension of one row a device, in the order of the grid.

        Arguments:
            given: Such arrays by argument name; what is missing is drawn.
            seed: Seed of what is drawn.

        Raises:
            ShardingError: an array that fits no argument.
        """
        main = self.local.main
        types = self._rows(main.block.arguments)
        arrays = {name: np.asarray(array) for name, array in (given or {}).items()}
        return make_inputs(types, main.argument_names, main.argument_attributes, seed=seed, given=arrays)

    def run(
        self, inputs: Mapping[str, Any] | None = None, *, seed: int = 0, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Array]:
        """Run on one virtual CPU device a position of the grid, in a process of its own.

        Arguments:
            inputs: As for `inputs`.
            seed: Seed of what is drawn.
            timeout: Seconds after which it is given up, compiling included.

        Returns:
            The results by name, each with a first dimension of one row a device.

        Raises:
            ShardingError: an input that fits no argument, or a program that cannot be run.
        """
        check_runnable(self.local)
        main = self.local.main
        types = self._rows(main.block.terminator.operands)
        check_run([*self._rows(main.block.arguments), *types], self.local, self.mesh.size)
        arrays = self.inputs(inputs, seed=seed)
        text = module_text(modules.write(stacked(self.local), shardings=False))
        with told_at_its_call(self.local):
            execution = execute_local(
                text,
                self.mesh,
                [self._row(array.ndim) for array in arrays],
                [self._row(type.rank) for type in types],
                arrays,
                types,
                timeout=timeout,
            )
        return dict(zip(main.result_names, execution.outputs, strict=True))

    def summary(self, results: Mapping[str, Any] | None = None) -> Summary:
        """What is told of the program as JSON values by name, and of the `results` of a run: see `run`."""
        from shardwright.report.devices import describe_mesh
        from shardwright.report.summary import describe_memory, describe_program, describe_results, describe_traffic

        return {
            "program": describe_program(self.source),
            "mesh": describe_mesh(self.mesh),
            "collectives": describe_traffic(self.traffic),
            "memory": describe_memory(self.memory),
            **({} if results is None else describe_results(results)),
        }

    def _rows(self, values: tuple[int, ...]) -> list[TensorType]:
        types = [self.local.types[value] for value in values]
        for type in types:
            if not type.is_tensor:
                raise ShardingError(
                    f"a value of type {type} goes in or out of the program",
                    location=self.name,
                    remedy="only tensors and integers do",
                )
        return [replace(type, shape=(self.mesh.size, *type.dims)) for type in types]

    def _row(self, rank: int) -> TensorSharding:
        every = tuple(self.mesh.axis(name) for name, _ in self.mesh.axes)
        return TensorSharding.of(self.mesh, [every, *[()] * (rank - 1)])

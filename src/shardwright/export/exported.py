"""A program that was exported, read again: what there is to know of it, and a callable of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax

from shardwright.errors import ShardingError
from shardwright.export.calls import call_from
from shardwright.export.container import malformed, read_container
from shardwright.export.platforms import check_platform
from shardwright.files import printable
from shardwright.ir.context import load_module, module_text
from shardwright.ir.portable import current_version, is_readable
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.runtime.call import JaxCall
from shardwright.runtime.compiled import Compiled, LocalProgram, compile_program
from shardwright.runtime.records import mesh_from, sharding_from
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from shardwright.runtime.ahead import Ahead

__all__ = ["Exported", "load_exported"]


@dataclass(frozen=True, eq=False)
class Exported:
    """A partitioned program from a file.

    Attributes:
        name: What it was called.
        mesh: The devices it is for.
        arguments: The global type of each argument by name, in order.
        results: The global type of each result by name, in order.
        in_shardings: How each argument lies.
        out_shardings: How each result lies.
        custom_calls: What it calls of libraries.
        call: How the function is called that it comes from; without it, it takes arrays by position.
    """

    name: str
    mesh: Mesh
    arguments: dict[str, TensorType]
    results: dict[str, TensorType]
    in_shardings: tuple[TensorSharding, ...]
    out_shardings: tuple[TensorSharding, ...]
    custom_calls: tuple[str, ...]
    call: JaxCall | None = field(repr=False)
    _modules: dict[str, bytes] = field(repr=False)

    def __repr__(self) -> str:
        """`Exported(step.mlir, Mesh(data=2, model=4))`."""
        return f"Exported({self.name}, {self.mesh!r})"

    def module(self, stage: str = "local") -> str:
        """The module of a stage as MLIR text: `local`, or `propagated`, which has the plan of every tensor.

        Raises:
            ShardingError: no such stage.
        """
        if stage not in self._modules:
            raise ShardingError(f"unknown stage {stage!r}", remedy=f"one of {', '.join(self._modules)}")
        return module_text(load_module(self._modules[stage], self.name), locations=True)

    def compile(self, *, trial: bool = True) -> Compiled:
        """A callable that runs it on the devices of this process, as `Spmd.compile` makes one.

        Raises:
            ShardingError: fewer devices here than the mesh has, devices that do not have what it calls, or what XLA
                says.
        """
        check_platform(jax.devices()[0].platform, self.custom_calls, self.name)
        module = load_module(self._modules["local"], self.name)
        arguments, results = (self.arguments, self.in_shardings), (self.results, self.out_shardings)
        program = LocalProgram.of(self.module("local"), modules.read(module), self.mesh, arguments, results)
        call = None if self.call is None else self.call.with_donors(program.donors)
        return compile_program(program, call, trial)

    def compile_for(self, topology: str, platform: str = "tpu", gpu: str | None = None) -> Ahead:
        """Compile it for devices that are not here, to see that XLA takes it there and what it comes to.

        XLA for TPUs does so wherever `libtpu` is installed, on any machine; XLA for GPUs wherever JAX's plugin is, told
        which GPU, with kernels that are not tuned then.

        Arguments:
            topology: How JAX calls the devices and how they are joined: `v5e:2x4`; of GPUs, slices by nodes by devices
                of a node: `1x1x8`.
            platform: Of what kind they are.
            gpu: Which GPUs: `a100`, `h100`, `h200`, `b200`, or the path of a description of XLA's; else those that are
                here.

        Raises:
            ShardingError: XLA for these devices is not installed, no such topology, another number of devices than the
                mesh has, no such GPU, devices that do not have what it calls, or what XLA says.
        """
        from shardwright.runtime.ahead import compile_ahead  # imports what JAX has of topologies, which takes a while

        check_platform(platform, self.custom_calls, self.name)
        return compile_ahead(self.module("local"), self.mesh, platform, topology, gpu)


def load_exported(path: str | os.PathLike[str]) -> Exported:
    """Read a program that `Spmd.export` wrote; nothing in the file is run by that.

    Raises:
        ShardingError: a file that cannot be read, is none of these, damaged, or of a later version.

    Example:
        step = load_exported("step.sw").compile()
        params, value = step(params, batch)
    """
    container, name = read_container(path), printable(os.fsdecode(path))
    manifest = container.manifest
    try:
        if not is_readable(manifest["stablehlo"]):
            raise ShardingError(
                f"the program is of StableHLO {manifest['stablehlo']}, this jaxlib reads up to {current_version()}",
                location=name,
                cause=f"it was made with jaxlib {manifest['made_with']['jaxlib']}",
                remedy="install that jaxlib or a later one, or export it with this one",
            )
        arguments, results = manifest["arguments"], manifest["results"]
        return Exported(
            str(manifest["name"]),
            mesh_from(manifest["mesh"]),
            {str(one["name"]): TensorType.parse(one["type"]) for one in arguments},
            {str(one["name"]): TensorType.parse(one["type"]) for one in results},
            tuple(sharding_from(one["sharding"]) for one in arguments),
            tuple(sharding_from(one["sharding"]) for one in results),
            tuple(map(str, manifest["custom_calls"])),
            None if manifest["call"] is None else call_from(manifest["call"]),
            container.modules,
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise malformed(name, f"{type(error).__name__}: {error}") from None

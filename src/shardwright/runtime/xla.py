"""XLA through jax: the one file of the runtime that touches private modules (jax 0.10 and 0.11).

A per-device module is compiled as one SPMD program of N partitions with XLA's own partitioner switched off. Partition
`p` runs on the device that the mesh has at position `p`. Modules are compiled directly: jax's persistent compilation
cache is not consulted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src.lib import _jax, lapack, xla_client  # type: ignore[attr-defined]

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, load_module
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import Array
from shardwright.runtime.jobs import Execution, Job
from shardwright.runtime.shards import ReplicaDifference, assemble, cut

__all__ = ["Executable", "available_devices", "compile_local", "compile_unsharded", "run_job"]


class Executable:
    """A compiled module and the devices it runs on, in the order of its partitions."""

    def __init__(self, loaded: Any, devices: Sequence[Any]) -> None:
        """Hold what `compile_unsharded` or `compile_local` made."""
        self.loaded = loaded
        self.devices = list(devices)

    def run(self, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Run once: `inputs[argument][partition]` → `outputs[result][partition]`."""
        # Without x64 jax would silently narrow 64-bit inputs.
        with jax.enable_x64(True):
            arguments = [self._argument(shards) for shards in inputs]
            return [[np.asarray(shard) for shard in shards] for shards in self.call(arguments)]

    def call(self, arguments: Sequence[Any]) -> Any:
        """Run once on jax arrays, each with one shard a device: `outputs[result][partition]`, on the devices."""
        return self.loaded.execute_sharded(list(arguments)).disassemble_into_single_device_arrays()

    def _argument(self, shards: Sequence[Array]) -> Any:
        """One array that holds `shards[p]` on device `p`; jax believes that they are copies of each other."""
        mesh = jax.sharding.Mesh(np.array(self.devices), ("partition",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        parts = [jax.device_put(shard, device) for shard, device in zip(shards, self.devices, strict=True)]
        return jax.make_array_from_single_device_arrays(shards[0].shape, sharding, parts)


def available_devices(count: int, platform: str | None = None) -> list[Any]:
    """The first `count` devices of `platform` (jax's default platform where none is given).

    Raises:
        ShardingError: there are fewer.
    """
    devices = jax.devices(platform) if platform else jax.devices()
    if len(devices) < count:
        raise ShardingError(
            f"the program runs on {count} devices, this process has {len(devices)}",
            remedy=f"set XLA_FLAGS=--xla_force_host_platform_device_count={count} before jax starts",
        )
    return list(devices[:count])


def compile_unsharded(module: str, platform: str | None = None) -> Executable:
    """Compile a module for one device."""
    return _compile(module, available_devices(1, platform))


def compile_local(module: str, mesh: Mesh, platform: str | None = None) -> Executable:
    """Compile a per-device module for the devices of `mesh`."""
    devices = available_devices(mesh.size, platform)
    return _compile(module, [devices[mesh.device_id(position)] for position in range(mesh.size)])


def _with_main(text: str) -> ir.Module:
    """The module, its only public function called `main`, as XLA wants the entry to be."""
    module = load_module(text)
    functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    names = [ir.StringAttr(function.attributes["sym_name"]).value for function in functions]
    if "main" in names:
        return module
    public = [function for function in functions if _is_public(function)]
    if len(public) == 1:
        public[0].attributes["sym_name"] = ir.StringAttr.get("main", context=context())
    return module


def _is_public(function: ir.Operation) -> bool:
    said = "sym_visibility" in function.attributes
    return not said or ir.StringAttr(function.attributes["sym_visibility"]).value == "public"


def _compile(module: str, devices: Sequence[Any]) -> Executable:
    if "@lapack_" in module:
        lapack.prepare_lapack_call("potrf", np.dtype(np.float32))  # else XLA jumps through pointers nobody has set
    count = len(devices)
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas, options.num_partitions = 1, count
    build.num_replicas, build.num_partitions = 1, count
    if count > 1:
        build.use_spmd_partitioning = True
        # The module is per-device already: nothing is left to propagate or to partition.
        build.debug_options.xla_disable_hlo_passes = "spmd-partitioning,sharding-propagation"
    ids = np.array([[device.id for device in devices]], dtype=np.int32)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    client = devices[0].client
    loaded = client.compile_and_load(_with_main(module), _jax.DeviceList(tuple(devices)), options)
    return Executable(loaded, devices)


def run_job(job: Job, platform: str | None = None) -> Execution:
    """Compile and run a job in this process, which must have the devices.

    Raises:
        ShardingError: XLA refuses the module, or there are too few devices. XLA may also abort the process: see
            `execute.run_jobs`.
    """
    start = time.perf_counter()
    try:
        executable = (
            compile_unsharded(job.module, platform)
            if job.mesh is None
            else compile_local(job.module, job.mesh, platform)
        )
        compiled = time.perf_counter()
        outputs, differences = _run(executable, job)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise ShardingError(f"XLA cannot run the module: {error}", cause=_first_line(job.module)) from None
    return Execution(outputs, differences, compiled - start, time.perf_counter() - compiled)


def _run(executable: Executable, job: Job) -> tuple[tuple[Array, ...], tuple[ReplicaDifference, ...]]:
    if job.mesh is None:
        return tuple(shards[0] for shards in executable.run([[array] for array in job.inputs])), ()
    inputs = [cut(array, sharding) for array, sharding in zip(job.inputs, job.in_shardings, strict=True)]
    found: list[ReplicaDifference] = []
    outputs = []
    for number, (shards, sharding, type) in enumerate(
        zip(executable.run(inputs), job.out_shardings, job.out_types, strict=True)
    ):
        whole, differences = assemble(shards, sharding, type.dims, number)
        outputs.append(whole)
        found += differences
    return tuple(outputs), tuple(found)


def _first_line(module: str) -> str:
    return module.split("\n", 1)[0][:200]

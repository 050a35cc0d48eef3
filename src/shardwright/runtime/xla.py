"""XLA through jax: the one file of the runtime that touches private modules (the same in jax 0.10, 0.11 and 0.12).

A per-device module is compiled as one SPMD program of N partitions with XLA's own partitioner switched off, or told to
leave everything alone (`runtime.enclosed`). Partition `p` runs on the device that the mesh has at position `p`. Modules
are compiled directly: jax's persistent compilation cache is not consulted.

XLA takes the buffers it is given as they are: in the wrong memory layout they hold other numbers, on the wrong device
they end the process. So an executable says how each argument is to lie, and places it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any, TypeAlias

import jax
import numpy as np
from jax._src import distributed, xla_bridge
from jax._src.interpreters.pxla import global_aval_to_result_handler
from jax._src.lib import _jax, lapack, xla_client  # type: ignore[attr-defined]
from jax.experimental.layout import Format, Layout

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, load_module
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import Array, numpy_dtype
from shardwright.runtime.ascii_names import with_ascii_names
from shardwright.runtime.contributions import contributed
from shardwright.runtime.enclosed import enclose
from shardwright.runtime.jobs import Execution, Job
from shardwright.runtime.pieces import Outcome, cut_inputs, put_together
from shardwright.runtime.refused import refusal
from shardwright.words import counted

__all__ = [
    "Executable",
    "available_devices",
    "compile_absent",
    "compile_local",
    "compile_unsharded",
    "join_processes",
    "run_job",
]


Callbacks: TypeAlias = Sequence[Callable[..., Any]]

_MEMORY_KIND = "mhlo.memory_kind"

_SKIPPING = ("cpu",)
"""The platforms whose XLA leaves out the partitioner when it is told to."""

_TRIAL_SECONDS = 5.0
_JOIN_SECONDS = 120
_HEARTBEAT_SECONDS = 10


class Executable:
    """A compiled module and the devices it runs on, in the order of its partitions.

    Where `jax.distributed` has joined processes, each runs the partitions of its own devices; all must run it.

    Attributes:
        loaded: XLA's own.
        devices: The device of each partition.
        here: The partitions whose devices are of this process: all of them, where there is one.
        layouts: The order of elements in memory of each argument's shards, as the module or XLA chose it.
        result_layouts: The same of each result's.
        memory_kinds: In which memory of a device each argument is, `None` for the device's own.
        result_memory_kinds: The same of each result.
    """

    def __init__(self, loaded: Any, devices: Sequence[Any], memory_kinds: Sequence[str | None]) -> None:
        """Hold what `compile_unsharded` or `compile_local` made."""
        self.loaded = loaded
        self.devices = list(devices)
        own = self.devices[0].client.process_index()
        self.here = tuple(number for number, device in enumerate(self.devices) if device.process_index == own)
        self.memory_kinds = tuple(memory_kinds)
        self.layouts = tuple(map(Layout.from_pjrt_layout, loaded.get_parameter_layouts()))
        self.result_layouts = tuple(map(Layout.from_pjrt_layout, loaded.get_output_layouts()))
        self.result_memory_kinds = tuple(loaded.get_output_memory_kinds()[0])
        self._orders: dict[Any, bool] = {}

    def run(self, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Run once: `inputs[argument][partition]` → `outputs[result][partition]`, of the partitions that are here."""
        # Without x64 jax would silently narrow 64-bit inputs.
        with jax.enable_x64(True):
            return [[np.asarray(shard) for shard in shards] for shards in self.call(self.arguments(inputs))]

    def arguments(self, inputs: Sequence[Sequence[Array]]) -> list[Any]:
        """`inputs[argument][partition]` as `call` takes them; 64-bit ones want `jax.enable_x64`."""
        return [self._argument(number, shards) for number, shards in enumerate(inputs)]

    def call(self, arguments: Sequence[Any]) -> Any:
        """Run once on jax arrays, each with one shard a device: `outputs[result][partition]`, on the devices."""
        return self.loaded.execute_sharded(list(arguments)).disassemble_into_single_device_arrays()

    def maker(self, array: Any) -> Callable[[Any], Any] | None:
        """What makes arrays like this one, which JAX has checked, of the shards of later runs, with no checks.

        `None` where the devices of its mesh are in another order than the partitions.
        """
        if not self._is_in_order(array.sharding):
            return None
        made: Callable[[Any], Any] = global_aval_to_result_handler(array.aval, array.sharding, True)
        return made

    def is_placed(self, number: int, value: Any, sharding: Any) -> bool:
        """Whether `value` lies as `placed` would have it, which takes longer to find that nothing is to do."""
        given = getattr(value, "sharding", None)
        if given is None or not _is_same(given, sharding, value.ndim):
            return False
        return bool(value.format.layout == self.layouts[number]) and self._is_in_order(sharding)

    def placed(self, number: int, value: Any, sharding: Any) -> Any:
        """`value` as `call` takes argument `number`: laid out as `sharding`, its shards in the order of partitions."""
        placed = contributed(value, sharding)
        if placed.format.layout != self.layouts[number]:
            placed = jax.device_put(placed, Format(self.layouts[number], sharding))
        if self._is_in_order(sharding):
            return placed
        held = {shard.device: shard.data for shard in placed.addressable_shards}
        return self._joined([held[self.devices[one]] for one in self.here], sharding.memory_kind)

    def _is_in_order(self, sharding: Any) -> bool:
        """Whether the devices of a sharding's mesh are in the order of the partitions."""
        mesh = sharding.mesh
        if mesh not in self._orders:
            self._orders[mesh] = list(mesh.devices.flat) == self.devices
        return self._orders[mesh]

    def _argument(self, number: int, shards: Sequence[Array]) -> Any:
        memory_kind, layout = self.memory_kinds[number], self.layouts[number]
        parts = []
        for shard, device in zip(shards, [self.devices[one] for one in self.here], strict=True):
            place = jax.sharding.SingleDeviceSharding(device, memory_kind=memory_kind)
            part = jax.device_put(shard, place)
            parts.append(part if part.format.layout == layout else jax.device_put(part, Format(layout, place)))
        return self._joined(parts, memory_kind)

    def _joined(self, shards: Sequence[Any], memory_kind: str | None) -> Any:
        """One array that holds `shards[p]` on device `p`; jax believes that they are copies of each other."""
        mesh = jax.sharding.Mesh(np.array(self.devices), ("partition",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(), memory_kind=memory_kind)
        return jax.make_array_from_single_device_arrays(shards[0].shape, sharding, list(shards))


def _is_same(given: Any, sharding: Any, rank: int) -> bool:
    """Whether two shardings of JAX are one; of those that await sums only what is written alike."""
    if given == sharding:
        return True
    if not isinstance(given, jax.sharding.NamedSharding) or given.spec.unreduced or sharding.spec.unreduced:
        return False
    return bool(given.is_equivalent_to(sharding, rank))


def join_processes(host: str, port: int, count: int, number: int) -> None:
    """Join this process as `number` of `count` whose CPU devices work together, by connections to `host` only.

    `jax.distributed.initialize` by itself listens on every interface, and collectives take the one that the name of the
    machine leads to.
    """
    address = f"{host}:{port}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        count,
        number,
        coordinator_bind_address=address,
        cluster_detection_method="deactivate",
        initialization_timeout=_JOIN_SECONDS,
        heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
    )
    collectives = _jax.make_gloo_tcp_collectives(distributed_client=distributed.global_state.client, hostname=host)
    client = partial(xla_bridge.make_cpu_client, collectives)
    xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)


def available_devices(count: int, platform: str | None = None) -> list[Any]:
    """The first `count` devices of `platform` (jax's default platform where none is given).

    Raises:
        ShardingError: there are fewer.
    """
    devices = jax.devices(platform) if platform else jax.devices()
    if len(devices) < count:
        raise ShardingError(
            f"the program runs on {counted(count, 'device')}, this process has {len(devices)}",
            remedy=f"set XLA_FLAGS=--xla_force_host_platform_device_count={count} before jax starts",
        )
    return list(devices[:count])


def compile_unsharded(
    module: str, platform: str | None = None, draft: bool = False, repeatable: bool = False, callbacks: Callbacks = ()
) -> Executable:
    """Compile a module for one device; as a draft, in haste; repeatable, to the same bits on every device.

    `callbacks` are the Python functions that it calls, by the numbers that it has for them.
    """
    return _compile(module, available_devices(1, platform), draft, repeatable, callbacks=callbacks)


def compile_local(
    module: str,
    mesh: Mesh,
    platform: str | None = None,
    among: Sequence[Any] | None = None,
    draft: bool = False,
    repeatable: bool = False,
    callbacks: Callbacks = (),
) -> Executable:
    """Compile a per-device module for the devices of `mesh`: those of `among`, or the first ones, by their number.

    As a draft, in haste; repeatable, to the same bits on every device that is given the same.
    """
    devices = available_devices(mesh.size, platform) if among is None else among
    places = [devices[mesh.device_id(position)] for position in range(mesh.size)]
    return _compile(module, places, draft, repeatable, callbacks=callbacks)


def compile_partitioned(
    module: str,
    mesh: Mesh,
    platform: str | None = None,
    draft: bool = False,
    repeatable: bool = False,
    callbacks: Callbacks = (),
) -> Executable:
    """Compile a module with sdy shardings for the devices of `mesh`, partitioned by XLA."""
    return _compile(module, available_devices(mesh.size, platform), draft, repeatable, True, callbacks)


def _with_main(text: str) -> tuple[ir.Module, ir.Operation]:
    """The module, its only public function called `main`, as XLA wants the entry to be; and that function.

    Raises:
        ShardingError: no function is the entry.
    """
    module = with_ascii_names(load_module(text))
    functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    named = [function for function in functions if ir.StringAttr(function.attributes["sym_name"]).value == "main"]
    entries = named or [function for function in functions if _is_public(function)]
    if len(entries) != 1:
        raise ShardingError(
            f"a module to run has one entry, this one {len(entries)}",
            cause="no function is called main, and not exactly one is public",
            remedy="call one of them main",
        )
    entries[0].attributes["sym_name"] = ir.StringAttr.get("main", context=context())
    return module, entries[0]


def _is_public(function: ir.Operation) -> bool:
    has_visibility = "sym_visibility" in function.attributes
    return not has_visibility or ir.StringAttr(function.attributes["sym_visibility"]).value == "public"


def compile_absent(
    module: str, devices: Sequence[Any], partition: bool = False, flags: Sequence[tuple[str, Any]] = ()
) -> Any:
    """What XLA tells of a module, compiled for devices of a topology that are not here, so not to be run.

    Arguments:
        module: Of one device, or with sdy shardings.
        devices: Which device runs which position.
        partition: Whether XLA is to partition it.
        flags: Options of XLA, and what they are.
    """
    read, options, _ = _prepared(module, devices, partition=partition)
    options.env_option_overrides = [*options.env_option_overrides, *flags]
    return devices[0].client.compile(read, _jax.DeviceList(tuple(devices)), options)


def _compile(
    module: str,
    devices: Sequence[Any],
    draft: bool = False,
    repeatable: bool = False,
    partition: bool = False,
    callbacks: Callbacks = (),
) -> Executable:
    read, options, memory_kinds = _prepared(module, devices, draft, repeatable, partition)
    places = _jax.DeviceList(tuple(devices))
    loaded = devices[0].client.compile_and_load(read, places, options, host_callbacks=list(callbacks))
    return Executable(loaded, devices, memory_kinds)


def _prepared(
    module: str, devices: Sequence[Any], draft: bool = False, repeatable: bool = False, partition: bool = False
) -> tuple[ir.Module, Any, list[str | None]]:
    """The module as XLA takes it, with which options, and in which memory each argument is."""
    if "@lapack_" in module:
        lapack.prepare_lapack_call("potrf", np.dtype(np.float32))  # else XLA jumps through pointers nobody has set
    count = len(devices)
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas, options.num_partitions = 1, count
    build.num_replicas, build.num_partitions = 1, count
    if repeatable and "stablehlo.fft" in module:
        # Its FFTs on CPUs share rows out among the threads that are idle, and round those that are left over otherwise.
        options.env_option_overrides = [("xla_cpu_multi_thread_eigen", False)]
    if draft:
        build.debug_options.xla_backend_optimization_level = 0
    read, main = _with_main(module)
    memory_kinds = _memory_kinds(main, "arg_attrs", devices[0])
    _memory_kinds(main, "res_attrs", devices[0])
    if partition:
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
    elif count > 1:
        build.use_spmd_partitioning = True
        # The module is per-device already: nothing is left to propagate or to partition.
        if devices[0].platform in _SKIPPING:
            build.debug_options.xla_disable_hlo_passes = "spmd-partitioning,sharding-propagation"
        else:
            # needs the engine that partitions
            from shardwright.runtime.for_partitioner import write_for_partitioner

            build.use_shardy_partitioner = True
            write_for_partitioner(read, [devices[0].platform])
            enclose(read, main, count)
    ids = np.array([[device.id for device in devices]], dtype=np.int32)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    return read, options, memory_kinds


def _memory_kinds(function: ir.Operation, rows: str, device: Any) -> list[str | None]:
    """In which memory each argument (or result) is said to be.

    Raises:
        ShardingError: the device has no such memory.
    """
    if rows not in function.attributes:
        types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        return [None] * len(types.inputs if rows == "arg_attrs" else types.results)
    known = [memory.kind for memory in device.addressable_memories()]
    kinds: list[str | None] = []
    for row in map(ir.DictAttr, ir.ArrayAttr(function.attributes[rows])):
        kinds.append(ir.StringAttr(row[_MEMORY_KIND]).value if _MEMORY_KIND in row else None)
        if kinds[-1] is not None and kinds[-1] not in known:
            raise ShardingError(
                f"{'an argument' if rows == 'arg_attrs' else 'a result'} is to be in memory {kinds[-1]!r}, "
                f"which {device} does not have",
                cause=f"it has {', '.join(known)}",
                remedy=f"run it where there is such memory, or take {_MEMORY_KIND} out of the program",
            )
    return kinds


def run_job(job: Job, platform: str | None = None) -> Execution:
    """Compile and run a job in this process, which must have the devices.

    Raises:
        ShardingError: XLA refuses the module, or there are too few devices. XLA may also abort the process: see
            `execute.run_jobs`.
    """
    start = time.perf_counter()
    try:
        executable = (
            compile_unsharded(job.module, platform, job.draft, repeatable=True, callbacks=job.callbacks)
            if job.mesh is None
            else (compile_partitioned if job.partitioned else compile_local)(
                job.module, job.mesh, platform, draft=job.draft, repeatable=True, callbacks=job.callbacks
            )
        )
        compiled = time.perf_counter()
        if job.zeros is not None:
            _try(executable, job, job.zeros)
            return Execution((), (), compiled - start, time.perf_counter() - compiled)
        outputs, differences, copies = _run(executable, job)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise ShardingError(refusal(str(error)), cause=_first_line(job.module)) from None
    return Execution(outputs, differences, compiled - start, time.perf_counter() - compiled, copies)


def _try(executable: Executable, job: Job, types: Sequence[TensorType]) -> None:
    """Run on zeros, for as long as shows whether the process survives it; a loop may be waiting for other numbers."""
    locals = [sharding.local_shape(type.dims) for sharding, type in zip(job.in_shardings, types, strict=True)]
    zeros = [np.zeros(shape, numpy_dtype(type.dtype)) for shape, type in zip(locals, types, strict=True)]
    thread = Thread(target=lambda: executable.run([[array] * len(executable.devices) for array in zeros]), daemon=True)
    thread.start()
    thread.join(_TRIAL_SECONDS)


def _run(executable: Executable, job: Job) -> Outcome:
    if job.mesh is None:
        inputs = [[array] for array in job.inputs]
        runs = [[*inputs, [np.asarray(seed, np.uint32)]] for seed in job.seeds] or [inputs]
        return tuple(shards[0] for run in runs for shards in executable.run(run)), (), ()
    return put_together(job, executable.run(cut_inputs(job)))


def _first_line(module: str) -> str:
    return module.split("\n", 1)[0][:200]

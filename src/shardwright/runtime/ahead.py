"""Compiling for devices that are not here, as far as XLA does that: whether it takes a program, what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import topologies

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.runtime.gpus import description_of
from shardwright.runtime.xla import compile_absent
from shardwright.words import counted

__all__ = ["UNTUNED", "Ahead", "compile_ahead", "devices_of"]

_GPUS = ("gpu", "cuda")
_PLUGIN = "the plugin of JAX for GPUs (jax-cuda12-plugin and jax-cuda12-pjrt)"
_LIBRARIES = {"tpu": "libtpu", **dict.fromkeys(_GPUS, _PLUGIN)}
UNTUNED = (("xla_gpu_autotune_level", 0), ("xla_gpu_enable_triton_gemm", False))
"""What kernels are tuned by is not here, and some of products that are made for it have no form then."""
_LIKE = "v5e:2x4 for TPUs, 1x1x8 for eight GPUs of a node"


@dataclass(frozen=True, slots=True)
class Ahead:
    """What XLA makes of a program for devices that are not here; bytes are of each device.

    Attributes:
        platform: What kind of devices.
        kind: What they are called.
        arguments: Bytes of arguments, as they lie in memory there.
        results: Bytes of results.
        shared: Of these, bytes that arguments and results share, by donation.
        temporary: Bytes of what is neither.
        code: Bytes of machine code.
    """

    platform: str
    kind: str
    arguments: int
    results: int
    shared: int
    temporary: int
    code: int


def devices_of(platform: str, topology: str, gpu: str | None = None) -> list[Any]:
    """Devices that are not here, to compile for; what JAX raises comes out as it is.

    Arguments:
        platform: Of what kind.
        topology: How they are joined.
        gpu: Which GPUs these are; else those that are here.

    Raises:
        ShardingError: no such GPU.
    """
    options = {}
    if platform != "tpu":
        # Plugins take what is joined how as an option; of a name alone those for GPUs make the devices that are here.
        options["topology"] = topology
    if gpu is not None:
        options["target_config"] = description_of(gpu)
        platform = "cuda" if platform == "gpu" else platform  # JAX knows the other name where there are some
    return list(topologies.get_topology_desc(topology, platform, **options).devices)


def compile_ahead(module: str, mesh: Mesh, platform: str, topology: str, gpu: str | None = None) -> Ahead:
    """Compile a per-device module for devices by the name of how they are joined.

    Arguments:
        module: MLIR text.
        mesh: Which device runs which position.
        platform: `tpu`, or another of which JAX knows topologies.
        topology: As JAX calls it, such as `v5e:2x4`; of GPUs how many slices, nodes and devices there are: `1x1x8`.
        gpu: Which GPUs these are (`runtime.gpus`); else those that are here.

    Raises:
        ShardingError: XLA for these devices is not installed, no such topology, another number of devices than the mesh
            has, no such GPU, or a program that XLA refuses.
    """
    try:
        devices = devices_of(platform, topology, gpu)
    except (RuntimeError, NotImplementedError, ValueError, AttributeError, AssertionError) as error:
        raise ShardingError(
            f"cannot compile for {platform} {topology!r} here",
            cause=str(error).split("\n", 1)[0][:300] or type(error).__name__,
            remedy=_remedy(platform, gpu),
        ) from None
    if len(devices) != mesh.size:
        raise ShardingError(
            f"{mesh!r} has {counted(mesh.size, 'device')}, {topology!r} has {len(devices)}",
            remedy="name a topology of as many devices",
        )
    try:
        places = [devices[mesh.device_id(position)] for position in range(mesh.size)]
        compiled = compile_absent(module, places, flags=UNTUNED if gpu else ())
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise ShardingError(
            f"XLA cannot compile the per-device program for {platform} {topology!r}",
            cause=str(error).split("\n", 1)[0],
        ) from None
    memory = compiled.get_compiled_memory_stats()
    return Ahead(
        platform,
        str(devices[0].device_kind),
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.alias_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
    )


def _remedy(platform: str, gpu: str | None) -> str:
    """What to do where nothing is compiled for a platform."""
    ask = ""
    if platform in _GPUS:
        # Where JAX may use GPUs, its plugin looks for CUDA's libraries, and is none where these are not.
        ask = "set JAX_PLATFORMS=cpu before JAX starts; " if gpu else "say which where there is none here: gpu='h100'; "
    library = _LIBRARIES.get(platform, "XLA for it")
    return f"{ask}install {library}, and name the devices as JAX does: {_LIKE}; or compile it where the devices are"

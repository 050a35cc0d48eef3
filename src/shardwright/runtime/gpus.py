"""GPUs as XLA has to know them to compile for one that is not here: its `GpuTargetConfigProto`, as text.

What a kind of GPU has is from XLA's folder `gpu/target_config/specs`; a file of that form says it of any other.
"""

from __future__ import annotations

from typing import NamedTuple

from shardwright.cost.hardware.textproto import parse_message
from shardwright.errors import ShardingError
from shardwright.files import read_file
from shardwright.ir.context import as_text

__all__ = ["GPUS", "GPU_PLATFORMS", "description_of"]

GPU_PLATFORMS = frozenset(("cuda", "gpu", "rocm"))
"""What JAX calls platforms whose devices are GPUs."""


class _Gpu(NamedTuple):
    """What kernels are made for.

    Attributes:
        name: What it is called.
        capability: Which of CUDA's generations it is of.
        cores: How many multiprocessors it has.
        lanes: How many numbers in f32 each of these multiplies at once.
        shared: Bytes of memory that threads of a multiprocessor share, and of that what a block of them can ask for.
        memory: Bytes of its own memory.
        bandwidth: Bytes that are read of that or written in a second.
        cache: Bytes of its L2.
        clock: Cycles in a nanosecond.
    """

    name: str
    capability: tuple[int, int]
    cores: int
    lanes: int
    shared: tuple[int, int]
    memory: int
    bandwidth: int
    cache: int
    clock: float

    def text(self) -> str:
        """The proto."""
        return f"""gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  shared_memory_per_block: 49152
  shared_memory_per_core: {self.shared[0]}
  shared_memory_per_block_optin: {self.shared[1]}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  core_count: {self.cores}
  fpus_per_core: {self.lanes}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {self.bandwidth}
  l2_cache_size: {self.cache}
  clock_rate_ghz: {self.clock}
  device_memory_size: {self.memory}
  cuda_compute_capability {{ major: {self.capability[0]} minor: {self.capability[1]} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "{self.name}"
"""


_AMPERE, _HOPPER = (167936, 166912), (233472, 232448)
GPUS = {
    "a100": _Gpu(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, 64, (167936, 166912), 85100068864, 2039040000000, 41943040, 1.41
    ),
    "h100": _Gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 128, _HOPPER, 84942979072, 3352320000000, 52428800, 1.98),
    "h200": _Gpu("NVIDIA H200 141GB HBM3e", (9, 0), 132, 128, _HOPPER, 151397597184, 4800000000000, 52428800, 1.98),
    "b200": _Gpu("NVIDIA B200", (10, 0), 148, 128, _HOPPER, 191514411008, 7672320000000, 132644864, 1.965),
}
"""By the names of their data sheets."""


def description_of(gpu: str) -> str:
    """The description of a GPU by its name, or what a file of XLA's has.

    Raises:
        ShardingError: no such name, a file that cannot be read, or that is none.
    """
    if gpu in GPUS:
        return GPUS[gpu].text()
    names = ", ".join(GPUS)
    try:
        text = str(as_text(read_file(gpu), gpu))
        message = parse_message(text, gpu)
    except ShardingError as error:
        raise ShardingError(
            f"no GPU is called {gpu!r}",
            cause=f"nor is there a file that says what it is: {error.diagnostic.message}",
            remedy=f"give one of {names}, or the path of a GpuTargetConfigProto of XLA in text format",
        ) from None
    if "gpu_device_info" not in message:
        raise ShardingError(
            "no description of a GPU",
            location=gpu,
            cause=f"its fields are {', '.join(message) or 'none'}"[:200],
            remedy="give a GpuTargetConfigProto of XLA, in text format",
        )
    return text

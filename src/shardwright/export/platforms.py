"""On which kinds of devices a program can run: StableHLO's ops on any, calls of libraries on those that have them."""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph

__all__ = ["PLATFORMS", "calls_of_libraries", "check_platform"]

PLATFORMS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}
"""What JAX calls platforms, and the kind of device that is."""

_GPU_LIBRARIES = ("cu", "cusolver", "cublas", "cudnn", "cusparse", "cufft", "hip", "hipsolver", "hipblas", "hipsparse")
_BOUND = {
    "cpu": ("lapack_", "cpu_csr_", "__onednn"),
    "gpu": (*(f"{library}_" for library in _GPU_LIBRARIES), "__cu", "__gpu", "__triton", "triton", "mosaic_gpu"),
    "tpu": ("tpu_custom_call",),
}
"""How the targets of custom calls begin that only one kind of device has."""


def calls_of_libraries(graph: Graph) -> tuple[str, ...]:
    """The targets of the custom calls of a program, each once."""
    targets = [
        str(op.signature.get("call_target_name", "")) for op in graph.walk() if op.name == "stablehlo.custom_call"
    ]
    return tuple(dict.fromkeys(targets))


def check_platform(platform: str, targets: Iterable[str], name: str) -> None:
    """Check that devices of a platform have what a program calls.

    Raises:
        ShardingError: no such platform, or a call that only another kind of device has.
    """
    if platform not in PLATFORMS:
        raise ShardingError(f"no such platform: {platform!r}", remedy=f"one of {', '.join(PLATFORMS)}")
    for target in targets:
        bound = next((kind for kind, beginnings in _BOUND.items() if target.startswith(beginnings)), None)
        if bound is not None and bound != PLATFORMS[platform]:
            raise ShardingError(
                f"the program cannot run on {platform}: it calls @{target}",
                op="stablehlo.custom_call",
                location=name,
                cause=f"that is of a library that only {bound} devices have; it was lowered for these",
                remedy=f"lower the function for it: sw.from_jax(fn, ..., platform={platform!r})",
            )

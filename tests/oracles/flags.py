"""The flags of XLA that peers run with: those of the tests, but for what makes other buffers of a program."""

from __future__ import annotations

import os

__all__ = ["FUSES_OTHERWISE", "flags_for"]

FUSES_OTHERWISE = "--xla_cpu_use_fusion_emitters=false"
"""What is fused is not lowered by way of MLIR, in far less time; but it is not quite the same that is fused, and held."""


def flags_for(devices: int) -> str:
    """`XLA_FLAGS` for so many virtual CPU devices: what peers hold is what it is with users."""
    own = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag != FUSES_OTHERWISE]
    return " ".join([*own, f"--xla_force_host_platform_device_count={devices}"])

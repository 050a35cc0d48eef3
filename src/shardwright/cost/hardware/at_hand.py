"""The hardware that a device of JAX is, where a data sheet comes along of just that."""

from __future__ import annotations

import re

from shardwright.cost.hardware.model import Hardware
from shardwright.cost.hardware.shipped import shipped

__all__ = ["hardware_of_kind"]

_KINDS = (
    (r"NVIDIA A100-SXM4-80GB", "a100"),
    (r"NVIDIA H100 80GB HBM3", "h100"),
    (r"NVIDIA H200", "h200"),
    (r"NVIDIA B200", "b200"),
    (r"NVIDIA GB200", "gb200"),
    (r"AMD Instinct MI300X", "mi300x"),
    (r"TPU v4", "tpu_v4"),
    (r"TPU v5( lite|e)", "tpu_v5e"),
    (r"TPU v5p?", "tpu_v5p"),
    (r"TPU v6( lite|e)", "tpu_v6e"),
    (r"TPU ?7x", "tpu7x"),
)
"""What drivers call devices. Cards of other links or of less memory are called otherwise (`NVIDIA H100 PCIe`), and no
data sheet of them comes along. TPUs are called as in `jax.experimental.pallas.tpu.get_tpu_info`.
"""


def hardware_of_kind(device_kind: str) -> Hardware | None:
    """The hardware that comes along of a `jax.Device.device_kind`, if there is one.

    >>> hardware_of_kind("NVIDIA H100 80GB HBM3").name
    'NVIDIA H100 SXM'
    >>> hardware_of_kind("cpu"), hardware_of_kind("NVIDIA H100 PCIe")
    (None, None)
    """
    return next((shipped(name) for kind, name in _KINDS if re.fullmatch(kind, device_kind)), None)

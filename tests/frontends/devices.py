"""Eight virtual devices in this process. To be asked for while tests are collected: later, jax has started."""

from __future__ import annotations

import jax

__all__ = ["eight_devices"]


def eight_devices() -> None:
    """Make jax start with eight CPU devices."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)

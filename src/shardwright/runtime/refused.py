"""What to say of a module that XLA does not compile, or does not run to its end."""

from __future__ import annotations

from shardwright.runtime.calls import RAISED

__all__ = ["refusal"]


def refusal(words: str) -> str:
    """What to say of a module that XLA refuses; a check within XLA that fails is no fault of the module."""
    if RAISED in words:
        return RAISED + words.partition(RAISED)[2].split("\n", 1)[0]
    if "RET_CHECK" not in words:
        return f"XLA cannot run the module: {words}"
    why = "; its FFT on CPUs reads row-major arrays only, and it chose another layout" if "fft_thunk" in words else ""
    return f"XLA cannot run the module, by a failed check of its own{why}: {words}"

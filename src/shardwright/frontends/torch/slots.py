"""What the arguments and results of a program made from PyTorch are for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Kind", "Slot"]


class Kind(Enum):
    """What a value at the boundary is; `PART` what a part of the module takes or gives, which is no result at last."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    OPTIMIZER = "optimizer"
    RATE = "rate"
    INPUT = "input"
    OUTPUT = "output"
    GRADIENT = "gradient"
    PART = "part"

    @property
    def is_state(self) -> bool:
        """Whether it stays on the devices from one call to the next."""
        return self in (Kind.PARAMETER, Kind.BUFFER, Kind.OPTIMIZER)


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument or result of the program.

    Attributes:
        kind: What it is.
        name: What it is called: `blocks.0.qkv.weight`, `optimizer.exp_avg.blocks.0.qkv.weight`, `x`. A result that
            replaces an argument is called as that is.
    """

    kind: Kind
    name: str

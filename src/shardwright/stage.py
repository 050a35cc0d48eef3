"""What a program is written as on its way to the devices."""

from __future__ import annotations

from enum import Enum

__all__ = ["ARGUMENTS", "DEFAULT_EFFORT", "EFFORTS", "OPTIMIZATIONS", "STAGES", "TRIED_EFFORT", "Stage"]


class Stage(Enum):
    """How far a program has come. Each stage has a module of its own, valid by itself."""

    ANNOTATED = "annotated"
    """Written as for one device, with the shardings that users gave."""

    PROPAGATED = "propagated"
    """Every tensor has a sharding; communication is implied, and collectives are requests for layouts."""

    EXPLICIT = "explicit"
    """Global shapes, and all communication written: every op can be computed on shards alone."""

    LOCAL = "local"
    """Written for one of several devices: shapes are local, and nothing is to be sharded."""


STAGES = (Stage.PROPAGATED.value, Stage.EXPLICIT.value, Stage.LOCAL.value)
"""The modules a program goes through, in order."""

ARGUMENTS = {"split": "its shard of each", "whole": "each in full, of which it slices its shard out"}
"""How a device may take the arguments of a program: document 003's two results of a partition."""

EFFORTS = {
    "fast": "each op as is cheapest for it by itself",
    "lean": (
        "all ops together, where no more is sent than by `fast`, or a tenth more for less than two thirds of the time, "
        "and at most a tenth more held beside arguments and results, or three times as much for a seventh of the time"
    ),
    "default": "all ops together, mostly in less than a second, with a bound of what any choice takes",
    "best": "the same, as long as there may be something to gain, which takes up to minutes",
}
"""How hard the partitioner looks for how ops are best split."""

DEFAULT_EFFORT = "default"
"""How hard it does unasked: no harder than takes hardly any time beside what a compiler takes after it."""

TRIED_EFFORT = "fast"
"""How hard it does for trials of a plan: hundreds of them take no longer than one choice of all ops together, and are
compared with each other.
"""

OPTIMIZATIONS = {
    "off": "they stay as the partitioner, or whoever made them explicit, wrote them",
    "exact": "made fewer, smaller and later, where sums of floating-point numbers keep their order",
    "all": "the same, and sums may be added up in another order",
}
"""What may become of the collectives of an explicit program."""

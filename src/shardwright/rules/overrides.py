"""What somebody who registers an op says of it in place of the defaults of the mesh RFC's ShardingInterface.

Of each op by its label; whoever derives options or layouts of an op asks here first.

Source: the mesh RFC on LLVM's forum, ShardingInterface: methods with a default implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["DEFAULTS", "Overrides", "forget_overrides", "override", "overrides_of"]


@dataclass(frozen=True, slots=True)
class Overrides:
    """The methods of one op that are not the default ones.

    Each is called with the op's interface as it is without them, and then as the method of `Interface` is.

    Attributes:
        sharding_option: `(interface, annotations)` → the axes of each loop.
        sharding_annotations: `(interface, option, mesh)` → how operands, then results, lie.
        materialize: `(interface, annotations, option)` → what is communicated around the op.
    """

    sharding_option: Callable[..., Any] | None = None
    sharding_annotations: Callable[..., Any] | None = None
    materialize: Callable[..., Any] | None = None


DEFAULTS = Overrides()
"""An op of which nothing is overridden."""

_overrides: dict[str, Overrides] = {}


def override(label: str, methods: Overrides) -> None:
    """Say which methods of an op are not the default ones."""
    _overrides[label] = methods


def overrides_of(label: str) -> Overrides:
    """The methods of an op that are not the default ones."""
    return _overrides.get(label, DEFAULTS)


def forget_overrides(label: str) -> bool:
    """Take back what was said of an op; whether there was something."""
    return _overrides.pop(label, None) is not None

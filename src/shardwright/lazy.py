"""What is loaded when it is first used, not when the package is imported.

A *home* says where a name is defined, as `module:name`. Tables of them stand where something is chosen by name (public
names, commands, notations), so that choosing one loads that one; `tools/floors.py` reads homes as the imports they are.

    >>> loaded("shardwright.mesh:Mesh")(x=2).size
    2
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["VIEWS", "loaded", "names_at"]

VIEWS: dict[str, str] = {}
"""What rooms above make of a sharding: `text` in a notation, `html` for notebooks; name → home.

A room below must not name those above, so the roof does: `shardwright/__init__.py`, which Python runs before any room.
"""


def loaded(home: str) -> Any:
    """What is defined at a home."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def names_at(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package (PEP 562) whose names are loaded from their `homes` when first asked for."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = loaded(homes[name])
        setattr(sys.modules[package], name, value)
        return value

    return get

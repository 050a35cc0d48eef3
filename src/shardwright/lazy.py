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

__all__ = ["loaded", "names_at", "provide", "provided"]

_PROVIDED: dict[str, str] = {}


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


def provide(name: str, home: str) -> None:
    """Say where something is that rooms below ask for by `name`, and must not know the home of.

    For the roof, `shardwright/__init__.py`, which Python runs before any room.

    Raises:
        ValueError: it was said to be elsewhere.
    """
    if _PROVIDED.setdefault(name, home) != home:
        raise ValueError(f"{name!r} is provided by {_PROVIDED[name]} already")


def provided(name: str) -> Any:
    """What was provided under a name."""
    return loaded(_PROVIDED[name])

"""Which versions of values are known where: those made in a region are known until its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Scope"]

L = TypeVar("L")
V = TypeVar("V")


class Scope:
    """The region at hand, and the versions of values from around it that were made in it.

    The versions of a value are a dictionary by layout, the first one first.
    """

    def __init__(self) -> None:
        """Outside of all regions."""
        self._added: list[dict[Any, Any]] = []

    def add(self, versions: dict[L, V], layout: L, version: V) -> None:
        """Add a version; of two that lie alike the first one stays."""
        if layout not in versions:
            versions[layout] = version
            self._added.append(versions)

    @contextmanager
    def region(self) -> Iterator[None]:
        """A region, at whose end the versions made in it are forgotten."""
        outer, self._added = self._added, []
        yield
        for versions in reversed(self._added):
            versions.popitem()
        self._added = outer

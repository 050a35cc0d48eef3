"""What the frozen dataclasses that users hold have in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

__all__ = ["FrozenValue"]


class FrozenValue:
    """A frozen dataclass that keeps what is computed from its fields, once it was asked for.

    A `cached_property` writes into the `__dict__` of its object, which being frozen guards against assignments only:
    the fields stay what they are, and what is kept follows from them. A pickle has the fields alone.
    """

    def __getstate__(self) -> dict[str, Any]:
        """The fields."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

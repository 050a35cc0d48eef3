"""What a program is written as on its way."""

from __future__ import annotations

__all__ = ["STAGES"]

STAGES = ("propagated", "explicit", "local")
"""The modules a program goes through, in order."""

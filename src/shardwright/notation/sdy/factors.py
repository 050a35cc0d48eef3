"""The symbols of a sharding rule's factors: `i` to `z`, then `z_1`, `z_2`, ….

    >>> factor_symbol(0), factor_symbol(18), factors_of("ijz_2")
    ('i', 'z_1', (0, 1, 19))

Source: the sdy dialect reference, OpShardingRuleAttr.
"""

from __future__ import annotations

import re

__all__ = ["FACTOR", "factor_symbol", "factors_of"]

FACTOR = r"(?:z_[1-9][0-9]{0,8}|[i-z])"
"""A pattern for one symbol."""

_LETTERS = "ijklmnopqrstuvwxyz"
_LAST = len(_LETTERS) - 1
_EACH = re.compile(FACTOR)


def factor_symbol(factor: int) -> str:
    """`i` for factor 0, `z` for 17, `z_1` for 18."""
    return _LETTERS[factor] if factor <= _LAST else f"z_{factor - _LAST}"


def factors_of(text: str) -> tuple[int, ...]:
    """The factors in a dimension's text, major to minor."""
    return tuple(_LAST + int(symbol[2:]) if "_" in symbol else _LETTERS.index(symbol) for symbol in _EACH.findall(text))

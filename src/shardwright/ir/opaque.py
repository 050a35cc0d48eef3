"""Attributes as text, large constants by number.

A constant of many elements would make a long text that nobody reads; it is known by `#opaque<N>` instead, and only
here is N connected with MLIR's attribute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwright.ir.context import context, ir, parse_attribute
from shardwright.memo import memoize

__all__ = ["attribute", "attribute_text", "dense_array"]

_INLINE_ELEMENTS = 64

_texts: dict[Any, str] = {}
_attributes: dict[str, Any] = {}


def attribute_text(handle: Any) -> str:
    """The text of an MLIR attribute (the same attribute always has the same text); text is given back as it is."""
    if isinstance(handle, str):
        return handle
    text = _texts.get(handle)
    if text is None:
        text = _texts[handle] = _text(handle)
        _attributes[text] = handle
    return text


def _text(handle: Any) -> str:
    if isinstance(handle, ir.DenseElementsAttr) and not handle.is_splat and len(handle) > _INLINE_ELEMENTS:
        return f"#opaque<{len(_texts)}>"
    return str(handle)


def attribute(text: str) -> Any:
    """The MLIR attribute of a text."""
    handle = _attributes.get(text)
    if handle is None:
        handle = _attributes[text] = parse_attribute(text)
    return handle


@memoize
def dense_array(text: str) -> Any:
    """The elements of a dense attribute as a numpy array (a splat as an array of its one value, in full shape)."""
    with context():
        return np.array(ir.DenseElementsAttr(attribute(text)))

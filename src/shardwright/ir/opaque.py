"""Attributes as text, large constants in short.

A constant of many elements would make a long text that nobody reads; `#opaque<…>` stands for it, and brings MLIR's
attribute along. What is remembered here belongs to the session; a graph outlives it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwright.ir.context import context, ir, module_bytecode, parse_attribute
from shardwright.memo import current_session, memoize

__all__ = ["attribute", "attribute_text", "dense_array"]

_INLINE_ELEMENTS = 64
_HELD = "shardwright.attribute"
_BLOB = "dense_resource<"
_TEXTS, _ATTRIBUTES = f"{__name__}.texts", f"{__name__}.attributes"


class _Opaque(str):
    """What stands for a large constant: the same text for the same attribute, of which MLIR has one only."""

    handle: Any

    def __new__(cls, handle: Any, text: str = "") -> _Opaque:
        """The text for an attribute; `text` where it has one of its own, which says all in this process only."""
        made = super().__new__(cls, text or f"#opaque<{hash(handle)}>")
        made.handle = handle
        return made

    def __reduce__(self) -> Any:
        """Another process has another attribute: a module that has this one goes there."""
        with context(), ir.Location.unknown():
            module = ir.Module.create()
            module.operation.attributes[_HELD] = self.handle
        return _opaque, (module_bytecode(module),)


def _opaque(module: bytes) -> str:
    return attribute_text(ir.Module.parse(module, context=context()).operation.attributes[_HELD])


def attribute_text(handle: Any) -> str:
    """The text of an MLIR attribute (the same attribute always has the same text); text is given back as it is."""
    if isinstance(handle, str):
        return handle
    session = current_session()
    texts = session.table(_TEXTS)
    text: str | None = texts.get(handle)
    if text is None:
        text = texts[handle] = _text(handle)
        session.table(_ATTRIBUTES)[text] = handle  # some take longer to parse than all else that is done with them
    return text


def _text(handle: Any) -> str:
    if isinstance(handle, ir.DenseElementsAttr) and not handle.is_splat and len(handle) > _INLINE_ELEMENTS:
        return _Opaque(handle)
    text = str(handle)
    return _Opaque(handle, text) if text.startswith(_BLOB) else text


def attribute(text: str) -> Any:
    """The MLIR attribute of a text."""
    if isinstance(text, _Opaque):
        return text.handle
    attributes = current_session().table(_ATTRIBUTES)
    handle = attributes.get(text)
    if handle is None:
        handle = attributes[text] = parse_attribute(text)
    return handle


@memoize
def dense_array(text: str) -> Any:
    """The elements of a dense attribute as a numpy array (a splat as an array of its one value, in full shape)."""
    with context():
        return np.array(ir.DenseElementsAttr(attribute(text)))

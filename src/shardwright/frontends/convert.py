"""Modules from files and texts, in another notation."""

from __future__ import annotations

import os

from shardwright.frontends.load import content_of, guarded
from shardwright.notation.conversion import convert_module

__all__ = ["convert", "convert_content"]


def convert(source: str | bytes | os.PathLike[str], to: str) -> str:
    """A module in any notation, as text in the notation called `to`: `sdy`, `shard`, `mesh`, `rfc` or `mhlo`.

    The source is a path (`-` is standard input), or text or bytes themselves: a string with a line break is text.
    Nothing is propagated or inlined: functions, calls and regions stay.

    Raises:
        ShardingError: an unreadable file, a malformed module, or what `to` cannot express; with the position, the
            cause and what to change.

    Example:
        >>> text = '''
        ... shard.grid @grid(shape = 2)
        ... func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        ...   %s = shard.sharding @grid split_axes = [[0]] : !shard.sharding
        ...   %y = shard.shard %x to %s : tensor<4xf32>
        ...   return %y : tensor<4xf32>
        ... }'''
        >>> "%arg0: tensor<4xf32> {mhlo.sharding = " in convert(text, "mhlo")
        True
    """
    content, name = content_of(source)
    return convert_content(content, to, name)


def convert_content(content: str | bytes, to: str, name: str = "-") -> str:
    """The same for text or bytes that diagnostics call `name`."""
    with guarded(content, name):
        return convert_module(content, to, name)

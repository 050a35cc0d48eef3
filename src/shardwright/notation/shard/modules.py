"""Modules annotated in upstream MLIR's `shard` dialect, and the same modules in `sdy`.

    shard.grid @g(shape = 2x4)                                            sdy.mesh @g = <["axis_0"=2, "axis_1"=4]>
    %s = shard.sharding @g split_axes = [[0], []] : !shard.sharding
    %1 = shard.shard %0 to %s : tensor<4x8xf32>                           sdy.sharding on the op that makes %0
    %2 = shard.shard %1 to %s annotate_for_users : tensor<4x8xf32>        sdy.sharding_constraint, or function result

Both directions rewrite a module in place, its ops of this dialect in MLIR's generic form. What the dialect has no word
for and loses nothing but comfort is a discardable attribute: `axis_names` of a grid; `open` (dimensions that
propagation may split further: all, or those listed) and `replicated` (axes by position) of a `shard.shard`, and
`as_constraint` where it would be read as a function's result. What sdy has no word for is a carrier
(`shardwright.ir.carriers`).

Source: MLIR's `shard` dialect page, GridOp, ShardingOp, ShardOp and GetShardingOp.
"""

from __future__ import annotations

import re
from functools import partial

from shardwright.ir.context import ir
from shardwright.notation.forms.bytecode import verify_bytecode
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.notation import ModuleNotation, mentions
from shardwright.notation.shard.canonical import canonicalize
from shardwright.notation.shard.dialect.tables import SHARD
from shardwright.notation.shard.exporter import export_module
from shardwright.notation.shard.importer import import_module

__all__ = ["export_module", "import_module", "looks_like"]

_MARK = re.compile(rf"(?<![\w.#])(?:{'|'.join(map(re.escape, SHARD.forms))})\b")

_BYTES = re.compile(rb"\x00shard\x00(?s:.*)\x00grid\x00|!shard\.sharding\b")
"""Bytecode spells the name of an op in two strings: first the dialects, then what ops are called in them. A string is
there once: that of `shard.shard` is its dialect's. It takes a value of this type, whether or not there is a grid."""


def looks_like(content: str | bytes) -> bool:
    """Whether a module has ops of this dialect, outside comments and strings."""
    if isinstance(content, bytes):
        return _BYTES.search(content) is not None
    return ("shard." in content or "mesh." in content) and mentions(_MARK, content)


def _read(module: ir.Module, name: str, content: str | bytes) -> None:
    if isinstance(content, bytes):  # a text was held against the forms when it was spelt generically
        verify_bytecode(module, [SHARD], name)
    canonicalize(module)
    import_module(module, name)


def _modules(name: str, title: str, spelling: str) -> ModuleNotation:
    return ModuleNotation(
        name,
        title,
        looks_like,
        lambda text, file: to_generic(text, [SHARD], file),
        _read,
        export_module,
        partial(to_custom, dialects=[SHARD], spelling=spelling),
        has_manual=False,
    )


NOTATION = _modules("shard", "upstream MLIR's `shard` dialect", "")
OLDER_NOTATION = _modules("mesh", "the same under its older name, `mesh`", "mesh")

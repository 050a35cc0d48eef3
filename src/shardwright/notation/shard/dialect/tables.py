"""Upstream MLIR's `shard` dialect, and the `mesh` dialect that it was before, as tables of op forms.

    >>> from shardwright.notation.forms.texts import to_generic
    >>> print(to_generic("mesh.mesh @g(shape = 2x?)", [SHARD]))
    "shard.grid"() {shape = array<i64: 2, -9223372036854775808>, sym_name = "g"} : () -> ()

Source: MLIR's `shard` dialect page (LLVM 21 and later) and its `mesh` dialect page (until LLVM 20).
"""

from __future__ import annotations

from shardwright.notation.forms.form import Dialect
from shardwright.notation.shard.dialect.collectives import COLLECTIVE_FORMS
from shardwright.notation.shard.dialect.earlier import EARLIER_FORMS
from shardwright.notation.shard.dialect.grid import GRID_FORMS
from shardwright.notation.shard.dialect.sharding import SHARDING, SHARDING_FORMS

__all__ = ["SHARD"]

SHARD = Dialect(
    "shard",
    "upstream MLIR's `shard`, and its `mesh` before",
    {form.name: form for form in (*GRID_FORMS, *SHARDING_FORMS, *COLLECTIVE_FORMS, *EARLIER_FORMS)},
    symbols=frozenset({"shard.grid", "mesh.mesh"}),
    types={"!mesh.sharding": SHARDING},
)

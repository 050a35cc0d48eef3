"""The ops of the `mesh` dialect, which became `shard` in LLVM 21, by what each is called today.

Most differ in names only: `mesh.mesh` for `shard.grid`, `mesh_axes` for `grid_axes`. Two do not: `mesh.sharding` may
have partial axes, which `shard` lacks, and LLVM 19's `mesh.shard` has its sharding within.

Source: MLIR's `mesh` dialect page, and MeshShardingAttr of LLVM 19.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.form import Attribute, AttributeKind, Operand, OpForm, OpText
from shardwright.notation.forms.kinds import (
    AXES,
    I16_ARRAY,
    MESH_AXES,
    MESH_REDUCTION,
    REDUCTION,
    UNIT,
)
from shardwright.notation.names import symbol_text
from shardwright.notation.shard.dialect.collectives import COLLECTIVE_FORMS
from shardwright.notation.shard.dialect.grid import GRID_FORMS
from shardwright.notation.shard.dialect.sharding import SHARDING, SHARDING_FORMS, verify_sharding

__all__ = ["EARLIER_FORMS"]

_OPS = {"shard.grid": "mesh.mesh", "shard.grid_shape": "mesh.mesh_shape"}
_WORDS = {"grid": "mesh", "grid_axes": "mesh_axes", "scatter_dim": "scatter_axis"}
_KINDS = {id(AXES): MESH_AXES, id(REDUCTION): MESH_REDUCTION}


def _earlier(form: OpForm) -> OpForm:
    """A form as the `mesh` dialect has it."""
    name = _OPS.get(form.name, form.name.replace("shard.", "mesh.", 1))
    return replace(
        form,
        name=name,
        assembly=re.sub("`([^`]+)`", lambda word: f"`{_WORDS.get(word[1], word[1])}`", form.assembly),
        attributes=tuple(
            replace(a, spelled=_WORDS.get(a.name, ""), kind=_KINDS.get(id(a.kind), a.kind)) for a in form.attributes
        ),
        renamed=form.name,
        synonyms={},
    )


_FORMS = {form.name: _earlier(form) for form in (*GRID_FORMS, *SHARDING_FORMS, *COLLECTIVE_FORMS)}


def _with_partial(form: OpForm) -> OpForm:
    """`mesh.sharding`, which may say along which axes, and by what reduction, a tensor is partial."""
    head, tail = form.assembly.split(" (`halo_sizes`")
    return replace(
        form,
        assembly=f"{head} (`partial` `=` $partial_type $partial_axes^)? (`halo_sizes`{tail}",
        doc=f"{form.doc} `partial = max [1]` says that the maximum over grid axis 1 is yet to be taken.",
        attributes=(
            *form.attributes,
            Attribute("partial_axes", I16_ARRAY, default=()),
            Attribute("partial_type", MESH_REDUCTION, optional=True),
        ),
        verify=verify_sharding,
    )


def _read_inline(cursor: Cursor) -> dict[str, Any]:
    """`<@g, [[0]], partial = max[1]>`."""
    if cursor.accept("#"):
        cursor.take("mesh.shard")
    cursor.take("<")
    value: dict[str, Any] = {"grid": cursor.symbol()}
    cursor.take(",")
    if cursor.accept("split_axes"):
        cursor.take("=")
    value["split_axes"] = cursor.lists(16)
    if cursor.accept(","):
        cursor.take("partial")
        cursor.take("=")
        value["partial_type"] = MESH_REDUCTION.read(cursor)
        value["partial_axes"] = cursor.integers(16)
    cursor.take(">")
    return value


def _decode_inline(text: str) -> dict[str, Any]:
    cursor = Cursor(text)
    value = _read_inline(cursor)
    cursor.end()
    return value


def _print_inline(value: dict[str, Any]) -> str:
    partial = ""
    if value.get("partial_axes"):
        partial = f", partial = {value['partial_type']}{list(value['partial_axes'])}"
    return f"<{symbol_text(value['grid'])}, {AXES.print(value['split_axes'])}{partial}>"


def _generic_inline(value: dict[str, Any]) -> str:
    return f"#mesh.shard{_print_inline(value)}"


_INLINE = AttributeKind("a sharding", _read_inline, _print_inline, _generic_inline, _decode_inline, starts="<")


def _expand(op: OpText, fresh: str) -> tuple[OpText, ...]:
    """`mesh.shard` of LLVM 19 as the sharding that it has within and the `mesh.shard` of LLVM 20."""
    inline = op.attributes["inline"]
    shard = replace(op, form=_SHARD, attributes={"annotate_for_users": op.attributes["annotate_for_users"]})
    if inline is None:
        return (shard,)
    attributes = {a.name: inline.get(a.name, a.default) for a in _SHARDING.attributes}
    nothing: dict[str, tuple[str, ...]] = {operand.name: () for operand in _SHARDING.operands}
    sharding = OpText(_SHARDING, (fresh,), nothing, attributes, (), (SHARDING,), position=op.position)
    return sharding, replace(
        shard,
        operands={**op.operands, "sharding": (fresh,)},
        operand_types=(op.operand_types[0], SHARDING),
    )


_SHARDING = _with_partial(_FORMS["shard.sharding"])
_SHARD = _FORMS["shard.shard"]
_EITHER_SHARD = replace(
    _SHARD,
    assembly="$src `to` ($sharding^)? ($inline^)? (`annotate_for_users` $annotate_for_users^)? attr-dict `:` "
    "type($result)",
    operands=(Operand("src", type="$result"), Operand("sharding", "optional", SHARDING)),
    attributes=(
        Attribute("inline", _INLINE, optional=True, spelled="shard"),
        Attribute("annotate_for_users", UNIT, default=False),
    ),
    expand=_expand,
)

EARLIER_FORMS = tuple(
    {**_FORMS, "shard.sharding": _SHARDING, "shard.shard": _EITHER_SHARD}.values(),
)

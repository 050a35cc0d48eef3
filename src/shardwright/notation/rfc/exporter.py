"""A module of the sdy dialect → the same module in the form of the mesh RFC, generic ops, in place.

A module with sdy collectives is *materialized*: every tensor's type says how it is distributed. Any other gets a
`mesh.annotate` for each sharding: after what defines the value, or for users where a constraint stood.

Source: the mesh RFC on LLVM's forum, AnnotateOp, MeshShardingAttr and the collectives.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.ir.ops import COLLECTIVES
from shardwright.notation.names import symbol_name
from shardwright.notation.rfc.annotate import annotate
from shardwright.notation.rfc.distribute import distribute, verified
from shardwright.notation.rfc.mesh import write_cluster
from shardwright.notation.rfc.options import FUNCTION_MESH, OPTION
from shardwright.notation.rfc.rolls import is_roll
from shardwright.notation.rfc.writing import AS_SDY, CARRIED, REQUESTS, SHARDING, Writing, rows

__all__ = ["export_shardings"]

_CARRIER = "shardwright.shardings"
_WHY = {
    "sdy.manual_computation": "its ops see one device's part within a program for all devices",
    "sdy.named_computation": "the RFC has no regions with shardings of their own",
    "sdy.sharding_group": "the RFC cannot say that two values are sharded alike",
    "sdy.propagation_barrier": "the RFC cannot stop propagation",
    "sdy.data_flow_edge": "the RFC has no edges between regions",
    "shardwright.constraint": CARRIED,
}


def export_shardings(writing: Writing) -> None:
    """Rewrite all functions, then the meshes.

    Raises:
        ShardingError: what the RFC cannot say, at its op.
    """
    materialized = any(name in COLLECTIVES or is_roll(name, op) for _, ops in writing.functions for name, op in ops)
    reasons: dict[str, str] = {}
    for function, ops in writing.functions:
        for name, op in ops:
            attributes = op.attributes
            if name not in reasons:
                reasons[name] = _why_not(name, materialized)
            why = reasons[name] or (CARRIED if _CARRIER in attributes else "")
            if why:
                writing.refuse(name, op, f"the RFC cannot express {name}", why, f"take it out, or {AS_SDY}")
            if OPTION in attributes:  # goes by the RFC's own name
                attributes["sharding"] = attributes[OPTION]
                del attributes[OPTION]
        writing.symbol = _function_mesh(writing, function, ops)
        rewrite = distribute if materialized else annotate
        rewrite(writing, function, ops)
    for op in writing.mesh_ops:
        with ir.InsertionPoint(op):
            write_cluster(writing.meshes[ir.StringAttr(op.attributes["sym_name"]).value], op)
        erase(op)
    if materialized:
        verified(writing.module, writing.name)


def _function_mesh(writing: Writing, function: Any, ops: list[tuple[str, Any]]) -> str:
    """The mesh that the function names from now on: what it said, or the first that it uses."""
    if FUNCTION_MESH in function.attributes:
        symbol = symbol_name(str(function.attributes[FUNCTION_MESH]))
        del function.attributes[FUNCTION_MESH]
    elif len(writing.meshes) > 1:
        symbol = _first_mesh(writing, function, ops)
    else:
        symbol = next(iter(writing.meshes), "")
    if symbol in writing.meshes:
        function.attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(symbol)
    return symbol


def _first_mesh(writing: Writing, function: Any, ops: list[tuple[str, Any]]) -> str:
    given = [ir.DictAttr(row) for key in ("arg_attrs", "res_attrs") for row in rows(function, key)]
    attributes = [row[SHARDING] for row in given if SHARDING in row]
    for _, op in ops:
        of_op = [op.attributes[key] for key in (SHARDING, "sharding", "out_sharding") if key in op.attributes]
        attributes += [attribute for attribute in of_op if str(attribute).startswith("#sdy.sharding")]
    return next((sharding.mesh.name for attr in attributes for sharding in writing.shardings(attr)), "")


def _why_not(name: str, materialized: bool) -> str:
    """Why the RFC cannot express ops of this name, or nothing."""
    if name in _WHY:
        return _WHY[name]
    if name.startswith("sdy.") and name not in COLLECTIVES and name not in REQUESTS:
        return "the RFC has no such op"
    if materialized and name in REQUESTS:
        return "among collectives every tensor's type is what it is, and nothing is left to be asked for"
    return ""

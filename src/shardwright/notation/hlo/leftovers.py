"""`mhlo.sharding`s in a module of another notation, which does not mean them.

A module is read by one notation. What its `mhlo.sharding`s say must then be nothing (`{unknown}`), or what is said of
the same values in `sdy`; anything else would be lost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.mesh import Mesh
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.sites import Sites, dictionary, shortened, symbol_of
from shardwright.notation.hlo.spelling import spelled
from shardwright.notation.hlo.tiles import Iota, expand
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings
from shardwright.sharding import TensorSharding

__all__ = ["refuse_leftovers"]

_SDY = "sdy.sharding"


def refuse_leftovers(module: ir.Module, notation: str, name: str = "-") -> None:
    """See that no `mhlo.sharding` of a module that was read as `notation` says anything of its own.

    Diagnostics call the module `name`.

    Raises:
        ShardingError: one that does, or is malformed, at its op or argument.
    """
    sites = Sites(module, name)
    ops = (view.operation for view in module.body.operations)
    meshes = {
        symbol_of(op): parse_mesh(str(op.attributes["mesh"]), symbol_of(op)) for op in ops if op.name == "sdy.mesh"
    }
    stated = [(a, op.attributes.get(_SDY), partial(sites.fail_at, op)) for op, a in sites.ops]
    for row in sites.rows:
        key = "arg_attrs" if row.kind == "argument" else "res_attrs"
        entry = dictionary(ir.ArrayAttr(row.function.attributes[key])[row.index])
        stated.append((row.attribute, entry.get(_SDY), partial(sites.fail_at_row, row)))
    for attribute, other, fail in stated:
        hlo = sites.texts[attribute]
        if not _is_said(hlo, other, meshes):
            raise fail()(
                "there is a mhlo.sharding, which nothing reads",
                cause=f"it is {shortened(hlo)}; the module is written in {notation}, and is read by that alone",
                remedy=f"say it in {notation} and take it out, or write all shardings of the module as mhlo.sharding",
            )


def _is_said(hlo: HloSharding, other: Any, meshes: dict[str, Mesh]) -> bool:
    """Whether what `hlo` says of the results of an op is nothing, or what `sdy.sharding` says of them."""
    elements = hlo.elements if hlo.kind == "tuple" else (hlo,)
    if all(element.kind == "unknown" and element.group is None for element in elements):
        return True
    shardings = () if other is None else parse_shardings(str(other), meshes)
    if len(shardings) != len(elements):
        return False
    try:
        return all(starmap(_is_same, zip(elements, shardings, strict=True)))
    except ShardingError:  # priorities, reductions other than sums: no mhlo.sharding says the same
        return False


def _is_same(hlo: HloSharding, sharding: TensorSharding) -> bool:
    """Whether both lay a tensor out alike; `hlo` may count devices or list them."""
    if hlo.named is not None:
        return replace(hlo, metadata="") == spelled(sharding, version="named")
    own = spelled(sharding, version="V1")
    order = tuple(expand(hlo.order).tolist()) if isinstance(hlo.order, Iota) else hlo.order
    return replace(hlo, metadata="", order=order) == own

"""Carriers: shardings that this jaxlib's sdy cannot parse, as text that travels in a module of sdy.

Offsets and halos are written as upstream's `mesh.sharding`, and reduction kinds other than sum as newer versions of sdy
write them. Where a carrier stands in a module is said in `shardwright.ir.carriers`; read is any notation.

    >>> from dataclasses import replace
    >>> halo = replace(TensorSharding.of(Mesh(x=2), [["x"], []]), halos=((1, 1), None))
    >>> carrier_text(halo), carrier_text(TensorSharding.of(Mesh(x=2), [[]], partial=["x"], kind="max"))
    ('mesh.sharding @mesh split_axes = [[0], []] halo_sizes = [1, 1]', '#sdy.sharding<@mesh, [{}], unreduced=max{"x"}>')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.memo import current_session
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, symbol_name
from shardwright.notation.notation import Shape
from shardwright.notation.registry import parse_text
from shardwright.notation.sdy import sharding as sdy
from shardwright.notation.shard import sharding as shard
from shardwright.sharding import TensorSharding

__all__ = ["carrier_text", "needs_carrier", "parse_carrier"]

_SYMBOL = re.compile(rf"@(?:{STRING}|[\w.$-]+)")


def needs_carrier(sharding: TensorSharding) -> bool:
    """Whether a sharding has offsets, halos, or partial axes of a kind, or of several, that the installed sdy lacks."""
    return bool(sharding.offsets or sharding.halos or not sdy.has_kinds_of(sharding))


def carrier_text(sharding: TensorSharding, shape: Shape | None = None) -> str:
    """A sharding as the text of a carrier; one that sdy can say, as sdy.

    Raises:
        ShardingError: offsets or halos together with open dimensions, parts of axes or several kinds of partial axes,
            or halos on a dimension that its shards do not divide.
    """
    if sharding.offsets or sharding.halos:
        return shard.print_sharding(sharding, shape, "mesh")
    text = sdy.print_sharding(replace(sharding, partial=()) if sharding.partial else sharding)[:-1]
    for kind in dict.fromkeys(p.kind for p in sharding.partial):
        axes = [p.axis for p in sharding.partial if p.kind == kind]
        text += f", unreduced={kind if kind != 'sum' else ''}{sdy.print_axes(axes, sharding.mesh)}"
    return text + ">"


def parse_carrier(text: str, shape: Shape, meshes: Mapping[str, Mesh]) -> TensorSharding:
    """The sharding that a carrier's text says of a tensor of `shape`, in any notation, in a module with `meshes`.

    Raises:
        ShardingError: malformed text, an unknown mesh, none named where there are several, or a sharding that does not
            fit the shape.
    """
    table = current_session().table(__name__)
    key = (text, shape, *meshes.values())
    sharding: TensorSharding | None = table.get(key)
    if sharding is None:
        sharding = table[key] = parse_text(text, shape=shape, mesh=_mesh(text, meshes))
    return sharding


def _mesh(text: str, meshes: Mapping[str, Mesh]) -> Mesh | None:
    symbol = _SYMBOL.search(text)
    if symbol is None:
        return next(iter(meshes.values())) if len(meshes) == 1 else None
    name = symbol_name(symbol[0])
    spelt = symbol[0][1:].strip('"')
    name = name if name in meshes else spelt  # not every notation knows escapes
    if name not in meshes:
        known = ", ".join("@" + known for known in meshes) or "none"
        raise ShardingError(f"unknown mesh @{name}", cause=f"{text[:200]!r}; the module has the meshes {known}")
    return meshes[name]

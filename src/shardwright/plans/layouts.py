"""The text of one sharding in a plan: a SPEC, as `--arg` takes it, or where that cannot say all of it, a notation that
can.

    >>> from shardwright.mesh import Mesh
    >>> from shardwright.sharding import DimSharding, TensorSharding
    >>> mesh = Mesh(data=2, model=4)
    >>> layout_text(TensorSharding.of(mesh, [["data"], []]), (8, 8))
    'data,.'
    >>> layout_text(TensorSharding(mesh, (DimSharding((mesh.axis("data"),), True, 1),)), (8,))
    '#sdy.sharding<@mesh, [{"data", ?}p1]>'
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.frontends.specs import parse_spec, print_spec
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import parse_text, print_text
from shardwright.sharding import TensorSharding

__all__ = ["layout_text", "parse_layout", "parse_type", "type_text"]

_NOTATIONS = ("sdy", "shard")
"""Those that say more than a SPEC, in the order in which they are tried."""

_STARTS = ("#", "<", "shard.sharding ", "mesh.sharding ")
"""How their texts begin, and no SPEC that is written."""

_TYPE = re.compile(r"(?:\d{1,18}x)*[a-zA-Z][^\s,]*", re.ASCII)


def layout_text(sharding: TensorSharding, shape: Shape | None) -> str:
    """The shortest text that `parse_layout` reads as this sharding.

    Raises:
        ShardingError: no notation can say it.
    """
    for text in _texts(sharding, shape):
        try:
            if parse_layout(text, sharding.mesh, shape) == sharding:
                return text
        except ShardingError:
            continue  # such as the name of an axis that a SPEC cannot hold
    raise ShardingError(
        f"the sharding {sharding!r} cannot be written down",
        cause=f"neither a SPEC nor any of {', '.join(_NOTATIONS)} says all of it",
        remedy="close its dimensions, or leave out priorities, offsets or halos",
    )


def _texts(sharding: TensorSharding, shape: Shape | None) -> list[str]:
    texts = [print_spec(sharding)]
    for name in _NOTATIONS:
        try:
            texts.append(print_text(sharding, name, shape=shape))
        except ShardingError:
            continue  # the next may say it
    return texts


def parse_layout(text: str, mesh: Mesh, shape: Shape | None) -> TensorSharding:
    """The sharding that a text of a plan says; of as many dimensions as it has entries, if the shape is not known.

    Raises:
        ShardingError: malformed text, an unknown axis, another number of dimensions.
    """
    if text.lstrip().startswith(_STARTS):
        return parse_text(text, shape=shape, mesh=mesh)
    rank = (text.count(",") + 1 if text.strip() else 0) if shape is None else len(shape)
    return parse_spec(text, mesh, rank)


def type_text(type: TensorType) -> str:
    """A type as a plan says it: `64x256xf32`."""
    return str(type).removeprefix("tensor<").removesuffix(">") if type.is_tensor else str(type)


def parse_type(text: str) -> TensorType:
    """The type that a plan says.

    >>> parse_type("64x256xf32"), parse_type("f32").rank
    (TensorType(shape=(64, 256), dtype='f32'), 0)

    Raises:
        ShardingError: it is none.
    """
    if text.startswith("!"):
        return TensorType.parse(text)
    if _TYPE.fullmatch(text) is None:
        cause, remedy = "it is no sizes with a type of elements", 'write it as "64x256xf32"'
        raise ShardingError(f"not a type: {text[:80]!r}", cause=cause, remedy=remedy)
    return TensorType.parse(f"tensor<{text}>")

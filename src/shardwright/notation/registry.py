"""The notations of single shardings, by name: each reads its text into the model and prints the model as its text.

    >>> from shardwright.notation.registry import parse_text, print_text
    >>> from shardwright.mesh import Mesh
    >>> sharding = parse_text('#sdy.sharding<@mesh, [{"x"}, {}]>', shape=(8, 16), mesh=Mesh(x=2, y=4))
    >>> sharding, print_text(sharding, "sdy")
    ([{x}, {}], '#sdy.sharding<@mesh, [{"x"}, {}]>')

Each is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardwright.errors import ShardingError
from shardwright.lazy import loaded
from shardwright.mesh import Mesh
from shardwright.notation.framework_objects import unwrap
from shardwright.notation.notation import Notation, Shape, shape_of
from shardwright.sharding import TensorSharding
from shardwright.words import kind_of

__all__ = ["notation", "notation_names", "notations", "parse_text", "print_text"]

_HOMES = {
    "sdy": "shardwright.notation.sdy.sharding:NOTATION",
    "mhlo": "shardwright.notation.hlo.sharding:NOTATION",
    "shard": "shardwright.notation.shard.sharding:NOTATION",
    "rfc": "shardwright.notation.rfc.sharding:NOTATION",
    "jax": "shardwright.notation.jax:NOTATION",
    "dtensor": "shardwright.notation.dtensor:NOTATION",
}
"""Name → where the notation is defined, in the order in which texts are tried."""


def notation_names() -> tuple[str, ...]:
    """What the notations are called, in the order in which texts are tried."""
    return tuple(_HOMES)


def notations() -> Iterator[Notation]:
    """All notations, in the order in which texts are tried; each is loaded when it is reached."""
    return map(notation, _HOMES)


def notation(name: str) -> Notation:
    """The notation called `name`.

    Raises:
        ShardingError: there is none.
    """
    if name not in _HOMES:
        raise ShardingError(f"unknown notation {name!r}", remedy=f"one of {', '.join(_HOMES)}")
    entry: Notation = loaded(_HOMES[name])
    return entry


def parse_text(text: str, *, shape: Shape | None = None, mesh: Mesh | None = None) -> TensorSharding:
    """A sharding in any notation, told apart by how it begins.

    Raises:
        ShardingError: no notation begins so, or its own reader refuses; what is no text.
    """
    if not isinstance(text, str):
        raise ShardingError(
            f"not the text of a sharding: {text!r}"[:200],
            cause=f"it is {kind_of(text)}",
            remedy="give its text: str(sharding) for an object of JAX or PyTorch",
        )
    inside, shape, mesh = unwrap(text.strip(), None if shape is None else shape_of(shape), mesh)
    for entry in notations():
        if entry.looks_like(inside):
            sharding = entry.parse(inside, shape, mesh)
            sharding.check(shape)
            return sharding
    width = max(map(len, _HOMES))
    known = "\n".join(f"          {entry.name:<{width}}  {entry.title}" for entry in notations())
    raise ShardingError(
        f"not a sharding in any notation: {text[:200]!r}",
        cause="it begins as none of them does",
        remedy=f"write it in one of these\n{known}",
    )


def print_text(sharding: TensorSharding, name: str, *, shape: Shape | None = None) -> str:
    """A sharding in the notation called `name`.

    Raises:
        ShardingError: no such notation, or it cannot express this sharding.
    """
    return notation(name).print(sharding, shape)

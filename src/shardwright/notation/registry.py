"""The notations of single shardings, by name: each reads its text into the model and prints the model as its text.

    >>> import shardwright.notation.all
    >>> from shardwright.notation.registry import parse_text, print_text
    >>> from shardwright.mesh import Mesh
    >>> sharding = parse_text('#sdy.sharding<@mesh, [{"x"}, {}]>', shape=(8, 16), mesh=Mesh(x=2, y=4))
    >>> sharding, print_text(sharding, "sdy")
    ([{x}, {}], '#sdy.sharding<@mesh, [{"x"}, {}]>')

A notation file declares itself with `register`; `shardwright.notation.all` imports all of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.objects import Shape, shape_of, unwrap
from shardwright.sharding import VIEWS, TensorSharding

__all__ = ["Notation", "Shape", "notation", "notations", "parse_text", "print_text", "register"]


@dataclass(frozen=True, slots=True)
class Notation:
    """One way to write a sharding down.

    Attributes:
        name: What `--to` calls it.
        title: What it is, in a few words.
        looks_like: Whether a text is of this notation, by a glance at how it begins.
        parse: Text → model, for a tensor of this shape (`None`: unknown) on this mesh (`None`: derive one if the text
            says enough). Raises `ShardingError` for malformed text, saying where, and for what the mesh cannot express.
        print: Model → canonical text, for a tensor of this shape. Raises `ShardingError` naming what it cannot express.
    """

    name: str
    title: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str, Shape | None, Mesh | None], TensorSharding]
    print: Callable[[TensorSharding, Shape | None], str]


_notations: dict[str, Notation] = {}


def register(entry: Notation) -> Notation:
    """Make a notation known."""
    _notations[entry.name] = entry
    return entry


def notations() -> tuple[Notation, ...]:
    """All notations, in the order in which they were registered."""
    return tuple(_notations.values())


def notation(name: str) -> Notation:
    """The notation called `name`.

    Raises:
        ShardingError: there is none.
    """
    if name not in _notations:
        raise ShardingError(f"unknown notation {name!r}", remedy=f"one of {', '.join(_notations)}")
    return _notations[name]


def parse_text(text: str, *, shape: Shape | None = None, mesh: Mesh | None = None) -> TensorSharding:
    """A sharding in any notation, told apart by how it begins.

    Raises:
        ShardingError: no notation begins so, or its own reader refuses; what is no text.
    """
    if not isinstance(text, str):
        raise ShardingError(
            f"not the text of a sharding: {text!r}"[:200],
            cause=f"it is a {type(text).__name__}",
            remedy="give its text: str(sharding) for an object of JAX or PyTorch",
        )
    inside, shape, mesh = unwrap(text.strip(), None if shape is None else shape_of(shape), mesh)
    for entry in _notations.values():
        if entry.looks_like(inside):
            sharding = entry.parse(inside, shape, mesh)
            sharding.check(shape)
            return sharding
    width = max(len(entry.name) for entry in _notations.values())
    known = "\n".join(f"          {entry.name:<{width}}  {entry.title}" for entry in _notations.values())
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


VIEWS["text"] = print_text

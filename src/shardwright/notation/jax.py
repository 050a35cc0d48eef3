"""One sharding as JAX writes it: a `PartitionSpec`, or the type of a sharded array.

    P('x', None, ('y', 'z'))                     also PartitionSpec(…), jax.P(…)
    P('x', P.UNCONSTRAINED, unreduced={'y'})
    P('x', unreduced={'y'}, unreduced_kind=UnreducedKind.max)    since JAX 0.11, which prints `unreduced_kind=max`
    f32[8@x,4@(y,z)]{U:w}                        read only

Missing trailing dimensions are closed and not split, `UNCONSTRAINED` is an open dimension, `unreduced` a partial sum
where no kind is given.
`reduced` axes are those along which the whole value is there and must stay: the model's `replicated`.

    >>> from shardwright.notation.registry import parse_text, print_text
    >>> mesh = Mesh(x=2, y=4)
    >>> print_text(parse_text("f32[8@x,4]{U:y}", mesh=mesh), "jax")
    "P('x', None, unreduced={'y'})"

Source: JAX's `jax.sharding.PartitionSpec` and the type text of its explicit sharding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import NoReturn

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_scanner import CallScanner
from shardwright.notation.notation import Notation, Shape
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.words import counted

__all__ = ["missing_entries", "parse", "print_sharding"]

_SPEC = re.compile(r"(?:[A-Za-z_]\w*\.)*(?:PartitionSpec|P)\s*\(")
_TYPE = re.compile(r"[A-Za-z]\w*(?:<\w+>)?\[\s*(?:[0-9]|\])")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_KINDS = ("sum", "max", "min")
_KIND = "unreduced_kind"


def parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """A `PartitionSpec` (of as many dimensions as it has entries, if `shape` is not known) or an array's type.

    Raises:
        ShardingError: malformed text, no mesh, an unknown axis or one used twice, more entries than dimensions, a type
            of another shape.
    """
    if mesh is None:
        raise ShardingError(f"the mesh is not known to {text[:200]!r}", remedy="give the mesh")
    reader = _SpecReader(text, mesh)
    dims = reader.type(shape) if _TYPE.match(text) else reader.spec()
    reader.end()
    dims += missing_entries(len(dims), len(dims) if shape is None else len(shape), repr(text[:200]))
    awaiting = tuple(Partial(axis, reader.kind) for axis in reader.sets["unreduced"])
    sharding = TensorSharding(mesh, tuple(dims), reader.sets["reduced"], awaiting)
    sharding.check(shape)
    return sharding


def missing_entries(count: int, rank: int, spec: str, cause: str = "") -> list[DimSharding]:
    """The dimensions past the `count` entries of a `PartitionSpec`, told as `spec`: they are not split.

    Raises:
        ShardingError: more entries than dimensions, for this cause.
    """
    if count > rank:
        raise ShardingError(
            f"{spec} has {counted(count, 'entry')}, the tensor has {counted(rank, 'dimension')}",
            cause=cause,
            remedy=f"give at most {counted(rank, 'entry')}" if rank else "give P() to a scalar",
        )
    return [DimSharding()] * (rank - count)


class _SpecReader(CallScanner):
    """Recursive descent over a `PartitionSpec` or a type."""

    def __init__(self, text: str, mesh: Mesh) -> None:
        super().__init__(text)
        self.mesh = mesh
        self.sets: dict[str, Axes] = {"unreduced": (), "reduced": ()}
        self.kind = "sum"

    def spec(self) -> list[DimSharding]:
        head = self.take()
        if head.rpartition(".")[2] not in ("P", "PartitionSpec"):
            self.at = 0
            self.refuse("expected P( or PartitionSpec(")
        self.take("(")
        dims: list[DimSharding] = []
        keywords: set[str] = set()
        while not self.accept(")"):
            word = self.peek()
            if word in self.sets or word == _KIND:
                if word in keywords:
                    self.refuse(f"{word} is given twice")
                keywords.add(word)
                self.take()
                self.keyword(word)
            elif keywords:
                self.refuse("no entries may follow a keyword")
            else:
                dims.append(self.entry())
            if self.peek() != ")":
                self.take(",")
        return dims

    def keyword(self, word: str) -> None:
        self.take("=")
        if word != _KIND:
            self.sets[word] = self.axis_set()
            return
        self.kind = self.known_kind(self.peek().rpartition(".")[2])
        self.take()

    def known_kind(self, kind: str) -> str:
        if kind not in _KINDS:
            self.refuse("expected a kind of reduction", f"one of {', '.join(_KINDS)}")
        return kind

    def entry(self) -> DimSharding:
        word = self.peek()
        if self.accept("None"):
            return DimSharding()
        if word.rpartition(".")[2] == "UNCONSTRAINED":
            self.take()
            return DimSharding(open=True)
        if self.accept("("):
            return DimSharding(self.names(")"))
        return DimSharding((self.axis(),))

    def axis_set(self) -> Axes:
        frozen = self.accept("frozenset")
        if frozen:
            self.take("(")
        self.take("{")
        axes = self.names("}")
        if frozen:
            self.take(")")
        return tuple(sorted(axes, key=self.mesh.sort_key))

    def names(self, closing: str, *, quoted: bool = True) -> Axes:
        return tuple(self.separated(closing, partial(self.axis, quoted=quoted), trailing=True))

    def axis(self, *, quoted: bool = True) -> AxisRef:
        word = self.peek()
        if quoted and (len(word) < 2 or word[0] not in "\"'"):
            self.refuse("expected None, the name of an axis in quotes, a tuple of names or P.UNCONSTRAINED")
        if not quoted and not _NAME.fullmatch(word):
            self.refuse("expected the name of an axis")
        axis = self.known(word[1:-1] if quoted else word)
        self.take()
        return axis

    def known(self, name: str) -> AxisRef:
        if name not in self.mesh.sizes:
            axes = ", ".join(map(repr, self.mesh.sizes)) or "none"
            self.refuse(f"unknown mesh axis {name[:40]!r}, the mesh has {axes}", "name one of them")
        return self.mesh.axis(name)

    def type(self, shape: Shape | None) -> list[DimSharding]:
        self.take()
        if self.accept("<"):  # the memory that holds it
            self.take()
            self.take(">")
        self.take("[")
        dims: list[DimSharding] = []
        sizes: list[int] = []
        while not self.accept("]"):
            if sizes:
                self.take(",")
            sizes.append(self.integer())
            dims.append(self.type_entry())
        if self.accept("{"):
            self.type_sets()
        if shape is not None and tuple(sizes) != shape:
            raise ShardingError(
                f"{self.text[:200]!r} has the shape {sizes}, the tensor {list(shape)}",
                remedy="give the shape that the type says, or none",
            )
        return dims

    def type_entry(self) -> DimSharding:
        word = self.peek()
        if self.accept("@"):
            self.take("(")
            return DimSharding(self.names(")", quoted=False))
        if word.startswith("@"):
            axis = self.known(word[1:])
            self.take()
            return DimSharding((axis,))
        return DimSharding()

    def type_sets(self) -> None:
        while not self.accept("}"):
            letter, _, kind = self.peek().partition("_")
            what = {"U": "unreduced", "R": "reduced"}.get(letter)
            if what is None or self.sets[what]:
                self.refuse("expected U: or R:, once each (V: is a value inside a shard_map, not a sharding)")
            if kind:
                self.kind = self.known_kind(kind)
            self.take()
            self.take(":")
            several = self.accept("(")
            axes = self.names(")", quoted=False) if several else (self.axis(quoted=False),)
            self.sets[what] = tuple(sorted(axes, key=self.mesh.sort_key))
            if self.peek() != "}":
                self.take(",")


def print_sharding(sharding: TensorSharding, shape: Shape | None = None) -> str:
    """`P('x', None, ('y', 'z'), unreduced={'w'})`, an entry for every dimension.

    Raises:
        ShardingError: parts of axes, an open dimension that is split, priorities, offsets, halos, a tensor partial by
            several kinds or by another kind than sum, max or min.
    """
    mesh = sharding.mesh
    if sharding.offsets or sharding.halos:
        _refuse(sharding, "offsets or halos", "print it as shard")
    if any(dim.open and dim.axes for dim in sharding.dims):
        _refuse(sharding, "an open dimension that is already split", "close the dimension, or print it as sdy")
    if any(dim.priority for dim in sharding.dims):
        _refuse(sharding, "priorities", "leave them out, or print it as sdy")
    kinds = {p.kind for p in sharding.partial}
    if len(kinds) > 1 or not kinds <= set(_KINDS):
        _refuse(sharding, "a tensor partial by several kinds, or by others than sum, max and min", "print it as shard")
    plain = sharding.closed()
    entries = [
        "P.UNCONSTRAINED" if own.open else _entry([_name(axis, sharding) for axis in dim.axes])
        for own, dim in zip(sharding.dims, plain.dims, strict=True)
    ]
    for keyword, axes in (("unreduced", plain.partial_axes), ("reduced", mesh.in_order(sharding.replicated))):
        if axes:
            entries.append(f"{keyword}={{{', '.join(_name(axis, sharding) for axis in axes)}}}")
    if kinds - {"sum"}:
        entries.append(f"{_KIND}=UnreducedKind.{kinds.pop()}")
    return f"P({', '.join(entries)})"


def _entry(names: Iterable[str]) -> str:
    listed = list(names)
    if not listed:
        return "None"
    return listed[0] if len(listed) == 1 else f"({', '.join(listed)})"


def _name(axis: AxisRef, sharding: TensorSharding) -> str:
    if not sharding.mesh.is_full(axis):
        _refuse(
            sharding,
            f"parts of a mesh axis, such as {axis.name!r}{axis.part}",
            "give the mesh an axis for each part, or print it as sdy",
        )
    text = repr(axis.name)
    if text[1:-1] != axis.name:
        _refuse(sharding, f"the axis name {text}", "rename the axis")
    return text


def _refuse(sharding: TensorSharding, what: str, remedy: str) -> NoReturn:
    raise ShardingError(f"a PartitionSpec cannot express {what}", cause=f"sharding {sharding!r}", remedy=remedy)


NOTATION = Notation(
    "jax",
    "JAX, `P('x', None, ('y', 'z'))` or `f32[8@x,4@(y,z)]`",
    lambda text: (_SPEC.match(text) or _TYPE.match(text)) is not None,
    parse,
    print_sharding,
)

"""`mhlo.sharding` as text: read into [`HloSharding`][shardwright.notation.hlo.model.HloSharding], as XLA reads it.

    >>> parse_hlo("{devices=[2,1]0,1}").tile
    (2, 1)
    >>> str(parse_hlo("{devices=[2,2]<=[2,1,2]T(2,1,0)}").canonical())
    '{devices=[2,2]<=[2,2]T(1,0)}'

One pass over the text, which holds no more than the text does and says the column of what it cannot read. Rules that
XLA leaves unchecked are checked: the sizes of `[…]` and `<=[…]`, the permutation, devices listed twice.

Source: StableHLO's "MHLO sharding format"; `HloParserImpl::ParseSingleSharding` of XLA.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from shardwright.errors import ShardingError
from shardwright.mesh import Axes, AxisRef, Mesh
from shardwright.notation.hlo.model import SUBGROUPS, WHOLE, HloSharding, NamedForm
from shardwright.notation.hlo.tiles import MAX_EXPANDED, Iota, Order, order_size
from shardwright.sharding import REDUCTION_KINDS, DimSharding, Partial, TensorSharding

__all__ = ["MAX_DIMS", "parse_hlo"]

_T = TypeVar("_T")

MAX_DIMS = 60
"""Most dimensions of tiles, and most axes of a mesh, that are read."""

_MAX_SIZE = 10**18
"""Above any size or device that is read, and any product of them."""


def parse_hlo(text: str) -> HloSharding:
    """`{devices=[2,1]0,1}`, or any other `mhlo.sharding`, as written: not yet in canonical form.

    Raises:
        ShardingError: malformed or invalid text, with the column.
    """
    parser = _Parser(text)
    found = parser.sharding()
    if parser.kind:
        parser.fail("the text goes on after the sharding", _moved_brace(text, parser.column))
    return found


def _moved_brace(text: str, column: int) -> str:
    """What to do about text after the last brace: it may belong inside, where leaving it out would change the meaning.

    XLA's own page on shardings has such a text: `{devices=[1,2,4]0,1,2,3,4,5,6,7} last_tile_dim_replicate`.
    """
    inside, rest = text[: column - 1].rstrip().removesuffix("}"), text[column - 1 :].strip()
    for moved in (rest, rest.removesuffix("}").rstrip()):
        mended = f"{inside} {moved}}}"
        if moved and _is_sharding(mended):
            return f"move the brace behind it: {mended}"
    return "leave out what follows the last brace"


def _is_sharding(text: str) -> bool:
    try:
        parser = _Parser(text)
        parser.sharding()
    except ShardingError:
        return False
    return not parser.kind


_TOKEN = re.compile(
    r"(?:\s|/\*.*?\*/)*(?:(?P<name>[A-Za-z_][\w.-]*)|(?P<string>'[^']*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>[0-9]+)|(?P<sign><=|.)|$)",
    re.DOTALL,
)


class _Parser:
    """Recursive descent, one token ahead: `kind` and `token` at column `column`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        self.kind = (match and match.lastgroup) or ""
        self.token = match[self.kind] if match and self.kind else ""
        self.end = match.end() if match else len(self.text)
        self.column = self.end - len(self.token) + 1

    def fail(self, message: str, remedy: str, column: int | None = None) -> NoReturn:
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        where = f"column {column or self.column}"
        raise ShardingError(f"{message}: {shown!r}", location=where, remedy=remedy)

    def take(self, expected: str) -> None:
        if not self.accept(expected):
            self.fail(f"expected {expected!r}, got {self.token[:40] or 'the end'!r}", f"put {expected!r} here")

    def accept(self, token: str) -> bool:
        if self.token != token or self.kind == "string":
            return False
        self.advance()
        return True

    def integer(self, limit: int = _MAX_SIZE, told: str = "10^18") -> int:
        if self.kind != "number" or int(self.token[:20]) >= limit:
            self.fail(f"expected a number, got {self.token[:40] or 'the end'!r}", f"put a number below {told} here")
        value = int(self.token)
        self.advance()
        return value

    def integers(self, closing: str) -> tuple[int, ...]:
        """`1,2,3` up to and with `closing`; their product is no larger than a number may be."""
        start, found, product = self.column, self.listed(), 1
        for size in found:
            product *= size
            if product >= _MAX_SIZE:
                self.fail("the sizes multiply to 10^18 or more", "use smaller ones", start)
        self.take(closing)
        return found

    def listed(self) -> tuple[int, ...]:
        found = [self.integer()]
        while self.accept(","):
            found.append(self.integer())
        return tuple(found)

    def sharding(self) -> HloSharding:
        self.take("{")
        if self.token not in ("{", "}"):
            return self.single()
        elements: list[HloSharding] = []
        while not self.accept("}"):
            if elements:
                self.take(",")
            self.take("{")
            elements.append(self.single())
        return HloSharding("tuple", elements=tuple(elements))

    def single(self) -> HloSharding:
        """One sharding after its opening brace."""
        start = self.column - 1
        if self.token in ("maximal_mesh", "single_device"):
            self.advance()
            for expected in ("[", "device_id", "="):
                self.take(expected)
            found = HloSharding("maximal", device=self.integer())
            self.take("]")
            found = replace(found, metadata=self.metadata() if self.accept(",") else "")
            self.take("}")
            return found
        return self.named() if self.token == "mesh" else self.items(start)

    def items(self, start: int) -> HloSharding:
        kinds: set[str] = set()
        tile: tuple[int, ...] = ()
        order: Order = ()
        device: int | None = None
        group: tuple[str, int] | None = None
        subgroups: tuple[str, ...] = ()
        metadata = ""
        while not self.accept("}"):
            word, column = self.token, self.column
            if word == "metadata":
                metadata = self.metadata()
                continue
            if self.kind != "name":
                self.fail(f"expected a word, got {word[:40] or 'the end'!r}", "see the grammar, or close the brace")
            self.advance()
            if word in WHOLE:
                kinds.add(word)
            elif word == "device":
                self.take("=")
                device = self.integer()
            elif word == "devices":
                self.take("=")
                tile, order = self.devices(column)
            elif word in ("last_tile_dim_replicate", "last_tile_dims") and subgroups:
                self.fail("the last tile dimensions are described twice", "describe them once", column)
            elif word == "last_tile_dim_replicate":
                subgroups = ("replicated",)
            elif word == "last_tile_dims":
                self.take("=")
                subgroups = self.subgroups()
            elif word in ("shard_as", "shard_like"):
                group = (word, self.integer(2**63, "2^63"))
            else:
                self.fail(f"unknown item {word!r}", f"one of {', '.join(WHOLE)}, devices=, …", column)
        kind = next((kind for kind in WHOLE if kind in kinds), "tiled")
        found = HloSharding(kind, group=group, metadata=metadata)
        if kind == "maximal" and device is not None and not tile:
            return replace(found, device=device)
        if kind == "maximal":
            self.fail("a maximal sharding names one device", "write {maximal device=0}", start)
        if kind != "tiled" and (tile or device is not None):
            self.fail(f"a sharding that is {kind} names no devices", f"write {{{kind}}}", start)
        if kind == "tiled" and not tile:
            self.fail("the sharding has no tiles", "write {devices=[2,1]0,1} or {replicated}", start)
        if len(subgroups) > len(tile) and kind == "tiled":
            self.fail(f"{len(subgroups)} subgroups in {len(tile)} tile dimensions", "give each its dimension", start)
        return replace(found, tile=tile, order=order, subgroups=subgroups if kind == "tiled" else ())

    def devices(self, start: int) -> tuple[tuple[int, ...], Order]:
        """`[2,2]0,1,2,3` or `[2,2]<=[2,2]T(1,0)`."""
        self.take("[")
        tile = self.integers("]")
        iota = self.accept("<=")
        order: Order = self.iota() if iota else self.listed()
        size = order_size(order)
        if len(tile) > MAX_DIMS:
            self.fail(f"{len(tile)} tile dimensions", f"use at most {MAX_DIMS}", start)
        if math.prod(tile) != size:
            self.fail(f"{math.prod(tile)} tiles for {size} devices", "let the sizes of the tiles multiply to it", start)
        if size == 0 or (size == 1 and not iota):
            self.fail("a tiled sharding has more than one device", "write {maximal device=0} or {replicated}", start)
        if not isinstance(order, Iota) and len(set(order)) != size:
            self.fail("a device is listed twice", "list every device once", start)
        return tile, order

    def iota(self) -> Iota:
        """`[2,4]T(1,0)`: the transpose is there iff there is more than one dimension."""
        start = self.column
        self.take("[")
        reshape = self.integers("]")
        if len(reshape) == 1:
            return Iota(reshape, (0,))
        self.take("T")
        self.take("(")
        perm = self.integers(")")
        if sorted(perm) != list(range(len(reshape))):
            self.fail(f"T({','.join(map(str, perm))}) is no permutation of {len(reshape)}", "name each once", start)
        return Iota(reshape, perm)

    def subgroups(self) -> tuple[str, ...]:
        self.take("{")
        found: list[str] = []
        while not self.accept("}"):
            if found:
                self.take(",")
            if self.token not in SUBGROUPS:
                self.fail(f"unknown subgroup {self.token[:40]!r}", f"one of {', '.join(SUBGROUPS)}")
            found.append(self.token)
            self.advance()
        return tuple(found)

    def metadata(self) -> str:
        """`metadata={…}`: what is in the outer braces and they, as written."""
        self.take("metadata")
        self.take("=")
        start, depth = self.column - 1, 0
        while True:
            depth += {"{": 1, "}": -1}.get(self.token, 0)
            if not self.kind or (depth == 0 and self.token != "}"):
                self.fail("metadata is not a pair of braces", 'write metadata={op_name="…"}')
            end = self.end
            self.advance()
            if depth == 0:
                return self.text[start:end]

    def named(self) -> HloSharding:
        """`mesh['a'=2], [{'a'}], …}`: the form with a mesh, after its opening brace."""
        start = self.column
        self.take("mesh")
        self.take("[")
        axes: list[tuple[str, int]] = []
        while not self.accept("]"):
            if axes:
                self.take(",")
            name = self.name()
            self.take("=")
            axes.append((name, self.integer()))
            if len(axes) > MAX_DIMS or math.prod(size for _, size in axes) >= _MAX_SIZE:
                self.fail("the mesh has too many axes or devices", f"use at most {MAX_DIMS} axes", start)
        mesh = self.checked(lambda: Mesh(axes), start)
        form = NamedForm(mesh.axes)
        metadata, metadata_allowed = "", True
        first = True
        while self.accept(","):
            if self.token == "metadata" and metadata_allowed and not first:
                metadata, metadata_allowed = self.metadata(), False
            elif first and self.token == "device_ids" and form.order is None:
                form = replace(form, order=self.device_ids(mesh))
                continue
            elif first:
                form = self.layout(form, mesh)
            else:
                form = self.axis_list(form, mesh)
            first = False
        self.take("}")
        if first:
            self.fail("the mesh is not followed by a layout", "write {mesh['a'=2], [{'a'}]}", start)
        return HloSharding("named", named=form, metadata=metadata)

    def layout(self, form: NamedForm, mesh: Mesh) -> NamedForm:
        """`[{'a'}, {}]`, or a word for the whole tensor."""
        if self.token in ("replicated", "unreduced", "manual"):
            form = replace(form, whole=self.token)
            self.advance()
            return form
        column = self.column
        self.take("[")
        dims: list[DimSharding] = []
        while not self.accept("]"):
            if dims:
                self.take(",")
            axes, open_ = self.axes(mesh)
            dims.append(DimSharding(axes, open_))
        self.checked(TensorSharding(mesh, tuple(dims)).check, column)
        return replace(form, dims=tuple(dims))

    def axis_list(self, form: NamedForm, mesh: Mesh) -> NamedForm:
        """`replicated={…}`, `unreduced={…}`, `unreduced=max{…}` or `manual={…}`."""
        column, word = self.column, self.token
        if word not in ("replicated", "unreduced", "manual") or form.whole:
            self.fail(f"unexpected {word[:40] or 'end'!r}", "after dimensions: replicated=, unreduced=, manual=")
        self.advance()
        self.take("=")
        kind = "sum"
        if self.kind == "name":
            kind = self.token
            if word != "unreduced" or kind not in REDUCTION_KINDS:
                self.fail(f"unknown reduction kind {kind[:40]!r}", f"one of {', '.join(REDUCTION_KINDS)}")
            self.advance()
        axes, open_ = self.axes(mesh)
        if open_:
            self.fail("'?' in a list of axes", "leave it out", column)
        if word == "unreduced":
            form = replace(form, partial=(*form.partial, *(Partial(axis, kind) for axis in axes)))
        elif word == "replicated":
            form = replace(form, replicated=(*form.replicated, *axes))
        else:
            form = replace(form, manual=(*form.manual, *axes))
        used = TensorSharding(mesh, form.dims, (*form.replicated, *form.manual), form.partial)
        self.checked(used.check, column)
        return form

    def axes(self, mesh: Mesh) -> tuple[Axes, bool]:
        """`{'a', 'b':(1)2, ?}`."""
        self.take("{")
        axes: list[AxisRef] = []
        open_, first = False, True
        while not self.accept("}"):
            if not first:
                self.take(",")
            first = False
            if open_:
                self.fail("'?' is not last", "put it after the axes")
            open_ = self.accept("?")
            if not open_:
                axes.append(self.axis(mesh))
        return tuple(axes), open_

    def axis(self, mesh: Mesh) -> AxisRef:
        column, name = self.column, self.name()
        if not self.accept(":"):
            return self.checked(lambda: mesh.axis(name), column)
        self.take("(")
        pre = self.integer()
        self.take(")")
        size = self.integer()
        return self.checked(lambda: mesh.axis(name, pre, size), column)

    def name(self) -> str:
        if self.kind not in ("name", "string"):
            self.fail(f"expected the name of an axis, got {self.token[:40] or 'the end'!r}", "name a mesh axis here")
        name = self.token[1:-1] if self.kind == "string" else self.token
        self.advance()
        return name

    def device_ids(self, mesh: Mesh) -> Order | None:
        """`device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`; `None` where devices are in order."""
        start = self.column
        for expected in ("device_ids", "=", "("):
            self.take(expected)
        order: Order = self.iota().canonical() if self.token == "[" else self.listed()
        self.take(")")
        if order_size(order) != mesh.size:
            self.fail(f"{order_size(order)} device ids for a mesh of {mesh.size}", "name each device once", start)
        if isinstance(order, Iota):
            if len(order.reshape) > 1 and order.size > MAX_EXPANDED:
                self.fail(f"device ids in another order for {order.size} devices", "leave them in order", start)
            return order if len(order.reshape) > 1 else None
        listed = order
        return order if self.checked(lambda: Mesh(mesh.axes, device_ids=listed), start).device_ids else None

    def checked(self, make: Callable[[], _T], column: int) -> _T:
        """What `make` makes; its refusal is told with the column."""
        try:
            return make()
        except ShardingError as error:
            raise error.replaced(op="", location=f"column {column}") from None

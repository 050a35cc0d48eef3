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
from functools import partial
from typing import NoReturn, TypeVar

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_scanner import AxisScanner
from shardwright.notation.hlo.model import SUBGROUPS, WHOLE, HloSharding, NamedForm
from shardwright.notation.hlo.tiles import MAX_EXPANDED, Iota, Order, order_size
from shardwright.sharding import REDUCTION_KINDS, DimSharding, Partial, TensorSharding

__all__ = ["MAX_DIMS", "parse_hlo"]

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z_]")

MAX_DIMS = 60
"""Most dimensions of tiles, and most axes of a mesh, that are read."""

_MAX_SIZE = 10**18
"""Above any size or device that is read, and any product of them."""


def parse_hlo(text: str) -> HloSharding:
    """`{devices=[2,1]0,1}`, or any other `mhlo.sharding`, as written: not yet in canonical form.

    Raises:
        ShardingError: malformed or invalid text, with the column.
    """
    parser = _HloParser(text)
    sharding = parser.sharding()
    if parser.peek():
        parser.fail("the text goes on after the sharding", _moved_brace(text, parser.column()))
    return sharding


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
        parser = _HloParser(text)
        parser.sharding()
    except ShardingError:
        return False
    return not parser.peek()


class _HloParser(AxisScanner):
    """Recursive descent; what is wrong is told with the column of the token where it begins."""

    TOKEN = re.compile(
        r"(?:\s|/\*.*?\*/)*([A-Za-z_][\w.-]*|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[0-9]+|<=|.|$)",
        re.DOTALL,
    )

    def fail(self, message: str, remedy: str, at: int | None = None, ahead: int = 0) -> NoReturn:
        """Raise, naming the column of the token numbered `at`, or of what stands so many columns `ahead` of it."""
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        raise ShardingError(f"{message}: {shown!r}", location=f"column {self.column(at) - ahead}", remedy=remedy)

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        self.fail(f"{cause}, got {self.peek()[:40] or 'the end'!r}", remedy or f"put {cause.partition(' ')[2]} here")

    def integer(self, limit: int = _MAX_SIZE, told: str = "10^18") -> int:
        token = self.peek()
        if not "0" <= token[:1] <= "9" or int(token[:20]) >= limit:
            self.refuse("expected a number", f"put a number below {told} here")
        self.at += 1
        return int(token)

    def integers(self, closing: str) -> tuple[int, ...]:
        """`1,2,3` up to and with `closing`; their product is no larger than a number may be."""
        start, numbers, product = self.at, self.listed(), 1
        for size in numbers:
            product *= size
            if product >= _MAX_SIZE:
                self.fail("the sizes multiply to 10^18 or more", "use smaller ones", start)
        self.take(closing)
        return numbers

    def listed(self) -> tuple[int, ...]:
        numbers = [self.integer()]
        while self.accept(","):
            numbers.append(self.integer())
        return tuple(numbers)

    def sharding(self) -> HloSharding:
        self.take("{")
        if self.peek() not in ("{", "}"):
            return self.single()
        return HloSharding("tuple", elements=tuple(self.separated("}", self.element)))

    def element(self) -> HloSharding:
        self.take("{")
        return self.single()

    def single(self) -> HloSharding:
        """One sharding after its opening brace."""
        if self.peek() in ("maximal_mesh", "single_device"):
            self.at += 1
            for expected in ("[", "device_id", "="):
                self.take(expected)
            sharding = HloSharding("maximal", device=self.integer())
            self.take("]")
            sharding = replace(sharding, metadata=self.metadata() if self.accept(",") else "")
            self.take("}")
            return sharding
        return self.named() if self.peek() == "mesh" else self.items()

    def items(self) -> HloSharding:
        fail = partial(self.fail, at=self.at, ahead=1)
        kinds: set[str] = set()
        tile: tuple[int, ...] = ()
        order: Order = ()
        device: int | None = None
        group: tuple[str, int] | None = None
        subgroups: tuple[str, ...] = ()
        metadata = ""
        while not self.accept("}"):
            word, at = self.peek(), self.at
            if word == "metadata":
                metadata = self.metadata()
                continue
            if not _NAME.match(word):
                self.refuse("expected a word", "see the grammar, or close the brace")
            self.at += 1
            if word in WHOLE:
                kinds.add(word)
            elif word == "device":
                self.take("=")
                device = self.integer()
            elif word == "devices":
                self.take("=")
                tile, order = self.devices(at)
            elif word in ("last_tile_dim_replicate", "last_tile_dims") and subgroups:
                self.fail("the last tile dimensions are described twice", "describe them once", at)
            elif word == "last_tile_dim_replicate":
                subgroups = ("replicated",)
            elif word == "last_tile_dims":
                self.take("=")
                subgroups = self.subgroups()
            elif word in ("shard_as", "shard_like"):
                group = (word, self.integer(2**63, "2^63"))
            else:
                self.fail(f"unknown item {word!r}", f"one of {', '.join(WHOLE)}, devices=, …", at)
        kind = next((kind for kind in WHOLE if kind in kinds), "tiled")
        sharding = HloSharding(kind, group=group, metadata=metadata)
        if kind == "maximal" and device is not None and not tile:
            return replace(sharding, device=device)
        if kind == "maximal":
            fail("a maximal sharding names one device", "write {maximal device=0}")
        if kind != "tiled" and (tile or device is not None):
            fail(f"a sharding that is {kind} names no devices", f"write {{{kind}}}")
        if kind == "tiled" and not tile:
            fail("the sharding has no tiles", "write {devices=[2,1]0,1} or {replicated}")
        if len(subgroups) > len(tile) and kind == "tiled":
            fail(f"{len(subgroups)} subgroups in {len(tile)} tile dimensions", "give each its dimension")
        return replace(sharding, tile=tile, order=order, subgroups=subgroups if kind == "tiled" else ())

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
        start = self.at
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
        return tuple(self.separated("}", self.subgroup))

    def subgroup(self) -> str:
        if self.peek() not in SUBGROUPS:
            self.fail(f"unknown subgroup {self.peek()[:40]!r}", f"one of {', '.join(SUBGROUPS)}")
        return self.take()

    def metadata(self) -> str:
        """`metadata={…}`: what is in the outer braces and they, as written."""
        self.take("metadata")
        self.take("=")
        start, depth = self.column(), 0
        while True:
            token = self.peek()
            depth += {"{": 1, "}": -1}.get(token, 0)
            if not token or (depth == 0 and token != "}"):
                self.fail("metadata is not a pair of braces", 'write metadata={op_name="…"}')
            self.at += 1
            if depth == 0:
                return self.text[start - 1 : self.column(self.at - 1)]

    def named(self) -> HloSharding:
        """`mesh['a'=2], [{'a'}], …}`: the form with a mesh, after its opening brace."""
        start = self.at
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
            if self.peek() == "metadata" and metadata_allowed and not first:
                metadata, metadata_allowed = self.metadata(), False
            elif first and self.peek() == "device_ids" and form.order is None:
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
        if self.peek() in ("replicated", "unreduced", "manual"):
            return replace(form, whole=self.take())
        start = self.at
        self.take("[")
        dims = tuple(self.separated("]", lambda: DimSharding(*self.axes(mesh))))
        self.checked(TensorSharding(mesh, dims).check, start)
        return replace(form, dims=dims)

    def axis_list(self, form: NamedForm, mesh: Mesh) -> NamedForm:
        """`replicated={…}`, `unreduced={…}`, `unreduced=max{…}` or `manual={…}`."""
        start, word = self.at, self.peek()
        if word not in ("replicated", "unreduced", "manual") or form.whole:
            self.fail(f"unexpected {word[:40] or 'end'!r}", "after dimensions: replicated=, unreduced=, manual=")
        self.at += 1
        self.take("=")
        kind = "sum"
        if _NAME.match(self.peek()):
            kind = self.peek()
            if word != "unreduced" or kind not in REDUCTION_KINDS:
                self.fail(f"unknown reduction kind {kind[:40]!r}", f"one of {', '.join(REDUCTION_KINDS)}")
            self.at += 1
        axes, open_ = self.axes(mesh)
        if open_:
            self.fail("'?' in a list of axes", "leave it out", start)
        if word == "unreduced":
            form = replace(form, partial=(*form.partial, *(Partial(axis, kind) for axis in axes)))
        elif word == "replicated":
            form = replace(form, replicated=(*form.replicated, *axes))
        else:
            form = replace(form, manual=(*form.manual, *axes))
        used = TensorSharding(mesh, form.dims, (*form.replicated, *form.manual), form.partial)
        self.checked(used.check, start)
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
        start, name, part = self.at, self.name(), self.part() or ()
        return self.checked(lambda: mesh.axis(name, *part), start)

    def name(self) -> str:
        token = self.peek()
        is_string = len(token) > 1 and token[0] in "'\""
        if not is_string and not _NAME.match(token):
            self.refuse("expected the name of an axis", "name a mesh axis here")
        self.at += 1
        return token[1:-1] if is_string else token

    def device_ids(self, mesh: Mesh) -> Order | None:
        """`device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`; `None` where devices are in order."""
        start = self.at
        for expected in ("device_ids", "=", "("):
            self.take(expected)
        order: Order = self.iota().canonical() if self.peek() == "[" else self.listed()
        self.take(")")
        if order_size(order) != mesh.size:
            self.fail(f"{order_size(order)} device ids for a mesh of {mesh.size}", "name each device once", start)
        if isinstance(order, Iota):
            if len(order.reshape) > 1 and order.size > MAX_EXPANDED:
                self.fail(f"device ids in another order for {order.size} devices", "leave them in order", start)
            return order if len(order.reshape) > 1 else None
        listed = order
        return order if self.checked(lambda: Mesh(mesh.axes, device_ids=listed), start).device_ids else None

    def checked(self, make: Callable[[], _T], at: int) -> _T:
        """What `make` makes; its refusal is told with the column of the token numbered `at`."""
        try:
            return make()
        except ShardingError as error:
            raise error.replaced(op="", location=f"column {self.column(at)}") from None

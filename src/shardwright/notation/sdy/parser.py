"""The grammar of shardings and meshes in the `sdy` dialect: recursive descent, strict, every refusal with its column.

What jaxlib's own parser refuses is refused; read beside it are kinds of reduction (`unreduced=max{"x"}`), which newer
versions of the dialect have. A column counts characters of the text from 1.

Source: the sdy dialect reference (MeshAttr, TensorShardingAttr, DimensionShardingAttr, AxisRefAttr, SubAxisInfoAttr);
MLIR's language reference, "Identifiers and keywords".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_scanner import AxisScanner
from shardwright.notation.names import symbol_name, unquoted
from shardwright.sharding import REDUCTION_KINDS, DimSharding, Partial, TensorSharding

__all__ = ["Parser"]

_BLANK = r"[ \t\r\n]"
_NAME = r'"(?:[^"\\\n\v\f]|\\["\\nt]|\\[0-9A-Fa-f]{2})*"'
_WORD = r"[A-Za-z_][A-Za-z0-9_$.]*"
_PRIORITY = re.compile(r"p(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[0-9]{1,18}")
"""Not more digits than any size or id has; Python refuses to read numbers of thousands of digits."""

_Entry = TypeVar("_Entry")


class Parser(AxisScanner):
    """The tokens of one text, taken one after the other."""

    __slots__ = ("meshes",)

    TOKEN = re.compile(rf"{_BLANK}*({_NAME}|@{_NAME}|@{_WORD}|#{_WORD}<|{_WORD}|[0-9]+|->|[^ \t\r\n])")

    def __init__(self, text: str, meshes: Mapping[str, Mesh], start: str = "") -> None:
        """Cut `text` into tokens, from the first `start` in it on; shardings refer to `meshes` by symbol."""
        self.meshes = meshes
        begin = text.find(start)
        super().__init__(" " * begin + text[begin:] if begin > 0 else text)  # columns stay those of the whole
        if begin < 0:
            self.refuse(f"expected {start!r}")

    def located(self, error: ShardingError, at: int) -> ShardingError:
        """What is wrong with the thing that begins at the token numbered `at`, with its column."""
        diagnostic = error.diagnostic
        cause = f"column {self.column(at)}: {diagnostic.cause or self.text.lstrip()[:200]}"
        return error.replaced(op="", cause=cause)

    def listed(self, first: str, last: str, entry: Callable[[], _Entry]) -> list[_Entry]:
        """Entries with commas between two brackets."""
        self.take(first)
        if self.accept(last):
            return []
        entries = [entry()]
        while self.accept(","):
            entries.append(entry())
        self.take(last)
        return entries

    def shardings(self) -> list[TensorSharding]:
        """`#sdy.sharding<…>` or `#sdy.sharding_per_value<[<…>, <…>]>`; either also from `<` on."""
        head = self.tokens[self.at]
        if head not in ("<", "#sdy.sharding<", "#sdy.sharding_per_value<"):
            self.refuse("expected '#sdy.sharding<'")
        self.at += 1
        per_value = self.tokens[self.at] == "[" if head == "<" else head == "#sdy.sharding_per_value<"
        shardings = self.listed("[", "]", self.bracketed) if per_value else [self.sharding()]
        self.take(">")
        self.end()
        return shardings

    def bracketed(self) -> TensorSharding:
        """`<@mesh, [{"x"}]>`."""
        self.take("<")
        sharding = self.sharding()
        self.take(">")
        return sharding

    def sharding(self) -> TensorSharding:
        """`@mesh, [{"x"}], replicated={"y"}, unreduced={"z"}`."""
        mesh = self.mesh()
        self.take(",")
        dims = tuple(self.listed("[", "]", lambda: self.dimension(mesh)))
        replicated: Axes = ()
        partial: tuple[Partial, ...] = ()
        while self.accept(","):
            if self.tokens[self.at] == "replicated" and not replicated:
                self.at += 1
                self.take("=")
                replicated = self.some_axes(mesh)
            elif self.tokens[self.at] == "unreduced":
                partial += self.partial(mesh, {p.kind for p in partial})
            else:
                self.refuse("expected 'replicated' or 'unreduced', each once")
        return TensorSharding(mesh, dims, replicated, partial)

    def partial(self, mesh: Mesh, before: set[str]) -> tuple[Partial, ...]:
        """`unreduced={"x"}`, or with a kind that is not there `before`: `unreduced=max{"x"}`."""
        kind = "sum"
        start = self.at
        self.at += 1
        self.take("=")
        if self.tokens[self.at] != "{":
            kind = self.tokens[self.at]
            if kind not in REDUCTION_KINDS:
                self.refuse("expected '{' or a kind of reduction", f"one of {', '.join(REDUCTION_KINDS)}")
            self.at += 1
        if kind in before:
            self.at = start
            self.refuse(f"the axes unreduced by {kind} are given twice")
        return tuple([Partial(axis, kind) for axis in self.some_axes(mesh)])

    def mesh(self) -> Mesh:
        """`@mesh`, or one spelt out: `mesh<["x"=2]>`."""
        token = self.tokens[self.at]
        if token == "mesh":
            self.at += 1
            self.take("<")
            return self.spelt_mesh("")
        name = symbol_name(token)
        if not token.startswith("@") or not name:
            self.refuse("expected the name of a mesh, as @mesh")
        if name not in self.meshes:
            known = ", ".join("@" + known for known in self.meshes) or "none"
            cause = f"the module has the meshes {known[:400]}"
            raise self.located(ShardingError(f"unknown mesh @{name[:200]}", cause=cause), self.at)
        self.at += 1
        return self.meshes[name]

    def whole_mesh(self, name: str) -> Mesh:
        """`#sdy.mesh<["x"=2, "y"=4], device_ids=[…]>` and nothing else, with or without what stands before `<`."""
        if not self.accept("#sdy.mesh<"):
            self.accept("mesh")
            self.take("<")
        mesh = self.spelt_mesh(name)
        self.end()
        return mesh

    def spelt_mesh(self, name: str) -> Mesh:
        """`["x"=2, "y"=4], device_ids=[…]>`, as a mesh called `name`."""
        start = self.at
        axes = self.listed("[", "]", self.sized)
        ids = None
        if self.accept(","):
            self.take("device_ids")
            self.take("=")
            ids = self.listed("[", "]", self.integer)
            if not ids:
                self.at -= 1
                self.refuse("expected a number")
        self.take(">")
        if not axes and ids and len(ids) > 1:
            refusal = ShardingError(
                f"a mesh without axes is of one device, not of {len(ids)}", remedy="give it axes, or one device id"
            )
            raise self.located(refusal, start)
        try:
            return Mesh(axes, device_ids=ids, name=name)
        except ShardingError as error:
            raise self.located(error, start) from None

    def sized(self) -> tuple[str, int]:
        """`"x"=2`."""
        name = self.name()
        self.take("=")
        return name, self.integer()

    def dimension(self, mesh: Mesh) -> DimSharding:
        """`{"x", ?}p1`."""
        self.take("{")
        axes: list[AxisRef] = []
        open_ = False
        if not self.accept("}"):
            while not (open_ := self.accept("?")):
                axes.append(self.axis(mesh))
                if not self.accept(","):
                    break
            self.take("}")
        return DimSharding(tuple(axes), open_, self.priority())

    def priority(self) -> int | None:
        """`p1`, where one is next."""
        token = self.tokens[self.at]
        if not token or token in ",]>":
            return None
        match = _PRIORITY.fullmatch(token)
        if match is None:
            self.refuse("expected ',', ']' or a priority, as p0")
        self.at += 1
        return int(match[1])

    def axes(self, mesh: Mesh) -> Axes:
        """`{"x", "y":(1)2}`."""
        return tuple(self.listed("{", "}", lambda: self.axis(mesh)))

    def some_axes(self, mesh: Mesh) -> Axes:
        """The same, with at least one axis in it."""
        axes = self.axes(mesh)
        if not axes:
            self.at -= 1
            self.refuse("expected the name of an axis in quotes")
        return axes

    def axis(self, mesh: Mesh) -> AxisRef:
        """`"x"` or `"x":(1)2`."""
        start = self.at
        name = self.name()
        part = self.part() if self.tokens[self.at] == ":" else None
        try:
            return mesh.axis(name) if part is None else mesh.axis(name, *part)
        except ShardingError as error:
            raise self.located(error, start) from None

    def move(self, mesh: Mesh) -> tuple[Axes, int, int]:
        """`{"x"}: 0->1`."""
        axes = self.axes(mesh)
        self.take(":")
        source = self.integer()
        self.take("->")
        return axes, source, self.integer()

    def name(self) -> str:
        """The name of an axis, in quotes."""
        token = self.tokens[self.at]
        if token[:1] != '"' or len(token) < 2:
            self.refuse("expected the name of an axis in quotes")
        self.at += 1
        return unquoted(token)

    def integer(self) -> int:
        """A number of up to 18 digits."""
        token = self.tokens[self.at]
        if _NUMBER.fullmatch(token) is None:
            if token.isdecimal():
                self.refuse("expected a number of at most 18 digits", "use a smaller one")
            self.refuse("expected a number")
        self.at += 1
        return int(token)

"""The `sdy` dialect's attributes: text ↔ model.

Source: the sdy dialect reference (MeshAttr, TensorShardingAttr, TensorShardingPerValueAttr, AxisRefListAttr, …).
Open dimensions carry `?`, priorities `p1`, sub-axes `"x":(1)2`; the kind of unreduced axes is a sum unless said.
A mesh that a sharding spells out instead of naming it is a `Mesh` without a name, and printed spelt out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.memo import current_session, memoize
from shardwright.mesh import Axes, AxisRef, Mesh
from shardwright.notation.registry import Notation, Shape, register
from shardwright.notation.sdy_names import STRING, SYMBOL, quoted, symbol, symbol_name, unquoted
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = [
    "parse_axes",
    "parse_axis",
    "parse_axis_lists",
    "parse_dimension",
    "parse_mesh",
    "parse_move",
    "parse_moves",
    "parse_sharding",
    "parse_shardings",
    "print_axes",
    "print_axis",
    "print_axis_lists",
    "print_dimension",
    "print_mesh",
    "print_sharding",
    "print_shardings",
]

_DIGITS = 18
"""More digits than any size or id has; Python refuses to read numbers of thousands of digits."""

_TOKEN = re.compile(rf"\s*({STRING}|{SYMBOL}|[A-Za-z_][\w.]*|\d+|.)", re.DOTALL)
_MESH = re.compile(
    rf'<\s*\[((?:{STRING}|[^"\]])*)\]\s*(?:,\s*device_ids\s*=\s*\[([\d,\s]*)\])?\s*>',
)
_MESH_AXIS = re.compile(rf"({STRING})\s*=\s*(\d+)")


def parse_mesh(text: str, name: str = "mesh") -> Mesh:
    """`#sdy.mesh<["x"=2, "y"=4], device_ids=[…]>` (or without the prefix) as a `Mesh` called `name`."""
    match = _MESH.search(text)
    if match is None:
        raise ShardingError(f"not a mesh: {text!r}", remedy='write <["x"=2, "y"=4]>')
    pairs = _MESH_AXIS.findall(match.group(1))
    numbers = [size for _, size in pairs] + re.findall(r"\d+", match.group(2) or "")
    if any(len(number) > _DIGITS for number in numbers):
        raise ShardingError(f"not a mesh: {text[:60]!r}…", cause="a number of it has too many digits")
    axes = [(unquoted(axis), int(size)) for axis, size in pairs]
    ids = None if match.group(2) is None else [int(i) for i in match.group(2).split(",") if i.strip()]
    return Mesh(axes, device_ids=ids, name=name)


@memoize
def print_mesh(mesh: Mesh) -> str:
    """`#sdy.mesh<["x"=2, "y"=4]>`."""
    axes = ", ".join(f"{quoted(axis)}={size}" for axis, size in mesh.axes)
    ids = f", device_ids={list(mesh.device_ids)}" if mesh.device_ids is not None else ""
    return f"#sdy.mesh<[{axes}]{ids}>"


def parse_sharding(text: str, meshes: Mapping[str, Mesh]) -> TensorSharding:
    """`#sdy.sharding<@mesh, [{"x", ?}p1, {}], replicated={…}, unreduced={…}>`, with or without prefix.

    Raises:
        ShardingError: malformed text, an unknown mesh or axis.
    """
    found = parse_shardings(text, meshes)
    if len(found) != 1:
        raise ShardingError(f"expected one sharding, got {len(found)}: {text!r}")
    return found[0]


def parse_shardings(text: str, meshes: Mapping[str, Mesh]) -> tuple[TensorSharding, ...]:
    """One sharding or a `#sdy.sharding_per_value<[<…>, <…>]>`, in order."""
    table = current_session().table(__name__ + ".shardings")
    key = (text, *meshes.values())
    found: tuple[TensorSharding, ...] | None = table.get(key)
    if found is None:
        found = table[key] = tuple(_Parser(text, meshes).shardings())
    return found


def parse_axes(text: str, mesh: Mesh) -> Axes:
    """`{"x", "y":(1)2}`, or `#sdy<manual_axes{"x"}>`, as a list of axes."""
    start = text.index("{")
    return tuple(_Parser(text[start:], {}).axes(mesh)[0])


def parse_axis_lists(text: str, mesh: Mesh) -> tuple[Axes, ...]:
    """`[{"x"}, {}]`, or `#sdy<list_of_axis_ref_lists[{"x"}, {}]>`, as axes per dimension."""
    parser = _Parser(text[text.index("[") :], {})
    parser.take("[")
    lists: list[Axes] = []
    while not parser.accept("]"):
        lists.append(tuple(parser.axes(mesh)[0]))
        parser.accept(",")
    return tuple(lists)


def parse_moves(text: str, mesh: Mesh) -> tuple[tuple[Axes, int, int], ...]:
    """`[{"x"}: 0->1]`, or `#sdy<all_to_all_param_list[…]>`, as `(axes, source, target)` triples."""
    parser = _Parser(text[text.index("[") :], {})
    parser.take("[")
    moves: list[tuple[Axes, int, int]] = []
    while not parser.accept("]"):
        moves.append(parser.move(mesh))
        parser.accept(",")
    return tuple(moves)


def parse_move(text: str, mesh: Mesh) -> tuple[Axes, int, int]:
    """`#sdy<all_to_all_param{"x"}: 0->1>`, or what is within, as `(axes, source, target)`."""
    parser = _Parser(text[text.index("{") :], {})
    move = parser.move(mesh)
    parser.end()
    return move


def parse_axis(text: str, mesh: Mesh) -> AxisRef:
    """`#sdy<axis_ref"x":(1)2>`, or what is within."""
    parser = _Parser(text[text.index('"') :], {})
    axis = parser.axis(mesh)
    parser.end()
    return axis


def parse_dimension(text: str, mesh: Mesh) -> DimSharding:
    """`#sdy<dimension_sharding{"x", ?}p1>`, or what is within."""
    parser = _Parser(text[text.index("{") :], {})
    dimension = parser.dimension(mesh)
    parser.end()
    return dimension


class _Parser:
    """Recursive descent over the tokens of sharding text."""

    def __init__(self, text: str, meshes: Mapping[str, Mesh]) -> None:
        self.text = text
        self.meshes = meshes
        self.tokens = [match.group(1) for match in _TOKEN.finditer(text) if match.group(1).strip()]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if expected and token != expected:
            raise ShardingError(f"malformed sharding {self.text!r}", cause=f"expected {expected!r}, got {token!r}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def end(self) -> None:
        """Nothing but the bracket of an enclosing attribute may follow."""
        self.accept(">")
        if self.peek():
            raise ShardingError(f"malformed sharding {self.text!r}", cause=f"{self.peek()!r} follows its end")

    def move(self, mesh: Mesh) -> tuple[Axes, int, int]:
        axes = tuple(self.axes(mesh)[0])
        self.take(":")
        source = self.integer()
        self.take("-")
        self.take(">")
        return axes, source, self.integer()

    def shardings(self) -> list[TensorSharding]:
        if self.accept("#"):
            self.take()  # `sdy.sharding` or `sdy.sharding_per_value`, told apart by the bracket that follows
        self.take("<")
        if not self.accept("["):
            found = [self.sharding()]
        else:
            found = []
            while not self.accept("]"):
                self.take("<")
                found.append(self.sharding())
                self.take(">")
                self.accept(",")
        self.take(">")
        if self.peek():
            raise ShardingError(f"malformed sharding {self.text!r}", cause=f"{self.peek()!r} follows its end")
        return found

    def sharding(self) -> TensorSharding:
        mesh = self.mesh()
        self.take(",")
        self.take("[")
        dims: list[DimSharding] = []
        while not self.accept("]"):
            dims.append(self.dimension(mesh))
            self.accept(",")
        replicated: Axes = ()
        partial: list[Partial] = []
        while self.accept(","):
            what = self.take()
            self.take("=")
            kind = self.take() if self.peek() != "{" else "sum"
            axes, _ = self.axes(mesh)
            if what == "replicated":
                replicated = tuple(axes)
            elif what == "unreduced":
                partial += [Partial(axis, kind) for axis in axes]
            else:
                raise ShardingError(f"malformed sharding {self.text!r}", cause=f"unknown part {what!r}")
        return TensorSharding(mesh, tuple(dims), replicated, tuple(partial))

    def mesh(self) -> Mesh:
        token = self.take()
        if token == "mesh":
            start = self.at
            while not self.accept(">"):
                if not self.take():
                    raise ShardingError(f"malformed sharding {self.text!r}", cause="a mesh is not closed by '>'")
            return parse_mesh("".join(self.tokens[start : self.at]), name="")
        name = symbol_name(token)
        if name not in self.meshes:
            known = ", ".join("@" + known for known in self.meshes) or "none"
            raise ShardingError(f"unknown mesh @{name}", cause=f"the module has the meshes {known}")
        return self.meshes[name]

    def dimension(self, mesh: Mesh) -> DimSharding:
        axes, open_ = self.axes(mesh)
        return DimSharding(tuple(axes), open_, self.priority())

    def axes(self, mesh: Mesh) -> tuple[list[AxisRef], bool]:
        self.take("{")
        axes: list[AxisRef] = []
        open_ = False
        while not self.accept("}"):
            if self.accept("?"):
                open_ = True
            else:
                axes.append(self.axis(mesh))
            self.accept(",")
        return axes, open_

    def axis(self, mesh: Mesh) -> AxisRef:
        name = unquoted(self.take())
        if not self.accept(":"):
            return mesh.axis(name)
        self.take("(")
        pre = self.integer()
        self.take(")")
        return mesh.axis(name, pre, self.integer())

    def integer(self) -> int:
        token = self.take()
        if not token.isdecimal() or len(token) > _DIGITS:
            raise ShardingError(f"malformed sharding {self.text!r}", cause=f"expected a number, got {token[:40]!r}")
        return int(token)

    def priority(self) -> int | None:
        match = re.fullmatch(r"p(\d{1,18})", self.peek())
        if match is None:
            return None
        self.at += 1
        return int(match.group(1))


def print_axis(axis: AxisRef, mesh: Mesh) -> str:
    """`"x"` or `"x":(1)2`."""
    name = quoted(axis.name)
    return name if mesh.is_full(axis) else f"{name}:({axis.pre}){axis.size}"


def print_axes(axes: Iterable[AxisRef], mesh: Mesh) -> str:
    """`{"x", "y":(1)2}`."""
    return "{" + ", ".join(print_axis(axis, mesh) for axis in axes) + "}"


def print_axis_lists(lists: Iterable[Iterable[AxisRef]], mesh: Mesh) -> str:
    """`[{"x"}, {}]`."""
    return "[" + ", ".join(print_axes(axes, mesh) for axes in lists) + "]"


def print_sharding(sharding: TensorSharding) -> str:
    """`#sdy.sharding<@mesh, [{"x"}, {?}]>`.

    Raises:
        ShardingError: offsets, halos, or a reduction kind other than sum, which this dialect's parser does not know.
    """
    return "#sdy.sharding" + _inner(sharding)


def print_shardings(shardings: Sequence[TensorSharding]) -> str:
    """`#sdy.sharding_per_value<[<@mesh, [{"x"}]>, …]>`."""
    return f"#sdy.sharding_per_value<[{', '.join(map(_inner, shardings))}]>"


@memoize
def _inner(sharding: TensorSharding) -> str:
    if sharding.offsets or sharding.halos:
        raise ShardingError("sdy cannot express offsets or halos", cause=f"sharding {sharding!r}")
    mesh = sharding.mesh
    where = symbol(mesh.name) if mesh.name else print_mesh(mesh).removeprefix("#sdy.")
    text = f"<{where}, [{', '.join(print_dimension(dim, mesh) for dim in sharding.dims)}]"
    if sharding.replicated:
        text += f", replicated={print_axes(sharding.replicated, mesh)}"
    for kind in dict.fromkeys(p.kind for p in sharding.partial):
        if kind != "sum":
            raise ShardingError(
                f"this version of sdy cannot express a tensor partial by {kind}", cause=f"sharding {sharding!r}"
            )
        axes = [p.axis for p in sharding.partial if p.kind == kind]
        text += f", unreduced={print_axes(axes, mesh)}"
    return text + ">"


def print_dimension(dim: DimSharding, mesh: Mesh) -> str:
    """`{"x", ?}p1`."""
    inner = [print_axis(axis, mesh) for axis in dim.axes] + (["?"] if dim.open else [])
    priority = f"p{dim.priority}" if dim.priority is not None else ""
    return "{" + ", ".join(inner) + "}" + priority


def _parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """One attribute; a mesh that it refers to by name is the one given, whatever its name."""
    inner = text[text.index("<") + 1 :] if "<" in text else ""
    found = re.match(rf"\s*({SYMBOL})", inner)
    if found is None:
        spelt = parse_sharding(text, {})
        return replace(spelt, mesh=Mesh(spelt.mesh.axes, device_ids=spelt.mesh.device_ids))
    name = symbol_name(found[1])
    if mesh is None:
        raise ShardingError(f"the mesh @{name} is not known", cause=f"sharding {text!r}", remedy="give the mesh")
    return parse_sharding(text, {name: Mesh(mesh.axes, device_ids=mesh.device_ids, name=name)})


register(
    Notation(
        "sdy",
        'OpenXLA Shardy, `#sdy.sharding<@mesh, [{"x"}, {?}]>`',
        lambda text: text.startswith(("#sdy.sharding<", "<@", "<mesh<")),
        _parse,
        lambda sharding, shape: print_sharding(sharding),
    )
)

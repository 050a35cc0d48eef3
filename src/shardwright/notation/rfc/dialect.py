"""The `mesh` dialect of the mesh RFC, as a table of op forms.

    mesh.cluster @mesh0(rank = 2, dim_sizes = [4, 8])
    %1 = mesh.annotate %0 {as_result = false, required = true, sharding = [[], [0]]} : tensor<2x8xf32>
    %2 = mesh.all_gather %1 {mesh_axis = [[], [0]]} : tensor<2x8xf32, #mesh.shard<[[], [0]]>> -> tensor<2x8xf32>

Upstream's older dialect has the same name and other ops; `notation.rfc.modules.looks_like` tells the two apart.

Source: the mesh RFC on LLVM's forum, its slides "Sharding Framework Design for Device Mesh", and the tests of ByteIR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.form import Attribute, AttributeKind, Dialect, Operand, OpForm, OpText, Symbols
from shardwright.notation.forms.kinds import BOOL, I64, I64_LISTS, INDEX, STRING, SYMBOL
from shardwright.notation.names import symbol_text
from shardwright.notation.rfc.collectives import Collective, check
from shardwright.notation.rfc.layouts import (
    ENCODED,
    Layout,
    Lists,
    checked,
    layout,
    rank_of,
    spelled_lists,
)

__all__ = ["I64_LIST", "RFC", "SHARDING"]


def _decode_list(text: str) -> tuple[int, ...]:
    cursor = Cursor(text)
    values = cursor.integers()
    cursor.end()
    return values


def _print_list(values: tuple[int, ...]) -> str:
    return str(list(values))


def _decode_name(text: str) -> str:
    cursor = Cursor(text)
    name: str = STRING.read(cursor) if text.startswith('"') else cursor.symbol()
    cursor.end()
    return name


NAME = AttributeKind("a symbol", Cursor.symbol, SYMBOL.print, STRING.generic, _decode_name, starts="@")
"""A symbol where it is defined: `@mesh0`, and `"mesh0"` in the generic form."""

I64_LIST = AttributeKind("a list of numbers", Cursor.integers, _print_list, _print_list, _decode_list, starts="[")


def _read_sharding(cursor: Cursor) -> tuple[str, Lists]:
    """`[[0], [1]]`, `#mesh.shard<[[0], [1]]>` or `#mesh.shard<@m, [[0], [1]]>`: the symbol named, and the lists."""
    if not cursor.accept("#"):
        return "", cursor.lists()
    cursor.take("mesh.shard")
    cursor.take("<")
    symbol = ""
    if cursor.peek().startswith("@"):
        symbol = cursor.symbol()
        cursor.take(",")
    lists = cursor.lists()
    cursor.take(">")
    return symbol, lists


def _decode_sharding(text: str) -> tuple[str, Lists]:
    cursor = Cursor(text)
    value = _read_sharding(cursor)
    cursor.end()
    return value


def _print_sharding(value: tuple[str, Lists]) -> str:
    symbol, lists = value
    return f"#mesh.shard<{symbol_text(symbol)}, {spelled_lists(lists)}>" if symbol else spelled_lists(lists)


SHARDING = AttributeKind(
    "a list of axes for each dimension", _read_sharding, _print_sharding, _print_sharding, _decode_sharding
)


def _located(verify: Callable[[OpText, Symbols], None]) -> Callable[[OpText, Symbols], None]:
    """A check whose refusals name the op and where it stands."""

    def located(op: OpText, symbols: Symbols) -> None:
        try:
            verify(op, symbols)
        except ShardingError as error:
            raise error.replaced(op=op.form.name, location=op.position) from None

    return located


def _cluster_of(symbol: str, symbols: Symbols) -> OpText | None:
    """The cluster called `symbol`; where none is named, the only one there is: functions name others."""
    clusters = [op for op in symbols.values() if op.form.name == "mesh.cluster"]
    if not symbol:
        return clusters[0] if len(clusters) == 1 else None
    if symbol not in symbols:
        known = ", ".join(map(symbol_text, symbols)) or "none"
        raise ShardingError(
            f"there is no cluster {symbol_text(symbol)}",
            cause=f"the module has {known}",
            remedy=f"define it: mesh.cluster {symbol_text(symbol)}(rank = 1, dim_sizes = [2])",
        )
    return symbols[symbol] if symbols[symbol].form.name == "mesh.cluster" else None


def _axes_exist(symbol: str, axes: tuple[int, ...], symbols: Symbols) -> None:
    cluster = _cluster_of(symbol, symbols)
    rank = cluster.attributes["rank"] if cluster is not None else None
    for axis in axes:
        if axis < 0 or (rank is not None and axis >= rank):
            raise ShardingError(
                f"mesh axis {axis} is out of range",
                cause="axes are counted from 0" if rank is None else f"the cluster has {rank} axes, counted from 0",
                remedy="name an axis of the cluster",
            )


def _layout(type: str, symbols: Symbols) -> Layout:
    """What a tensor's type says of its distribution; a standard tensor is whole on every device."""
    rank = rank_of(type)
    if rank is None:
        raise ShardingError(f"{type} is not a ranked tensor", remedy="give a tensor of known rank")
    match = ENCODED.match(type)
    stated = layout(match.group(3), rank) if match else Layout("", ((),) * rank)
    _axes_exist(stated.symbol, stated.axes, symbols)
    return stated


def _same_shape(op: OpText) -> None:
    """A distributed tensor keeps its global shape, whatever happens to its distribution."""
    source, target = (_global(type) for type in (op.operand_types[0], op.result_types[0]))
    if source != target:
        raise ShardingError(
            f"{op.form.name} leads from {op.operand_types[0]} to {op.result_types[0]}",
            cause="a distributed tensor keeps its global shape and element type",
            remedy="give operand and result the same",
        )


def _global(type: str) -> str:
    match = ENCODED.match(type)
    text = f"tensor<{match.group(1)}{match.group(2).strip()}>" if match else type
    return "".join(text.split())


def _verify_cluster(op: OpText, symbols: Symbols) -> None:
    rank, sizes = op.attributes["rank"], op.attributes["dim_sizes"]
    if rank < 1 or len(sizes) > rank:
        raise ShardingError(
            f"a cluster of rank {rank} with {len(sizes)} sizes",
            cause="a cluster has at least one axis, and at most one size for each",
            remedy="give a rank of at least 1 that is not below the number of sizes",
        )


def _verify_sub_cluster(op: OpText, symbols: Symbols) -> None:
    _axes_exist(op.attributes["cluster"], op.attributes["mesh_axis"], symbols)


def _verify_annotate(op: OpText, symbols: Symbols) -> None:
    _same_shape(op)
    symbol, lists = op.attributes["sharding"]
    rank = rank_of(op.operand_types[0])
    if rank is None:
        raise ShardingError(f"{op.operand_types[0]} is not a ranked tensor", remedy="annotate a tensor of known rank")
    _axes_exist(symbol, checked(symbol, lists, rank).axes, symbols)


def _verify_collective(op: OpText, symbols: Symbols) -> None:
    _same_shape(op)
    source, target = (_layout(type, symbols) for type in (op.operand_types[0], op.result_types[0]))
    check(Collective(op.form.name.partition(".")[2], source, target, op.attributes))


def _verify_query(op: OpText, symbols: Symbols) -> None:
    _axes_exist("", (op.attributes["axis"],), symbols)


def _query(op: OpText, fresh: str) -> tuple[OpText, ...]:
    """`mesh.idx(0)` as `mesh.idx {axis = 0 : index}`."""
    del fresh
    axis, written = op.attributes["axis"], op.attributes["written"]
    if (axis is None) == (written is None):
        raise ShardingError(
            f"'{op.form.name}' op names {'no axis' if axis is None else 'its axis twice'}",
            op=op.form.name,
            location=op.position,
            cause="it is about one axis of the function's cluster",
            remedy=f"write {op.form.name} {{axis = 0 : index}} : index",
        )
    named_axis = axis if written is None else written
    return (replace(op, attributes={"axis": named_axis, "written": None}),)


def _query_form(name: str, doc: str) -> OpForm:
    return OpForm(
        name,
        "(`(` $written^ `)`)? attr-dict (`:` type($result)^)?",
        doc=doc,
        results=("result",),
        attributes=(Attribute("axis", INDEX, optional=True), Attribute("written", INDEX, optional=True)),
        verify=_located(_verify_query),
        result_types=("i64",),
        expand=_query,
    )


def _collective(name: str, doc: str, *attributes: Attribute) -> OpForm:
    return OpForm(
        name,
        "$src attr-dict `:` type($src) `->` type($result)",
        doc=doc,
        operands=(Operand("src"),),
        results=("result",),
        attributes=attributes,
        verify=_located(_verify_collective),
    )


_FORMS = (
    OpForm(
        "mesh.cluster",
        "$sym_name `(` `rank` `=` $rank (`,` `dim_sizes` `=` $dim_sizes^)? `)` attr-dict",
        doc="A named cluster of devices: how many axes, and how many devices along each. A size that is missing or not"
        " positive is unknown. `axis_names`, where given, calls the axes by name.",
        attributes=(
            Attribute("sym_name", NAME),
            Attribute("rank", I64),
            Attribute("dim_sizes", I64_LIST, default=()),
        ),
        verify=_located(_verify_cluster),
    ),
    OpForm(
        "mesh.sub_cluster",
        "$sym_name `(` $cluster `,` `mesh_axis` `=` $mesh_axis `)` attr-dict",
        doc="The part of a cluster along some of its axes. The slides name the op only: its syntax is ours.",
        attributes=(Attribute("sym_name", NAME), Attribute("cluster", SYMBOL), Attribute("mesh_axis", I64_LIST)),
        verify=_located(_verify_sub_cluster),
    ),
    OpForm(
        "mesh.annotate",
        "$input attr-dict `:` type($input) (`->` type($output)^)?",
        doc="How a tensor is sharded: where it is defined (`as_result`, the default) or for the users of the result;"
        " as a requirement (the default) or as a hint.",
        operands=(Operand("input"),),
        results=("output",),
        attributes=(
            Attribute("sharding", SHARDING),
            Attribute("required", BOOL, optional=True),
            Attribute("as_result", BOOL, default=True),
        ),
        verify=_located(_verify_annotate),
        result_types=("$input",),
        nameless="sharding",
    ),
    _query_form("mesh.idx", "The index of this device along an axis of the function's cluster."),
    _query_form("mesh.size", "The number of devices along an axis of the function's cluster."),
    _collective(
        "mesh.all_gather",
        "Gathers, dimension by dimension, the shards along `mesh_axis`; `tensor_axis` repeats which dimensions.",
        Attribute("mesh_axis", I64_LISTS),
        Attribute("tensor_axis", I64_LIST, optional=True),
    ),
    _collective(
        "mesh.all_reduce",
        "Adds up partial sums along `mesh_axis`.",
        Attribute("mesh_axis", I64_LIST),
        Attribute("reduction", STRING, optional=True),
    ),
    _collective(
        "mesh.reduce_scatter",
        "Adds up partial sums along `mesh_axis` and splits dimension `tensor_axis` of the sum along them.",
        Attribute("mesh_axis", I64_LIST),
        Attribute("reduction", STRING, optional=True),
        Attribute("tensor_axis", I64),
    ),
    _collective(
        "mesh.all_to_all",
        "Moves axes from one dimension to another, `tensor_axis = [from, to]`. The RFC leaves its attributes open:"
        " these are ours.",
        Attribute("mesh_axis", I64_LIST),
        Attribute("tensor_axis", I64_LIST),
    ),
    _collective(
        "mesh.local_split",
        "Keeps of a tensor what `sharding` leaves to this device; without it, what the types say.",
        Attribute("sharding", I64_LISTS, optional=True),
    ),
    _collective(
        "mesh.collective_permute",
        "Sends each shard to another device: of another mesh, of another layout on the same mesh, or to its neighbour"
        " along `mesh_axis`.",
        Attribute("mesh_axis", I64, optional=True),
    ),
)

RFC = Dialect(
    "rfc",
    "the mesh RFC, `mesh.cluster`, `mesh.annotate`, collectives on distributed tensors",
    {form.name: form for form in _FORMS},
    symbols=frozenset({"mesh.cluster", "mesh.sub_cluster"}),
)
"""The dialect's forms."""

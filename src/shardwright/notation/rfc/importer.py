"""A module of the mesh RFC, in generic form → the same module with its shardings in the sdy dialect, in place.

    tensor<4x8xf32, #mesh.shard<[[0]]>>, as_result = true   → `sdy.sharding` where the value is defined
    as_result = false                                       → `sdy.sharding_constraint`, or the function's result
    required = false                                        → open dimensions
    mesh.all_gather, …                                      → sdy.all_gather, …
    sharding = [[], [], [0]] on another op                  → `shardwright.option`, which `rfc_options` applies

Source: the mesh RFC on LLVM's forum, AnnotateOp, MeshShardingAttr and "Sharding Propagation Pass".
"""

from __future__ import annotations

import re
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.notation.rfc.collectives import COLLECTIVES
from shardwright.notation.rfc.import_annotations import import_annotations
from shardwright.notation.rfc.import_collectives import import_collective
from shardwright.notation.rfc.layouts import Layout, layout
from shardwright.notation.rfc.mesh import line_of, write_mesh
from shardwright.notation.rfc.options import FUNCTION_MESH, OPTION
from shardwright.notation.rfc.pipeline import join_stages
from shardwright.notation.rfc.reading import FunctionOps, ModuleReading, ValueLayout, entries_of, located
from shardwright.notation.sdy.sharding import print_shardings
from shardwright.sharding import replicated

__all__ = ["import_shardings", "is_per_device"]

_QUERIES = frozenset({"mesh.idx", "mesh.size"})
_LOCAL = frozenset(
    {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute", "partition_id", "replica_id"}
)
_CONSTANTS = frozenset({"mhlo.constant", "stablehlo.constant", "arith.constant"})
_SAYING = ("mesh.", "sdy.")
_OPTION_TEXT = re.compile(r"\[(?:\[[-0-9, ]*\](?:, )?)*\]")
_ENCODING_AT_END = re.compile(r",\s*#mesh\.shard<.*>>$", re.DOTALL)


def is_per_device(reading: ModuleReading) -> bool:
    """Whether the functions are programs for one device: queries or collectives of StableHLO, and no shardings.

    Raises:
        ShardingError: queries of the device in a program for all devices, or of an axis that there is not.
    """
    query = sharding = None
    explicit = False
    for function in reading.functions:
        names = {name for name, _ in function.ops}
        for name, op in function.ops if not names.isdisjoint(_QUERIES) else ():
            if name in _QUERIES:
                query = query or (name, op)
                _check_query(reading, function, name, op)
        shardings = {name for name in names if name.startswith("mesh.")} - _QUERIES
        if shardings and sharding is None:
            sharding = next((name, op) for name, op in function.ops if name in shardings)
        if reading.distributed and _is_distributed(reading, function) and sharding is None:
            sharding = ("func.func", function.op)
        explicit = explicit or any(name.partition(".")[2] in _LOCAL for name in names - shardings)
    if query and sharding:
        raise ShardingError(
            f"{query[0]} stands in a program with shardings",
            op=query[0],
            location=line_of(query[1], reading.name),
            cause=f"it asks for one device; {sharding[0]} at {line_of(sharding[1], reading.name)} is for all devices",
            remedy="keep programs for one device and programs for all devices in separate modules",
        )
    return sharding is None and (query is not None or explicit)


def _is_distributed(reading: ModuleReading, function: FunctionOps) -> bool:
    """Whether the type of a value says how it is distributed; all of its types are known from now on."""
    layouts = [reading.type(value.type, function.op).layout for value in function.arguments]
    for _, op in function.ops:
        layouts += [reading.type(value.type, op).layout for value in op.results]
    return any(layouts)


def _check_query(reading: ModuleReading, function: FunctionOps, name: str, op: Any) -> None:
    axis = ir.IntegerAttr(op.attributes["axis"]).value
    cluster = reading.clusters[function.symbol] if "mesh_cluster" in function.op.attributes else None
    if cluster is None:
        raise ShardingError(
            f"{name} asks for an axis of no cluster",
            op=name,
            location=line_of(op, reading.name),
            cause="its function names no cluster",
            remedy="give the function its cluster: attributes {mesh_cluster = @mesh0}",
        )
    if not 0 <= axis < cluster.rank:
        raise ShardingError(
            f"mesh axis {axis} is out of range",
            op=name,
            location=line_of(op, reading.name),
            cause=f"cluster @{cluster.symbol} has {cluster.rank} axes, counted from 0",
            remedy="name an axis of the cluster",
        )


def import_shardings(reading: ModuleReading, per_device: bool) -> None:
    """Rewrite all functions; a program for one device keeps its cluster and its queries.

    Raises:
        ShardingError: what the RFC forbids or the model cannot hold, at its op.
    """
    if not per_device:
        join_stages(reading)
    for function in reading.functions:
        _options(reading, function, per_device)
        if per_device:
            continue
        pending = _pending(reading, function)
        if pending or reading.distributed:
            _retype(reading, function, materialized=bool(pending))
        for op, source, target in pending:
            import_collective(reading, function, op, source, target)
        import_annotations(reading, function)
        _write(reading, function)
        reading.stated.clear()
    if not per_device:
        _meshes(reading)


def _options(reading: ModuleReading, function: FunctionOps, per_device: bool) -> None:
    """Options of ops move to an attribute of ours: `sharding` alone is a name that other dialects use."""
    for name, op in function.ops:
        attributes = op.attributes
        if "sharding" not in attributes or name.startswith(_SAYING):
            continue
        option = attributes["sharding"]
        text = str(option)
        if not _OPTION_TEXT.fullmatch(text):
            continue
        attributes[OPTION] = option
        del attributes["sharding"]
        function.options = True
        if not per_device:
            where = line_of(op, reading.name)
            with located(name, where):
                loops = layout(text, text.count("[") - 1)
                reading.sharding(loops.on(function.symbol))


def _pending(reading: ModuleReading, function: FunctionOps) -> list[tuple[Any, Layout | None, Layout | None]]:
    """The collectives, with what the types of operand and result say while they still say it."""
    collectives = []
    for name, op in function.ops:
        if name.startswith("mesh.") and name[5:] in COLLECTIVES:
            source, target = reading.type(op.operands[0].type), reading.type(op.results[0].type)
            if source.rank is None or source.plain != target.plain:
                raise ShardingError(
                    f"{name} leads from {op.operands[0].type} to {op.results[0].type}",
                    op=name,
                    location=line_of(op, reading.name),
                    cause="a distributed tensor keeps its global shape and element type",
                    remedy="give operand and result the same",
                )
            collectives.append((op, source.layout, target.layout))
    return collectives


def _retype(reading: ModuleReading, function: FunctionOps, materialized: bool) -> None:
    """Types become standard; what they said is noted. Among collectives a standard tensor is a replicated one."""
    where = function.op.location
    for value in function.arguments:
        _plain(reading, function, value, where, materialized)
    for name, op in function.ops:
        for value in op.results:
            facts = reading.type(value.type)
            if facts.layout is None and not materialized:
                continue
            _plain(reading, function, value, op.location, materialized)
            if facts.layout is not None and name in _CONSTANTS:
                text = _ENCODING_AT_END.sub(">", str(op.attributes["value"]))
                op.attributes["value"] = parse_attribute(text)
        for region in op.regions:
            for block in region.blocks:
                for value in block.arguments:
                    value.set_type(reading.type(value.type, op).plain)
    _retype_function(reading, function, materialized)


def _plain(reading: ModuleReading, function: FunctionOps, value: Any, where: Any, materialized: bool) -> None:
    facts = reading.type(value.type)
    if facts.layout is not None:
        value.set_type(facts.plain)
        reading.say(value, ValueLayout(reading.statement(facts.layout.on(function.symbol)), where))
    elif materialized and facts.rank is not None:
        reading.say(value, ValueLayout(reading.statement(Layout(function.symbol, ((),) * facts.rank)), where))


def _retype_function(reading: ModuleReading, function: FunctionOps, materialized: bool) -> None:
    op = function.op
    type: Any = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    inputs = [reading.type(handle, op) for handle in type.inputs]
    results = [reading.type(handle, op) for handle in type.results]
    for index, facts in enumerate(results):
        stated = facts.layout
        if stated is None and materialized and facts.rank is not None:
            stated = Layout("", ((),) * facts.rank)
        if stated is not None:
            function.results[index] = ValueLayout(reading.statement(stated.on(function.symbol)), op.location)
    plain = ir.FunctionType.get([facts.plain for facts in inputs], [facts.plain for facts in results])
    op.attributes["function_type"] = ir.TypeAttr.get(plain)
    if not function.arguments:
        function.declared = {i: f.layout.on(function.symbol) for i, f in enumerate(inputs) if f.layout is not None}


def _write(reading: ModuleReading, function: FunctionOps) -> None:
    """Put what is said of values where they are defined."""
    known = reading.stated
    for name, op in function.ops:
        if name.startswith(_SAYING):
            continue
        results = op.results
        if len(results) == 1:
            stated = known.get(results[0])
            if stated is not None:
                op.attributes["sdy.sharding"] = _attribute(reading, stated, per_value=True)
            continue
        of_results = [known.get(value) for value in results]
        if any(of_results):
            op.attributes["sdy.sharding"] = _per_value(reading, op, of_results)
    arguments = {index: stated for index, value in enumerate(function.arguments) if (stated := known.get(value))}
    for index, declared in function.declared.items():
        arguments[index] = ValueLayout(reading.statement(declared), function.op.location)
    type: Any = ir.FunctionType(ir.TypeAttr(function.op.attributes["function_type"]).value)
    _write_dictionaries(reading, function.op, "arg_attrs", len(type.inputs), arguments)
    _write_dictionaries(reading, function.op, "res_attrs", len(type.results), function.results)


def _attribute(reading: ModuleReading, stated: ValueLayout, per_value: bool) -> Any:
    """What is said as an attribute, of an op of one result where `per_value`; refused where it is said."""
    try:
        return stated.statement.per_value if per_value else stated.statement.attribute
    except ShardingError as error:
        raise error.at("", reading.where(stated.location)) from None


def _per_value(reading: ModuleReading, op: Any, of_results: list[ValueLayout | None]) -> Any:
    known = [stated for stated in of_results if stated is not None]
    for stated in known:
        with located("", reading.where(stated.location)):
            _ = stated.statement.sharding
    mesh = known[0].statement.sharding.mesh
    shardings = [
        own.statement.sharding if own is not None else replicated(mesh, reading.type(value.type).rank or 0, open=True)
        for own, value in zip(of_results, op.results, strict=True)
    ]
    return reading.attribute(print_shardings(shardings))


def _write_dictionaries(reading: ModuleReading, op: Any, key: str, count: int, layouts: dict[int, ValueLayout]) -> None:
    if not layouts:
        return
    rows: list[Any] = list(op.attributes[key]) if key in op.attributes else [ir.DictAttr.get({})] * count
    written: dict[tuple[Any, Any], Any] = {}  # rows are many, distinct ones few
    for index, entry in layouts.items():
        attribute = _attribute(reading, entry, per_value=False)
        made = written.get((rows[index], attribute))
        if made is None:
            row = {named.name: named.attr for named in entries_of(rows[index])}
            made = written[rows[index], attribute] = ir.DictAttr.get({**row, "sdy.sharding": attribute})
        rows[index] = made
    op.attributes[key] = ir.ArrayAttr.get(rows)


def _meshes(reading: ModuleReading) -> None:
    """Clusters become meshes; one of unknown size that no sharding needs stays, and its functions keep its name."""
    kept = {cluster.symbol for cluster in reading.clusters.values() if not cluster.is_static}
    for function in reading.functions:
        op = function.op
        if function.symbol in kept or "mesh_cluster" not in op.attributes:
            continue
        if function.options or len(reading.clusters) - len(kept) > 1:
            op.attributes[FUNCTION_MESH] = op.attributes["mesh_cluster"]
        del op.attributes["mesh_cluster"]
    for cluster in reading.clusters.values():
        if cluster.symbol not in kept:
            with ir.InsertionPoint(cluster.op):
                write_mesh(cluster)
            erase(cluster.op)

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
from shardwright.notation.rfc_collectives import COLLECTIVES
from shardwright.notation.rfc_import_collectives import import_collective
from shardwright.notation.rfc_layouts import Layout, layout
from shardwright.notation.rfc_mesh import line_of, write_mesh
from shardwright.notation.rfc_options import FUNCTION_MESH, OPTION
from shardwright.notation.rfc_reading import Function, Reading, Said, entries_of, located
from shardwright.notation.sdy import print_shardings
from shardwright.sharding import replicated

__all__ = ["import_shardings", "is_per_device"]

_QUERIES = frozenset({"mesh.idx", "mesh.size"})
_LOCAL = frozenset(
    {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute", "partition_id", "replica_id"}
)
_CONSTANTS = frozenset({"mhlo.constant", "stablehlo.constant", "arith.constant"})
_OPTION_TEXT = re.compile(r"\[(?:\[[-0-9, ]*\](?:, )?)*\]")
_ENCODING_AT_END = re.compile(r",\s*#mesh\.shard<.*>>$", re.DOTALL)


def is_per_device(reading: Reading) -> bool:
    """Whether the functions are programs for one device: queries or collectives of StableHLO, and no shardings.

    Raises:
        ShardingError: queries of the device in a program for all devices, or of an axis that there is not.
    """
    query = sharding = None
    explicit = False
    for function in reading.functions:
        for name, op in function.ops:
            if name in _QUERIES:
                query = query or (name, op)
                _check_query(reading, function, name, op)
            elif name.startswith("mesh."):
                sharding = sharding or (name, op)
            elif name.partition(".")[2] in _LOCAL:
                explicit = True
        if _is_distributed(reading, function) and sharding is None:
            sharding = ("func.func", function.op)
    if query and sharding:
        raise ShardingError(
            f"{query[0]} stands in a program with shardings",
            op=query[0],
            location=line_of(query[1], reading.name),
            cause=f"it asks for one device; {sharding[0]} at {line_of(sharding[1], reading.name)} is for all devices",
            remedy="keep programs for one device and programs for all devices in separate modules",
        )
    return sharding is None and (query is not None or explicit)


def _is_distributed(reading: Reading, function: Function) -> bool:
    """Whether the type of a value says how it is distributed; all of its types are known from now on."""
    found = [reading.type(value.type, function.op).layout for value in function.arguments]
    for _, op in function.ops:
        found += [reading.type(value.type, op).layout for value in op.results]
    return any(found)


def _check_query(reading: Reading, function: Function, name: str, op: Any) -> None:
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


def import_shardings(reading: Reading, per_device: bool) -> None:
    """Rewrite all functions; a program for one device keeps its cluster and its queries.

    Raises:
        ShardingError: what the RFC forbids or the model cannot hold, at its op.
    """
    for function in reading.functions:
        _options(reading, function, per_device)
        if per_device:
            continue
        pending = _pending(reading, function)
        _retype(reading, function, materialized=bool(pending))
        for op, source, target in pending:
            import_collective(reading, function, op, source, target)
        _annotations(reading, function)
        _write(reading, function)
    if not per_device:
        _meshes(reading)


def _options(reading: Reading, function: Function, per_device: bool) -> None:
    """Options of ops move to an attribute of ours: `sharding` alone is a name that other dialects use."""
    for name, op in function.ops:
        attributes = op.attributes
        if "sharding" not in attributes or name.startswith(("mesh.", "sdy.")):
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
                reading.sharding(loops.on(function.symbol), False, where)


def _pending(reading: Reading, function: Function) -> list[tuple[Any, Layout | None, Layout | None]]:
    """The collectives, with what the types of operand and result say while they still say it."""
    found = []
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
            found.append((op, source.layout, target.layout))
    return found


def _retype(reading: Reading, function: Function, materialized: bool) -> None:
    """Types become standard; what they said is noted. Among collectives a standard tensor is a replicated one."""
    where = line_of(function.op, reading.name)
    for value in function.arguments:
        _plain(reading, function, value, where, materialized)
    for name, op in function.ops:
        where = ""
        for value in op.results:
            facts = reading.type(value.type)
            if facts.layout is None and not materialized:
                continue
            where = where or line_of(op, reading.name)
            _plain(reading, function, value, where, materialized)
            if facts.layout is not None and name in _CONSTANTS:
                text = _ENCODING_AT_END.sub(">", str(op.attributes["value"]))
                op.attributes["value"] = parse_attribute(text)
        for region in op.regions:
            for block in region.blocks:
                for value in block.arguments:
                    value.set_type(reading.type(value.type, op).plain)
    _retype_function(reading, function, materialized)


def _plain(reading: Reading, function: Function, value: Any, where: str, materialized: bool) -> None:
    facts = reading.type(value.type)
    if facts.layout is not None:
        value.set_type(facts.plain)
        reading.say(value, Said(facts.layout.on(function.symbol), False, where))
    elif materialized and facts.rank is not None:
        reading.say(value, Said(Layout(function.symbol, ((),) * facts.rank), False, where))


def _retype_function(reading: Reading, function: Function, materialized: bool) -> None:
    op = function.op
    type: Any = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    inputs = [reading.type(handle, op) for handle in type.inputs]
    results = [reading.type(handle, op) for handle in type.results]
    where = line_of(op, reading.name)
    for index, facts in enumerate(results):
        said = facts.layout
        if said is None and materialized and facts.rank is not None:
            said = Layout("", ((),) * facts.rank)
        if said is not None:
            function.results[index] = Said(said.on(function.symbol), False, where)
    plain = ir.FunctionType.get([facts.plain for facts in inputs], [facts.plain for facts in results])
    op.attributes["function_type"] = ir.TypeAttr.get(plain)
    if not function.arguments:
        function.declared = {i: f.layout.on(function.symbol) for i, f in enumerate(inputs) if f.layout is not None}


def _annotations(reading: Reading, function: Function) -> None:
    for name, op in function.ops:
        if name == "mesh.annotate":
            _annotation(reading, function, op)


def _annotation(reading: Reading, function: Function, op: Any) -> None:
    where = line_of(op, reading.name)
    value, result = op.operands[0], op.results[0]
    with located("mesh.annotate", where):
        said = _annotated(reading, function, op, where)
        users = list(result.uses)
        as_result = "as_result" not in op.attributes or ir.BoolAttr(op.attributes["as_result"]).value
        returned = [use.operand_number for use in users if use.owner.name == "func.return"]
        if as_result and _is_definable(value, function):
            reading.say(_source(value), said)
        elif users and len(returned) == len(users) and not as_result:
            _returned(function, returned, said)
        else:
            value = _constrained(reading, op, value, said)
    result.replace_all_uses_with(value)
    op.erase()


def _annotated(reading: Reading, function: Function, op: Any, where: str) -> Said:
    rank = reading.type(op.operands[0].type).rank
    if rank is None:
        raise ShardingError(f"{op.operands[0].type} is not a ranked tensor", remedy="annotate a tensor of known rank")
    required = "required" not in op.attributes or ir.BoolAttr(op.attributes["required"]).value
    if "sharding" not in op.attributes:
        raise ShardingError("mesh.annotate lacks its attribute sharding", remedy="give it")
    found = reading.layout(op.attributes["sharding"], rank).on(function.symbol)
    reading.sharding(found, False, where)
    return Said(found, not required and rank > 0, where)


def _is_definable(value: Any, function: Function) -> bool:
    """Whether a sharding can be put where the value is defined: arguments of inner regions have no such place."""
    if not isinstance(value, ir.BlockArgument):
        return True
    return bool(value.owner == function.op.regions[0].blocks[0])


def _source(value: Any) -> Any:
    """The value that is annotated, behind annotations of it for other users."""
    while not isinstance(value, ir.BlockArgument) and value.owner.name == "sdy.sharding_constraint":
        value = value.owner.operands[0]
    return value


def _returned(function: Function, numbers: list[int], said: Said) -> None:
    for number in numbers:
        before = function.results.get(number)
        if before is not None and before.layout != said.layout:
            raise ShardingError(
                f"result {number} of @{function.name} is said to be {before.layout.text} and {said.layout.text}",
                cause=f"the first is at {before.location}",
                remedy="take one of the two away",
            )
        function.results[number] = said


def _constrained(reading: Reading, op: Any, value: Any, said: Said) -> Any:
    created = ir.Operation.create(
        "sdy.sharding_constraint",
        results=[value.type],
        operands=[value],
        attributes={"sharding": reading.sdy(said.layout, said.open, said.location)},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    return created.result


def _write(reading: Reading, function: Function) -> None:
    """Put what is said of values where they are defined."""
    for name, op in function.ops:
        if name.startswith(("mesh.", "sdy.")):
            continue
        found = [reading.said.get(value) for value in op.results]
        if any(found):
            op.attributes["sdy.sharding"] = _per_value(reading, op, found)
    arguments = {index: said for index, value in enumerate(function.arguments) if (said := reading.said.get(value))}
    for index, declared in function.declared.items():
        arguments[index] = Said(declared, False, line_of(function.op, reading.name))
    type: Any = ir.FunctionType(ir.TypeAttr(function.op.attributes["function_type"]).value)
    _write_dictionaries(reading, function.op, "arg_attrs", len(type.inputs), arguments)
    _write_dictionaries(reading, function.op, "res_attrs", len(type.results), function.results)


def _per_value(reading: Reading, op: Any, found: list[Said | None]) -> Any:
    known = next(said for said in found if said is not None)
    mesh = reading.sharding(known.layout, known.open, known.location).mesh
    shardings = [
        reading.sharding(said.layout, said.open, said.location)
        if said is not None
        else replicated(mesh, reading.type(value.type).rank or 0, open=True)
        for said, value in zip(found, op.results, strict=True)
    ]
    return reading.attribute(print_shardings(shardings))


def _write_dictionaries(reading: Reading, op: Any, key: str, count: int, said: dict[int, Said]) -> None:
    if not said:
        return
    rows: list[Any] = list(op.attributes[key]) if key in op.attributes else [ir.DictAttr.get({})] * count
    for index, entry in said.items():
        row = {named.name: named.attr for named in entries_of(rows[index])}
        row["sdy.sharding"] = reading.sdy(entry.layout, entry.open, entry.location)
        rows[index] = ir.DictAttr.get(row)
    op.attributes[key] = ir.ArrayAttr.get(rows)


def _meshes(reading: Reading) -> None:
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
            mesh = cluster.mesh()
            with ir.InsertionPoint(cluster.op):
                write_mesh(mesh)
            cluster.op.erase()

"""The `sdy` dialect → `mhlo.sharding`, in place; `notation.hlo.modules` says what becomes of what."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.ir.locations import LocationTable
from shardwright.ir.sub_meshes import DEVICES, devices_of_text
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.hlo.components import FULL_TO_SHARD, SHARD_TO_FULL
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.rules import RULE, carry_rule
from shardwright.notation.hlo.sites import METADATA, SHARDING, Fail, dictionary, fail_at, joined, metadata_of, symbol_of
from shardwright.notation.hlo.spelling import (
    VERSIONS,
    ManualAxes,
    local_sharding,
    region_axes,
    says_something,
    spelled,
)
from shardwright.notation.hlo.sub_meshes import restricted
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings
from shardwright.notation.sdy.unnamed_meshes import drop_unnamed_meshes
from shardwright.sharding import TensorSharding

__all__ = ["Exporter"]

_SDY = "sdy.sharding"
_REFUSED = {
    "sdy.propagation_barrier": "propagate first, or take the barrier out",
    "sdy.data_flow_edge": "export the program from before propagation, or after it has removed its edges",
    "sdy.func_data_flow_edge": "export the program from before propagation, or after it has removed its edges",
    "shardwright.constraint": "reduce the tensor by sum, and drop halos and offsets",
}
_EXPLICIT = "export the propagated program, in which communication is not explicit yet"
_CARRIERS = ("shardwright.shardings", "shardwright.sharding")
_LOOKED_AT = ("replica_groups", RULE, _CARRIERS[0])
"""Attributes of ops that are not written as they stand."""
_EXPRESSED = frozenset(
    f"sdy.{name}"
    for name in (
        "manual_computation",
        "mesh",
        "named_computation",
        "reshard",
        "return",
        "sharding_constraint",
        "sharding_group",
    )
)


class Exporter:
    """One module being rewritten."""

    def __init__(self, module: ir.Module, version: str) -> None:
        """Hold `module`; see `notation.hlo.modules.export_module`."""
        if version not in VERSIONS:
            raise ShardingError(f"unknown version {version!r} of mhlo.sharding", remedy=f"one of {', '.join(VERSIONS)}")
        self.module = module
        self.version = version
        self.locations = LocationTable()
        self.fail = partial(fail_at, self.locations)
        self.meshes: dict[str, Mesh] = {}
        self.parts: dict[Mesh, tuple[int, ...]] = {}
        self.used_meshes: set[Mesh] = set()  # some of them only shardings spell out
        self.annotated: list[tuple[Any, Any]] = []
        self.ops: dict[str, list[Any]] = {}
        self.functions: dict[str, Any] = {}
        self.needed = False
        self.manual: Callable[[Any], Axes] = lambda op: ()
        self._texts: dict[Any, tuple[HloSharding | None, ...]] = {}
        self._ready: dict[Any, Any] = {}
        self._numbers: dict[int, int] = {}

    def run(self) -> None:
        """Rewrite the module."""
        with context():
            drop_unnamed_meshes(self.module)
            self._collect()
            self._check()
            if self.ops.get("sdy.manual_computation"):
                self.manual = ManualAxes(self.functions, self.ops["sdy.manual_computation"], self.meshes, self.fail)
            regions = [(op, self.manual(op)) for op in self.ops.get("sdy.manual_computation", [])]
            named = [(op, self.manual(op)) for op in self.ops.get("sdy.named_computation", [])]
            for op, attribute in self.annotated:
                self._annotate(op, attribute)
            for name in ("sdy.sharding_constraint", "sdy.reshard"):
                for op in self.ops.get(name, []):
                    self._constraint(op)
            self._number_groups()
            for op in self.ops.get("sdy.sharding_group", []):
                self._group(op)
            for function in self.functions.values():
                self._function(function)
            for op, outer in reversed(regions):
                self._manual_computation(op, outer)
            for op, manual in reversed(named):
                self._named_computation(op, manual)
            self._finish()

    # Reading

    def _collect(self) -> None:
        annotated, ops = self.annotated, self.ops
        functions: list[Any] = []

        def visit(op: Any) -> Any:
            attributes = op.attributes
            attribute = attributes.get(_SDY) if attributes else None  # most ops have none
            if attribute is not None:
                annotated.append((op, attribute))
            name = op.name
            if name.startswith(("sdy.", "shardwright.")):
                ops.setdefault(name, []).append(op)
            elif name == "func.func":
                functions.append(op)
            if attributes and any(map(attributes.__contains__, _LOOKED_AT)):
                ops.setdefault("", []).append(op)
            return ir.WalkResult.ADVANCE

        walk(self.module.operation, visit)
        self.functions = {op.attributes["sym_name"].value: op for op in functions}
        for op in ops.get("sdy.mesh", []):
            symbol = op.attributes["sym_name"].value
            mesh = self.meshes[symbol] = parse_mesh(str(op.attributes["mesh"]), symbol)
            if DEVICES in op.attributes:
                self.parts[mesh] = devices_of_text(str(op.attributes[DEVICES]), mesh)

    def _check(self) -> None:
        """Refuse what `mhlo.sharding` cannot say, but for rules, which are carried."""
        for op in self.ops.get("", []):
            if _CARRIERS[0] in op.attributes:
                self._refuse_carrier(self.fail(op), op.attributes[_CARRIERS[0]])
            if RULE in op.attributes:
                carry_rule(op)
            if "replica_groups" in op.attributes and "@" in str(op.attributes["replica_groups"]):
                self.needed = True
        for name, ops in self.ops.items():
            if name and name not in _EXPRESSED:
                raise self.fail(ops[0])(f"mhlo.sharding cannot express {name}", remedy=_REFUSED.get(name, _EXPLICIT))
        sizes = {mesh.size: mesh for mesh in self.meshes.values() if mesh.axes}
        if len(sizes) > 1:
            cause = ", ".join(f"@{mesh.name} of {size}" for size, mesh in sizes.items())
            raise ShardingError("the meshes of the module differ in size", op="sdy.mesh", cause=f"devices: {cause}")

    def _refuse_carrier(self, error: Fail, attribute: Any) -> None:
        raise error(
            "mhlo.sharding cannot express reductions other than sums, halos or offsets",
            cause=f"sharding {str(attribute)[:200]}",
            remedy="convert it to `shard`, which has halos and offsets, or to `mesh`, which has such reductions",
        )

    # Shardings

    def _shardings(self, attribute: Any, op: Any) -> tuple[TensorSharding, ...]:
        try:
            shardings = parse_shardings(str(attribute), self.meshes)
        except ShardingError as error:
            raise error.replaced(op=op.name, location=self.locations.where(op.location)) from None
        self.used_meshes.update(sharding.mesh for sharding in shardings)
        return shardings

    def _hlo(self, attribute: Any, manual: Axes, op: Any) -> tuple[HloSharding | None, ...]:
        """What each sharding of `attribute` is in this notation; `None` for one that says nothing."""
        key = (attribute, manual)
        converted = self._texts.get(key)
        if converted is None:
            shardings = self._shardings(attribute, op)
            converted = tuple(self._spelled(s, manual, op) if says_something(s) else None for s in shardings)
            self._texts[key] = converted
        return converted

    def _spelled(self, sharding: TensorSharding, manual: Axes, op: Any) -> HloSharding:
        """A sharding in the version asked for; one on a sub-mesh of its devices alone, which no mesh has."""
        devices = self.parts.get(sharding.mesh)
        try:
            return restricted(spelled(sharding, manual, self.version if devices is None else "V1"), devices)
        except ShardingError as error:
            refused = error.replaced(op=op.name, location=self.locations.where(op.location))
            if any(dim.priority is not None for dim in sharding.dims):
                refused = refused.replaced(remedy="propagate first, or drop the priorities")
            raise refused from None

    def _annotate(self, op: Any, attribute: Any) -> None:
        manual = self.manual(op)
        attributes = op.attributes
        metadata = attributes.get(METADATA)
        count = len(op.results)
        key = (attribute, manual, metadata, count)
        ready = self._ready.get(key)
        if ready is None:
            shardings = self._hlo(attribute, manual, op)
            texts = metadata_of(metadata, len(shardings))
            ready = self._ready[key] = joined(shardings, texts, count) or ""
        del attributes[_SDY]
        if metadata is not None:
            del attributes[METADATA]
        if ready:
            attributes[SHARDING] = ready

    # Statements

    def _constraint(self, op: Any) -> None:
        attribute, manual = op.attributes["sharding"], self.manual(op)
        (sharding,) = self._shardings(attribute, op)
        text = self._spelled(sharding, manual, op)
        metadata = op.attributes.get(METADATA)
        if metadata is not None:
            text = replace(text, metadata=metadata_of(metadata, 1)[0])
        kept = {n: a for n, a in op.attributes.items() if n not in ("sharding", METADATA)}
        made = _call("Sharding", op.operands[0], op.results[0].type, str(text), _open_dims(sharding), op, kept)
        op.results[0].replace_all_uses_with(made.results[0])
        erase(op)

    def _number_groups(self) -> None:
        """Groups keep their numbers but for negative ones, which HLO has not."""
        given = {op.attributes["group_id"].value for op in self.ops.get("sdy.sharding_group", [])}
        free = (number for number in itertools.count() if number not in given)
        self._numbers = {number: next(free) if number < 0 else number for number in sorted(given)}

    def _group(self, op: Any) -> None:
        number = self._numbers[op.attributes["group_id"].value]
        text = str(HloSharding("unknown", group=("shard_as", number)))
        kept = {"has_side_effect": ir.BoolAttr.get(True)}
        _call("Sharding", op.operands[0], op.operands[0].type, text, "", op, kept)
        erase(op)

    def _function(self, function: Any) -> None:
        for key, what in (("arg_attrs", "argument"), ("res_attrs", "result")):
            if key not in function.attributes:
                continue
            rows = [dictionary(row) for row in function.attributes[key]]
            if not any(_SDY in row or _CARRIERS[1] in row or METADATA in row for row in rows):
                continue
            for index, row in enumerate(rows):
                try:
                    self._row(function, row)
                except ShardingError as error:
                    message = f"{what} {index} of @{symbol_of(function)}: {error.diagnostic.message}"
                    where = self.locations.where(function.location)
                    raise error.replaced(message=message, op=function.name, location=where) from None
            function.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(row) for row in rows])

    def _row(self, function: Any, row: dict[str, Any]) -> None:
        if _CARRIERS[1] in row:
            self._refuse_carrier(self.fail(function), row[_CARRIERS[1]])
        texts = metadata_of(row.pop(METADATA, None), 1)
        if _SDY in row:
            text = joined(self._hlo(row.pop(_SDY), self.manual(function), function), texts, 1)
            if text is not None:
                row[SHARDING] = text

    # Regions

    def _manual_computation(self, op: Any, outer: Axes) -> None:
        """JAX's form: in by `@SPMDFullToShardShape`, a call, out by `@SPMDShardToFullShape`."""
        mesh, axes = region_axes(op, self.meshes)
        if all(axis.size == 1 for axis in axes):  # nothing is local in it, and JAX's form needs devices to be entered
            self._named_computation(op, outer)
            return
        inner = mesh.in_order((*outer, *axes))
        body = op.regions[0].blocks[0]
        ins = self._shardings(op.attributes["in_shardings"], op)
        outs = self._shardings(op.attributes["out_shardings"], op)
        entered = []
        for value, sharding, argument in zip(op.operands, ins, body.arguments, strict=True):
            dims = _open_dims(sharding)
            annotated = _call("Sharding", value, value.type, str(self._spelled(sharding, outer, op)), dims, op)
            local = str(self._spelled(local_sharding(sharding, axes), inner, op))
            entered.append(_call(FULL_TO_SHARD, annotated.results[0], argument.type, local, dims, op).results[0])
        returned = self._outlined(op, body, entered)
        for value, sharding, result in zip(returned, outs, op.results, strict=True):
            dims = _open_dims(sharding)
            local = str(self._spelled(local_sharding(sharding, axes), inner, op))
            annotated = _call("Sharding", value, value.type, local, dims, op)
            text = str(self._spelled(sharding, outer, op))
            made = _call(SHARD_TO_FULL, annotated.results[0], result.type, text, dims, op)
            result.replace_all_uses_with(made.results[0])
        erase(op)

    def _outlined(self, op: Any, body: Any, entered: Sequence[Any]) -> list[Any]:
        """The body as a call; one that is a call already stays the same call."""
        inner = [view.operation for view in body.operations]
        returned = list(inner[-1].operands)
        if len(inner) == 2 and inner[0].name == "func.call" and returned == list(inner[0].results):
            for argument, value in zip(body.arguments, entered, strict=True):
                argument.replace_all_uses_with(value)
            inner[0].move_before(op)
            return list(inner[0].results)
        name = next(name for name in _numbered("shmap_body") if name not in self.functions)
        types = [value.type for value in returned]
        signature = ir.FunctionType.get([argument.type for argument in body.arguments], types)
        values = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(signature),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        end = ir.InsertionPoint(self.module.body)
        function = ir.Operation.create("func.func", attributes=values, regions=1, loc=op.location, ip=end)
        self.functions[name] = function
        locations = [argument.location for argument in body.arguments]
        block = function.regions[0].blocks.append(*signature.inputs, arg_locs=locations)
        for argument, value in zip(body.arguments, block.arguments, strict=True):
            argument.replace_all_uses_with(value)
        for one in inner[:-1]:
            block.append(one)
        last = inner[-1]
        ir.Operation.create("func.return", operands=list(last.operands), loc=last.location, ip=ir.InsertionPoint(block))
        call = ir.Operation.create(
            "func.call",
            results=types,
            operands=entered,
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        return list(call.results)

    def _named_computation(self, op: Any, manual: Axes) -> None:
        """Its body stands in its place; what it says of operands and results stays, as `@Sharding`."""
        body = op.regions[0].blocks[0]
        entered = self._annotated_values(op, "in_shardings", list(op.operands), manual)
        for argument, value in zip(body.arguments, entered, strict=True):
            argument.replace_all_uses_with(value)
        inner = [view.operation for view in body.operations]
        for one in inner[:-1]:
            one.move_before(op)
        returned = self._annotated_values(op, "out_shardings", list(inner[-1].operands), manual)
        for result, value in zip(op.results, returned, strict=True):
            result.replace_all_uses_with(value)
        erase(op)

    def _annotated_values(self, op: Any, key: str, values: list[Any], manual: Axes) -> list[Any]:
        if key not in op.attributes:
            return values
        annotated = []
        for value, sharding in zip(values, self._shardings(op.attributes[key], op), strict=True):
            text = str(self._spelled(sharding, manual, op))
            annotated.append(_call("Sharding", value, value.type, text, _open_dims(sharding), op).results[0])
        return annotated

    def _finish(self) -> None:
        meshes = self.used_meshes.union(self.meshes.values())
        i32 = ir.IntegerType.get_signless(32)
        attributes = self.module.operation.attributes
        if meshes:
            attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(i32, max(map(_devices, meshes)))
            if "mhlo.num_replicas" not in attributes:
                attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(i32, 1)
        if not self.needed:
            for op in self.ops.get("sdy.mesh", []):
                erase(op)


def _devices(mesh: Mesh) -> int:
    """How many devices there must be for a mesh, or for the one that it is."""
    return mesh.partitions if mesh.axes else max(mesh.device_ids or (), default=0) + 1


def _call(
    target: str, operand: Any, type: Any, text: str, config: str, op: Any, kept: Mapping[str, Any] | None = None
) -> Any:
    """`stablehlo.custom_call @target(operand)` in front of `op`."""
    attributes = {
        **(kept or {}),
        "call_target_name": ir.StringAttr.get(target),
        "backend_config": ir.StringAttr.get(config),
        SHARDING: ir.StringAttr.get(text),
    }
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=[type],
        operands=[operand],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )


def _open_dims(sharding: TensorSharding) -> str:
    """What `backend_config` says of the dimensions that propagation may still split."""
    dims = [str(number) for number, dim in enumerate(sharding.dims) if dim.open]
    return f"unspecified_dims=[{','.join(dims)}]" if dims else ""


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in itertools.count())

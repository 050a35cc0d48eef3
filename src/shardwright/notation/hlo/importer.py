"""`mhlo.sharding` of a module → the `sdy` dialect, in place; `notation.hlo.modules` says what becomes of what."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.ir.sub_meshes import DEVICES, print_devices
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.hlo.components import FULL_TO_SHARD, SHARD_TO_FULL, Crossing
from shardwright.notation.hlo.manual import ManualRegions
from shardwright.notation.hlo.mesh import Placed
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.rules import read_rule
from shardwright.notation.hlo.several import placed_on
from shardwright.notation.hlo.sites import METADATA, SHARDING, Fail, Row, Sites, dictionary, shortened, symbol_of
from shardwright.notation.hlo.spelling import ManualAxes
from shardwright.notation.sdy.sharding import parse_mesh, print_axes, print_mesh, print_sharding, print_shardings
from shardwright.sharding import DimSharding
from shardwright.words import counted

__all__ = ["Importer"]

_UNSPECIFIED = re.compile(r"\s*(?:unspecified_dims=\[([\d,\s]*)\])?\s*")
_CALL_ATTRIBUTES = frozenset({"call_target_name", "backend_config", "has_side_effect", "api_version", SHARDING})


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What the attribute of one op, argument or result says, over the mesh.

    Attributes:
        values: For each result; one for an op without results.
        groups: The number of the shard group of each, or `None`.
        metadata: Of each, or empty.
    """

    values: tuple[Placed, ...]
    groups: tuple[int | None, ...]
    metadata: tuple[str, ...]

    @property
    def manual(self) -> Axes:
        """The axes taken by a manual computation."""
        return self.values[0].manual if self.values else ()


class Importer:
    """One module being rewritten."""

    def __init__(self, module: ir.Module, name: str) -> None:
        """Read what `module`, from the file `name`, says."""
        self.module = module
        self.sites = Sites(module, name)
        self.meshes = self.sites.meshes() if self.sites.texts else (Mesh(),)
        self.mesh = self.meshes[0]
        self.maximal: dict[str, Mesh] = {}
        self.sub_meshes: dict[tuple[Mesh, tuple[int, ...]], Mesh] = {}
        self.stated: list[tuple[Any, tuple[Placed, ...]]] = []
        self._meanings: dict[Any, _Meaning] = {}
        self._ready: dict[Any, tuple[Any, Any, bool]] = {}

    def run(self) -> None:
        """Rewrite the module."""
        if self.sites.texts:
            with context():
                self._rewrite()

    def _rewrite(self) -> None:
        crossings: list[Crossing] = []
        entries: dict[Any, Placed] = {}
        sharding_calls: list[tuple[Any, Any]] = []
        for op in self.sites.carrying:
            read_rule(op, self.sites.fail_at(op))
        for op, attribute in self.sites.ops:
            target = _target(op)
            if target == "Sharding":
                sharding_calls.append((op, attribute))
            elif target in (FULL_TO_SHARD, SHARD_TO_FULL):
                crossings.append(self._crossing(op, target, attribute))
            else:
                self._annotate(op, attribute)
        idle: list[Any] = []
        for op, attribute in sharding_calls:
            self._constrain(op, attribute, entries, idle)
        for row in self.sites.rows:
            self._meaning_of(row.attribute, (row.type,), partial(self.sites.fail_at_row, row))
        self._write_rows()
        self._write_meshes()
        regions = ManualRegions(self.mesh, entries, self.sites.fail_at)
        regions.build(crossings)
        self._check_manual(crossings)
        regions.finish()
        for op in idle:
            op.results[0].replace_all_uses_with(op.operands[0])
            erase(op)

    def _meaning_of(self, attribute: Any, types: tuple[Any, ...], fail: Callable[[], Fail]) -> _Meaning:
        key = (attribute, *types)
        meaning = self._meanings.get(key)
        if meaning is None:
            try:
                meaning = self._meanings[key] = self._read(self.sites.texts[attribute], types)
            except ShardingError as error:
                diagnostic = error.diagnostic
                raise fail()(diagnostic.message, cause=diagnostic.cause, remedy=diagnostic.remedy) from None
        return meaning

    def _read(self, hlo: HloSharding, types: tuple[Any, ...]) -> _Meaning:
        elements = hlo.elements if hlo.kind == "tuple" else (hlo,)
        count = max(len(types), len(elements) > 0)
        if len(elements) == 1 and elements[0].kind not in ("tiled", "named"):
            elements *= count
        if len(elements) != count:
            raise ShardingError(
                f"{len(elements)} shardings are given for {counted(len(types), 'result')}",
                cause=f"mhlo.sharding is {shortened(hlo)}",
                remedy="give a tuple with one sharding for each result",
            )
        ranks = [_rank(type) for type in types] or [0] * count
        values = tuple(self._placed(element, rank) for element, rank in zip(elements, ranks, strict=True))
        if not types:  # an op without results has a place, and nothing that is split
            values = tuple(replace(value, stated=value.sharding.mesh.is_maximal) for value in values)
        if len({value.manual for value in values}) > 1:
            raise ShardingError(
                "results of one op are manual over different axes",
                cause=f"mhlo.sharding is {shortened(hlo)}",
                remedy="let the same devices be manual in all of them",
            )
        for value in values:
            if value.sharding.mesh.is_maximal:
                self.maximal[value.sharding.mesh.name] = value.sharding.mesh
        groups = tuple(None if element.group is None else element.group[1] for element in elements)
        return _Meaning(values, groups, tuple(element.metadata for element in elements))

    def _placed(self, element: HloSharding, rank: int) -> Placed:
        """A sharding over the axes of a mesh; one over a part of the devices, over those of a sub-mesh."""
        lifted = self.sites.lifted.get(replace(element, group=None, metadata=""))
        if lifted is None:
            return placed_on(element, rank, self.meshes)
        value = placed_on(lifted.whole, rank, self.meshes)
        mesh = value.sharding.mesh
        key = (mesh, lifted.devices)
        if key not in self.sub_meshes:
            name = self.sites.free_names("sub_mesh", len(self.sub_meshes) + 1)[-1]
            self.sub_meshes[key] = Mesh(mesh.axes, device_ids=mesh.device_ids, name=name)
        return replace(value, sharding=replace(value.sharding, mesh=self.sub_meshes[key]))

    def _annotate(self, op: Any, attribute: Any) -> None:
        """An op of which something is said."""
        results = op.results
        types = tuple([result.type for result in results])
        key = (attribute, *types)
        ready = self._ready.get(key)
        if ready is None:
            meaning = self._meaning_of(attribute, types, partial(self.sites.fail_at, op))
            ready = self._ready[key] = (*_per_value(meaning), any(group is not None for group in meaning.groups))
        sharding, metadata, grouped = ready
        attributes = op.attributes
        del attributes[SHARDING]
        if sharding is not None:
            if "sdy.sharding" in attributes:
                raise self.sites.fail_at(op)(
                    "the op has both sdy.sharding and mhlo.sharding",
                    cause="they might contradict one another",
                    remedy="drop one of the two",
                )
            attributes["sdy.sharding"] = sharding
        if metadata is not None:
            attributes[METADATA] = metadata
        meaning = self._meanings[key]
        self.stated.append((op, meaning.values))
        if not grouped:
            return
        for result, group in zip(results, meaning.groups, strict=False):
            if group is not None:
                _group(result, group, ir.InsertionPoint.after(op), op.location)

    def _constrain(self, op: Any, attribute: Any, entries: dict[Any, Placed], idle: list[Any]) -> None:
        """`@Sharding(%x)`: a constraint, a shard group, or nothing at all."""
        if len(op.operands) != 1 or len(op.results) != 1 or op.operands[0].type != op.results[0].type:
            raise self.sites.fail_at(op)(
                "@Sharding takes one value and returns it", remedy="give it one operand, of the type of its result"
            )
        meaning = self._meaning_of(attribute, (op.results[0].type,), partial(self.sites.fail_at, op))
        value = self._opened(op, meaning.values[0])
        if meaning.groups[0] is not None and not value.stated:
            _group(op.operands[0], meaning.groups[0], ir.InsertionPoint(op), op.location)
        if (meaning.groups[0] is not None and not value.stated) or (value.manual and not value.stated):
            idle.append(op)
            entries[op.results[0]] = value
            self.stated.append((op, (value,)))
            return
        kept = {named: entry for named, entry in op.attributes.items() if named not in _CALL_ATTRIBUTES}
        if meaning.metadata[0]:
            kept[METADATA] = ir.StringAttr.get(meaning.metadata[0])
        kept["sharding"] = parse_attribute(print_sharding(value.sharding))
        constraint = ir.Operation.create(
            "sdy.sharding_constraint",
            results=[op.results[0].type],
            operands=[op.operands[0]],
            attributes=kept,
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        if meaning.groups[0] is not None:
            _group(constraint.results[0], meaning.groups[0], ir.InsertionPoint(op), op.location)
        op.results[0].replace_all_uses_with(constraint.results[0])
        erase(op)
        entries[constraint.results[0]] = value
        self.stated.append((constraint, (value,)))

    def _opened(self, op: Any, value: Placed) -> Placed:
        """With the dimensions that `backend_config` leaves unspecified open."""
        config = op.attributes.get("backend_config")
        text = config.value if isinstance(config, ir.StringAttr) else "" if config is None else str(config)
        match = _UNSPECIFIED.fullmatch(text)
        numbers = [int(number[:9]) for number in (match[1] or "").split(",") if number.strip()] if match else []
        dims = list(value.sharding.dims)
        if match is None or any(number >= len(dims) for number in numbers):
            raise self.sites.fail_at(op)(
                f"backend_config {text[:80]!r} is not understood",
                cause=f"@{_target(op)} knows a list of dimensions, here of {len(dims)}",
                remedy='write backend_config = "unspecified_dims=[0,1]" or ""',
            )
        for number in numbers:
            dims[number] = DimSharding(dims[number].axes, True)
        return replace(value, sharding=replace(value.sharding, dims=tuple(dims)))

    def _crossing(self, op: Any, target: str, attribute: Any) -> Crossing:
        if len(op.operands) != 1 or len(op.results) != 1:
            raise self.sites.fail_at(op)(f"@{target} takes one value and returns one", remedy="give it one operand")
        meaning = self._meaning_of(attribute, (op.results[0].type,), partial(self.sites.fail_at, op))
        return Crossing(op, target, self._opened(op, meaning.values[0]))

    def _check_manual(self, crossings: Sequence[Crossing]) -> None:
        """What is said within a manual computation must be manual over its axes, and nothing else may be."""
        if not crossings and not any(meaning.manual for meaning in self._meanings.values()):
            return
        functions, regions, meshes = self._structure()
        taken = ManualAxes(functions, regions, meshes, self.sites.fail_at)
        leaving = [(crossing.op, (crossing.placed,)) for crossing in crossings if crossing.target == SHARD_TO_FULL]
        for op, values in (*self.stated, *leaving):
            for value in values:
                if value.manual or (value.stated and not value.sharding.mesh.is_maximal):
                    self._check_taken(value.manual, taken(op), partial(self.sites.fail_at, op))
        for row in self.sites.rows:
            (value,) = self._meanings[row.attribute, row.type].values
            if value.manual or (value.stated and not value.sharding.mesh.is_maximal):
                self._check_taken(value.manual, taken(row.function), partial(self.sites.fail_at_row, row))

    def _check_taken(self, manual: Axes, taken: Axes, fail: Callable[[], Fail]) -> None:
        if self.mesh.in_order(manual) == self.mesh.in_order(taken):
            return
        if not taken:
            raise fail()(
                "a sharding is manual outside of every manual computation",
                cause=f"no @{FULL_TO_SHARD} leads here",
                remedy=f"bring its inputs in by @{FULL_TO_SHARD}, and its results out by @{SHARD_TO_FULL}",
            )
        raise fail()(
            "a sharding within a manual computation is not manual over the same devices",
            cause=f"the computation has taken {print_axes(taken, self.mesh)} of {self.mesh!r}",
            remedy="write {manual}, or last_tile_dims={manual, …} where devices are left",
        )

    def _structure(self) -> tuple[dict[str, Any], list[Any], dict[str, Mesh]]:
        """Functions, manual computations and meshes of the module as it now is."""
        functions: dict[str, Any] = {}
        regions: list[Any] = []
        meshes: dict[str, Mesh] = {}

        def visit(op: Any) -> Any:
            if op.name == "func.func":
                functions[symbol_of(op)] = op
            elif op.name == "sdy.manual_computation":
                regions.append(op)
            elif op.name == "sdy.mesh":
                meshes[symbol_of(op)] = parse_mesh(str(op.attributes["mesh"]), symbol_of(op))
            return ir.WalkResult.ADVANCE

        walk(self.module.operation, visit)
        return functions, regions, meshes

    def _write_rows(self) -> None:
        by_list: dict[tuple[Any, str], list[Row]] = {}
        for row in self.sites.rows:
            by_list.setdefault((row.function, row.kind), []).append(row)
        for (function, kind), rows in by_list.items():
            key = "arg_attrs" if kind == "argument" else "res_attrs"
            entries = [dictionary(entry) for entry in ir.ArrayAttr(function.attributes[key])]
            for row in rows:
                self._write_row(row, entries[row.index])
            function.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])

    def _write_row(self, row: Row, entry: dict[str, Any]) -> None:
        meaning = self._meanings[row.attribute, row.type]
        del entry[SHARDING]
        if meaning.values[0].stated:
            if "sdy.sharding" in entry:
                raise self.sites.fail_at_row(row)(
                    "it has both sdy.sharding and mhlo.sharding", remedy="drop one of the two"
                )
            entry["sdy.sharding"] = parse_attribute(print_sharding(meaning.values[0].sharding))
        if meaning.metadata[0]:
            entry[METADATA] = ir.StringAttr.get(meaning.metadata[0])
        if meaning.groups[0] is None or not row.function.regions[0].blocks:
            return
        block = row.function.regions[0].blocks[0]
        if row.kind == "argument":
            value, point = block.arguments[row.index], ir.InsertionPoint.at_block_begin(block)
        else:
            last = block.operations[len(block.operations) - 1].operation
            value, point = last.operands[row.index], ir.InsertionPoint(last)
        _group(value, meaning.groups[0], point, row.function.location)

    def _write_meshes(self) -> None:
        known = {symbol_of(view.operation) for view in self.module.body.operations}
        point = ir.InsertionPoint.at_block_begin(self.module.body)
        parts = {mesh.name: devices for (_, devices), mesh in self.sub_meshes.items()}
        for mesh in (*self.meshes, *self.sub_meshes.values(), *self.maximal.values()):
            if mesh.name not in known:
                values = {"sym_name": ir.StringAttr.get(mesh.name), "mesh": parse_attribute(print_mesh(mesh))}
                if mesh.name in parts:
                    values[DEVICES] = parse_attribute(print_devices(parts[mesh.name]))
                ir.Operation.create("sdy.mesh", attributes=values, loc=ir.Location.unknown(), ip=point)


def _per_value(meaning: _Meaning) -> tuple[Any, Any]:
    """`sdy.sharding` and the metadata of an op, as attributes; `None` where there is nothing to say."""
    metadata = None
    if any(meaning.metadata):
        metadata = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in meaning.metadata])
    if not any(value.stated for value in meaning.values):
        return None, metadata
    return parse_attribute(print_shardings([value.sharding for value in meaning.values])), metadata


def _rank(type: Any) -> int:
    if isinstance(type, ir.RankedTensorType):
        return type.rank
    text = str(type)
    if text.startswith("tuple<") or isinstance(type, ir.UnrankedTensorType):
        raise ShardingError(
            f"a sharding is given to a value of type {text[:80]}",
            cause="only ranked tensors and tokens have one",
            remedy="return several results instead of a tuple",
        )
    return 0


def _group(value: Any, number: int, point: Any, location: Any) -> None:
    identity = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    ir.Operation.create(
        "sdy.sharding_group", operands=[value], attributes={"group_id": identity}, loc=location, ip=point
    )


def _target(op: Any) -> str:
    """The target of a custom call, else nothing."""
    target = op.attributes.get("call_target_name")
    return target.value if isinstance(target, ir.StringAttr) else ""

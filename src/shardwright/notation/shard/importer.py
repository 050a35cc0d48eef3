"""`shard` → `sdy`: grids become meshes, annotations shardings of definers, of function results, or constraints.

Ops are taken in program order. `shard.shard` goes, its users reading what it was given; so an operand is always the
value that the program itself computes, or a constraint made here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.ir.locations import LocationTable
from shardwright.ir.walk import walk
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.notation.carriers import carrier_text, needs_carrier
from shardwright.notation.sdy import sharding as sdy
from shardwright.notation.shard.read import (
    Described,
    describe,
    is_private,
    read_grid,
    returns_of,
    sharding_of,
    static_shape,
    tensor_rank,
)
from shardwright.sharding import TensorSharding

__all__ = ["import_module"]

_DIALECTS = ("shard.", "mesh.")
_GET, _GRID, _SHARD, _SHARDING = "get_sharding", "grid", "shard", "sharding"


@uncollected
def import_module(module: ir.Module, name: str = "-") -> None:
    """Rewrite the annotations of a module into `sdy`, in place; `name` is the file in diagnostics.

    A program of one device (collectives and queries of its place, no `shard.shard`) is left as it is.

    Raises:
        ShardingError: at its op and line: a grid of unknown size that is used, halos or offsets that are no constants,
            two shardings of one value, a sharding that cannot be traced to its `shard.sharding`, annotations beside
            collectives, or a sharding that does not fit its tensor.
    """
    with context():
        _Importer(module, name).run()


@dataclass(frozen=True, eq=False)
class _Statement:
    """What one `shard.shard` says of tensors of one type; texts and attributes are made once."""

    described: Described
    sharding: TensorSharding
    type: Any

    @cached_property
    def text(self) -> str:
        return carrier_text(self.sharding, static_shape(self.type))

    @cached_property
    def on_value(self) -> tuple[str, Any]:
        """Name and value of the attribute of an argument or a function result."""
        if needs_carrier(self.sharding):
            return CARRIED_SHARDING, ir.StringAttr.get(self.text)
        return "sdy.sharding", parse_attribute(sdy.print_sharding(self.sharding))

    @cached_property
    def on_op(self) -> tuple[str, Any]:
        """Name and value of the attribute of an op of one result."""
        if needs_carrier(self.sharding):
            return CARRIED_SHARDINGS, ir.ArrayAttr.get([ir.StringAttr.get(self.text)])
        return "sdy.sharding", parse_attribute(sdy.print_shardings([self.sharding]))

    @cached_property
    def constraint(self) -> tuple[str, dict[str, Any]]:
        """Name and attributes of the op that states it for users."""
        name = CARRIED_CONSTRAINT if needs_carrier(self.sharding) else "sdy.sharding_constraint"
        return name, {"sharding": self.on_value[1]}


@dataclass(slots=True)
class _LocatedStatement:
    """A statement about a value, and where it stands."""

    statement: _Statement
    location: Any


@dataclass(slots=True)
class _Rows:
    """Statements about the arguments and results of a function, by number."""

    arguments: dict[int, _LocatedStatement] = field(default_factory=dict)
    results: dict[int, _LocatedStatement] = field(default_factory=dict)


class _Importer:
    def __init__(self, module: ir.Module, name: str) -> None:
        self.module = module
        self.locations = LocationTable(name)
        self._where = self.locations.where
        self.grids: list[Any] = []
        self.steps: list[tuple[str, Any]] = []
        self.others: list[Any] = []
        self.meshes: dict[str, Mesh] = {}
        self.described: dict[Any, Described] = {}
        self.known: dict[Any, _LocatedStatement] = {}
        self.functions: dict[Any, _Rows] = {}
        self.several: dict[Any, dict[int, _LocatedStatement]] = {}
        self._statements: dict[Any, _Statement] = {}

    def run(self) -> None:
        self._collect()
        shards = [op for what, op in self.steps if what == _SHARD]
        if self.others and not shards:
            return
        if self.others:
            raise self._mixed(shards[0], self.others[0])
        unsized = self._grids()
        steps: dict[str, Callable[[Any], None]] = {_SHARD: self._shard, _GET: self._get, _SHARDING: self._describe}
        for what, op in self.steps:
            try:
                steps[what](op)
            except ShardingError as error:
                raise error.at(op.name, self._where(op.location)) from None
        self._finish()
        self._erase_unused()
        for op in self.grids:
            self._mesh(op, unsized)

    def _collect(self) -> None:
        def visit(op: Any) -> Any:
            name = op.name
            if name.startswith(_DIALECTS):
                what = name.partition(".")[2]
                if what in (_SHARD, _GET, _SHARDING):
                    self.steps.append((what, op))
                else:
                    (self.grids if what == _GRID else self.others).append(op)
            return ir.WalkResult.ADVANCE

        walk(self.module.operation, visit, outer_first=True)

    # --- diagnostics

    def _mixed(self, shard: Any, other: Any) -> ShardingError:
        return ShardingError(
            f"the module has both {shard.name} and {other.name}",
            op=other.name,
            location=self._where(other.location),
            cause=f"{shard.name} at {self._where(shard.location)} speaks of whole tensors, the other of one device's",
            remedy="annotate the program of whole tensors, or write that of one device, not both in one module",
        )

    # --- grids

    def _grids(self) -> set[str]:
        """Read all grids. The names of those of unknown size."""
        unsized: set[str] = set()
        for view in self.module.body.operations:
            if view.operation.name == "sdy.mesh":
                symbol = ir.StringAttr(view.attributes["sym_name"]).value
                self.meshes[symbol] = sdy.parse_mesh(str(view.attributes["mesh"]), symbol)
        for op in self.grids:
            try:
                symbol, mesh = read_grid(op)
            except ShardingError as error:
                raise error.at(op.name, self._where(op.location)) from None
            if mesh is None:
                unsized.add(symbol)
            else:
                self.meshes[symbol] = mesh
        return unsized

    def _mesh(self, op: Any, unsized: set[str]) -> None:
        attributes = op.attributes
        symbol = attributes["sym_name"]
        if symbol.value in unsized:
            return
        made = {key: value for key, value in attributes.items() if key not in ("shape", "axis_names")}
        made["mesh"] = parse_attribute(sdy.print_mesh(self.meshes[symbol.value]))
        ir.Operation.create("sdy.mesh", attributes=made, loc=op.location, ip=ir.InsertionPoint(op))
        erase(op)

    # --- annotations

    def _describe(self, op: Any) -> None:
        if len(op.results) != 1:
            raise ShardingError(f"a malformed {op.name}", remedy="write %s = shard.sharding @g split_axes = [[0], []]")
        self.described[op.results[0]] = describe(op, self.meshes)

    def _get(self, op: Any) -> None:
        if len(op.operands) != 1 or len(op.results) != 1:
            raise ShardingError(
                f"a malformed {op.name}", remedy="write %s = shard.get_sharding %x : T -> !shard.sharding"
            )
        located = self.known.get(op.operands[0])
        if located is None:
            raise ShardingError(
                "the sharding that shard.get_sharding asks for is not known",
                cause="no shard.shard before it says how this value lies",
                remedy="annotate the value first, or name the sharding with shard.sharding",
            )
        self.described[op.results[0]] = located.statement.described

    def _shard(self, op: Any) -> None:
        operands, results = op.operands, op.results
        if len(operands) != 2 or len(results) != 1:
            raise ShardingError("a malformed shard.shard", remedy="write shard.shard %x to %s : tensor<4x8xf32>")
        value, result = operands[0], results[0]
        type = result.type
        if value.type != type:
            raise ShardingError(
                f"{op.name} takes {value.type} to {type}",
                cause="an annotation does not change the tensor",
                remedy="give both the same type",
            )
        described = self.described.get(operands[1])
        if described is None:
            raise ShardingError(
                "the sharding is not known where the module is read",
                cause="it is no result of shard.sharding or shard.get_sharding",
                remedy="name it in the same function: %s = shard.sharding @g split_axes = …",
            )
        attributes = op.attributes
        for_users = "annotate_for_users" in attributes
        noted = len(attributes) > for_users
        notes = (attributes.get("open", None), attributes.get("replicated", None)) if noted else (None, None)
        statement = self._statement(described, type, notes)
        if for_users:
            self._for_users(op, value, result, statement)
        else:
            self._for_definer(op, value, result, statement)
        erase(op)

    def _statement(self, described: Described, type: Any, notes: tuple[Any, Any]) -> _Statement:
        key = (described, type, notes)
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = _Statement(described, sharding_of(described, type, *notes), type)
            _ = statement.on_value  # refuses here, where the op is known, what no carrier can say
        return statement

    def _for_users(self, op: Any, value: Any, result: Any, statement: _Statement) -> None:
        uses = returns_of(result)
        if not uses or "as_constraint" in op.attributes or is_private(uses[0][0].parent.operation):
            self._constrain(op, value, result, statement)
            return
        for user, number in uses:
            rows = self.functions.setdefault(user.parent.operation, _Rows())
            rows.results[number] = _LocatedStatement(statement, op.location)
        result.replace_all_uses_with(value)

    def _constrain(self, op: Any, value: Any, result: Any, statement: _Statement) -> Any:
        name, attributes = statement.constraint
        made = ir.Operation.create(
            name,
            results=[result.type],
            operands=[value],
            attributes=attributes,
            loc=op.location,
            ip=ir.InsertionPoint(op),
        ).results[0]
        self.known[made] = _LocatedStatement(statement, op.location)
        result.replace_all_uses_with(made)
        return made

    def _for_definer(self, op: Any, value: Any, result: Any, statement: _Statement) -> None:
        before = self.known.get(value)
        located = _LocatedStatement(statement, op.location)
        if before is not None:
            self._same(op, before, located)
            result.replace_all_uses_with(value)
            return
        self.known[value] = located
        owner = value.owner
        if isinstance(owner, ir.Block):
            self._for_argument(op, value, result, located)
            return
        result.replace_all_uses_with(value)
        definer = owner.operation
        if len(definer.results) > 1:
            self.several.setdefault(definer, {})[value.result_number] = located
            return
        self._free(op, definer)
        key, attribute = statement.on_op
        definer.attributes[key] = attribute

    def _for_argument(self, op: Any, value: Any, result: Any, located: _LocatedStatement) -> None:
        """An argument of a function has a sharding of its own, that of a region is constrained for all its users."""
        block = value.owner
        parent = block.owner.operation
        if parent.name == "func.func" and parent.regions[0].blocks[0] == block:
            self.functions.setdefault(parent, _Rows()).arguments[value.arg_number] = located
            result.replace_all_uses_with(value)
            return
        made = self._constrain(op, value, result, located.statement)
        made.owner.operation.move_before(block.operations[0])
        value.replace_all_uses_except(made, made.owner.operation)

    def _same(self, op: Any, before: _LocatedStatement, now: _LocatedStatement) -> None:
        one, other = before.statement.sharding, now.statement.sharding
        if one != other:
            raise ShardingError(
                "two shardings are given to one value",
                cause=f"{one!r} at {self._where(before.location)}, {other!r} at {self._where(now.location)}",
                remedy="keep one of them, or give one `annotate_for_users`",
            )

    def _free(self, op: Any, definer: Any) -> None:
        if definer.name.startswith("sdy.") or "sdy.sharding" in definer.attributes:
            raise ShardingError(
                f"{definer.name} has a sharding of its own already",
                op=op.name,
                location=self._where(op.location),
                cause=f"it stands at {self._where(definer.location)}",
                remedy="annotate in one dialect, or give this one `annotate_for_users`",
            )

    # --- what is put together at the end

    def _finish(self) -> None:
        for definer, statements in self.several.items():
            self._finish_several(definer, statements)
        for function, rows in self.functions.items():
            inputs = len(function.regions[0].blocks[0].arguments)
            self._finish_rows(function, "arg_attrs", rows.arguments, inputs)
            if rows.results:
                outputs = len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)
                self._finish_rows(function, "res_attrs", rows.results, outputs)

    def _finish_several(self, definer: Any, statements: dict[int, _LocatedStatement]) -> None:
        """One attribute for all results of an op; those of which nothing is said are open."""
        self._free(definer, definer)
        some = next(iter(statements.values())).statement.sharding
        shardings = []
        for number, result in enumerate(definer.results):
            rank = tensor_rank(result.type)
            unsaid = TensorSharding.of(some.mesh, [()] * (rank or 0), open=True)
            shardings.append(statements[number].statement.sharding if number in statements else unsaid)
        if any(map(needs_carrier, shardings)):
            texts = [ir.StringAttr.get(carrier_text(sharding)) for sharding in shardings]
            definer.attributes[CARRIED_SHARDINGS] = ir.ArrayAttr.get(texts)
        else:
            definer.attributes["sdy.sharding"] = parse_attribute(sdy.print_shardings(shardings))

    def _finish_rows(self, function: Any, key: str, statements: dict[int, _LocatedStatement], count: int) -> None:
        if not statements:
            return
        attributes = function.attributes
        had: list[Any] = list(attributes[key]) if key in attributes else [ir.DictAttr.get({})] * count
        written: dict[tuple[Any, ...], Any] = {}  # rows are many, distinct ones few
        for number, one in statements.items():
            if "sdy.sharding" in had[number]:
                raise ShardingError(
                    f"number {number} of {key} of @{function.attributes['sym_name'].value} has a sdy.sharding already",
                    op="shard.shard",
                    location=self._where(one.location),
                    remedy="annotate in one dialect",
                )
            row, name, attribute = entry = (had[number], *one.statement.on_value)
            if entry not in written:
                written[entry] = ir.DictAttr.get({**{named.name: named.attr for named in row}, name: attribute})
            had[number] = written[entry]
        attributes[key] = ir.ArrayAttr.get(had)

    def _erase_unused(self) -> None:
        """Shardings that nobody names any more go, and the constants that only they read."""
        for what, op in reversed(self.steps):
            if what == _SHARD:
                continue  # erased already: its handle must not be touched
            for use in op.results[0].uses:
                user = use.owner.operation
                raise ShardingError(
                    f"{user.name} uses a sharding as a value",
                    op=user.name,
                    location=self._where(user.location),
                    cause=f"sdy has shardings in attributes only; this one is made at {self._where(op.location)}",
                    remedy="name shardings with shard.sharding where they are used",
                )
            constants = {operand.owner.operation for operand in op.operands} if what == _SHARDING else set()
            erase(op)
            for constant in constants:
                if next(iter(constant.results[0].uses), None) is None:
                    erase(constant)

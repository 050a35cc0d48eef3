"""Constraints of the `sdy` dialect that jaxlib's verifier does not check.

- A collective leaves the unreduced axes of its operand as they are, but for those that an all_reduce or
  reduce_scatter combines.
- The axes of a manual computation are different ones, and what is no tensor has one type inside and outside.
- All meshes of a program have the same number of devices, those that shardings spell out too; a mesh of one device, or
  of none, stands apart. Passes that take modules as they come leave that open, as Shardy's do.
- What a collective with a kind of reduction does to shardings (see `unsupported_syntax`), and that the kind is that of
  its operand: these the verifier never sees.
- The factors of a sharding rule have sizes, not negative ones.

Source: the sdy dialect reference (the constraints of each op, TensorShardingAttr, MeshOp, OpShardingRuleAttr).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from shardwright.boundary import without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.carriers import CARRIED_COLLECTIVE, CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import ir
from shardwright.ir.locations import LocationTable
from shardwright.ir.ops import COLLECTIVES, COMPUTATIONS, SHARDING_ATTRIBUTES
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.carriers import parse_carrier
from shardwright.notation.names import STRING
from shardwright.notation.sdy.attributes import parse_manual_axes
from shardwright.notation.sdy.collectives import check_collective, check_partial, parse_step, reduced_axes
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings
from shardwright.scanner import line_of
from shardwright.sharding import TensorSharding

__all__ = ["verify"]

_LOOPS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
"""Ops of StableHLO whose regions may hold any op; those of all others compute on scalars."""

_OPS = tuple(name.removeprefix("sdy.") for name in (*COLLECTIVES, "sdy.manual_computation"))
_WORDS = (CARRIED_COLLECTIVE, CARRIED_SHARDING + " ")
_OP = re.compile(rf"sdy\.(?:{'|'.join(_OPS)})")
_NEGATIVE = re.compile(r"=\s*-\s*[0-9]")
_SPELT = re.compile(
    rf"{STRING}|//[^\n]*|(?<!\.)\bmesh(<\s*\[(?:{STRING}|[^\]\"])*\](?:\s*,\s*device_ids\s*=\s*\[[\d,\s]*\])?\s*>)"
)


def verify(module: ir.Module, name: str = "-", content: str | bytes | None = None, *, one_size: bool = True) -> None:
    """Check a module that jaxlib has parsed and verified; diagnostics call it `name`.

    `content` is the text or bytecode that it was parsed from: one in which none of this occurs is not walked, and in
    bytecode the sizes of factors are not looked at. Without `one_size`, meshes that shardings spell out may have any.

    Raises:
        ShardingError: a constraint that does not hold, with op, line, cause and remedy.
    """
    text = content if isinstance(content, str) else None
    rules = content is None or (text is not None and "op_sharding_rule<" in text and _NEGATIVE.search(text) is not None)
    misplaced = text is not None and CARRIED_SHARDING + " " in text
    checker = _ModuleChecker(module, name, rules or misplaced)
    if one_size and text is not None and "mesh<" in text:
        checker.check_meshes(_spelt_meshes(text))
    if content is None or rules or misplaced or _mentions(content):
        checker.check()


def _mentions(content: str | bytes) -> bool:
    if isinstance(content, str):
        return _OP.search(content) is not None or any(word in content for word in _WORDS)
    return any(word.encode() in content for word in (*_OPS, *_WORDS))  # bytecode has names without their dialect


def _spelt_meshes(text: str) -> Iterator[tuple[Mesh, int]]:
    """The meshes that shardings spell out, each with its line; equal texts once."""
    seen: set[str] = set()
    for match in _SPELT.finditer(text):
        if match[1] is not None and match[1] not in seen:
            seen.add(match[1])
            yield parse_mesh(match[1]), line_of(text, match.start())


class _ModuleChecker:
    """One module; `attributes`: whether ops of any dialect may have attributes to check."""

    def __init__(self, module: ir.Module, name: str, attributes: bool) -> None:
        self.module = module
        self.name = name
        self.attributes = attributes
        self.locations = LocationTable(name)
        self.meshes: dict[str, Mesh] = {}
        for view in module.body.operations:
            if view.operation.name == "sdy.mesh":
                self._mesh(view.operation)

    def _mesh(self, op: Any) -> None:
        symbol = ir.StringAttr(op.attributes["sym_name"]).value
        try:
            self.meshes[symbol] = parse_mesh(str(op.attributes["mesh"]), symbol)
        except ShardingError as error:
            raise error.replaced(op=op.name, location=self.locations.where(op.location)) from None

    def check_meshes(self, spelt: Iterator[tuple[Mesh, int]]) -> None:
        first = next((mesh for mesh in self.meshes.values() if mesh.axes), None)
        for mesh, line in spelt:
            if not mesh.axes:
                continue
            first = first or mesh
            if mesh.size != first.size:
                raise ShardingError(
                    "the module has meshes of different size",
                    op="sdy.mesh",
                    location=f"{self.name}:{line}",
                    cause=f"{mesh!r} has {mesh.size} devices, {first!r} has {first.size}",
                    remedy="use one set of devices for the whole module",
                )

    def check(self) -> None:
        for op in self.module.body.operations:
            if op.operation.name == "func.func":
                self._function(op.operation)

    def _function(self, op: Any) -> None:
        for block in op.regions[0].blocks:
            self._block(block)

    def _block(self, block: Any) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name[:4] == "sdy." or name == CARRIED_CONSTRAINT:
                self._sdy(op, name)
            elif self.attributes:
                self._other(op)
            if name[:10] != "stablehlo." or name in _LOOPS:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)

    def _other(self, op: Any) -> None:
        attributes = op.attributes
        if "sdy.sharding_rule" in attributes and _NEGATIVE.search(str(attributes["sdy.sharding_rule"])):
            self._refuse(op, "a factor of a sharding rule has a negative size", "a size counts elements", "correct it")
        if CARRIED_SHARDING in attributes:
            self._refuse(
                op,
                "the sharding of an argument is given to an op",
                "an op has one sharding for each of its results",
                "write sdy.sharding = #sdy.sharding_per_value<[<…>]>",
            )

    def _sdy(self, op: Any, name: str) -> None:
        if name == "sdy.manual_computation":
            self._manual(op)
        if name in COLLECTIVES or CARRIED_COLLECTIVE in op.attributes:
            self._collective(op, name)

    def _collective(self, op: Any, name: str) -> None:
        spelt = ir.StringAttr(op.attributes[CARRIED_COLLECTIVE]).value if CARRIED_COLLECTIVE in op.attributes else ""
        short, _, parameters = spelt.partition(" ") if spelt else (name.removeprefix("sdy."), "", "")
        before, after = self._sharding(op.operands[0]), self._results(op)[0]
        if before is None or after is None:
            if not spelt or isinstance(op.operands[0].owner, ir.Block):
                return  # jaxlib has seen the sharding that it has, if in a loop
            self._refuse(
                op,
                "a collective on an operand without a sharding",
                "what a collective does is said in terms of the sharding of its operand",
                "give the operand's definition a sharding",
                f"sdy.{short}",
            )
        try:
            if spelt:
                check_collective(short, parameters, before, after)
            else:
                texts = tuple((key, str(value)) for key, value in op.attributes.items())
                step, _ = parse_step(name, texts, before, before.mesh)
                check_partial(reduced_axes(step), before, after)
        except ShardingError as error:
            raise error.replaced(op=f"sdy.{short}", location=self.locations.where(op.location)) from None

    def _manual(self, op: Any) -> None:
        axes = parse_manual_axes(str(op.attributes["manual_axes"]))
        twice = next((axis for number, axis in enumerate(axes) if axis in axes[:number]), None)
        if twice is not None:
            self._refuse(
                op,
                f"manual axis {twice!r} is given twice",
                "manual_axes lists every axis that the body is local to, once",
                "take it out of the list",
            )
        body = op.regions[0].blocks[0]
        self._check_passed(op, "operand", op.operands, body.arguments)
        self._check_passed(op, "result", op.results, body.operations[len(body.operations) - 1].operands)

    def _check_passed(self, op: Any, role: str, outside: Any, inside: Any) -> None:
        for number, (outer, inner) in enumerate(zip(outside, inside, strict=True)):
            if outer.type != inner.type and not TensorType.parse(str(outer.type)).is_tensor:
                self._refuse(
                    op,
                    f"{role} {number} is a {outer.type} outside and a {inner.type} inside",
                    "the body is local to parts of tensors; anything else goes through as it is",
                    "give it one type",
                )

    def _argument(self, op: Any, number: int) -> TensorSharding | None:
        if "arg_attrs" not in op.attributes:
            return None
        row: Any = ir.DictAttr(op.attributes["arg_attrs"][number])
        if CARRIED_SHARDING in row:
            shape = TensorType.parse(str(op.regions[0].blocks[0].arguments[number].type)).dims
            return self._carrier(row[CARRIED_SHARDING], shape) if shape else None
        return self._parse(row["sdy.sharding"])[0] if "sdy.sharding" in row else None

    def _results(self, op: Any) -> tuple[TensorSharding | None, ...]:
        attributes = op.attributes
        key = SHARDING_ATTRIBUTES.get(op.name, "sdy.sharding")
        carried: list[Any] = [attributes["sharding"]] if op.name == CARRIED_CONSTRAINT else []
        if CARRIED_SHARDINGS in attributes:
            carried = list(attributes[CARRIED_SHARDINGS])
        if carried:
            types = [TensorType.parse(str(result.type)) for result in op.results]
            return tuple(self._carrier(text, type.dims) for text, type in zip(carried, types, strict=False))
        if key in attributes:
            return self._parse(attributes[key])
        return (None,) * len(op.results)

    def _sharding(self, value: Any) -> TensorSharding | None:
        """What is said of a value where it is defined."""
        owner = value.owner
        if not isinstance(owner, ir.Block):
            return self._results(owner.operation)[ir.OpResult(value).result_number]
        op, number = owner.owner.operation, ir.BlockArgument(value).arg_number
        if op.name == "func.func":
            return self._argument(op, number)
        if op.name not in COMPUTATIONS or "in_shardings" not in op.attributes:
            return None
        outside = self._parse(op.attributes["in_shardings"])[number]
        if op.name == "sdy.named_computation":
            return outside
        manual = parse_manual_axes(str(op.attributes["manual_axes"]))
        return without_manual_axes(outside, manual).closed()

    def _parse(self, attribute: Any) -> tuple[TensorSharding, ...]:
        return parse_shardings(str(attribute), self.meshes)

    def _carrier(self, attribute: Any, shape: tuple[int, ...]) -> TensorSharding:
        return parse_carrier(ir.StringAttr(attribute).value, shape, self.meshes)

    def _refuse(self, op: Any, message: str, cause: str, remedy: str, name: str = "") -> NoReturn:
        where = self.locations.where(op.location)
        raise ShardingError(message, op=name or op.name, location=where, cause=cause, remedy=remedy)

"""Where a module says `mhlo.sharding`: ops, arguments and results, and the mesh that serves them all, or several."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.locations import LocationTable
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.hlo.mesh import Clash
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.several import MOST_MESHES
from shardwright.notation.hlo.sub_meshes import Lifted, served
from shardwright.notation.hlo.text import parse_hlo
from shardwright.notation.sdy.sharding import parse_mesh
from shardwright.strides import mesh_names

__all__ = [
    "FRONTEND",
    "METADATA",
    "SHARDING",
    "Fail",
    "Row",
    "Sites",
    "dictionary",
    "fail_at",
    "joined",
    "metadata_of",
    "shortened",
    "symbol_of",
]

FRONTEND = "mhlo.frontend_attributes"
SHARDING = "mhlo.sharding"
METADATA = "shardwright.metadata"
"""Where the `metadata={…}` of a sharding waits for the way back."""

Fail = Callable[..., ShardingError]
"""Makes an error that stands at an op from message, cause and remedy."""


def fail_at(locations: LocationTable, op: Any) -> Fail:
    """Makes errors that stand at `op`."""
    name, where = op.name, locations.where(op.location)

    def error(message: str, cause: str = "", remedy: str = "") -> ShardingError:
        return ShardingError(message, op=name, location=where, cause=cause, remedy=remedy)

    return error


@dataclass(frozen=True, slots=True)
class Row:
    """The sharding of one argument or result of a function, which has this type."""

    function: Any
    kind: str
    index: int
    type: Any
    attribute: Any


def fail_at_row(locations: LocationTable, row: Row) -> Fail:
    """Makes errors that stand at an argument or result of a function."""
    location = row.function.location
    if row.kind == "argument" and row.function.regions[0].blocks:
        location = row.function.regions[0].blocks[0].arguments[row.index].location
    where = locations.where(location)
    called = f"{row.kind} {row.index} of @{symbol_of(row.function)}"

    def error(message: str, cause: str = "", remedy: str = "") -> ShardingError:
        return ShardingError(f"{called}: {message}", op="func.func", location=where, cause=cause, remedy=remedy)

    return error


class Sites:
    """All that is said in one module.

    Attributes:
        ops: Ops that say something, with the attribute.
        carrying: Ops with attributes for other programs than this one.
        rows: Arguments and results of functions that do.
        texts: What each distinct attribute says, in canonical form.
        lifted: Shardings of a part of the devices on all of them, once `meshes` has been asked for.
    """

    def __init__(self, module: ir.Module, name: str) -> None:
        """Find and read what `module`, read from the file `name`, says.

        Raises:
            ShardingError: malformed text, at its op or argument.
        """
        self.module = module
        self.locations = LocationTable(name)
        self.fail_at = partial(fail_at, self.locations)
        self.ops: list[tuple[Any, Any]] = []
        self.carrying: list[Any] = []
        self.rows: list[Row] = []
        self.texts: dict[Any, HloSharding] = {}
        self.lifted: dict[HloSharding, Lifted] = {}
        self._collect()
        for op, attribute in self.ops:
            self._parse(attribute, partial(self.fail_at, op))
        for row in self.rows:
            self._parse(row.attribute, partial(self.fail_at_row, row))

    def _collect(self) -> None:
        ops = self.ops

        def visit(op: Any) -> Any:
            attributes = op.attributes
            attribute = attributes.get(SHARDING)
            if attribute is not None:
                ops.append((op, attribute))
            if FRONTEND in attributes:
                self.carrying.append(op)
            return ir.WalkResult.ADVANCE

        walk(self.module.operation, visit)
        for view in self.module.body.operations:
            if view.operation.name == "func.func":
                self.rows += _rows(view.operation)

    def fail_at_row(self, row: Row) -> Fail:
        """Makes errors that stand at an argument or result."""
        return fail_at_row(self.locations, row)

    def _parse(self, attribute: Any, fail: Callable[[], Fail]) -> None:
        if attribute in self.texts:
            return
        text = attribute.value if isinstance(attribute, ir.StringAttr) else None
        if text is None or not text.lstrip().startswith("{"):
            raise fail()(
                "mhlo.sharding is not a text",
                cause=f"it is {str(attribute)[:80]}; serialized protocol buffers are not read",
                remedy='write it as text: mhlo.sharding = "{devices=[2,1]<=[2]}"',
            )
        try:
            self.texts[attribute] = parse_hlo(text).canonical()
        except ShardingError as error:
            diagnostic = error.diagnostic
            cause = "; ".join(part for part in (diagnostic.location, diagnostic.cause) if part)
            raise fail()(diagnostic.message, cause=cause, remedy=diagnostic.remedy) from None

    def meshes(self) -> tuple[Mesh, ...]:
        """The mesh that serves all shardings, or several that do: the first of them serves all that it can.

        Shardings of a part of the devices are served as they are `lifted`.

        Raises:
            ShardingError: two that none serves both, with the ops or arguments that have them, where there is something
                manual: that names the axes of one mesh.
        """
        elements: list[HloSharding] = []
        owners: list[Any] = []
        for attribute, hlo in self.texts.items():
            for element in hlo.elements if hlo.kind == "tuple" else (hlo,):
                elements.append(element)
                owners.append(attribute)
        found = served(elements, self._partitions(), self.free_names("mesh", MOST_MESHES + 1), self._own_mesh())
        if isinstance(found, Clash):
            raise self._clash(found, elements, owners)
        self.lifted = found.lifted
        return found.meshes

    def free_names(self, stem: str, count: int) -> list[str]:
        """So many names for meshes that the module has not yet."""
        symbols = {symbol_of(view.operation) for view in self.module.body.operations}
        free = (name for name in mesh_names(stem) if name not in symbols)
        return list(itertools.islice(free, count))

    def _partitions(self) -> int | None:
        attribute = self.module.operation.attributes.get("mhlo.num_partitions")
        return attribute.value if isinstance(attribute, ir.IntegerAttr) else None

    def _own_mesh(self) -> Mesh | None:
        """The mesh that the module has in the `sdy` dialect."""
        for view in self.module.body.operations:
            op = view.operation
            if op.name == "sdy.mesh":
                mesh = parse_mesh(str(op.attributes["mesh"]), symbol_of(op))
                if mesh.axes:
                    return mesh
        return None

    def _clash(self, clash: Clash, elements: Sequence[HloSharding], owners: Sequence[Any]) -> ShardingError:
        error, first = self._owner(owners[clash.first])
        shown = f"{first} has {shortened(elements[clash.first])}"
        if clash.second is None:
            return error(f"no mesh serves this sharding: {shown}", cause=clash.cause, remedy=clash.remedy)
        _, second = self._owner(owners[clash.second])
        shown += f", {second} has {shortened(elements[clash.second])}"
        return error(f"two shardings have no common mesh: {shown}", cause=clash.cause, remedy=clash.remedy)

    def _owner(self, attribute: Any) -> tuple[Fail, str]:
        """Who said it first: an error maker, and its name with its line."""
        row = next((row for row in self.rows if row.attribute == attribute), None)
        if row is not None:
            error = self.fail_at_row(row)
            return error, f"{row.kind} {row.index} of @{symbol_of(row.function)} ({error('').diagnostic.location})"
        op = next(op for op, own in self.ops if own == attribute)
        error = self.fail_at(op)
        return error, f"{op.name} ({error('').diagnostic.location})"


def _rows(function: Any) -> Iterator[Row]:
    signature: Any = ir.TypeAttr(function.attributes["function_type"]).value
    for kind, key in (("argument", "arg_attrs"), ("result", "res_attrs")):
        if key in function.attributes:
            types = signature.inputs if kind == "argument" else signature.results
            for index, (entry, type) in enumerate(zip(ir.ArrayAttr(function.attributes[key]), types, strict=True)):
                attributes = ir.DictAttr(entry)
                if SHARDING in attributes:
                    yield Row(function, kind, index, type, attributes[SHARDING])


def symbol_of(op: Any) -> str:
    """The name of a function or mesh, else nothing."""
    name = op.attributes.get("sym_name")
    return name.value if isinstance(name, ir.StringAttr) else ""


def shortened(hlo: HloSharding) -> str:
    """Its text, cut where it is long."""
    text = str(hlo)
    return text if len(text) <= 120 else text[:120] + "…"


def dictionary(attribute: Any) -> dict[str, Any]:
    """The entries of a dictionary attribute."""
    entries: Any = ir.DictAttr(attribute)
    return {named.name: named.attr for named in entries}


def metadata_of(attribute: Any, count: int) -> list[str]:
    """The metadata of each of `count` shardings, empty where there is none."""
    texts: list[str] = []
    if isinstance(attribute, ir.StringAttr):
        texts = [attribute.value]
    elif isinstance(attribute, ir.ArrayAttr):
        texts = [text.value if isinstance(text, ir.StringAttr) else "" for text in attribute]
    return texts if len(texts) == count else [""] * count


def joined(shardings: Sequence[HloSharding | None], metadata: Sequence[str], count: int) -> Any:
    """One attribute for `count` results: a tuple where there are several, `None` where nothing is said."""
    if all(hlo is None for hlo in shardings):
        return None
    unknown = HloSharding("unknown")
    texts = [replace(hlo or unknown, metadata=entry) for hlo, entry in zip(shardings, metadata, strict=True)]
    return ir.StringAttr.get(str(texts[0] if count < 2 else HloSharding("tuple", elements=tuple(texts))))

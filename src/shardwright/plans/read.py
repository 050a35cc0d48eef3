"""Plans from TOML, and what to say of what is none: the line, the key, why, and what to write.

>>> text = '''
... shardwright_plan = 1
... mesh.axes = [["data", 2], ["model", 4]]
... [arguments]
... "params/w1" = ".,model"
... batch = {type = "32x64xf32", sharding = "data,.", given = "data,-"}
... '''
>>> plan = parse_plan(text, "plan.toml")
>>> plan.mesh, plan.arguments["params/w1"].sharding, plan.arguments["batch"].given
(Mesh(data=2, model=4), [{}, {model}], [{data}, {?}])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from shardwright.cost.outcome import Outcome
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.layouts import parse_layout, parse_type
from shardwright.plans.saved import Constraint, Partitioning, PlannedModule, PlannedTensor, SavedPlan
from shardwright.plans.text import VERSION, VERSION_KEY
from shardwright.propagation import check_strategy
from shardwright.sharding import TensorSharding
from shardwright.stage import ARGUMENTS, DEFAULT_EFFORT, EFFORTS, OPTIMIZATIONS
from shardwright.toml import line_of_key, lines_of_keys, parse_toml
from shardwright.words import kind_of

__all__ = ["REMEDY", "parse_plan"]

REMEDY = "write it as `shardwright plan` prints one"

_TABLES = ("mesh", "propagation", "partition", "outcome", "arguments", "results", "modules", "constraints")
_SIDES = ("inputs", "outputs")
_TENSOR = ("type", "sharding", "given", "completed")
_OUTCOME = {
    "seconds": (int, float),
    "bytes_sent": (int,),
    "collectives": (int,),
    "argument_bytes": (int,),
    "peak_bytes": (int,),
}


def parse_plan(text: str, location: str) -> SavedPlan:
    """The plan that a text is.

    Arguments:
        text: TOML, as `plan_text` writes it.
        location: What diagnostics call it.

    Raises:
        ShardingError: text that is not TOML, a plan of another version, a key that is missing or unknown, a mesh or a
            sharding that is none; with the line, and what to write.
    """
    content = parse_toml(text, location, "the plan", REMEDY)
    reader = _Reader(text, location)
    reader.check_version(content)
    reader.check_keys(content, "", (VERSION_KEY, "program", *_TABLES))
    mesh = reader.mesh(reader.table(content, "mesh"))
    how = reader.table(content, "propagation")
    reader.check_keys(how, "propagation", ("strategy", "conservative"))
    return SavedPlan(
        mesh,
        reader.tensors(content, "arguments", mesh),
        reader.tensors(content, "results", mesh),
        reader.constraints(content, mesh),
        reader.value(content, "", "program", (str,), ""),
        reader.strategy(how),
        reader.value(how, "propagation", "conservative", (bool,), None),
        reader.partitioning(content),
        reader.outcome(content),
        location=location,
        modules=reader.modules(content, mesh),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes values out of what was read, and says in which line they are wrong."""

    text: str
    location: str

    def check_version(self, content: Mapping[str, Any]) -> None:
        """Refuse what is no plan, and plans of later versions."""
        version = content.get(VERSION_KEY)
        if isinstance(version, int) and not isinstance(version, bool) and 1 <= version <= VERSION:
            return
        if version is None:
            raise self.error("the file is no plan", cause=f"it has no key {VERSION_KEY}", remedy=REMEDY)
        raise self.error(
            f"a plan of version {version!r}"[:200],
            VERSION_KEY,
            cause=f"this shardwright reads versions up to {VERSION}",
            remedy="read it with the shardwright that wrote it, or a later one",
        )

    def check_keys(self, values: Mapping[str, Any], table: str, known: tuple[str, ...], key: str = "") -> None:
        """Refuse a key that nothing reads."""
        for name in values:
            if name not in known:
                close = get_close_matches(name[:200], known, n=1)
                raise self.error(
                    f"unknown key {name[:200]!r}",
                    *((table, key or name) if table else (name,)),
                    cause=f"{f'[{table}]' if table else 'a plan'} has {', '.join(known)}",
                    remedy=f"write {close[0]}" if close else "leave it out",
                )

    def table(self, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """A table, empty where there is none."""
        found: Mapping[str, Any] = self.value(content, "", name, (dict,), {})
        return found

    def value(self, values: Mapping[str, Any], table: str, key: str, kinds: tuple[type, ...], default: Any) -> Any:
        """The value of a key, of one of these types, or the default where there is none."""
        if key not in values:
            return default
        found = values[key]
        if isinstance(found, kinds) and (bool in kinds or not isinstance(found, bool)):
            return found
        raise self.error(
            f"{f'{table}.{key}' if table else key} is {kind_of(found)}",
            *((table, key) if table else (key,)),
            cause=f"it is to be {kind_of(kinds[0]())}",
            remedy=REMEDY,
        )

    def mesh(self, values: Mapping[str, Any]) -> Mesh:
        """The mesh."""
        self.check_keys(values, "mesh", ("axes", "device_ids", "name"))
        axes = self.value(values, "mesh", "axes", (list,), None)
        if axes is None:
            raise self.error(
                "the plan has no mesh",
                "mesh" if values else "",
                cause="shardings name its axes",
                remedy='write [mesh], and below it axes = [["data", 2], ["model", 4]]',
            )
        ids = self.value(values, "mesh", "device_ids", (list,), None)
        try:
            pairs = [tuple(axis) if isinstance(axis, list) else axis for axis in axes]
            return Mesh(pairs, device_ids=ids, name=self.value(values, "mesh", "name", (str,), "mesh"))
        except ShardingError as error:
            raise self.placed(error, "mesh", "axes") from None

    def strategy(self, values: Mapping[str, Any]) -> str | None:
        """How it was propagated."""
        name: str | None = self.value(values, "propagation", "strategy", (str,), None)
        if name is not None:
            try:
                check_strategy(name)
            except ShardingError as error:
                raise self.placed(error, "propagation", "strategy") from None
        return name

    def partitioning(self, content: Mapping[str, Any]) -> Partitioning | None:
        """How it was partitioned, if that is said."""
        if "partition" not in content:
            return None
        values = self.table(content, "partition")
        self.check_keys(values, "partition", ("arguments", "effort", "optimize", "hardware"))
        known = {"arguments": ("split", ARGUMENTS), "effort": (DEFAULT_EFFORT, EFFORTS)}
        chosen: dict[str, str] = {}
        for key, (default, words) in {**known, "optimize": ("off", OPTIMIZATIONS)}.items():
            chosen[key] = self.value(values, "partition", key, (str,), default)
            if chosen[key] not in words:
                remedy = f"one of {', '.join(words)}"
                raise self.error(f"partition.{key} is {chosen[key]!r}"[:200], "partition", key, remedy=remedy)
        return Partitioning(**chosen, hardware=self.value(values, "partition", "hardware", (str,), ""))

    def outcome(self, content: Mapping[str, Any]) -> Outcome | None:
        """What it came to, if that is said."""
        if "outcome" not in content:
            return None
        values = self.table(content, "outcome")
        self.check_keys(values, "outcome", tuple(_OUTCOME))
        for key in _OUTCOME:
            if key not in values:
                raise self.error(f"outcome.{key} is missing", "outcome", cause="figures are all there", remedy=REMEDY)
        return Outcome(**{key: self.value(values, "outcome", key, kinds, 0) for key, kinds in _OUTCOME.items()})

    def tensors(self, content: Mapping[str, Any], table: str, mesh: Mesh) -> dict[str, PlannedTensor]:
        """How arguments or results lie, by name."""
        found, lines = self.table(content, table), lines_of_keys(self.text)
        tensors = {name: self.tensor(table, name, values, mesh) for name, values in found.items()}
        return {name: replace(one, line=lines.get((table, name), 0)) for name, one in tensors.items()}

    def modules(self, content: Mapping[str, Any], mesh: Mesh) -> dict[str, PlannedModule]:
        """How what calls of modules take and give lies."""
        made: dict[str, PlannedModule] = {}
        for call, sides in self.table(content, "modules").items():
            if not isinstance(sides, dict) or not all(isinstance(one, dict) for one in sides.values()):
                cause = "it is to say of tensors by name how they lie"
                remedy = 'write it as {inputs = {x = "data,-"}, outputs = {result0 = "data,-"}}'
                raise self.error(f"modules: {call!r} is none"[:200], "modules", call, cause=cause, remedy=remedy)
            self.check_keys(sides, "modules", _SIDES, call)
            each = (sides.get(side, {}).items() for side in _SIDES)
            made[call] = PlannedModule(
                *({name: self.tensor("modules", call, one, mesh) for name, one in tensors} for tensors in each)
            )
        return made

    def tensor(self, table: str, name: str, values: Any, mesh: Mesh) -> PlannedTensor:
        """How one of them lies: a table, or the text of its sharding alone."""
        said = {"sharding": values} if isinstance(values, str) else values
        if not isinstance(said, dict) or not isinstance(said.get("sharding"), str):
            raise self.error(
                f"{table}: {name!r} has no sharding"[:200],
                table,
                name,
                cause=f"it is {kind_of(values)}" if not isinstance(values, dict) else "sharding is to be a text",
                remedy='write it as "data,-", or as {type = "8x16xf32", sharding = "data,-"}',
            )
        self.check_keys(said, table, _TENSOR, name)
        type = self.type(said, table, name)
        shape = None if type is None else type.dims
        sharding = self.layout(said["sharding"], mesh, shape, table, name)
        given: TensorSharding | None = sharding
        if "given" in said:
            given = self.layout(self.value(said, table, "given", (str,), ""), mesh, shape, table, name)
        elif self.value(said, table, "completed", (bool,), False):
            given = None
        return PlannedTensor(sharding, given, type)

    def type(self, said: Mapping[str, Any], table: str, name: str) -> TensorType | None:
        """The type of a tensor, where it is said."""
        text = self.value(said, table, "type", (str,), None)
        try:
            return None if text is None else parse_type(text)
        except ShardingError as error:
            raise self.named(error, table, name) from None

    def layout(self, text: str, mesh: Mesh, shape: tuple[int, ...] | None, table: str, name: str) -> TensorSharding:
        """One sharding."""
        try:
            return parse_layout(text, mesh, shape)
        except ShardingError as error:
            raise self.named(error, table, name) from None

    def constraints(self, content: Mapping[str, Any], mesh: Mesh) -> tuple[Constraint, ...]:
        """What the program said of values inside."""
        made: list[Constraint] = []
        for values in self.value(content, "", "constraints", (list,), []):
            said = values if isinstance(values, dict) else {}
            self.check_keys(said, "constraints", ("at", "type", "sharding"))
            if not all(isinstance(said.get(key), str) for key in ("at", "sharding")):
                cause = "each says where it is, and how the value lies"
                raise self.error("a constraint has no place or no sharding", "constraints", cause=cause, remedy=REMEDY)
            type = self.type(said, "constraints", said["at"])
            shape = None if type is None else type.dims
            sharding = self.layout(said["sharding"], mesh, shape, "constraints", said["at"])
            made.append(Constraint(said["at"], sharding, type))
        return tuple(made)

    def named(self, error: ShardingError, table: str, name: str) -> ShardingError:
        """An error at the line of an argument or a result, which it names."""
        message = f"{table}: {name!r}: {error.diagnostic.message}"[:300]
        return self.placed(error, table, name).replaced(message=message)

    def placed(self, error: ShardingError, table: str, key: str) -> ShardingError:
        """An error at the line of a key."""
        line = line_of_key(self.text, table, key)
        return error.replaced(location=f"{self.location}:{line}" if line else self.location)

    def error(
        self, message: str, table: str = "", key: str = "", *, cause: str = "", remedy: str = ""
    ) -> ShardingError:
        """What to say of what is wrong at a key."""
        return self.placed(ShardingError(message, cause=cause, remedy=remedy), table, key)

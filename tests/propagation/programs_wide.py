"""Seeded random programs with ops of every kind, regions, calls and boundaries, on random meshes, as text."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from tests.propagation.programs import Writer, regroup, tensor_of
from tests.propagation.programs_meshes import Annotator, random_annotator
from tests.rules.corpus import MAKERS, Instance, tensor

__all__ = ["WideWriter", "wide_program"]

_SIZES = (1, 2, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16, 24)
_TYPE = re.compile(r"tensor<((?:\d+x)*)(.*)>")
_MOST_ARGUMENTS = 14
_DEEPEST = 2

Value = tuple[str, tuple[int, ...]]


def _families() -> dict[str, list[str]]:
    """The makers' names by the function that makes them."""
    families: dict[str, list[str]] = {}
    for name, made in MAKERS.items():
        families.setdefault(made.args[0].__name__, []).append(name)  # type: ignore[attr-defined]
    return families


FAMILIES = _families()


@dataclass
class WideWriter(Writer):
    """Text of a function being written. `values` are f32 tensors, `others` those of other types by their type."""

    annotator: Annotator = field(kw_only=True)
    others: dict[str, list[str]] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    isolated: bool = False
    depth: int = 0
    scope: int = 0
    grouping: bool = True
    functions: list[tuple[str, list[tuple[int, ...]], list[tuple[int, ...]]]] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)

    # Values

    def sharding(self, shape: Sequence[int], closed: float | None = None, priorities: bool = True) -> str:
        return self.annotator.sharding(shape, closed, priorities)

    def note(self, shapes: Sequence[Sequence[int]], chance: float) -> str:
        """The inside of an attribute dictionary that annotates the results of an op, or nothing."""
        if self.random.random() >= chance:
            return ""
        mesh = self.annotator.pick_mesh()
        shardings = [self.annotator.sharding(shape, priorities=False, mesh=mesh) for shape in shapes]
        return f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(shardings)}]>"

    def take(self, type: str) -> str:
        """A value of this type: one there is, one made of another, a new argument, or a constant."""
        match = _TYPE.fullmatch(type)
        assert match
        shape, dtype = tuple(int(size) for size in match[1].split("x")[:-1]), match[2]
        known = [name for name, its in self.values if its == shape] if dtype == "f32" else self.others.get(type, [])
        if known and self.random.random() < 0.93:
            return self.random.choice(known[-3:])
        made = self.convert_to(shape, dtype)
        if made is not None:
            return made
        if not self.isolated and len(self.arguments) < _MOST_ARGUMENTS:
            return self.argument(shape, dtype)
        return self.constant_of(shape, dtype)

    def convert_to(self, shape: tuple[int, ...], dtype: str) -> str | None:
        """The value made of another of as many elements, as an op or two."""
        elements = 1
        for size in shape:
            elements *= size
        if not shape or self.random.random() < 0.2 or dtype.startswith("complex"):
            return None
        alike = [value for value in self.values if sorted(value[1]) == sorted(shape)]
        source: Value | None = None
        if dtype != "f32" and alike:
            source = next((value for value in alike if value[1] == shape), None)
        elif alike:
            source = self.random.choice(alike)
        else:
            many = [value for value in self.values if _elements(value[1]) == elements]
            source = self.random.choice(many) if many else None
        if source is None:
            return None
        name, its = source
        if dtype != "f32" and its == shape:
            return self.add(f"stablehlo.convert {name}", shape, dtype, f"({tensor_of(its)}) -> {tensor(shape, dtype)}")
        if dtype != "f32":
            return None
        if sorted(its) == sorted(shape) and self.random.random() < 0.5:
            free, order = list(range(len(its))), []
            for size in shape:
                order.append(next(dim for dim in free if its[dim] == size))
                free.remove(order[-1])
            types = f"({tensor_of(its)}) -> {tensor_of(shape)}"
            return self.emit(f"stablehlo.transpose {name}, dims = {order}", shape, types)[0]
        return self.emit(f"stablehlo.reshape {name}", shape, f"({tensor_of(its)}) -> {tensor_of(shape)}")[0]

    def add(self, text: str, shape: Sequence[int], dtype: str, types: str) -> str:
        """An op whose result has another type than f32."""
        name = self.name()
        self.lines.append(f"{self.indent}{name} = {text} : {types}")
        self.others.setdefault(tensor(shape, dtype), []).append(name)
        return name

    def argument(self, shape: Sequence[int], dtype: str = "f32", chance: float = 0.5) -> str:
        """A new argument of `main`."""
        name = f"%a{len(self.arguments)}"
        annotation = f" {{sdy.sharding = #sdy.sharding{self.sharding(shape)}}}" if self.random.random() < chance else ""
        self.arguments.append(f"{name}: {tensor(shape, dtype)}{annotation}")
        self.know(name, shape, dtype)
        return name

    def know(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Let later ops use the value."""
        if dtype == "f32":
            self.values.append((name, tuple(shape)))
        else:
            self.others.setdefault(tensor(shape, dtype), []).append(name)

    def constant_of(self, shape: Sequence[int], dtype: str) -> str:
        if dtype == "f32":
            return self.constant(tuple(shape))[0]
        value = {"i1": "true", "complex<f32>": "(0.0, 1.0)", "bf16": "1.0", "f64": "1.0"}.get(dtype, "1")
        value = "" if 0 in shape else value
        return self.add(f"stablehlo.constant dense<{value}>", shape, dtype, tensor(shape, dtype))

    # Ops

    def made(self) -> None:
        """An op of any family, the instance of three whose operands are there already."""
        name = self.random.choice(FAMILIES[self.random.choice(list(FAMILIES))])
        several = [MAKERS[name](self.random) for _ in range(3)]
        instance = max(several, key=self.there)
        operands = [self.take(type) for type in instance.operands]
        shapes = [_shape(type) for type in instance.results]
        note = self.note([shape for shape, _ in shapes], self.density)
        attributes = ", ".join(part for part in (instance.attributes, note) if part)
        result = self.name()
        self.lines.append(self.indent + replace(instance, attributes=attributes).text(operands, result[1:]))
        for number, (shape, dtype) in enumerate(shapes):
            self.know(f"{result}#{number}", shape, dtype)

    def there(self, instance: Instance) -> int:
        """How many operands of an instance exist."""
        known = {tensor_of(shape) for _, shape in self.values} | set(self.others)
        return sum(type in known for type in instance.operands)

    def reshape(self) -> None:
        value, shape = self.pick()
        if _elements(shape):
            to = regroup(self.random, _elements(shape))
            self.emit(f"stablehlo.reshape {value}", to, f"({tensor_of(shape)}) -> {tensor_of(to)}")

    def several_barrier(self) -> None:
        """An optimization barrier over several values."""
        chosen = [self.pick() for _ in range(self.random.randint(2, 3))]
        name = self.name()
        types = ", ".join(tensor_of(shape) for _, shape in chosen)
        values = ", ".join(value for value, _ in chosen)
        self.lines.append(f"{self.indent}{name}:{len(chosen)} = stablehlo.optimization_barrier {values} : {types}")
        self.values += [(f"{name}#{number}", shape) for number, (_, shape) in enumerate(chosen)]

    def prioritized(self) -> None:
        """An op with a priority, which stays because `main` returns it."""
        value, shape = self.pick()
        name = self.name()
        annotation = f" {{sdy.sharding = #sdy.sharding_per_value<[{self.sharding(shape)}]>}}"
        self.lines.append(f"{self.indent}{name} = stablehlo.cosine {value}{annotation} : {tensor_of(shape)}")
        self.values.append((name, shape))
        self.kept.append((name, shape))

    def group(self) -> None:
        if not self.grouping:
            return
        value, shape = self.pick()
        number = self.groups.setdefault((self.scope, *shape), len(self.groups))
        self.lines.append(f"{self.indent}sdy.sharding_group {value} group_id={number} : {tensor_of(shape)}")

    def some(self, count: int, nested: bool = False) -> None:
        from tests.propagation.programs_odd import odd_ops
        from tests.propagation.programs_regions import regions

        self.depth += nested
        plain = [self.unary, self.binary, self.binary, self.dot, self.dot, self.broadcast, self.reduce, self.transpose]
        plain += [self.reshape, self.slice, self.concatenate, self.constraint, self.barrier, self.dynamic_slice]
        plain += [self.some_constant, self.several_barrier, *odd_ops(self)]
        if self.random.random() < 0.3:
            plain += [self.group] * 2
        if self.annotator.priorities and not self.depth and not self.isolated:
            plain.append(self.prioritized)
        several = regions(self) if self.depth <= _DEEPEST else []
        for _ in range(count):
            drawn = self.random.random()
            if drawn < 0.3:
                self.made()
            elif several and drawn < 0.48:
                self.random.choice(several)()
            else:
                self.random.choice(plain)()
        self.depth -= nested


def wide_program(seed: int) -> str:
    """The text of a module that may hold anything propagation deals with."""
    chance = random.Random(f"wide/{seed}")
    annotator = random_annotator(chance)
    writer = WideWriter(chance, annotator.meshes["mesh"], annotator.priorities, annotator=annotator)
    writer.density = chance.choice((0.03, 0.06, 0.15, 0.3))
    density = chance.choice((0.2, 0.5, 0.8))
    for _ in range(chance.randint(1, 4)):
        shape = tuple(chance.choice(_SIZES) for _ in range(chance.randint(1, 3)))
        if writer.values and chance.random() < 0.4:
            shape = writer.values[0][1]
        writer.argument(shape, chance=density)
    writer.some(chance.choice((2, 3, 4, 6, 6, 8, 10, 16)))
    returned = [writer.pick() for _ in range(chance.randint(1, 3))] + writer.kept
    notes = [
        f" {{sdy.sharding = #sdy.sharding{writer.sharding(shape)}}}" if chance.random() < 0.3 else ""
        for _, shape in returned
    ]
    results = ", ".join(tensor_of(shape) + note for (_, shape), note in zip(returned, notes, strict=True))
    return "\n".join(
        [
            *annotator.declarations(),
            *writer.definitions,
            f"func.func @main({', '.join(writer.arguments)}) -> ({results}) {{",
            *writer.lines,
            f"  return {', '.join(name for name, _ in returned)} : {', '.join(tensor_of(s) for _, s in returned)}",
            "}",
        ]
    )


def _shape(type: str) -> tuple[tuple[int, ...], str]:
    match = _TYPE.fullmatch(type)
    assert match
    return tuple(int(size) for size in match[1].split("x")[:-1]), match[2]


def _elements(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product

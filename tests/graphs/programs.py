"""Programs by number: JAX functions of all kinds of ops, and shardings for their arguments, results and other values."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import jax

from tests.graphs.families import (
    constraints,
    contractions,
    control,
    indexing,
    linalg,
    manual,
    moves,
    pointwise,
    windows,
)
from tests.graphs.scope import STEPS, Scope, Writer
from tests.graphs.steps import Block, Step, function, source
from tests.graphs.values import Range, Value
from tests.propagation.programs_meshes import Annotator

__all__ = ["SHORT", "Program", "program"]

_FAMILIES = (moves, constraints, pointwise, contractions, control, indexing, linalg, manual, windows)
_MAKERS = tuple(maker for family in _FAMILIES for maker in STEPS if maker.make.__module__ == family.__name__)
"""In an order that does not hang on who imports what first: numbers are to say the same programs everywhere."""

_MESHES = ((2,), (3,), (4,), (5,), (6,), (7,), (8,), (2, 2), (2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (2, 2, 2), (1, 4))
_SIZES = (2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 12, 16)
SHORT = 300
"""So many programs, from the first, are short: those of the test run, most of whose time is XLA's."""

_SHORT, _LONG = (3, 4, 5, 6, 8), (5, 6, 8, 12, 20, 40)
"""How many steps are written: each is one op or a function of several, at any depth."""

_LARGEST = 1024
"""Elements of an argument that all begins with."""

_ARGUMENT = re.compile(r"%arg(\d+): (tensor<(?:[^<>]|<[^<>]*>)*>)(?: \{([^}]*)\})?")


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its shardings.

    Attributes:
        number: The one it was made of.
        axes: The mesh of its manual computations.
        main: The function.
        types: The type of each value by its name.
        arguments: The sharding of each argument by its name, empty where it has none.
        results: The sharding of each result, empty where it has none.
    """

    number: int
    axes: tuple[tuple[str, int], ...]
    main: Block
    types: Mapping[str, jax.ShapeDtypeStruct]
    arguments: Mapping[str, str]
    results: tuple[str, ...]

    def families(self) -> Counter[str]:
        """How many steps of each family it has."""
        return Counter(step.family for step in _all_steps(self.main))

    def source(self) -> str:
        """It as a function to be read."""
        notes = [f"    # {name}: {self._type(name)} {self.arguments[name]}" for name in self.main.parameters]
        notes += [f"    # result {number}: {text}" for number, text in enumerate(self.results) if text]
        head, *body = source(self.main, "", True)
        return "\n".join([f"MESH = {dict(self.axes)}", head, *notes, *body])

    def _type(self, name: str) -> str:
        struct = self.types[name]
        return f"{struct.dtype}{list(struct.shape)}"

    def lowered(self, sharded: bool = True) -> str:
        """Its StableHLO; for one device if not `sharded`."""
        structs = [self.types[name] for name in self.main.parameters]
        made = jax.jit(function(self.main, sharded, self.axes), keep_unused=True).trace(*structs)
        text: str = made.lower(lowering_platforms=("cpu",)).as_text()
        return self._annotated(text) if sharded else text

    def _annotated(self, text: str) -> str:
        """The module with what is stated of its arguments and results."""
        start = text.index("func.func public @main(")
        end = text.index("\n", start)
        line = _ARGUMENT.sub(self._argument, text[start:end])
        for number, sharding in enumerate(self.results):
            if sharding:
                info = f'jax.result_info = "result[{number}]"'
                line = line.replace(info, f"{info}, sdy.sharding = #sdy.sharding{sharding}")
        return text[:start] + line + text[end:]

    def _argument(self, match: re.Match[str]) -> str:
        number, type, attributes = match.groups()
        sharding = self.arguments[self.main.parameters[int(number)]]
        dtype = str(self.types[self.main.parameters[int(number)]].dtype)
        drawn = "0 2" if dtype == "bool" else "0 7" if dtype.startswith("uint") else "-3 5"
        parts = [attributes] if attributes else []
        parts.append(f'shardwright.input = "integers {drawn}"')
        parts += [f"sdy.sharding = #sdy.sharding{sharding}"] if sharding else []
        return f"%arg{number}: {type} {{{', '.join(parts)}}}"


def _all_steps(block: Block) -> Iterator[Step]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from _all_steps(inner)


def _annotator(rng: random.Random) -> Annotator:
    """One mesh, sometimes another of the same devices in another order, along other axes, or of one of them."""
    axes = list(zip("xyz", rng.choice(_MESHES), strict=False))
    count = math.prod(size for _, size in axes)
    orders: dict[str, list[int]] = {}
    meshes = {"mesh": axes}
    if rng.random() < 0.12:
        sizes = rng.choice([sizes for sizes in _MESHES if math.prod(sizes) == count])
        meshes["other"] = rng.choice((axes, list(zip("uvw", sizes, strict=False))))
        if meshes["other"] is axes or rng.random() < 0.3:
            orders["other"] = rng.sample(range(count), count)
    if rng.random() < 0.06:
        meshes["one"] = []
        orders["one"] = [rng.randrange(count)]
    return Annotator(
        rng,
        meshes,
        priorities=rng.random() < 0.2,
        closed=rng.choice((0.2, 0.5, 0.8)),
        cutting=rng.choice((0.0, 0.3, 0.6)),
        replicated=rng.choice((0.0, 0.1)),
        unreduced=0.0,
        used=rng.choice((0.5, 0.8)),
        device_orders=orders,
    )


def _sharding(annotator: Annotator, value: Value) -> str:
    """A sharding of a value with its mesh inlined: names of meshes are JAX's to give."""
    annotator.unreduced = 0.15 if value.is_float and annotator.random.random() < 0.3 else 0.0
    maximal = annotator.maximal() if annotator.random.random() < 0.3 else None
    text = maximal or annotator.sharding(value.shape)
    for line in annotator.declarations():
        name, _, mesh = line.removeprefix("sdy.mesh ").partition(" = ")
        text = text.replace(f"<{name},", f"<mesh{mesh},")
    return text


def program(number: int) -> Program:
    """The program of a number."""
    rng = random.Random(f"graph {number}")
    annotator = _annotator(rng)
    sizes = (*rng.sample(_SIZES, rng.choice((2, 3, 3))), *((1,) if rng.random() < 0.2 else ()))
    sizes += (0,) if rng.random() < 0.02 else ()
    axes = tuple(annotator.meshes["mesh"])
    writer = Writer(rng, _MAKERS, sizes, axes, partial(_sharding, annotator))
    for _ in range(rng.randint(1, 4)):
        shape = [rng.choice(sizes) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))]
        dtype = rng.choice(("float32",) * 6 + ("int32", "int32", "bfloat16", "bool", "int8"))
        while math.prod(shape) > _LARGEST:
            shape.pop()
        writer.arguments.append(writer.value(shape, dtype, Range()))
    scope = Scope(writer, list(writer.arguments))
    scope.write(rng.choice(_SHORT if number < SHORT else _LONG))
    used = {name for step in scope.steps for name in step.free()}
    ends = [value for value in scope.values if value.name not in used] or scope.values[-1:]
    returned = rng.sample(ends, min(len(ends), 6))
    parameters = tuple(value.name for value in writer.arguments)
    main = Block("main", parameters, tuple(scope.steps), f"({''.join(f'{value}, ' for value in returned)})")
    arguments = {value.name: writer.sharding(value) if rng.random() < 0.75 else "" for value in writer.arguments}
    first = writer.arguments[0]
    arguments[first.name] = arguments[first.name] or writer.sharding(first)
    results = tuple(writer.sharding(value) if rng.random() < 0.3 else "" for value in returned)
    return Program(number, axes, main, writer.types, arguments, results)

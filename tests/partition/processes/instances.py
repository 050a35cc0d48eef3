"""Random instances of every op: text, operands by device, and what each device must get."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardwright.ir.types import TensorType
from shardwright.runtime.arrays import numpy_dtype
from tests.partition.processes import definitions
from tests.partition.processes.definitions import Held, Shape

DYNAMIC = -9223372036854775808
DTYPES = ("f32", "f64", "bf16", "f16", "i8", "i32", "i64", "ui8", "ui32", "i1", "complex<f32>")


@dataclass
class Instance:
    """Lines that read `%a0_0, …` and define results; `{n}` in them stands for the number of the instance."""

    lines: list[str]
    results: list[tuple[str, str, Held]]
    operands: list[tuple[str, Held]] = field(default_factory=list)


@dataclass
class Maker:
    """Draws instances on the grid @g of `shape`."""

    rng: random.Random
    shape: Shape

    def axes(self, least: int = 0) -> list[int]:
        return self.rng.sample(range(len(self.shape)), self.rng.randint(least, len(self.shape)))

    def count(self, axes: Sequence[int]) -> int:
        return int(np.prod([self.shape[axis] for axis in axes], dtype=int))

    def dims(self, least: int = 1) -> list[int]:
        return [self.rng.randint(1, 3) for _ in range(self.rng.randint(least, 3))]

    def member(self, axes: Sequence[int]) -> list[int]:
        return [self.rng.randrange(self.shape[axis]) for axis in axes]

    def held(self, dims: Sequence[int], dtype: str, small: bool = False) -> Held:
        return {device: self.array(dims, dtype, small) for device in definitions.devices(self.shape)}

    def array(self, dims: Sequence[int], dtype: str, small: bool) -> Any:
        kind = numpy_dtype(dtype)
        if small and kind.kind not in "iub":
            pool: list[Any] = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]
        elif small and kind.kind == "i":
            pool = [-3, -2, -1, 1, 2, 5]
        else:
            pool = [0, 1, 2, 3, 7, 100] if kind.kind == "u" else [-7, -1, 0, 1, 3, 99] if kind.kind == "i" else []
        if not pool:
            pool = [False, True] if kind.kind == "b" else [-0.0, 0.0, 1.5, -3.25, float("inf"), 7.0]
        values = [self.rng.choice(pool) for _ in range(int(np.prod(dims, dtype=int)))]
        return np.array(values, np.float64 if pool and isinstance(pool[0], float) else None).astype(kind).reshape(dims)

    def collective(
        self,
        name: str,
        axes: Sequence[int],
        attributes: Sequence[str],
        held: Held,
        result: Held,
        extra: Sequence[str] = (),
    ) -> Instance:
        """One op of one tensor; `extra` are names of dynamic operands."""
        operand, out = type_text(held[0]), type_text(result[0])
        names = ", ".join(["%a{n}_0", *extra])
        types = ", ".join([operand, *["index"] * len(extra)])
        group = [f"grid_axes = {i16(axes)}"] if axes or self.rng.random() < 0.5 else []
        entries = ", ".join(["grid = @g", *group, *attributes])
        line = f'%r{{n}}_0 = "shard.{name}"({names}) {{{entries}}} : ({types}) -> {out}'
        return Instance([line], [("%r{n}_0", out, result)], [(operand, held)])

    def rooted(
        self,
        name: str,
        axes: Sequence[int],
        key: str,
        index: Sequence[int],
        attributes: Sequence[str],
        held: Held,
        result: Held,
    ) -> Instance:
        """As `collective`, with a multi-index of which some entries are operands that are constants."""
        entries, lines, names = self.mixed(index, "index")
        made = self.collective(name, axes, [f"{key} = {i64(entries)}", *attributes], held, result, names)
        made.lines[:0] = lines
        return made

    def mixed(self, numbers: Sequence[int], type: str) -> tuple[list[int], list[str], list[str]]:
        """Some of the numbers as operands: the static list, the lines that define the operands, their names."""
        chosen = [place for place in range(len(numbers)) if self.rng.random() < 0.3]
        static = [DYNAMIC if place in chosen else number for place, number in enumerate(numbers)]
        lines = [f"%k{{n}}_{place} = arith.constant {numbers[place]} : {type}" for place in chosen]
        return static, lines, [f"%k{{n}}_{place}" for place in chosen]


MAKERS: dict[str, Callable[[Maker], Instance]] = {}


def maker(name: str) -> Callable[[Callable[[Maker], Instance]], Callable[[Maker], Instance]]:
    def register(function: Callable[[Maker], Instance]) -> Callable[[Maker], Instance]:
        MAKERS[name] = function
        return function

    return register


def type_text(array: Any) -> str:
    names = {numpy_dtype(dtype): dtype for dtype in (*DTYPES, "i16", "i64")}
    return str(TensorType(array.shape, names[array.dtype]))


def i16(values: Sequence[int]) -> str:
    return f"array<i16: {', '.join(map(str, values))}>" if values else "array<i16>"


def i64(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def split_of(m: Maker, rank: int) -> list[list[int]]:
    """Axes dealt to dimensions at random."""
    split: list[list[int]] = [[] for _ in range(rank)]
    for axis in m.axes():
        m.rng.choice(split).append(axis)
    return split


def axes_text(split: Sequence[Sequence[int]]) -> str:
    return f"#shard.axisarray<[{', '.join(str(list(axes)) for axes in split)}]>"

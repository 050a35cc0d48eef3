"""Random programs of `linalg`, `tosa` and constants with `shard.shard` annotations of every form, on one grid or two."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["RULES", "shard_program"]

RULES = {
    "tosa.tanh": "i j -> i j",
    "tosa.add": "i j, i j -> i j",
    "tosa.select": "i j, i j, i j -> i j",
    "linalg.matmul": "i k, k j, i j -> i j",
    "linalg.batch_matmul": "b i k, b k j, b i j -> b i j",
}
"""The interfaces that upstream gives to ops whose loops neither registration nor attributes tell here."""

_MAPS = """#same = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
"""
_GRIDS = {"g": 3, "h": 2}
_SQUARE, _VECTOR, _CUBE = "8x8xf32", "8xf32", "2x8x8xf32"
_OPS = ("tanh", "add", "select", "matmul", "batch_matmul", "constant", "empty", "turn", "spread", "sum", "scale")


@dataclass
class _Writer:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)

    def fresh(self) -> str:
        return f"%v{len(self.lines)}"

    def read(self, shape: str) -> str:
        """A value of a shape, at times annotated for this user."""
        value = self.rng.choice(self.values[shape][-4:])
        return self.shard(value, shape, " annotate_for_users") if self.rng.random() < 0.2 else value

    def typed(self, shape: str) -> tuple[str, str]:
        return self.read(shape), shape

    def shard(self, value: str, shape: str, tail: str) -> str:
        number = len(self.lines)
        grid = "g" if self.rng.random() < 0.95 else "h"
        axes = self.axes(grid, shape.count("x"))
        self.lines.append(f"%s{number} = shard.sharding @{grid} split_axes = {axes} : !shard.sharding")
        self.lines.append(f"%x{number} = shard.shard {value} to %s{number}{tail} : tensor<{shape}>")
        return f"%x{number}"

    def axes(self, grid: str, rank: int) -> list[list[int]]:
        """Axes for the first dimensions, or for all."""
        dims: list[list[int]] = [[] for _ in range(self.rng.randint(1, rank))]
        for axis in self.rng.sample(range(_GRIDS[grid]), _GRIDS[grid]):
            if self.rng.random() < 0.5:
                self.rng.choice(dims).append(axis)
        return dims

    def make(self, shape: str, text: str) -> None:
        """An op, at times with one annotation of its result, or two."""
        made = self.fresh()
        self.lines.append(f"{made} = {text}")
        if self.rng.random() < 0.2:
            made = self.shard(made, shape, self.rng.choice(("", "", " annotate_for_users")))
        if self.rng.random() < 0.05:
            made = self.shard(made, shape, " annotate_for_users")
        self.values[shape].append(made)

    def generic(self, shape: str, maps: str, kinds: str, *operands: tuple[str, str]) -> None:
        """`linalg.generic`, which adds what it reads to what it writes over."""
        last = len(operands) - 1
        types = [f"tensor<{of}>" for _, of in operands]
        reads = f"{', '.join(value for value, _ in operands[:last])} : {', '.join(types[:last])}"
        block = ", ".join(f"%e{number}: f32" for number in range(last + 1))
        self.make(
            shape,
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({reads}) "
            f"outs({operands[last][0]} : {types[last]}) {{\n^bb0({block}):\n"
            f"  %y = arith.addf %e0, %e{last} : f32\n  linalg.yield %y : f32\n}} -> {types[last]}",
        )

    def named(self, op: str, shape: str, count: int) -> None:
        operands = ", ".join(self.read(shape) for _ in range(count))
        kinds = ", ".join([f"tensor<{shape}>"] * count)
        self.make(shape, f"tosa.{op} {operands} : ({kinds}) -> tensor<{shape}>")

    def product(self, op: str, shape: str) -> None:
        kind = f"tensor<{shape}>"
        left, right, into = (self.read(shape) for _ in range(3))
        self.make(shape, f"linalg.{op} ins({left}, {right} : {kind}, {kind}) outs({into} : {kind}) -> {kind}")

    def step(self) -> None:
        op = self.rng.choice(_OPS)
        parallel = '"parallel", "parallel"'
        if op in ("tanh", "add"):
            self.named(op, _SQUARE, 1 if op == "tanh" else 2)
        elif op == "select":
            kinds = f"(tensor<8x8xi1>, tensor<{_SQUARE}>, tensor<{_SQUARE}>) -> tensor<{_SQUARE}>"
            self.make(_SQUARE, f"tosa.select %p, {self.read(_SQUARE)}, {self.read(_SQUARE)} : {kinds}")
        elif op == "matmul":
            self.product(op, _SQUARE)
        elif op == "batch_matmul":
            self.product(op, _CUBE)
        elif op == "constant":
            self.make(_VECTOR, f"arith.constant dense<1.0> : tensor<{_VECTOR}>")
        elif op == "empty":
            self.make(_SQUARE, f"tensor.empty() : tensor<{_SQUARE}>")
        elif op == "turn":
            self.generic(_SQUARE, "#turned, #same", parallel, self.typed(_SQUARE), self.typed(_SQUARE))
        elif op == "spread":
            self.generic(_SQUARE, "#column, #same", parallel, self.typed(_VECTOR), self.typed(_SQUARE))
        elif op == "sum":
            self.generic(_VECTOR, "#same, #row", '"parallel", "reduction"', self.typed(_SQUARE), self.typed(_VECTOR))
        else:
            self.generic(
                _SQUARE, "#same, #row, #turned", parallel, self.typed(_SQUARE), self.typed(_VECTOR), self.typed(_SQUARE)
            )


def shard_program(seed: int) -> str:
    """A program; the same for the same seed."""
    rng = random.Random(seed)
    writer = _Writer(rng, values={_SQUARE: ["%a", "%b", "%c"], _VECTOR: ["%d"], _CUBE: ["%e"]})
    for _ in range(rng.randint(2, 7)):
        writer.step()
    shape = rng.choice((_SQUARE, _SQUARE, _VECTOR, _CUBE))
    value, kind = writer.values[shape][-1], f"tensor<{shape}>"
    arguments = f"%a: tensor<{_SQUARE}>, %b: tensor<{_SQUARE}>, %c: tensor<{_SQUARE}>, %d: tensor<{_VECTOR}>"
    head = f"shard.grid @g(shape = 2x2x2)\nshard.grid @h(shape = 4x2)\nfunc.func @f({arguments}, "
    head += f"%e: tensor<{_CUBE}>, %p: tensor<8x8xi1>) -> {kind} {{"
    return "\n".join([_MAPS + head, *writer.lines, f"return {value} : {kind}\n}}"])

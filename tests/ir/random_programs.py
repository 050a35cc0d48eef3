"""Random programs on scalars, with branches in branches; what they compute, and whether they hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.notation.modules import read

__all__ = ["ARITHMETIC", "SCALAR", "computed", "ill_placed", "random_graph", "signature"]

SCALAR = TensorType((), "i32")
ARITHMETIC = {"stablehlo.add": 2, "stablehlo.multiply": 2, "stablehlo.negate": 1}
"""Ops on scalars, and how many operands they have."""


def signature(name: str) -> Signature:
    """The signature of an op of `ARITHMETIC`."""
    return Signature(name, (), (SCALAR,) * ARITHMETIC[name], (SCALAR,))


def random_graph(random: Random) -> Graph:
    """A program of two arguments and two results."""
    lines: list[str] = []
    values = ["%a", "%b"]
    _write_ops(random, values, lines, depth=0)
    results = f"{random.choice(values)}, {random.choice(values)} : tensor<i32>, tensor<i32>"
    text = "\n".join([*lines, f"return {results}"])
    arguments = "%a: tensor<i32>, %b: tensor<i32>"
    return read(load_module(f"func.func @main({arguments}) -> (tensor<i32>, tensor<i32>) {{\n{text}\n}}"))


def _write_ops(random: Random, values: list[str], lines: list[str], depth: int) -> None:
    for _ in range(random.randint(1, 8)):
        name = f"%v{len(lines)}"
        if random.random() < 0.2:
            lines.append(f"{name} = stablehlo.constant dense<{random.randint(-3, 3)}> : tensor<i32>")
        elif depth < 2 and random.random() < 0.3:
            index = random.choice(values)
            lines.append(f'{name} = "stablehlo.case"({index}) ({{')
            for number in range(2):
                inner = list(values)
                _write_ops(random, inner, lines, depth + 1)
                lines.append(f"stablehlo.return {random.choice(inner)} : tensor<i32>")
                lines.append("}, {" if number == 0 else "}) : (tensor<i32>) -> tensor<i32>")
        else:
            op = random.choice(list(ARITHMETIC))
            operands = ", ".join(random.choice(values) for _ in range(ARITHMETIC[op]))
            lines.append(f"{name} = {op} {operands} : tensor<i32>")
        values.append(name)


def computed(graph: Graph, arguments: Sequence[int]) -> list[int]:
    """What a program returns."""
    block = graph.main.block
    return _run(block, dict(zip(block.arguments, arguments, strict=True)))


def _run(block: Block, known: dict[int, int]) -> list[int]:
    for op in block.ops[:-1]:
        operands = [known[value] for value in op.operands]
        match op.name, operands:
            case "stablehlo.add", [left, right]:
                result = left + right
            case "stablehlo.multiply", [left, right]:
                result = left * right
            case "stablehlo.negate", [operand]:
                result = -operand
            case "stablehlo.constant", []:
                result = op.signature.get("value")
            case "stablehlo.case", [index]:  # what is not 0 stands for the last branch
                (result,) = _run(op.regions[int(index % 2**32 != 0)], known)
            case _:
                raise NotImplementedError(op)
        known[op.results[0]] = int(result) % 2**32
    return [known[value] for value in block.terminator.operands]


def ill_placed(block: Block, known: frozenset[int] = frozenset()) -> Iterator[Op]:
    """The ops that read what does not come to be before them."""
    seen = {*known, *block.arguments}
    for op in block.ops:
        if not seen.issuperset(op.operands):
            yield op
        for region in op.regions:
            yield from ill_placed(region, frozenset(seen))
        seen.update(op.results)

"""Arithmetic with indices, against Python's integers."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from shardwright.errors import ShardingError
from tests.partition.processes.definitions import Held, devices
from tests.partition.processes.running import Run, assert_as_defined, lowered, make_run, run_all

SHAPE = (2, 2)
BITS = {"index": 64, "i64": 64, "i32": 32}
GRID = '"shard.grid"() {sym_name = "g", shape = array<i64: 2, 2>} : () -> ()'
LINEAR = '%p = "shard.process_linear_index"() {grid = @g} : () -> index'


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def positive(value: int, bits: int) -> int:
    return value % (1 << bits)


def quotient(left: int, right: int) -> int:
    """Rounded towards zero, as `arith` and StableHLO divide."""
    sign = 1 if (left < 0) == (right < 0) else -1
    return sign * (abs(left) // abs(right))


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda a, b, bits: a + b,
    "subi": lambda a, b, bits: a - b,
    "muli": lambda a, b, bits: a * b,
    "divsi": lambda a, b, bits: quotient(a, b),
    "remsi": lambda a, b, bits: a - b * quotient(a, b),
    "minsi": lambda a, b, bits: min(a, b),
    "maxsi": lambda a, b, bits: max(a, b),
    "divui": lambda a, b, bits: positive(a, bits) // positive(b, bits),
    "remui": lambda a, b, bits: positive(a, bits) % positive(b, bits),
    "minui": lambda a, b, bits: min(positive(a, bits), positive(b, bits)),
    "maxui": lambda a, b, bits: max(positive(a, bits), positive(b, bits)),
    "andi": lambda a, b, bits: a & b,
    "ori": lambda a, b, bits: a | b,
    "xori": lambda a, b, bits: a ^ b,
}
COMPARE: dict[str, Callable[[int, int, int], bool]] = {
    "eq": lambda a, b, bits: a == b,
    "ne": lambda a, b, bits: a != b,
    "slt": lambda a, b, bits: a < b,
    "sle": lambda a, b, bits: a <= b,
    "sgt": lambda a, b, bits: a > b,
    "sge": lambda a, b, bits: a >= b,
    "ult": lambda a, b, bits: positive(a, bits) < positive(b, bits),
    "ule": lambda a, b, bits: positive(a, bits) <= positive(b, bits),
    "ugt": lambda a, b, bits: positive(a, bits) > positive(b, bits),
    "uge": lambda a, b, bits: positive(a, bits) >= positive(b, bits),
}


def held(values: list[int], type: str) -> Held:
    dtype = np.int32 if type == "i32" else bool if type == "i1" else np.int64
    return {device: np.array(value, dtype) for device, value in enumerate(values)}


def arithmetic_run(rng: random.Random) -> Run:
    """Every op on random scalars, which differ from device to device."""
    arguments, lines, results, operands, expected = [], [LINEAR], [("%p", "index")], [], [held([0, 1, 2, 3], "index")]
    for number, name in enumerate([*BINARY, *COMPARE] * 3):
        type = rng.choice(list(BITS))
        bits, count = BITS[type], len(devices(SHAPE))
        left = [
            rng.choice([0, 1, -1, 7, -7, -(1 << bits - 1), (1 << bits - 1) - 1, rng.getrandbits(20)])
            for _ in range(count)
        ]
        right = [rng.choice([1, 2, -3, 5, 100, (1 << bits - 1) - 1]) for _ in range(count)]
        arguments += [f"%a{number}: {type}", f"%b{number}: {type}"]
        operands += [held(left, type), held(right, type)]
        pairs = list(zip(left, right, strict=True))
        if name in BINARY:
            lines.append(f"%r{number} = arith.{name} %a{number}, %b{number} : {type}")
            results.append((f"%r{number}", type))
            expected.append(held([wrapped(BINARY[name](a, b, bits), bits) for a, b in pairs], type))
            continue
        chosen = [COMPARE[name](a, b, bits) for a, b in pairs]
        lines.append(f"%c{number} = arith.cmpi {name}, %a{number}, %b{number} : {type}")
        lines.append(f"%r{number} = arith.select %c{number}, %a{number}, %b{number} : {type}")
        results += [(f"%c{number}", "i1"), (f"%r{number}", type)]
        expected.append(held([int(yes) for yes in chosen], "i1"))
        expected.append(held([a if yes else b for (a, b), yes in zip(pairs, chosen, strict=True)], type))
    return make_run(text(arguments, lines, results), SHAPE, operands, expected, [name for name, _ in results])


def text(arguments: list[str], lines: list[str], results: list[tuple[str, str]]) -> str:
    types = ", ".join(type for _, type in results)
    body = "\n    ".join(lines)
    returned = ", ".join(name for name, _ in results)
    return f"{GRID}\nfunc.func @main({', '.join(arguments)}) -> ({types}) {{\n    {body}\n    return {returned} : {types}\n}}"


def casting_run() -> Run:
    lines = [
        LINEAR,
        "%n = arith.constant -3 : i32",
        "%wide = arith.index_cast %n : i32 to index",
        "%unsigned = arith.index_castui %n : i32 to index",
        "%big = arith.constant 4294967298 : index",
        "%narrow = arith.index_cast %big : index to i32",
        "%t = tensor.from_elements %p, %wide, %big, %p, %p, %unsigned : tensor<2x3xindex>",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c2 = arith.constant 2 : index",
        "%e = tensor.extract %t[%c0, %c2] : tensor<2x3xindex>",
        f"%table = arith.constant dense<{[3 * i for i in range(100)]}> : tensor<100xindex>",
        "%f = tensor.extract %table[%p] : tensor<100xindex>",
        "%x = arith.constant 2.5 : f32",
        "%y = tensor.from_elements %x : tensor<1xf32>",
        "%same = arith.constant dense<7> : tensor<2xindex>",
    ]
    results = [("%wide", "index"), ("%unsigned", "index"), ("%narrow", "i32"), ("%t", "tensor<2x3xindex>")]
    results += [("%e", "index"), ("%f", "index"), ("%y", "tensor<1xf32>"), ("%same", "tensor<2xindex>")]
    expected: list[Held] = [
        held([-3] * 4, "index"),
        held([(1 << 32) - 3] * 4, "index"),
        held([2] * 4, "i32"),
        {d: np.array([[d, -3, (1 << 32) + 2], [d, d, (1 << 32) - 3]]) for d in range(4)},
        held([(1 << 32) + 2] * 4, "index"),
        held([0, 3, 6, 9], "index"),
        {d: np.array([2.5], np.float32) for d in range(4)},
        {d: np.array([7, 7]) for d in range(4)},
    ]
    return make_run(text([], lines, results), SHAPE, [], expected, [name for name, _ in results])


def test_arithmetic_is_that_of_arith() -> None:
    runs = [*(arithmetic_run(random.Random(seed)) for seed in range(3)), casting_run()]
    for run, outcome in zip(runs, run_all(runs), strict=True):
        assert assert_as_defined(run, outcome) >= 8


@pytest.mark.parametrize(
    "line",
    [
        "%r = arith.addi %t, %t : i1",
        "%r = arith.cmpi slt, %t, %t : i1",
        "%r = arith.cmpi ult, %t, %t : i1",
    ],
)
def test_bits_are_not_added_nor_ordered(line: str) -> None:
    with pytest.raises(ShardingError, match="not supported here") as raised:
        lowered(text([], [LINEAR, "%t = arith.constant true", line], [("%r", "i1")]))
    assert raised.value.diagnostic.location == "program.mlir:5"


def test_bits_are_combined_and_chosen_among() -> None:
    lines = [
        LINEAR,
        "%one = arith.constant 1 : index",
        "%first = arith.cmpi ule, %p, %one : index",
        "%odd = arith.andi %p, %one : index",
        "%is_odd = arith.cmpi eq, %odd, %one : index",
        "%both = arith.andi %first, %is_odd : i1",
        "%either = arith.xori %first, %is_odd : i1",
        "%r = arith.select %first, %either, %both : i1",
    ]
    expected = [[0, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0]]
    results = [("%both", "i1"), ("%either", "i1"), ("%r", "i1")]
    names = [name for name, _ in results]
    run = make_run(text([], lines, results), SHAPE, [], [held(row, "i1") for row in expected], names)
    assert assert_as_defined(run, run_all([run])[0]) == 3

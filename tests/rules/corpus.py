"""Random instances of ops, as MLIR text, for tests that compare rules with a peer or with numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod

__all__ = ["MAKERS", "Instance", "instances", "program", "tensor"]


@dataclass(frozen=True, slots=True)
class Instance:
    """One op: name, types of operands and results, attributes and regions as MLIR text."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: str = ""
    regions: str = ""

    def text(self, operands: Sequence[str], result: str) -> str:
        """The op in MLIR's generic form."""
        types = f"({', '.join(self.operands)}) -> ({', '.join(self.results)})"
        head = f'%{result}:{len(self.results)} = "{self.name}"({", ".join(operands)})'
        return f"{head} {self.regions} {{{self.attributes}}} : {types}"


def program(several: Sequence[Instance]) -> str:
    """A module whose `main` applies each of `several` to arguments of its own."""
    arguments: list[str] = []
    lines: list[str] = []
    for number, instance in enumerate(several):
        names = [f"%a{number}_{index}" for index in range(len(instance.operands))]
        arguments += [f"{name}: {type}" for name, type in zip(names, instance.operands, strict=True)]
        lines.append(instance.text(names, f"r{number}"))
    body = "\n  ".join(lines)
    return f"func.func @main({', '.join(arguments)}) {{\n  {body}\n  return\n}}"


def tensor(shape: Sequence[int], dtype: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


Maker = Callable[[random.Random], Instance]
MAKERS: dict[str, Maker] = {}


def _call(function: Callable[[random.Random, str], Instance], name: str, rng: random.Random) -> Instance:
    return function(rng, name)


def maker(*names: str) -> Callable[[Callable[[random.Random, str], Instance]], None]:
    def register(function: Callable[[random.Random, str], Instance]) -> None:
        for name in names:
            MAKERS[name] = partial(_call, function, name)

    return register


def instances(name: str, count: int, seed: int = 0) -> Iterator[Instance]:
    """`count` instances of the ops called `name` in `MAKERS`."""
    rng = random.Random(f"{name}/{seed}")
    for _ in range(count):
        yield MAKERS[name](rng)


# --------------------------------------------------------------------------------------------------------- helpers


def shape_of(rng: random.Random, least: int = 0, most: int = 3) -> list[int]:
    return [rng.choice((1, 2, 3, 4, 4, 6, 8)) for _ in range(rng.randint(least, most))]


def array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def matrix(rows: Sequence[Sequence[int]]) -> str:
    return f"dense<{[list(row) for row in rows]}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def binary_body(op: str, dtype: str = "f32", pairs: int = 1) -> str:
    """A region that combines each of `pairs` values with its partner by `op`."""
    scalar = f"tensor<{dtype}>"
    arguments = ", ".join(f"%x{index}: {scalar}" for index in range(2 * pairs))
    ops = " ".join(
        f'%y{index} = "stablehlo.{op}"(%x{index}, %x{pairs + index}) : ({scalar}, {scalar}) -> {scalar}'
        for index in range(pairs)
    )
    values = ", ".join(f"%y{index}" for index in range(pairs))
    types = ", ".join([scalar] * pairs)
    return f'({{^bb0({arguments}): {ops} "stablehlo.return"({values}) : ({types}) -> ()}})'


def comparison_body(direction: str, dtypes: Sequence[str]) -> str:
    arguments = ", ".join(
        f"%x{index}: tensor<{dtype}>" for index, dtype in enumerate(dtype for dtype in dtypes for _ in range(2))
    )
    scalar = f"tensor<{dtypes[0]}>"
    compare = (
        f'%y = "stablehlo.compare"(%x0, %x1) {{comparison_direction = #stablehlo<comparison_direction {direction}>}}'
    )
    return (
        f'^bb0({arguments}): {compare} : ({scalar}, {scalar}) -> tensor<i1> "stablehlo.return"(%y) : (tensor<i1>) -> ()'
    )


# ------------------------------------------------------------------------------------------------------- pointwise


def names(dialect: str, *lines: str) -> tuple[str, ...]:
    return tuple(f"{dialect}.{name}" for line in lines for name in line.split())


FLOAT_UNARY = names(
    "stablehlo",
    "cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic round_nearest_afz",
    "round_nearest_even rsqrt sine sqrt tan tanh abs negate sign",
)
FLOAT_BINARY = names("stablehlo", "add atan2 divide maximum minimum multiply power remainder subtract")
INT_BINARY = names("stablehlo", "and or xor shift_left shift_right_arithmetic shift_right_logical")
CHLO_UNARY = names(
    "chlo", "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma sinh square tan"
)


@maker(*FLOAT_UNARY, *CHLO_UNARY)
def _unary(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng))
    return Instance(name, (type,), (type,))


@maker(*FLOAT_BINARY, "chlo.next_after", "chlo.zeta", "chlo.polygamma")
def _binary(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng))
    return Instance(name, (type, type), (type,))


@maker(*INT_BINARY, "chlo.mulhi")
def _integers(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng), "i32")
    return Instance(name, (type, type), (type,))


@maker("stablehlo.not", "stablehlo.popcnt", "stablehlo.count_leading_zeros")
def _bits(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng), "i32")
    return Instance(name, (type,), (type,))


@maker("stablehlo.is_finite", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def _predicate(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    return Instance(name, (tensor(shape),), (tensor(shape, "i1"),))


@maker("stablehlo.real", "stablehlo.imag")
def _part(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    return Instance(name, (tensor(shape, "complex<f32>"),), (tensor(shape),))


@maker("stablehlo.complex")
def _complex(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    return Instance(name, (tensor(shape),) * 2, (tensor(shape, "complex<f32>"),))


@maker("stablehlo.convert")
def _convert(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    return Instance(name, (tensor(shape),), (tensor(shape, rng.choice(("i32", "f64", "bf16"))),))


@maker("stablehlo.reduce_precision")
def _reduce_precision(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng))
    return Instance(name, (type,), (type,), "exponent_bits = 5 : i32, mantissa_bits = 10 : i32")


@maker("stablehlo.compare")
def _compare(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    direction = "comparison_direction = #stablehlo<comparison_direction LT>"
    return Instance(name, (tensor(shape),) * 2, (tensor(shape, "i1"),), direction)


@maker("stablehlo.clamp")
def _clamp(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng))
    least, most = rng.choice((("tensor<f32>", "tensor<f32>"), (type, type)))
    return Instance(name, (least, type, most), (type,))


@maker("stablehlo.select")
def _select(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    type = tensor(shape)
    return Instance(name, (tensor(rng.choice(((), shape)), "i1"), type, type), (type,))


@maker("stablehlo.map")
def _map(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    type = tensor(shape)
    return Instance(name, (type, type), (type,), f"dimensions = {array(range(len(shape)))}", binary_body("add"))


# ----------------------------------------------------------------------------------------------- products, shapes


@maker("stablehlo.dot")
def _dot(rng: random.Random, name: str) -> Instance:
    (m, k, n), left, right = shape_of(rng, 3, 3), rng.random() < 0.7, rng.random() < 0.7
    lhs, rhs = [m, k] if left else [k], [k, n] if right else [k]
    return Instance(name, (tensor(lhs), tensor(rhs)), (tensor([m] * left + [n] * right),))


@maker("stablehlo.dot_general")
def _dot_general(rng: random.Random, name: str) -> Instance:
    batch, contracting = shape_of(rng, 0, 2), shape_of(rng, 0, 2)
    numbers: dict[str, list[str]] = {"batching": [], "contracting": []}
    sides, result = [], list(batch)
    for side in ("lhs", "rhs"):
        dims = [*batch, *contracting, *shape_of(rng, 0, 2)]
        order = rng.sample(range(len(dims)), len(dims))
        sides.append(tensor([dims[index] for index in order]))
        places = [order.index(index) for index in range(len(batch) + len(contracting))]
        numbers["batching"].append(f"{side}_batching_dimensions = {places[: len(batch)]}")
        numbers["contracting"].append(f"{side}_contracting_dimensions = {places[len(batch) :]}")
        result += [dims[index] for index in order if index >= len(places)]
    inner = ", ".join(numbers["batching"] + numbers["contracting"])
    attribute = f"dot_dimension_numbers = #stablehlo.dot<{inner}>"
    return Instance(name, tuple(sides), (tensor(result),), attribute)


@maker("stablehlo.transpose")
def _transpose(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    order = rng.sample(range(len(shape)), len(shape))
    result = tensor([shape[dim] for dim in order])
    return Instance(name, (tensor(shape),), (result,), f"permutation = {array(order)}")


@maker("stablehlo.broadcast_in_dim")
def _broadcast_in_dim(rng: random.Random, name: str) -> Instance:
    result = shape_of(rng, 0, 4)
    dims = rng.sample(range(len(result)), rng.randint(0, len(result)))
    source = [rng.choice((1, result[dim])) for dim in dims]
    return Instance(name, (tensor(source),), (tensor(result),), f"broadcast_dimensions = {array(dims)}")


@maker("stablehlo.broadcast")
def _broadcast(rng: random.Random, name: str) -> Instance:
    source, new = shape_of(rng), shape_of(rng)
    return Instance(name, (tensor(source),), (tensor([*new, *source]),), f"broadcast_sizes = {array(new)}")


@maker("stablehlo.bitcast_convert")
def _bitcast_convert(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    wide, narrow, same = tensor(shape, "i32"), tensor([*shape, 2], "i16"), tensor(shape, "f32")
    source, target = rng.choice(((wide, narrow), (narrow, wide), (wide, same)))
    return Instance(name, (source,), (target,))


@maker("stablehlo.reshape")
def _reshape(rng: random.Random, name: str) -> Instance:
    primes = [rng.choice((2, 2, 2, 3, 3, 5)) for _ in range(rng.randint(0, 6))]
    shapes = (_grouped(rng, primes), _grouped(rng, primes if rng.random() < 0.5 else rng.sample(primes, len(primes))))
    if rng.random() < 0.03:
        shapes = ([0, 2], [3, 0])
    return Instance(name, (tensor(shapes[0]),), (tensor(shapes[1]),))


def _grouped(rng: random.Random, primes: Sequence[int]) -> list[int]:
    """The primes multiplied together in random neighbouring groups, some of them empty."""
    cuts = sorted(rng.randint(0, len(primes)) for _ in range(rng.randint(0, 3)))
    bounds = [0, *cuts, len(primes)]
    groups = [prod(primes[a:b]) for a, b in pairwise(bounds)]
    return groups if primes or rng.random() < 0.5 else []


# -------------------------------------------------------------------------------------------------------- slicing


@maker("stablehlo.slice")
def _slice(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    strides = [rng.choice((1, 1, 1, 2)) for _ in shape]
    starts = [rng.choice((0, 0, rng.randrange(size))) for size in shape]
    limits = [rng.choice((size, rng.randint(start, size))) for start, size in zip(starts, shape, strict=True)]
    result = [-(-(limit - start) // stride) for start, limit, stride in zip(starts, limits, strides, strict=True)]
    attributes = f"start_indices = {array(starts)}, limit_indices = {array(limits)}, strides = {array(strides)}"
    return Instance(name, (tensor(shape),), (tensor(result),), attributes)


@maker("stablehlo.pad")
def _pad(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    low, high = ([rng.choice((0, 0, 1, 2, -1)) for _ in shape] for _ in range(2))
    inner = [rng.choice((0, 0, 1)) for _ in shape]
    result = [max(0, a + size + (size - 1) * i + b) for a, size, i, b in zip(low, shape, inner, high, strict=True)]
    low = [a if r else 0 for a, r in zip(low, result, strict=True)]
    result = [a + size + (size - 1) * i + b for a, size, i, b in zip(low, shape, inner, high, strict=True)]
    if any(size < 0 for size in result):
        return _pad_nothing(name, shape)
    attributes = (
        f"edge_padding_low = {array(low)}, edge_padding_high = {array(high)}, interior_padding = {array(inner)}"
    )
    return Instance(name, (tensor(shape), "tensor<f32>"), (tensor(result),), attributes)


def _pad_nothing(name: str, shape: list[int]) -> Instance:
    zeros = array([0] * len(shape))
    attributes = f"edge_padding_low = {zeros}, edge_padding_high = {zeros}, interior_padding = {zeros}"
    return Instance(name, (tensor(shape), "tensor<f32>"), (tensor(shape),), attributes)


@maker("stablehlo.reverse")
def _reverse(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng)
    dims = [dim for dim in range(len(shape)) if rng.random() < 0.4]
    return Instance(name, (tensor(shape),), (tensor(shape),), f"dimensions = {array(dims)}")


@maker("stablehlo.concatenate")
def _concatenate(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    dim = rng.randrange(len(shape))
    sizes = [rng.randint(0, 4) for _ in range(rng.randint(1, 3))]
    parts = [tensor([*shape[:dim], size, *shape[dim + 1 :]]) for size in (*sizes, sum(sizes))]
    return Instance(name, tuple(parts[:-1]), (parts[-1],), f"dimension = {dim} : i64")


@maker("stablehlo.dynamic_slice")
def _dynamic_slice(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    part = [rng.choice((size, rng.randint(1, size))) for size in shape]
    indices = ("tensor<i32>",) * len(shape)
    return Instance(name, (tensor(shape), *indices), (tensor(part),), f"slice_sizes = {array(part)}")


@maker("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    part = [rng.choice((size, rng.randint(1, size))) for size in shape]
    indices = ("tensor<i32>",) * len(shape)
    return Instance(name, (tensor(shape), tensor(part), *indices), (tensor(shape),))

"""Inputs to run a program on: random ones by argument, or given ones from a file.

An argument may say what its inputs look like: `{shardwright.input = "normal 0.02"}`. Known are `normal SCALE`,
`uniform LOW HIGH`, `integers LOW HIGH` (the high end excluded) and `constant VALUE`.

Where it says nothing, inputs are small normal numbers, not negative where the program takes roots of them, integers
from 0 to 7 or below the size that they index (see `runtime.domains`), and random booleans. Where the results are no
numbers all the same, other inputs are drawn: see `RUNGS`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.types import TensorType
from shardwright.runtime.arrays import Array, check_array, numpy_dtype
from shardwright.runtime.domains import Domain
from shardwright.runtime.limits import check_drawn

__all__ = ["INPUT_ATTRIBUTE", "RUNGS", "load_inputs", "make_inputs"]

INPUT_ATTRIBUTE = "shardwright.input"
"""The attribute of an argument that says what its inputs look like."""

RUNGS = ("as they come", "none of them negative, integers from 1 up", "all floating-point ones from 0.5 to 1")
"""How inputs are drawn, from what serves most programs to what makes few results undefined."""

_FORMS = {"normal": 1, "uniform": 2, "integers": 2, "constant": 1}
_SCALE, _HIGH = 0.1, 8


def make_inputs(
    types: Sequence[TensorType],
    names: Sequence[str],
    attributes: Sequence[Mapping[str, str]] = (),
    *,
    seed: int = 0,
    given: Mapping[str, Array] | None = None,
    domains: Sequence[Domain] = (),
    rung: int = 0,
) -> list[Array]:
    """One global array per argument.

    Arguments:
        types: Types of the arguments.
        names: Their names.
        attributes: Their attributes as MLIR text (`Function.argument_attributes`); only `shardwright.input` counts.
        seed: Seed of the random numbers; an argument's depend on the seed and on its number alone.
        given: Arrays by name or by number (`"0"`), taken instead.
        domains: What each argument can take, where its attributes say nothing.
        rung: How those of arguments that say nothing are drawn: a number of `RUNGS`.

    Raises:
        ShardingError: a description that is not understood, a given array that fits no argument, or more than this
            machine can hold.
    """
    given = dict(given or {})
    seed = _checked_seed(seed)
    made = (type for number, type in enumerate(types) if names[number] not in given and str(number) not in given)
    check_drawn(types, made)
    arrays = []
    for number, (type, name) in enumerate(zip(types, names, strict=True)):
        array = given.pop(name, None)
        if array is None:
            array = given.pop(str(number), None)
        if array is not None:
            arrays.append(check_array(np.asarray(array), type, name))
            continue
        text = attributes[number].get(INPUT_ATTRIBUTE) if number < len(attributes) else None
        domain = domains[number] if number < len(domains) else Domain()
        form, numbers = _default(type.dtype, domain, rung) if text is None else _parse(name, text)
        arrays.append(_random(type, name, form, numbers, np.random.default_rng([seed, number])))
    if given:
        raise ShardingError(
            f"inputs {', '.join(sorted(given))} belong to no argument",
            cause=f"the arguments are {', '.join(names)}",
            remedy="name them as the arguments, or by number from 0",
        )
    return arrays


def load_inputs(path: str | Path) -> dict[str, Array]:
    """Arrays of an `.npz` file by name; numpy's own `arr_0`, `arr_1`, … count as numbers.

    Raises:
        ShardingError: no such file, or not an `.npz` file of plain arrays.
    """
    try:
        with open(path, "rb") as stream:
            return _archive(stream)
    except Exception as error:  # of a broken file numpy and zipfile raise whatever they come upon
        reason = error.strerror if isinstance(error, OSError) else None
        raise ShardingError(
            f"inputs cannot be read from {path}",
            cause=reason or str(error) or type(error).__name__,
            remedy="write them with numpy.savez",
        ) from None


def _archive(stream: BinaryIO) -> dict[str, Array]:
    start = stream.read(6)
    stream.seek(0)
    if start == b"\x93NUMPY":
        raise ValueError("it holds a single array")
    if not start.startswith(b"PK"):
        raise ValueError("it is no .npz file" if start else "it is empty")
    with np.load(stream, allow_pickle=False) as file:
        return {name.removeprefix("arr_") if name[4:].isdigit() else name: file[name] for name in file.files}


def _checked_seed(seed: object) -> int:
    """A seed as numpy takes it: from 0, as large as you like.

    Raises:
        ShardingError: it is none.
    """
    try:
        number = operator.index(seed)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        number = -1
    if number < 0:
        raise ShardingError(f"not a seed: {seed!r}", remedy="give a whole number, 0 or greater")
    return number


def _random(type: TensorType, name: str, form: str, numbers: list[float], rng: np.random.Generator) -> Array:
    if not type.is_tensor:
        raise ShardingError(
            f"argument {name} has type {type}, which has no values to make up",
            op=f"argument {name}",
            cause="tokens order effects and hold nothing: no array can be given for one",
            remedy="make it inside the function, by stablehlo.create_token, and take it out of the arguments",
        )
    dtype = numpy_dtype(type.dtype)
    shape = type.dims
    if form == "constant":
        return np.full(shape, numbers[0]).astype(dtype)
    if form == "integers":
        low, high = (int(number) for number in numbers)
        if low >= high:
            raise ShardingError(f"argument {name}: no integers from {low} to below {high}")
        return rng.integers(low, high, shape).astype(dtype)
    if form == "bools":
        return rng.integers(0, 2, shape).astype(dtype)
    if form == "uniform":
        return np.asarray(rng.uniform(numbers[0], numbers[1], shape)).astype(dtype)
    drawn: Any = rng.standard_normal(shape)
    if dtype.kind == "c":
        drawn = drawn + 1j * rng.standard_normal(shape)
    if form == "positive":
        drawn = np.abs(drawn)
    return np.asarray(drawn * numbers[0]).astype(dtype)


def _default(dtype: str, domain: Domain, rung: int) -> tuple[str, list[float]]:
    """The form for an argument that says nothing, and its numbers."""
    if dtype == "i1":
        return "bools", []
    if dtype.startswith(("i", "ui")):
        narrow = numpy_dtype(dtype).name in ("int2", "uint2")
        high = min(domain.below or _HIGH, 2 if narrow else 1 << 7 if dtype in ("i8", "ui8") else 1 << 15)
        return "integers", [1 if rung and high > 1 else 0, high]
    if rung == 2 and not dtype.startswith("complex"):
        return "uniform", [0.5, 1.0]
    return "positive" if domain.nonnegative or rung else "normal", [_SCALE]


def _parse(name: str, text: str) -> tuple[str, list[float]]:
    words = str(decode(text)).split()
    form = words[0] if words else ""
    try:
        numbers = [float(word) for word in words[1:]]
    except ValueError:
        numbers = []
    if form not in _FORMS or len(numbers) != _FORMS[form]:
        raise ShardingError(
            f"argument {name}: {INPUT_ATTRIBUTE} = {text} is not understood",
            remedy='write "normal SCALE", "uniform LOW HIGH", "integers LOW HIGH" or "constant VALUE"',
        )
    return form, numbers

"""A process that measures the devices at hand: `python -P -m shardwright.runtime.measure SECONDS`.

It prints JSON: what products, changes of memory and collectives of some sizes took, each on all devices at once, the
least of several times. `SECONDS` is what one measurement takes about; sizes grow until it does. What can be done in a
row is told by the difference of many and one, so that what it takes to start a program is not counted with it.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["main"]

_REPETITIONS = 5
_LEAST_REPETITIONS = 2
_IN_A_ROW = 16
_PRODUCTS = {
    "compute": (jnp.bfloat16, "default"),
    "f32": (jnp.float32, "highest"),
    "tf32": (jnp.float32, "default"),
    "f64": (jnp.float64, "highest"),
    "i8": (jnp.int8, "default"),
}
"""By figure of a data sheet: the type of elements, and the precision that is asked for."""
_FIRST_SIDE, _LAST_SIDE = 1 << 8, 1 << 14
_FASTEST = 4
"""The power of two by which a side grows at most."""
_PARTS = 8
"""Into how many parts a product is cut: as many as there are devices in most rings."""
_COPIED = tuple(1 << power for power in range(20, 31, 2))
_SENT = tuple(1 << power for power in range(8, 27, 3))
"""Bytes of a device's part of what is copied, and of what collectives take."""


def main(arguments: list[str]) -> int:
    """Measure all, and print it."""
    patience = float(arguments[0])
    with jax.enable_x64(True):
        devices = jax.devices()
        mesh = Mesh(devices, ("all",))
        products = {name: found for name in _PRODUCTS if (found := _product(mesh, name, patience))}
        report = {
            "jax": jax.__version__,
            "device": devices[0].device_kind,
            "platform": devices[0].platform,
            "devices": len(devices),
            "memory": (devices[0].memory_stats() or {}).get("bytes_limit"),
            "products": products,
            "parts": _in_parts(mesh, int(products["compute"]["side"]), patience) if "compute" in products else None,
            "copy": _copy(mesh, patience),
            "collectives": list(_collectives(mesh, patience)) if len(devices) > 1 else [],
        }
    print(json.dumps(report))
    return 0


def _product(mesh: Mesh, name: str, patience: float) -> dict[str, float] | None:
    """The operations of a product of square matrices on each device, and what it took; nothing where there is none."""
    dtype, precision = _PRODUCTS[name]
    result = jnp.int32 if dtype == jnp.int8 else dtype

    def multiply(x: Any) -> Any:
        return jnp.einsum("bij,bjk->bik", x, x, precision=precision, preferred_element_type=result)

    measured, side = None, _FIRST_SIDE
    while side <= _LAST_SIDE:
        try:
            seconds = _least(jax.jit(multiply), patience, _drawn(mesh, side, dtype))
        except Exception:  # XLA's own, of several classes: the devices have no such products, or no room for them
            return measured
        measured = {"side": side, "operations": 2.0 * side**3, "seconds": seconds}
        if 2 * seconds > patience:  # the next size takes eight times as long
            break
        side = max(2 * side, min(side * _grown(patience / seconds), _LAST_SIDE))
    return measured


def _in_parts(mesh: Mesh, side: int, patience: float) -> dict[str, float]:
    """What a product of square matrices takes on each device, whole and part by part."""

    def multiply(operands: tuple[list[Any], Any]) -> list[Any]:
        (first, *others), x = operands
        made = [jnp.einsum("bij,bjk->bik", first, x)]
        for rows in others:
            part, _ = jax.lax.optimization_barrier((rows, made[-1]))  # or XLA may put products of one operand together
            made.append(jnp.einsum("bij,bjk->bik", part, x))
        return made

    x = _drawn(mesh, side, jnp.bfloat16)
    run = jax.jit(multiply)
    whole, parts = (_least(run, patience, (jnp.split(x, count, axis=1), x)) for count in (1, _PARTS))
    return {"side": side, "parts": _PARTS, "whole": whole, "seconds": parts}


def _grown(times: float) -> int:
    """By what a side may grow for a product to take so many times as long, and not much more: a power of two.

    Each size is compiled, which takes longer than all that is measured of it.

    >>> [_grown(times) for times in (1, 9, 100, 1e6)]
    [2, 2, 4, 16]
    """
    return 1 << max(1, min(_FASTEST, int(math.log2(times) / 3)))


def _copy(mesh: Mesh, patience: float) -> dict[str, float]:
    """The bytes that each device reads and writes to change a big tensor in place, and what it took."""
    measured = {}
    for size in _COPIED:
        seconds = _each(lambda x: x + 1, lambda run: run, _ones(mesh, (size // 4,), jnp.float32), patience)
        measured = {"bytes": 2.0 * size, "seconds": seconds}
        if seconds * _IN_A_ROW > patience:
            break
    return measured


def _collectives(mesh: Mesh, patience: float) -> Iterator[dict[str, Any]]:
    """Collectives of each kind among all devices: bytes of operand and result on a device, and what one took."""
    count = len(mesh.devices)
    for kind, once in _KINDS.items():
        for size in _SENT:
            x = _ones(mesh, (count, size // 4 // count or 1), jnp.float32)
            took = _each(partial(once, count), partial(_on_each, mesh), x, patience)
            operand = x.nbytes // count
            result = operand * count if kind == "all_gather" else operand
            yield {"kind": kind, "operand": operand, "result": result, "devices": count, "seconds": took}
            if took * _IN_A_ROW > patience:
                break


def _on_each(mesh: Mesh, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What each device does with its part."""
    spec = PartitionSpec("all")
    return jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


def _each(
    once: Callable[[Any], Any], mapped: Callable[[Callable[[Any], Any]], Callable[[Any], Any]], x: Any, patience: float
) -> float:
    """The seconds of one of many in a row, of which each takes what the one before it gives.

    How many is compiled in: a GPU that is told when it runs asks in every turn whether to go on.
    """

    def in_a_row(times: int) -> Callable[[Any], Any]:
        return mapped(lambda x: jax.lax.fori_loop(0, times, lambda _, y: once(y), x))

    many, one = (_least(jax.jit(in_a_row(times)), patience, x) for times in (_IN_A_ROW + 1, 1))
    return max(0.0, many - one) / _IN_A_ROW


def _reduced(count: int, x: Any) -> Any:
    return jax.lax.psum(x, "all") / count


def _gathered(count: int, x: Any) -> Any:
    return jax.lax.all_gather(x, "all", axis=0, tiled=True)[: x.shape[0]]


def _exchanged(count: int, x: Any) -> Any:
    return jax.lax.all_to_all(x, "all", split_axis=1, concat_axis=1, tiled=True)


def _handed_on(count: int, x: Any) -> Any:
    return jax.lax.ppermute(x, "all", [(at, (at + 1) % count) for at in range(count)])


_KINDS = {
    "all_reduce": _reduced,
    "all_gather": _gathered,
    "all_to_all": _exchanged,
    "collective_permute": _handed_on,
}


def _drawn(mesh: Mesh, side: int, dtype: Any) -> Any:
    """A matrix for each device, of random numbers: what multiplies equal ones draws less power, and is faster.

    They are drawn once and repeated: what draws is compiled for longer than what multiplies.
    """
    sharding = NamedSharding(mesh, PartitionSpec("all"))
    drawn = np.random.default_rng(0).standard_normal((_FIRST_SIDE, _FIRST_SIDE))
    tile = (drawn * 32 if dtype == jnp.int8 else drawn).clip(-127, 127).astype(dtype)
    times = side // _FIRST_SIDE

    def repeated(tile: Any) -> Any:
        return jnp.broadcast_to(jnp.tile(tile, (times, times)), (len(mesh.devices), side, side))

    return jax.jit(repeated, out_shardings=sharding)(tile)


def _ones(mesh: Mesh, shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor of which each device has a part of this shape."""
    sharding = NamedSharding(mesh, PartitionSpec("all"))
    count = len(mesh.devices)
    return jax.jit(lambda: jnp.ones((count, *shape), dtype), out_shardings=sharding)()


def _least(compiled: Callable[..., Any], patience: float, *arguments: Any) -> float:
    """The least seconds of several runs of a compiled function; of fewer where each takes long."""
    jax.block_until_ready(compiled(*arguments))
    times: list[float] = []
    while len(times) < _REPETITIONS and (len(times) < _LEAST_REPETITIONS or sum(times) < _REPETITIONS * patience):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

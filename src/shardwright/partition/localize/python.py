"""Calls of Python with effects: the first device makes them, on whole values, and all get what comes of them.

    io_callback(f, …) on 8 devices: if (partition_id == 0) { call } else { zeros }, and a sum over all devices

A program of one device calls its function once, and so does the program of all. Tokens, which put calls in an order,
pass by on devices that do not call. In a manual computation over all axes each device calls, with its shards: that is
what JAX means there.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import Axes, axes_size
from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.checks import require_whole
from shardwright.partition.localize.collectives import local_all_reduce
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, local_form, local_signature, localizer
from shardwright.rules.custom_call import is_python_with_effects

__all__: list[str] = []


@local_form("stablehlo.custom_call")
def _custom_call(signature: Signature, source: Shardings, target: Shardings) -> Signature | None:
    """The same call on shards, unless one device alone is to make it."""
    return None if is_python_with_effects(signature) else local_signature(signature, source, target)


@localizer("stablehlo.custom_call")
def _called_once(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """The call on the first device, and its results there on all of them."""
    for what, shardings in (("an operand", source), ("a result", target)):
        for sharding in shardings:
            require_whole(f"{what} of a call of Python", range(sharding.rank), sharding)
    axes = tuple(ctx.mesh.axis(name) for name, _ in ctx.mesh.axes)
    if axes_size(axes) == 1:
        return ctx.append(signature, operands)
    branches = _branch(ctx, signature, operands), _otherwise(ctx, signature, operands)
    first = ctx.is_first(axes)
    conditional = Signature("stablehlo.if", (), (ctx.type(first),), signature.results)
    made = ctx.append(conditional, [first], (), branches)
    return tuple(_everywhere(ctx, value, axes) if ctx.type(value).is_tensor else value for value in made)


def _everywhere(ctx: Local, value: int, axes: Axes) -> int:
    """What the first device has, where the others have zeros: floats by their bits, since -0.0 + 0.0 is 0.0."""
    type = ctx.type(value)
    if type.dtype.startswith("complex"):
        part = TensorType(type.dims, f"f{bit_width(type.dtype) // 2}")
        parts = [_everywhere(ctx, ctx.emit(name, (value,), part), axes) for name in ("real", "imag")]
        return ctx.emit("complex", parts, type)
    if not type.dtype.startswith(("f", "bf")):
        return local_all_reduce(ctx, value, axes)
    bits = ctx.emit("bitcast_convert", (value,), TensorType(type.dims, f"ui{bit_width(type.dtype)}"))
    return ctx.emit("bitcast_convert", (local_all_reduce(ctx, bits, axes),), type)


def _branch(ctx: Local, signature: Signature, operands: Sequence[int]) -> Block:
    """The call."""
    ops: list[Op] = []
    inner = ctx.inner(ops)
    _return(inner, inner.append(signature, operands))
    return Block((), ops)


def _otherwise(ctx: Local, signature: Signature, operands: Sequence[int]) -> Block:
    """Zeros for each result, for a token the one that the call was to wait for."""
    ops: list[Op] = []
    inner = ctx.inner(ops)
    waited = next((value for value in operands if not ctx.type(value).is_tensor), None)
    results = []
    for type in signature.results:
        if type.is_tensor:
            results.append(inner.constant(0, type))
        else:
            results.append(inner.emit("after_all", (), type) if waited is None else waited)
    _return(inner, results)
    return Block((), ops)


def _return(inner: Local, values: Sequence[int]) -> None:
    inner.append(Signature("stablehlo.return", (), tuple(map(inner.type, values)), ()), values)

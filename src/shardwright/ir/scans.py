"""Scans of one tensor as windows: `chlo.scan`, which JAX writes for GPUs since 0.11, is a `reduce_window` here.

    %1:2 = chlo.scan(%x) inits (%i) dimension=1 {            %1 = reduce_window(%x, %0), window 1x6, 5 in front {
      ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):       →      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = add %a, %c                                          %s = add %a, %b
        return %s, %s                                            return %s

So JAX wrote `cumsum`, `cumprod` and `cummax` for GPUs before, and writes them for all else: rules, XLA for CPUs and the
interpreter know it. XLA's `scan` has no form in StableHLO, and XLA for CPUs ends the process at it.

Source: `chlo.scan` of the StableHLO repository; jax 0.11, `_cumred_chlo_lowering`.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir, is_registered, load_module, module_text
from shardwright.ir.walk import every_op

__all__ = ["with_windows"]

_SCAN = "chlo.scan"
_COMBINING = frozenset(f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor"))


def with_windows(text: str, name: str = "-") -> str:
    """The text of a module without scans that are windows; others stay. Diagnostics call it `name`."""
    if _SCAN not in text or not is_registered(_SCAN):
        return text
    module = load_module(text, name)
    with context():
        done = [_as_window(op) for op in every_op(module.operation) if op.name == _SCAN]
    return module_text(module, locations=True) if any(done) else text


def _as_window(scan: ir.Operation) -> bool:
    """Put a window in place of a scan that is one; whether it is."""
    combining, start = _combining(scan), _start(scan)
    if combining is None or start is None:
        return False
    tensor, (result, carry) = scan.operands[0], scan.results
    type, dim = ir.RankedTensorType(tensor.type), ir.IntegerAttr(scan.attributes["dimension"]).value
    scalar = ir.RankedTensorType.get([], type.element_type, loc=scan.location)
    with ir.InsertionPoint(scan), scan.location:
        attributes = _window(type.shape, dim, _is_reverse(scan))
        made = ir.Operation.create("stablehlo.reduce_window", [type], [tensor, start], attributes, regions=1)
        body = made.regions[0].blocks.append(scalar, scalar)
        result.replace_all_uses_with(made.results[0])
        if any(True for _ in carry.uses):
            carry.replace_all_uses_with(_at_the_end(made.results[0], dim, _is_reverse(scan), carry.type))
    with ir.InsertionPoint(body), scan.location:
        combined = ir.Operation.create(combining, [scalar], list(body.arguments))
        ir.Operation.create("stablehlo.return", [], [combined.results[0]])
    scan.erase()
    return True


def _combining(scan: ir.Operation) -> str | None:
    """The op that combines an element with what was carried, where it is one that may begin anywhere."""
    if len(scan.operands) != 2 or len(scan.results) != 2:
        return None
    (body,) = scan.regions[0].blocks
    ops = [view.operation for view in body.operations]
    if len(ops) != 2 or ops[0].name not in _COMBINING:
        return None
    taken, returned = list(ops[0].operands), list(ops[1].operands)
    is_of_both = set(taken) == set(body.arguments) and len(taken) == 2
    return ops[0].name if is_of_both and returned == [ops[0].results[0]] * 2 else None


def _start(scan: ir.Operation) -> Any:
    """The number that a scan begins with, as a tensor without dimensions; `None` where it is not one number."""
    start = scan.operands[1]
    if not ir.RankedTensorType(start.type).rank:
        return start
    if isinstance(start.owner, ir.Block) or start.owner.name != "stablehlo.broadcast_in_dim":
        return None
    number = start.owner.operands[0]
    return None if ir.RankedTensorType(number.type).rank else number


def _is_reverse(scan: ir.Operation) -> bool:
    return "is_reverse" in scan.attributes and ir.BoolAttr(scan.attributes["is_reverse"]).value


def _window(shape: list[int], dim: int, is_reverse: bool) -> dict[str, ir.Attribute]:
    """Windows that begin before the first element of a dimension, or end behind the last one."""
    ones = ir.DenseI64ArrayAttr.get([1] * len(shape))
    lengths = [size if place == dim else 1 for place, size in enumerate(shape)]
    outside = [[0, 0] if length == 1 else [0, length - 1] if is_reverse else [length - 1, 0] for length in lengths]
    padding = f"dense<{outside}> : tensor<{len(shape)}x2xi64>"
    return {
        "window_dimensions": ir.DenseI64ArrayAttr.get(lengths),
        **dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), ones),
        "padding": ir.Attribute.parse(padding),
    }


def _at_the_end(result: Any, dim: int, is_reverse: bool, type: ir.Type) -> Any:
    """What a scan carries at its end, of its result."""
    shape = list(ir.RankedTensorType(result.type).shape)
    at = 0 if is_reverse else shape[dim] - 1
    starts, limits = [0] * len(shape), list(shape)
    starts[dim], limits[dim] = at, at + 1
    names = ("start_indices", "limit_indices", "strides")
    bounds = zip(names, (starts, limits, [1] * len(shape)), strict=True)
    attributes: dict[str, ir.Attribute] = {name: ir.DenseI64ArrayAttr.get(row) for name, row in bounds}
    cut = ir.RankedTensorType.get([1 if place == dim else n for place, n in enumerate(shape)], result.type.element_type)
    last = ir.Operation.create("stablehlo.slice", [cut], [result], attributes)
    return ir.Operation.create("stablehlo.reshape", [type], [last.results[0]]).results[0]

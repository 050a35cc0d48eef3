"""What one device is said to compute is computed by all: every device runs the whole program of its shard.

The value is the same, and everybody has it. An op that does something besides would do it on every device, so it is
refused.

Source: the pass of this name of OpenXLA's Shardy, which lets the one device compute and sends the value to the others.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.module_ops import error_at, functions, operations, static_shape
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding, replicated


@register(
    "sdy-resolve-single-device-sharding",
    "Lets every device compute what one device is said to.",
    on="func.func",
)
def resolve_single_device_sharding(module: ir.Module, options: Options) -> None:
    """Take the shardings on meshes of one device away from ops.

    Raises:
        ShardingError: an op on one device that has effects.
    """
    shardings = Shardings(module)
    for function in functions(module):
        for op in operations(function):
            if SHARDING not in op.attributes:
                continue
            of_results = shardings.read(op.attributes[SHARDING])
            if any(sharding.mesh.is_maximal for sharding in of_results):
                _resolve(op, of_results)


def _resolve(op: Any, of_results: tuple[TensorSharding, ...]) -> None:
    if not op.results or ("has_side_effect" in op.attributes and ir.BoolAttr(op.attributes["has_side_effect"]).value):
        (device,) = next(sharding.mesh for sharding in of_results if sharding.mesh.is_maximal).device_ids or (0,)
        raise error_at(
            op,
            f"{op.name} is to run on device {device} alone, and has effects",
            cause="every device runs every op of its program",
            remedy="take its sharding away if all devices may run it, or leave the module to XLA's partitioner",
        )
    mesh = next((sharding.mesh for sharding in of_results if not sharding.mesh.is_maximal), None)
    if mesh is None:
        del op.attributes[SHARDING]
        return
    whole = [replicated(mesh, len(static_shape(value.type) or ())) for value in op.results]
    pairs = zip(of_results, whole, strict=True)
    op.attributes[SHARDING] = per_value([other if one.mesh.is_maximal else one for one, other in pairs])

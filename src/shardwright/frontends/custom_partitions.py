"""Functions with `jax.experimental.custom_partitioning`: in a program for several devices JAX has calls of them.

    %0 = stablehlo.custom_call @CustomSPMDPartitioning(%a, %b) {backend_config = "140…", …} : (…) -> …

When XLA partitions, it asks the function's own `partition` for the program of a device. Here `partition` is asked for
arrays that are whole on every device: what it gives then is the function, whose ops are split as all others are. A
program for one device has these ops to begin with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from shardwright.errors import ShardingError
from shardwright.runtime.arrays import numpy_dtype

__all__ = ["with_functions"]

_CALL = re.compile(
    r'stablehlo\.custom_call @CustomSPMDPartitioning\(([^)\n]*)\) \{[^\n]*?backend_config = "(\d+)"[^\n]*\} : '
    r"\(([^\n]*)\) -> ([^\n]*?)(?= loc\(|$)",
    re.MULTILINE,
)
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(complex<\w+>|\w+)>")
_DEFINED = re.compile(r"func\.func (?:public |private )?@(\w+)\(")


def with_functions(text: str, told: Mapping[str, Any]) -> str:
    """The module with functions in place of such calls.

    Arguments:
        text: A module as JAX prints it.
        told: What JAX gives its compiler beside the module.

    Raises:
        ShardingError: a function that has no program for whole arrays alone.
    """
    known = {str(id(one)): one for one in told.get("keepalive") or () if hasattr(one, "partition")}
    functions: list[str] = []

    def called(match: re.Match[str]) -> str:
        operands, key, ins, outs = match.groups()
        if key not in known:
            return match[0]
        name = f"custom_partitioning_{len(functions)}"
        functions.append(_function(name, known[key], ins, outs))
        return f"func.call @{name}({operands}) : ({ins}) -> {outs}"

    changed = _CALL.sub(called, text)
    if not functions:
        return text
    end = changed.rindex("\n}")
    return "\n".join([changed[:end], *functions, changed[end + 1 :]])


def _function(name: str, info: Any, ins: str, outs: str) -> str:
    """What `partition` gives for whole arrays, as a function of MLIR and what that calls."""
    whole = jax.sharding.NamedSharding(info.mesh, jax.sharding.PartitionSpec())
    operands, results = _structs(ins, whole), _structs(outs, whole)
    try:
        of_device = info.partition(
            *info.static_args, info.mesh, info.in_tree.unflatten(operands), info.out_tree.unflatten(results)
        )
        with jax.enable_x64(any(one.dtype.itemsize == 8 for one in (*operands, *results))):
            plain = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in operands]
            lowered = jax.jit(of_device[1], keep_unused=True).lower(*info.in_tree.unflatten(plain))
    except NameError as error:  # JAX's error of an axis that is none of a map's
        raise _refused(f"it communicates where arrays are whole: {error}".split("\n", 1)[0]) from None
    text = lowered.as_text()
    if "_callback(" in text:
        raise _refused("it calls Python")
    names = {own: name if own == "main" else f"{name}_{own}" for own in _DEFINED.findall(text)}
    text = re.sub(r"@(\w+)", lambda match: f"@{names.get(match[1], match[1])}", text)
    first, last = text.index("\n", text.index("module ")) + 1, text.rindex("\n}")
    return text[first:last].replace("func.func public", "func.func private")


def _structs(types: str, sharding: Any) -> list[jax.ShapeDtypeStruct]:
    """The structs of tensors."""
    made = []
    for sizes, dtype in _TENSOR.findall(types):
        dims = tuple(map(int, sizes.split("x")[:-1]))
        made.append(jax.ShapeDtypeStruct(dims, np.dtype(numpy_dtype(dtype)), sharding=sharding))
    return made


def _refused(why: str) -> ShardingError:
    return ShardingError(
        "a function with custom_partitioning cannot be taken from a program for several devices",
        op="stablehlo.custom_call @CustomSPMDPartitioning",
        cause=why,
        remedy="give the function without the shardings of jax.jit, and say them to shard(mesh, …)",
    )

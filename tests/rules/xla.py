"""Single ops computed by XLA on one CPU device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxlib import _jax
from jaxlib.xla_client import CompileOptions

from shardwright.ir.context import context, ir, load_module, passmanager
from tests.rules.corpus import Instance

__all__ = ["run_ops"]

Tensor = np.ndarray[Any, Any]


def run_ops(jobs: Sequence[tuple[Instance, Sequence[Tensor]]]) -> list[list[Tensor]]:
    """The results of each op on its inputs, all of them compiled as one program."""
    module = load_module(_program([instance for instance, _ in jobs]))
    _legalize(module)
    device = jax.devices("cpu")[0]
    text = str(module).encode()
    program = device.client.compile_and_load(text, _jax.DeviceList((device,)), CompileOptions())
    with jax.enable_x64(True):
        arguments = [jax.device_put(tensor, device) for _, inputs in jobs for tensor in inputs]
    outputs = iter(program.execute_sharded(arguments).disassemble_into_single_device_arrays())
    return [[_plain(next(outputs)[0]) for _ in instance.results] for instance, _ in jobs]


def _plain(array: Any) -> Tensor:
    tensor = np.asarray(array)
    return tensor if tensor.dtype.kind in "bc" else tensor.astype(np.float64)


def _legalize(module: ir.Module) -> None:
    pipeline = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
    passmanager.PassManager.parse(pipeline, context=context()).run(module.operation)


def _program(several: Sequence[Instance]) -> str:
    arguments: list[str] = []
    lines: list[str] = []
    values: list[str] = []
    types: list[str] = []
    for number, instance in enumerate(several):
        names = [f"%a{number}_{index}" for index in range(len(instance.operands))]
        arguments += [f"{name}: {type}" for name, type in zip(names, instance.operands, strict=True)]
        lines.append(instance.text(names, f"r{number}"))
        values += [f"%r{number}#{index}" for index in range(len(instance.results))]
        types += instance.results
    body = "\n  ".join(lines)
    head = f"func.func @main({', '.join(arguments)}) -> ({', '.join(types)})"
    return f"{head} {{\n  {body}\n  return {', '.join(values)} : {', '.join(types)}\n}}"

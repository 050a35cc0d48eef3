"""What each device holds once XLA's partitioner has cut a tensor, uneven ones too. JSON in, JSON out.

A question is `[mhlo.sharding, shape, local shape]`, for `DEVICES` devices. The tensor of 1, 2, 3, … is cut by it, and
taken from the full to the local shape as a manual computation takes it: the answer lists the buffer of each device,
zeros where it is padding.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

DEVICES = 8
_TOGETHER = 50
"""Questions that are compiled as one program."""

Question = tuple[str, tuple[int, ...], tuple[int, ...]]


def ask(questions: Sequence[Question]) -> list[list[Any]]:
    """The buffers of all devices, for each question: in a process of its own, with virtual devices."""
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answers, list)
    return answers


def module(questions: Sequence[Question]) -> str:
    """A program without arguments that returns, for each question, the buffers of all devices on top of one another."""
    lines, results = [], []
    for n, (text, shape, local) in enumerate(questions):
        size = math.prod(shape)
        flat, full, piece = (f"tensor<{'x'.join(map(str, dims))}xi32>" for dims in ((size,), shape, local))
        row, rows = (f"tensor<{'x'.join(map(str, (count, *local)))}xi32>" for count in (1, DEVICES))
        stacked = f'mhlo.sharding = "{{devices=[{DEVICES}{",1" * len(local)}]<=[{DEVICES}]}}"'
        manual, whole = 'mhlo.sharding = "{manual}"', '{mhlo.sharding = "{replicated}"}'
        lines += [
            f"%i{n} = stablehlo.iota dim = 0 {whole} : {flat}",
            f"%one{n} = stablehlo.constant {whole} dense<1> : {flat}",
            f"%n{n} = stablehlo.add %i{n}, %one{n} {whole} : {flat}",
            f"%x{n} = stablehlo.reshape %n{n} {whole} : ({flat}) -> {full}",
            f'%cut{n} = stablehlo.custom_call @Sharding(%x{n}) {{mhlo.sharding = "{text}"}} : ({full}) -> {full}',
            f"%own{n} = stablehlo.custom_call @SPMDFullToShardShape(%cut{n}) {{{manual}}} : ({full}) -> {piece}",
            f"%row{n} = stablehlo.reshape %own{n} {{{manual}}} : ({piece}) -> {row}",
            f"%all{n} = stablehlo.custom_call @SPMDShardToFullShape(%row{n}) {{{stacked}}} : ({row}) -> {rows}",
        ]
        results.append((f"%all{n}", rows, stacked))
    names, types = ", ".join(name for name, _, _ in results), ", ".join(type_ for _, type_, _ in results)
    typed = ", ".join(f"{type_} {{{sharding}}}" for _, type_, sharding in results)
    body = "\n".join(lines)
    head = f"module attributes {{mhlo.num_partitions = {DEVICES} : i32, mhlo.num_replicas = 1 : i32}}"
    return f"{head} {{\nfunc.func public @main() -> ({typed}) {{\n{body}\nreturn {names} : {types}\n}}\n}}"


def run(questions: Sequence[Question]) -> list[list[Any]]:
    """In the child: compile with XLA's own partitioner and read every buffer."""
    import jax
    import numpy as np
    from jax._src.lib import _jax  # type: ignore[attr-defined]
    from jax._src.lib import xla_client as xc  # type: ignore[attr-defined]

    options = xc.CompileOptions()
    build = options.executable_build_options
    for target in (options, build):
        target.num_replicas, target.num_partitions = 1, DEVICES
    build.use_spmd_partitioning, build.use_shardy_partitioner = True, False
    options.device_assignment = xc.DeviceAssignment.create(np.arange(DEVICES, dtype=np.int32)[None])
    devices = tuple(jax.devices())
    program = devices[0].client.compile_and_load(module(questions), _jax.DeviceList(devices), options)
    arrays = program.execute_sharded([]).disassemble_into_single_device_arrays()
    return [
        [
            np.asarray(piece)[0].tolist()
            for piece in sorted(pieces, key=lambda piece: min(d.id for d in piece.devices()))
        ]
        for pieces in arrays
    ]


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    print(json.dumps([held for at in range(0, len(asked), _TOGETHER) for held in run(asked[at : at + _TOGETHER])]))

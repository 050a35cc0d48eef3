"""What JAX's own compilation makes of programs: the shardings that XLA chooses, and what it propagates.

The file is also the program that runs in the subprocess, with eight virtual devices: names of programs in, a line of
JSON out for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Compiled", "compiled"]

_ROOT = Path(__file__).resolve().parents[2]
_DEVICES = "--xla_force_host_platform_device_count=8"
_OPTIONS: dict[str, str | bool] = {"xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": "shardy-xla"}

_Axes = Sequence[Sequence[str]]
"""The axes of each dimension of a value, major first."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program that JAX compiled.

    Attributes:
        name: What it is called.
        lowered: The module that JAX hands to XLA.
        before: What XLA propagates: the module after the passes that come first, as `sdy` again.
        after: The same after propagation.
        arguments: How each argument of the executable lies.
        results: How each of its results lies.
    """

    name: str
    lowered: str
    before: str
    after: str
    arguments: Sequence[_Axes]
    results: Sequence[_Axes]


def compiled(names: Sequence[str], timeout: float = 300.0) -> list[Compiled]:
    """Programs of `jax_programs` by name, and random ones by seed ("7", or a loop: "loop 7"), compiled by JAX in a
    process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.propagation.jax_compiled"],
        input=json.dumps(names),
        cwd=_ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": _DEVICES},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [Compiled(**json.loads(line)) for line in done.stdout.splitlines()]


def _compile(name: str) -> Compiled:
    """In the child: one program lowered and compiled, with what XLA dumps of its propagation."""
    import jax

    from tests.propagation.jax_programs import PROGRAMS, sharding
    from tests.propagation.jax_random import random_jax_program, random_loop

    kind, _, seed = name.rpartition(" ")
    random_program = random_loop if kind == "loop" else random_jax_program
    program = random_program(int(seed)) if seed.isdigit() else PROGRAMS[name]
    specs = [argument.spec for argument in program.arguments]
    *given, out = (None if spec is None else sharding(*spec) for spec in (*specs, program.out_spec))
    jitted = jax.jit(program.function, keep_unused=True, in_shardings=tuple(given), out_shardings=out)
    lowered = jitted.lower(*(argument.value for argument in program.arguments))
    with tempfile.TemporaryDirectory() as folder:
        executable = lowered.compile({"xla_dump_to": folder, **_OPTIONS})
        (before,) = Path(folder).glob("shardy/*/01.before_propagation.mlir")
        (after,) = Path(folder).glob("shardy/*/02.after_propagation.mlir")
        modules = lowered.as_text(), before.read_text(), after.read_text()
    arguments = _axes(executable.input_shardings[0], lowered.args_info)
    return Compiled(name, *modules, arguments, _axes(executable.output_shardings, lowered.out_info))


def _axes(shardings: Any, values: Any) -> list[_Axes]:
    """How leaves of one structure lie that have shapes in the other."""
    import jax

    leaves = zip(jax.tree.leaves(shardings), jax.tree.leaves(values), strict=True)
    specs = ([*sharding.spec, *[None] * (len(value.shape) - len(sharding.spec))] for sharding, value in leaves)
    return [[[entry] if isinstance(entry, str) else [*(entry or ())] for entry in spec] for spec in specs]


if __name__ == "__main__":
    for asked in json.load(sys.stdin):
        print(json.dumps(asdict(_compile(asked))), flush=True)

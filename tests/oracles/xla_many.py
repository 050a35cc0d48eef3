"""Many small modules through XLA in one subprocess: what it makes of them, and what each device sends and computes.

A module that ends the process takes the others along, so the rest goes on in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.flags import flags_for
from tests.oracles.hlo import collectives
from tests.oracles.xla import AFTER, ROOT, compiled, compiling
from tests.oracles.xla_work import miscounted

__all__ = ["Compiled", "Costs", "compiled_of", "costs_of"]

SECONDS = 120.0
"""How long one module may take."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What XLA makes of a module.

    Attributes:
        entered: The per-device module that it begins with, in HLO: what its partitioner makes, if it is not one already.
        final: What it makes of that.
        work: As of `Costs`.
        temporary: Bytes of the buffers on each device that are neither arguments nor results.
    """

    entered: str
    final: str
    work: float
    temporary: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What a module costs each device.

    Attributes:
        sent: Bytes that it sends, rings taken for granted.
        work: Floating-point operations, transcendental ones included, as XLA counts them in what it made of the module.
    """

    sent: float
    work: float


def costs_of(texts: Sequence[str], devices: int, *, local: bool) -> list[Costs | str]:
    """What each module costs; or, in words, how XLA refused it.

    Arguments:
        texts: Modules with sdy shardings, or `mhlo.sharding` that XLA's partitioner shall follow without Shardy; with
            `local`, per-device ones.
        devices: How many virtual CPU devices they are for.
        local: Whether they are per-device already.
    """
    every = compiled_of(texts, devices, local=local)
    return [one if isinstance(one, str) else _costs(one, devices) for one in every]


def _costs(compiled: Compiled, devices: int) -> Costs:
    return Costs(sum(use.total for use in collectives(compiled.entered, devices)), compiled.work)


def compiled_of(texts: Sequence[str], devices: int, *, local: bool) -> list[Compiled | str]:
    """What XLA makes of each module; or, in words, how it refused it. Arguments as of `costs_of`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, text in enumerate(texts):
            (folder / f"{number}.mlir").write_text(text)
        _run_all(folder, len(texts), devices, local)
        return [_compiled(folder, number, local) for number in range(len(texts))]


def _run_all(folder: Path, count: int, devices: int, local: bool) -> None:
    """Start children until each module was tried; one that has ended a child is passed over by the next."""
    forced = flags_for(devices)
    begin = 0
    while begin < count:
        command = [sys.executable, "-m", "tests.oracles.xla_many", str(folder), str(begin), str(count), str(devices)]
        with (folder / "errors").open("w") as errors:
            subprocess.run(
                command + ["--local"] * local,
                cwd=ROOT,
                env={**os.environ, "XLA_FLAGS": forced, "JAX_PLATFORMS": "cpu"},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=SECONDS * (count - begin),
                check=False,
            )
        done = begin
        while (folder / f"{done}.json").exists():
            done += 1
        if done < count:
            (folder / f"{done}.json").write_text(json.dumps({"error": (folder / "errors").read_text()[-400:]}))
        begin = done + 1


def _compiled(folder: Path, number: int, local: bool) -> Compiled | str:
    report = json.loads((folder / f"{number}.json").read_text())
    if "error" in report:
        return str(report["error"])
    return Compiled(_entered(folder / str(number), local), report["final"], report["work"], report["temporary"])


def _entered(dump: Path, local: bool) -> str:
    """A module that is per-device as XLA begins with it, of what it has dumped."""
    glob = "*.before_optimizations.txt" if local else AFTER
    return sorted(dump.glob(glob))[-1].read_text()


def _measure(folder: Path, number: int, devices: int, local: bool) -> None:
    """In the child: compile one module, and leave its report when all else is there."""
    dump, text = folder / str(number), (folder / f"{number}.mlir").read_text()
    client, options = compiling(devices, dump, local=local, shardy="mhlo.sharding" not in text)
    try:
        program = compiled(text, client, options)
        costs = program.cost_analysis()
        counted = costs.get("flops", 0.0) + costs.get("transcendentals", 0.0)
        hlo = "\n".join(one.to_string() for one in program.hlo_modules())
        temporary = program.get_compiled_memory_stats().temp_size_in_bytes
        report = {"work": counted - miscounted(hlo, _entered(dump, local)), "final": hlo, "temporary": temporary}
    except Exception as error:  # XLA's own, of several classes; it is told to whoever asked
        report = {"error": str(error)[:400]}
    (folder / f"{number}.json").write_text(json.dumps(report))


def main() -> None:
    """In the child: the modules of a folder from one number to another."""
    folder, begin, end, devices = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    for number in range(begin, end):
        _measure(folder, number, devices, "--local" in sys.argv)


if __name__ == "__main__":
    main()

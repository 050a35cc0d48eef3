"""XLA's SPMD partitioner, in a subprocess: what it communicates and how long it takes.

`partition(text, devices)` compiles a module with sdy shardings for virtual CPU devices and reads the HLO that XLA dumps
after its `spmd-partitioning` pass. From a shell: `python -m tests.oracles.xla FILE.mlir [--devices N]` prints JSON.
`compile_local(text, devices)` says what XLA makes of a module that is per-device already.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.oracles.flags import flags_for
from tests.oracles.hlo import HloCollective, collectives

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "*before_spmd-partitioning*.txt"
AFTER = "*after_spmd-partitioning*.txt"
SHARDY = "*before_shardy-xla*.txt"


class XlaError(Exception):
    """XLA refused the module, died of it, or took too long."""


@dataclass(frozen=True)
class XlaPartition:
    """What XLA made of a module.

    Attributes:
        hlo: The partitioned module, as HLO text.
        uses: Its collectives, with bytes and executed counts.
        partition_seconds: Time of the `spmd-partitioning` pass, writing its dump included.
        shardy_seconds: Time of the `shardy-xla` pass (propagation and export), writing its dump included.
        compile_seconds: Time of the whole compilation; `None` where it was stopped after partitioning.
        peak_bytes: Growth of the process's peak resident memory until partitioning was done: parsing, propagation
            and the dumps are in it.
    """

    hlo: str
    uses: tuple[HloCollective, ...]
    partition_seconds: float
    shardy_seconds: float
    compile_seconds: float | None
    peak_bytes: int

    @property
    def sent(self) -> float:
        """Bytes that each device sends in one run."""
        return sum(use.total for use in self.uses)

    def summary(self) -> dict[str, dict[str, float]]:
        """Per kind: static and executed count, bytes sent per device."""
        kinds: dict[str, dict[str, float]] = defaultdict(lambda: {"static": 0, "executed": 0, "sent": 0.0})
        for use in self.uses:
            row = kinds[use.kind]
            row["static"] += 1
            row["executed"] += use.executed
            row["sent"] += use.total
        return dict(kinds)


@dataclass(frozen=True)
class XlaLocal:
    """What XLA makes of a per-device module.

    Attributes:
        uses: The collectives of the module as it entered XLA.
        memory_bytes: Arguments, results that share no buffer with them, and temporaries, on each device.
    """

    uses: tuple[HloCollective, ...]
    memory_bytes: int


def device_count(text: str) -> int:
    """The `mhlo.num_partitions` that a module says of itself, or the size of its first mesh."""
    if match := re.search(r"mhlo\.num_partitions = (\d+)", text):
        return int(match.group(1))
    total = 1
    mesh = re.search(r"sdy\.mesh @\S+ = <\[([^\]]*)\]", text)
    for size in re.findall(r"=(\d+)", mesh.group(1) if mesh else ""):
        total *= int(size)
    return total


def partition(text: str, devices: int | None = None, *, finish: bool = False, timeout: float = 300.0) -> XlaPartition:
    """XLA's partitioning of a module.

    Arguments:
        text: The module, with sdy shardings.
        devices: How many; what the module says by default.
        finish: Whether to wait for the whole compilation, which for 32 unrolled layers takes over a minute.
        timeout: Seconds to wait.

    Raises:
        XlaError: XLA refused the module, died of it, or took too long.
    """
    count = devices or device_count(text)
    with _compiling(text, count, finish, timeout) as (dump, answer):
        return _read(dump, count, answer)


def compile_local(text: str, devices: int | None = None, *, timeout: float = 300.0) -> XlaLocal:
    """XLA's compilation of a module that is per-device already.

    Raises:
        XlaError: XLA refused the module, died of it, or took too long.
    """
    count = devices or device_count(text)
    with _compiling(text, count, True, timeout, "--local") as (dump, answer):
        (hlo,) = dump.glob("*.before_optimizations.txt")
        return XlaLocal(tuple(collectives(hlo.read_text(), count)), int(answer["memory"]))


@contextmanager
def _compiling(
    text: str, devices: int, finish: bool, timeout: float, *flags: str
) -> Iterator[tuple[Path, dict[str, float]]]:
    """Compile in a child; the folder of its dumps, and its report."""
    with tempfile.TemporaryDirectory() as folder:
        source, dump, errors = Path(folder) / "module.mlir", Path(folder) / "dump", Path(folder) / "errors"
        source.write_text(text)
        with errors.open("w") as stream:
            child = _start(source, dump, devices, stream, *flags)
            try:
                answer = _wait(child, dump, finish, time.monotonic() + timeout)
            finally:
                child.kill()
                child.wait()
        if not answer or not any(dump.glob(AFTER if "--local" not in flags else "*.before_optimizations.txt")):
            raise XlaError(errors.read_text()[-2000:] or "XLA wrote no module")
        yield dump, answer


def _start(source: Path, dump: Path, devices: int, errors: Any, *flags: str) -> subprocess.Popen[bytes]:
    forced = flags_for(devices)
    arguments = [str(source), "--devices", str(devices), "--dump", str(dump), *flags]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.oracles.xla", *arguments],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": forced, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )


def _wait(child: subprocess.Popen[bytes], dump: Path, finish: bool, deadline: float) -> dict[str, float]:
    """The child's own report; where it is not to finish, a report of what could be seen from outside."""
    peak = 0
    while child.poll() is None:
        if time.monotonic() > deadline:
            raise XlaError("XLA took too long")
        peak = _peak_bytes(child.pid) or peak
        if not finish and _is_complete(dump):
            return {"peak": peak}
        time.sleep(0.01)
    report = dump / "report"
    return dict(json.loads(report.read_text())) if report.exists() else {}


def _is_complete(dump: Path) -> bool:
    """Whether the partitioned module is there, down to the brace that closes its entry."""
    return any(_tail(file) == b"\n}\n\n" for file in dump.glob(AFTER))


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4))
        return stream.read()


def _peak_bytes(process: int) -> int:
    """Peak resident bytes of a process; 0 where the system does not say."""
    try:
        match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(match.group(1)) * 1024 if match else 0


def _read(dump: Path, devices: int, answer: dict[str, float]) -> XlaPartition:
    hlo = sorted(dump.glob(AFTER))[-1].read_text()
    shardy, before, end = (sorted(dump.glob(glob))[-1].stat().st_mtime for glob in (SHARDY, BEFORE, AFTER))
    start = float((dump / "baseline").read_text())
    return XlaPartition(
        hlo,
        tuple(collectives(hlo, devices)),
        end - before,
        before - shardy,
        answer.get("seconds"),
        int(answer.get("peak", start) - start),
    )


def compiling(devices: int, dump: Path | None, *, local: bool, shardy: bool = True) -> tuple[Any, Any]:
    """The client of so many virtual CPU devices and how it compiles for them, dumping what `_read` reads, or nothing.

    With `local` the module is per-device already; else Shardy and XLA's partitioner make it so, or without `shardy` that
    partitioner alone, of a module whose shardings are `mhlo.sharding`.
    """
    import jax
    import numpy as np
    from jax._src.lib import xla_client as xc  # type: ignore[attr-defined]

    options = xc.CompileOptions()
    build = options.executable_build_options
    for target in (options, build):
        target.num_replicas, target.num_partitions = 1, devices
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = shardy and not local
    debug = build.debug_options
    if local:
        debug.xla_disable_hlo_passes = "spmd-partitioning"
    if dump is not None:
        debug.xla_dump_to = str(dump)
        debug.xla_dump_hlo_as_text = True
        debug.xla_dump_hlo_pass_re = "" if local else "spmd-partitioning|shardy-xla"
    options.device_assignment = xc.DeviceAssignment.create(np.arange(devices, dtype=np.int32)[None])
    return jax.devices()[0].client, options


def compiled(text: str, client: Any, options: Any) -> Any:
    """The executable of a module on all of a client's devices."""
    from jax._src.lib import _jax  # type: ignore[attr-defined]

    return client.compile_and_load(text, _jax.DeviceList(tuple(client.devices())), options)


def _compile(source: Path, devices: int, dump: Path, local: bool) -> None:
    """In the child: compile, dumping around the partitioner, and leave a report beside the dumps."""
    client, options = compiling(devices, dump, local=local)
    dump.mkdir()
    (dump / "baseline").write_text(str(_peak_bytes(os.getpid())))
    start = time.perf_counter()
    program = compiled(source.read_text(), client, options)
    seconds = time.perf_counter() - start
    report = {"seconds": seconds, "peak": _peak_bytes(os.getpid()), "memory": _buffers(program)}
    (dump / "report").write_text(json.dumps(report))


def _buffers(program: Any) -> int:
    """Bytes of the buffers that XLA assigned on one device."""
    stats = program.get_compiled_memory_stats()
    own = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    return int(own - stats.alias_size_in_bytes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what XLA makes of a module, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--devices", type=int)
    parser.add_argument("--finish", action="store_true", help="compile to the end, and say how long it took")
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--local", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.dump is not None:
        _compile(chosen.file, chosen.devices, chosen.dump, chosen.local)
        return
    partitioned = partition(chosen.file.read_text(), chosen.devices, finish=chosen.finish)
    report = {
        "sent_bytes_per_device": partitioned.sent,
        "kinds": partitioned.summary(),
        "partition_seconds": partitioned.partition_seconds,
        "shardy_seconds": partitioned.shardy_seconds,
        "compile_seconds": partitioned.compile_seconds,
        "peak_bytes": partitioned.peak_bytes,
        "collectives": [{**asdict(use), "total": use.total} for use in partitioned.uses],
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()

"""What the machine cannot hold is refused before anything is drawn or written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.runtime import limits
from shardwright.runtime.inputs import make_inputs

PROGRAM = """
sdy.mesh @mesh = <["x"=8]>
func.func @main(%arg0: tensor<SIZExf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<SIZExf32> {
  %0 = stablehlo.negate %arg0 : tensor<SIZExf32>
  return %0 : tensor<SIZExf32>
}
"""

LIMITED = f'ulimit -m {2 << 20}; exec "$0" "$@"'
"""Runs a command with 2 GiB of memory, in which it is refused on any machine."""


def test_the_limit_is_the_least_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_machine", lambda: [5 << 30])
    monkeypatch.setattr(limits, "_process", list)
    monkeypatch.setattr(limits, "_container", list)
    assert limits.memory_limit() == 5 << 30
    monkeypatch.setattr(limits, "_container", lambda: [3 << 30])
    assert limits.memory_limit() == 3 << 30
    monkeypatch.setattr(limits, "_process", lambda: [1 << 30, 4 << 30])
    assert limits.memory_limit() == 1 << 30


def test_a_container_says_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    newer, older = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    monkeypatch.setattr(limits, "_GROUPS", (str(newer), str(older)))
    assert limits._container() == []
    newer.write_text("max\n")
    older.write_text("123456\n")
    assert limits._container() == [123456]


def test_what_cannot_be_drawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: 1 << 20)
    small, large = TensorType((64, 1024), "f32"), TensorType((128, 1024), "f32")
    make_inputs([small], ["a"])  # 256 KiB, and 512 while it is drawn
    with pytest.raises(ShardingError, match=r"inputs would take 1.5 MiB of memory, of which there are 1.0 MiB here"):
        make_inputs([large], ["a"])


@pytest.mark.parametrize("command", ["run", "verify"])
def test_commands_refuse_what_the_machine_cannot_hold(command: str, tmp_path: Path) -> None:
    file = tmp_path / "large.mlir"
    file.write_text(PROGRAM.replace("SIZE", str(1 << 31)))

    done = subprocess.run(
        ["bash", "-c", LIMITED, sys.executable, "-m", "shardwright", command, str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "a run on 8 virtual devices would take 32.0 GiB of memory, of which there are 2.0 GiB here" in done.stderr
    assert "largest is tensor<2147483648xf32>, 8.0 GiB" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["large.mlir"]

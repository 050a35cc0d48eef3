"""What runs, and for how long, shows on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

PROGRAM = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def test_stages_and_elapsed_time_show_on_a_terminal_only(tmp_path: Path) -> None:
    file = tmp_path / "p.mlir"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "shardwright", "verify", str(file), "--mesh", "a=2", "--arg", "x=a"]
    own, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(own, 4096):
            shown += more
    except OSError:
        pass  # the end of a terminal
    printed, _ = worker.communicate(timeout=300)
    os.close(own)
    assert worker.returncode == 0
    assert b"running on virtual devices" in shown
    assert b"0:00:0" in shown
    assert b"equal to the unsharded program" in printed
    quiet = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert quiet.stderr == b""

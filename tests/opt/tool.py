"""The command `shardwright-opt` in this process, and programs to give it."""

import io
import sys
from pathlib import Path

import pytest

from shardwright.opt.command import run

PROGRAM = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  %1 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""

AFTER_CSE = """module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
"""

SHARD = """module {
  shard.grid @g(shape = 2x4)
  func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding
    %1 = shard.shard %arg0 to %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
"""

BROKEN = PROGRAM.replace("return %2", "return %3")


class Tool:
    """Runs the command in this process, in a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.capture = capture
        self.patch = patch
        self.status = 0
        self.raw = b""

    def file(self, name: str, text: str | bytes) -> str:
        (self.folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return name

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> tuple[str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.status = run(arguments)
        self.raw, err = self.capture.readouterr()
        return self.raw.decode(errors="replace"), err.decode()

    def good(self, *arguments: str, stdin: str | bytes = "") -> str:
        out, err = self(*arguments, stdin=stdin)
        assert (self.status, err) == (0, "")
        return out

    def bad(self, *arguments: str, stdin: str | bytes = "") -> str:
        out, err = self(*arguments, stdin=stdin)
        assert (self.status, out) == (1, "")
        return err

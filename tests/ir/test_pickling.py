"""What a graph holds of MLIR's own is pickled as what it says, not as the handles and numbers of one process."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation import modules

SRC = Path(sw.__file__).parent.parent
WHOLE = ", ".join(str(number) for number in range(100))
FLOATS = ", ".join(f"{number}.0" for number in range(100))
LARGE = f"""
func.func @main() -> (tensor<100xf32>, tensor<100xi32>, tensor<4xf32>) {{
  %0 = stablehlo.constant dense<[{FLOATS}]> : tensor<100xf32> loc("a.py":1:2)
  %1 = stablehlo.constant dense<[{WHOLE}]> : tensor<100xi32> loc(callsite("f"("b.py":3:4) at "c.py":5:6))
  %2 = stablehlo.constant dense_resource<blob> : tensor<4xf32>
  return %0, %1, %2 : tensor<100xf32>, tensor<100xi32>, tensor<4xf32>
}}
{{-# dialect_resources: {{builtin: {{blob: "0x040000000000803F000000400000404000008040"}}}} #-}}
"""
AGAIN = """
import pickle, sys
from shardwright.ir.context import load_module
from shardwright.notation import modules
others = ", ".join(f"{number}.0" for number in range(1, 101))
modules.read(load_module(f"func.func @main() {{ %0 = stablehlo.constant dense<[{others}]> : tensor<100xf32> return }}"))
sys.stdout.write(modules.text_of(pickle.loads(sys.stdin.buffer.read()), locations=True))
"""


def graph() -> Graph:
    return modules.read(load_module(LARGE, "p.mlir"), "p.mlir")


def test_a_graph_is_written_as_before() -> None:
    before = graph()
    after = pickle.loads(pickle.dumps(before))
    again = re.sub(r"blob_\d+", "blob", modules.located_text(after))  # MLIR names a blob anew where the name is taken
    assert again == re.sub(r"blob_\d+", "blob", modules.located_text(before))
    assert [op.signature for op in after.walk()][:2] == [op.signature for op in before.walk()][:2]
    assert [str(after.locations[op.location]) for op in after.walk()] == ["a.py:1", "b.py:3", "p.mlir:5", "p.mlir:6"]


def test_large_constants_are_the_same_in_a_process_that_has_others() -> None:
    before = graph()
    command = [sys.executable, "-c", AGAIN]
    done = subprocess.run(
        command, input=pickle.dumps(before), env={"PYTHONPATH": str(SRC)}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == modules.text_of(before, locations=True)


def test_a_graph_is_pickled_as_deep_as_it_may_be() -> None:
    body, taken = "", "%x"
    for _ in range(60):
        region = f"{{\n{body}stablehlo.return {taken} : tensor<4xf32>\n}}"
        body, taken = f'%w = "stablehlo.case"(%i) ({region}) : (tensor<i32>) -> tensor<4xf32>\n', "%w"
    before = modules.read(
        load_module(
            f"func.func @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {{\n{body}return %w : tensor<4xf32>\n}}"
        )
    )
    assert modules.text_of(pickle.loads(pickle.dumps(before))) == modules.text_of(before)

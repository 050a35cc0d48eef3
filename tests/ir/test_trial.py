"""What ends a process is noticed in a copy of it."""

from __future__ import annotations

import os
import re
import time

import pytest

from shardwright.errors import ShardingError
from shardwright.ir import trial
from shardwright.ir.context import load_module
from shardwright.ir.trial import ended_by
from shardwright.opt.printing import bytecode
from shardwright.passes.upstream import run_native

TEXT = 'func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n} loc("f.py":1:2)\n'
OUTLIVED = """\
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c:2 = call @f(%a, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %c#0 : tensor<8x8xf32>
}
func.func private @f(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
}
"""


def test_an_action_is_tried_without_effect() -> None:
    seen: list[int] = []
    assert ended_by(lambda: seen.append(1)) == ""
    assert ended_by(lambda: int("x")) == ""  # an exception ends nothing
    assert seen == []


def test_what_ends_the_copy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    copies, fork = list[int](), os.fork

    def noted() -> int:
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", noted)
    assert ended_by(os.abort) == "it ends the process: SIGABRT"
    assert ended_by(lambda: os._exit(3)) == "it ends the process: status 3"
    assert ended_by(lambda: bytearray(1 << 44)).startswith("it takes more than")
    monkeypatch.setattr(trial, "_SECONDS", 0.05)
    assert ended_by(lambda: time.sleep(60)) == "it takes more than 0.05 seconds"
    assert len(copies) == 4
    for copy in copies:
        with pytest.raises(ChildProcessError):
            os.waitpid(copy, os.WNOHANG)


def test_a_pass_that_does_not_survive_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_module(OUTLIVED)
    run_native(module, "builtin.module(cse)")
    monkeypatch.setattr("shardwright.passes.upstream.ended_by", lambda _: "it ends the process: SIGSEGV")
    with pytest.raises(ShardingError, match="cannot be run on this module") as refused:
        run_native(module, "builtin.module(cse)")
    assert refused.value.diagnostic.cause == (
        "MLIR does not survive the pass, or verifying what comes out of it: it ends the process: SIGSEGV"
    )
    assert module.operation.verify()


def test_several_functions_are_read_and_worked_on_after_others_were() -> None:
    text = "".join(
        f"func.func @f{n}(%a: tensor<8xf32>) -> tensor<8xf32> {{ return %a : tensor<8xf32> }}\n" for n in range(9)
    )
    for _ in range(2):
        module = load_module(bytecode(load_module(text).operation))
        run_native(module, "builtin.module(func.func(canonicalize,cse))")
        assert module.operation.verify()


TRANSPOSED = """\
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.transpose %a, dims = [] : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"""


def test_what_cannot_be_verified_afterwards_is_noticed_too() -> None:
    """The verifier of `linalg.transpose` reads beyond a scalar's dimensions: what it meets there decides how it ends."""
    with pytest.raises(ShardingError, match="cannot be run on this module") as refused:
        run_native(load_module(TRANSPOSED), "builtin.module(stablehlo-legalize-to-linalg{enable-primitive-ops=true})")
    survives, _, ending = refused.value.diagnostic.cause.partition(": ")
    assert survives == "MLIR does not survive the pass, or verifying what comes out of it"
    limits = r"it takes more than ([\d.]+ GiB of memory|\d+ seconds)"
    assert re.fullmatch(rf"{limits}|it ends the process: SIG(SEGV|ABRT)", ending), ending

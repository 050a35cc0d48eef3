"""The command in a folder of its own, with two passes that only tests have."""

from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir
from shardwright.passes import registry
from shardwright.passes.registry import Option, Options, Pass
from tests.opt.tool import Tool


def ops(module: ir.Module, name: str) -> list[ir.Operation]:
    walked: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            walked.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return walked


def _complain(module: ir.Module, options: Options) -> None:
    for op in ops(module, "stablehlo.multiply"):
        where = str(op.location).removeprefix("loc(").removesuffix(")").replace('"', "")
        raise ShardingError("no multiplication", op=op.name, location=where, cause="slow", remedy=options["remedy"])


def _break(module: ir.Module, options: Options) -> None:
    (function,) = ops(module, "func.func")
    function.attributes["function_type"] = ir.TypeAttr.parse("() -> ()", context=context())


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = [
        Pass("sdy-toy-complain", "Refuses multiplications.", _complain, (Option("remedy", "add", "what to say"),)),
        Pass("sdy-toy-break", "Leaves an invalid module.", _break),
    ]
    monkeypatch.setattr(registry, "_passes", registry._passes | {toy.name: toy for toy in toys})


@pytest.fixture
def tool(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.chdir(tmp_path)
    return Tool(tmp_path, capfdbinary, monkeypatch)

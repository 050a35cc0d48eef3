"""Upstream's `sharding-propagation`, as torch-mlir ships it. Runs in the environment of `peers`: JSON in, JSON out.

A question is `[text, traversal]`; its answer is the module in generic form before and after, as MLIR prints both, with
custom syntax last; `[]` where MLIR refuses it. With the traversal empty nothing is run.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def answer(text: str, traversal: str, ir: Any, manager: Any) -> list[str]:
    """The module before, and after the pass."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
            before = module.operation.get_asm(print_generic_op_form=True)
            if traversal:
                pipeline = f"builtin.module(func.func(sharding-propagation{{traversal={traversal}}}))"
                manager.parse(pipeline).run(module.operation)
        except ir.MLIRError:
            return []
        return [before, str(module)]


def main() -> None:
    """Answers all questions of the standard input."""
    sys.path.pop(0)  # this folder
    ir = importlib.import_module("torch_mlir.ir")
    manager = importlib.import_module("torch_mlir.passmanager").PassManager
    print(json.dumps([answer(text, traversal, ir, manager) for text, traversal in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()

"""Upstream's `shard` dialect, as torch-mlir ships it. Runs in the environment of `peers`: JSON in, JSON out.

A question is the text of a module; its answer is `["ok", text]` with the module as MLIR prints it after its verifier
has passed it, or `["refused", message]`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def answer(text: str, ir: Any) -> tuple[str, str]:
    """The module parsed and verified."""
    with ir.Context():
        try:
            module = ir.Module.parse(text)
            module.operation.verify()
        except ir.MLIRError as error:
            return "refused", str(error)
        return "ok", str(module)


def main() -> None:
    """Answers all questions of the standard input."""
    sys.path.pop(0)  # this folder, in which torch_mlir would be this file
    ir = importlib.import_module("torch_mlir.ir")
    print(json.dumps([answer(text, ir) for text in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()

"""MLIR text → the same with all ops in generic form, by torch-mlir. A program of its own: standard input to output.

It runs in the Python that has torch-mlir, apart from the process that has jaxlib: two copies of MLIR's bindings in one
process end it. So it imports nothing of this package. `stablehlo` it knows; what it does not know it keeps as it is.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress


def main() -> int:
    """Read a module, write it; 1 with the parser's message on the standard error where that refuses it."""
    ir = importlib.import_module("torch_mlir.ir")
    text = sys.stdin.buffer.read().decode()
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        with suppress(ImportError, AttributeError):  # a build without it: StableHLO has to be generic then
            importlib.import_module("torch_mlir._mlir_libs._stablehlo").register_dialect(context)
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            sys.stderr.write(str(error))
            return 1
        printed = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        sys.stdout.buffer.write(printed.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())

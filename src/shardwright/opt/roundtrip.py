"""Whether a module, printed or written as bytecode and read again, is the same: `-verify-roundtrip`.

Source: MLIR's `mlir-opt`, which checks it before the passes run.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.opt.flags import Settings
from shardwright.opt.printing import bytecode, text_of
from shardwright.opt.reading import Generic, read_module

__all__ = ["verify_roundtrip"]

_WHOLE = Settings(mlir_print_op_generic=True, mlir_print_debuginfo=True)
"""What nothing is lost by."""


def verify_roundtrip(module: ir.Module, generic: Generic, settings: Settings) -> None:
    """Print a module and write it as bytecode, read both again, and compare.

    Raises:
        ShardingError: what does not parse again, or becomes another module.
    """
    name = generic.text.name
    printed = replace(_WHOLE, mlir_print_op_generic=settings.mlir_print_op_generic)
    before = text_of(module.operation, _WHOLE, generic.spelling, name)
    forms: dict[str, str | bytes] = {
        "text": text_of(module.operation, printed, generic.spelling, name),
        "bytecode": bytecode(module.operation),
    }
    for form, content in forms.items():
        again = read_module(Generic(content, name), allow_unregistered=True)
        if text_of(again.operation, _WHOLE, generic.spelling, name) != before:
            raise ShardingError(
                "roundTrip testing roundtripped module differs from reference",
                location=name,
                cause=f"what is read from its {form} is another module",
                remedy="compare with what -mlir-print-op-generic prints",
            )

"""An op as text: in MLIR's generic form, which jaxlib parses without knowing the dialect, and in custom syntax."""

from __future__ import annotations

from shardwright.notation.forms.assembly import Printing, assembly
from shardwright.notation.forms.dictionary import entries_text
from shardwright.notation.forms.form import OpText

__all__ = ["custom", "generic"]


def generic(op: OpText) -> str:
    """`"shard.all_gather"(%0) {gather_axis = 0 : index, grid = @g} : (tensor<2xf32>) -> tensor<4xf32>`, no results."""
    form = op.form
    entries = dict(op.extra)
    for attribute in form.attributes:
        value = op.attributes[attribute.name]
        if value is not None and value != attribute.default:
            entries[attribute.key] = attribute.kind.generic(value) or None
    if sum(operand.count != "one" for operand in form.operands) > 1:
        sizes = ", ".join(str(len(op.operands[operand.name])) for operand in form.operands)
        entries["operandSegmentSizes"] = f"array<i32: {sizes}>"
    names = ", ".join(name for operand in form.operands for name in op.operands[operand.name])
    dictionary = entries_text(entries)
    results = op.result_types[0] if len(op.result_types) == 1 else f"({', '.join(op.result_types)})"
    return f'"{form.name}"({names}){dictionary and " "}{dictionary} : ({", ".join(op.operand_types)}) -> {results}'


def custom(op: OpText) -> str:
    """`shard.all_gather %0 on @g gather_axis = 0 : tensor<2xf32> -> tensor<4xf32>`, no results."""
    out = Printing(op)
    for step in assembly(op.form):
        step.print(out)
    return op.form.name + "".join(out.parts)

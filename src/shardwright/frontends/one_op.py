"""A single op as MLIR text, whose operands nothing defines: they are the arguments of a function around it.

%0 = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0]
    : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.ir.signature import Signature

__all__ = ["signature_of"]

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"^\s*%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=\s*")
_FUNCTION_TYPE = re.compile(r"^\((?P<operands>.*)\)\s*->\s*.+$", re.DOTALL)
_REMEDY = 'write the op in its generic form, "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'


def signature_of(text: str) -> Signature:
    """The op that a text is of.

    Raises:
        ShardingError: the text is not that of one op, or does not say the types of its operands.
    """
    head, _, types = _RESULTS.sub("", text.strip(), count=1).rpartition(" : ")
    at = next((place for place, character in enumerate(head) if character in "{<"), len(head))  # attributes, regions
    operands = _VALUE.sub(lambda value: value[0].replace("#", "_"), head[:at])
    values = _VALUE.findall(operands)
    function = _FUNCTION_TYPE.match(types.strip())
    listed = _split(function["operands"] if function else types)
    if not function and len(listed) == 1:
        listed *= len(values)
    if not head or len(listed) != len(values):
        cause = f"{len(values)} operands and {len(listed)} types are read from it"
        raise ShardingError(f"not the text of one op: {text.strip()[:200]}", cause=cause, remedy=_REMEDY)
    arguments = ", ".join([f"{value}: {type}" for value, type in dict(zip(values, listed, strict=True)).items()])
    module = f"func.func @main({arguments}) {{\n{operands}{head[at:]} : {types}\nreturn\n}}"
    ops = parse_source(module, "-").graph.main.block.ops[:-1]
    if len(ops) != 1:
        raise ShardingError(f"not the text of one op: {text.strip()[:200]}", cause=f"it has {len(ops)}", remedy=_REMEDY)
    return ops[0].signature


def _split(text: str) -> list[str]:
    """Types apart by the commas between them."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]

"""Constants whose elements stand behind a module's ops, put into the ops: XLA takes no others.

    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>    →    %0 = stablehlo.constant dense<"0x00…"> : …
    {-# dialect_resources: {builtin: {w: "0x040000000000803F00000040"}} #-}

Large constants come so from torch-mlir. A resource is written in hexadecimal: four bytes that say how it is aligned,
and the elements, those of `i1` a byte each. Source: MLIR's `DenseResourceElementsAttr`.
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.scanner import place_of

__all__ = ["with_elements_in_place"]

_NAME = r'("(?:[^"\\\n]|\\.)*"|[\w.$-]+)'
_REFERENCE = re.compile(
    rf'"(?:[^"\\\n]|\\.)*"|//[^\n]*|\bdense_resource<\s*{_NAME}\s*>(?=\s*:\s*(?:tensor|vector)<([^<>]*))'
)
"""A string, a comment, or a constant of a resource; of that the name, and its type up to an encoding."""
_RESOURCES = re.compile(r"\{-#(.*?)#-\}", re.DOTALL)
_ENTRY = re.compile(rf'{_NAME}\s*:\s*"0x([0-9A-Fa-f]*)"')
_ALIGNMENT = 2 * 4
"""How many digits say how a resource is aligned."""


def with_elements_in_place(text: str, name: str = "-") -> str:
    r"""The text of a module without resources; diagnostics call it `name`.

    Raises:
        ShardingError: a constant whose elements are not in the text, at its place.

    >>> resources = '{-# dialect_resources: {builtin: {w: "0x0100000007"}} #-}'
    >>> with_elements_in_place("dense_resource<w> : tensor<1xi8>" + resources)
    'dense<"0x07"> : tensor<1xi8>'
    """
    if "dense_resource<" not in text:
        return text
    blobs = {entry[1]: entry[2] for part in _RESOURCES.findall(text) for entry in _ENTRY.finditer(part)}

    def elements(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        if found[1] not in blobs:
            raise ShardingError(
                "the elements of a constant are not in the file",
                location=place_of(text, found.start(), name),
                cause=f"it names the resource {found[1]}, and there is none of that name",
                remedy="write the module with its resources, those that are large as well",
            )
        digits = blobs[found[1]][_ALIGNMENT:]
        if not digits:
            return "dense<>"
        if re.search(r"(?:^|x)\s*i1\s*$", found[2]):
            return f"dense<{_flags(digits, found[2])}>"
        return f'dense<"0x{digits}">'

    return _REFERENCE.sub(elements, _RESOURCES.sub("", text))


def _flags(digits: str, type: str) -> str:
    """Booleans in brackets: what MLIR's own hexadecimal has of them is not the same in all its versions."""
    row = ["true" if int(digits[at : at + 2], 16) else "false" for at in range(0, len(digits), 2)]
    for size in reversed([int(size) for size in re.findall(r"\d+(?=\s*x)", type)]):
        row = [f"[{', '.join(row[at : at + size])}]" for at in range(0, len(row), max(1, size))]
    return ", ".join(row)

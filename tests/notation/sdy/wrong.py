"""How the wrong modules of the tables beside this file are written down.

The line that a diagnostic has to name ends in `//!`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MESHES", "TYPE", "Wrong", "argument", "body", "manual"]

MARK = "//!"
TYPE = "tensor<8x8xf32>"
MESHES = """\
sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
sdy.mesh @order = <["a"=2, "b"=2, "c"=4], device_ids=[15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @one = <[], device_ids=[3]>
"""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A module that is refused.

    Attributes:
        text: The module.
        words: What the message says, as a regular expression.
        peer: What C++ does that parses and verifies it: `refuses`, `accepts` or `dies`.
    """

    text: str
    words: str
    peer: str = "refuses"

    @property
    def line(self) -> int:
        """The line to be named."""
        return self.text[: self.text.index(MARK)].count("\n") + 1


def argument(sharding: str, words: str, type: str = TYPE, peer: str = "refuses") -> Wrong:
    """The second argument of three has this sharding."""
    return Wrong(
        f"{MESHES}func.func @main(\n    %x: {TYPE},\n"
        f"    %y: {type} {{sdy.sharding = #sdy.sharding<{sharding}>}}, {MARK}\n    %z: {TYPE}) -> {TYPE} {{\n"
        f"  %0 = stablehlo.tanh %x : {TYPE}\n  return %0 : {TYPE}\n}}\n",
        words,
        peer,
    )


def body(lines: str, words: str, peer: str = "refuses", sharding: str = "", type: str = TYPE) -> Wrong:
    """`lines` stand in a function of argument `%x`, which has the sharding given; each op on a line is of its type."""
    annotation = f" {{sdy.sharding = #sdy.sharding<{sharding}>}}" if sharding else ""
    lines = lines if MARK in lines else f"{lines} {MARK}"
    return Wrong(
        f"{MESHES}func.func @main(%x: {type}{annotation}) -> {type} {{\n{lines}\n  return %x : {type}\n}}\n",
        words,
        peer,
    )


def manual(
    words: str,
    inside: str = '<@mesh, [{"a"}, {}]>',
    outside: str = '<@mesh, [{"a"}, {}]>',
    axes: str = '"a"',
    local: str = "tensor<4x8xf32>",
    lines: str = "",
    before: str = "",
    type: str = TYPE,
    peer: str = "refuses",
) -> Wrong:
    """A manual computation whose body, of an argument `%q`, has `lines`; `before` stands before it."""
    mark = "" if MARK in lines else MARK
    return body(
        f"{before}  %0 = sdy.manual_computation(%x) in_shardings=[{inside}] out_shardings=[{outside}] manual_axes={{{axes}}} {mark}\n"
        f"      (%q: {local}) {{\n{lines}    sdy.return %q : {local}\n  }} : ({type}) -> {type}",
        words,
        peer,
        type=type,
    )

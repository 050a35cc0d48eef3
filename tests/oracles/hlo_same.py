"""HLO in which the same is not computed twice: what XLA's `cse` does to every program, to its partitioner's at once.

Instructions are the same that do the same op to the same operands with the same attributes; computations that they apply
count by what they do, not by their names. Left alone is what talks to other devices, has a body that runs or may have
effects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tests.oracles.hlo import KINDS, Computation, Instruction, balanced

__all__ = ["shared"]

_LEFT_ALONE = {
    *KINDS,
    *("while", "conditional", "call", "custom-call", "parameter", "rng", "rng-get-and-update-state", "after-all"),
    *("infeed", "outfeed", "send", "recv"),
}
_NO_MATTER = ("metadata", "sharding", "frontend_attributes", "backend_config")
_APPLIED = re.compile(r"(to_apply|select|scatter|calls)=%?([\w.\-]+)")


def shared(computations: Mapping[str, Computation]) -> dict[str, Computation]:
    """The computations, each without instructions that are the same as one before them."""
    meanings: dict[str, str] = {}
    return {name: _shared(computation, computations, meanings) for name, computation in computations.items()}


def _shared(computation: Computation, computations: Mapping[str, Computation], meanings: dict[str, str]) -> Computation:
    first: dict[str, str] = {}
    names: dict[str, str] = {}
    kept = Computation(computation.name)
    for name, op in computation.instructions.items():
        op = replace(op, operands=tuple(names.get(operand, operand) for operand in op.operands))
        key = "" if op.opcode in _LEFT_ALONE else _key(op, computations, meanings)
        names[name] = first.setdefault(key, name) if key else name
        if names[name] == name:
            kept.instructions[name] = op
    kept.root = names.get(computation.root, computation.root)
    return kept


def _key(op: Instruction, computations: Mapping[str, Computation], meanings: dict[str, str]) -> str:
    """What an instruction does."""
    rest = op.rest
    for attribute in _NO_MATTER:
        if match := re.search(rf", {attribute}=", rest):
            rest = rest[: match.start()] + rest[match.end() + len(balanced(rest[match.end() :])) :]
    rest = _APPLIED.sub(lambda match: f"{match[1]}={_meaning(match[2], computations, meanings)}", rest)
    literal = op.arguments if not op.operands else ""
    return f"{op.opcode} {op.shape} {op.operands} {literal} {rest}"


def _meaning(name: str, computations: Mapping[str, Computation], meanings: dict[str, str]) -> str:
    """What a computation does, its instructions numbered."""
    if name not in computations:
        return name
    if name not in meanings:
        numbers = {one: f"#{number}" for number, one in enumerate(computations[name].instructions)}
        lines = []
        for one, op in computations[name].instructions.items():
            numbered = replace(op, operands=tuple(numbers.get(operand, operand) for operand in op.operands))
            argument = op.arguments if op.opcode == "parameter" else ""
            root = "ROOT " * (one == computations[name].root)
            lines.append(f"{root}{argument}{_key(numbered, computations, meanings)}")
        meanings[name] = "{" + "; ".join(lines) + "}"
    return meanings[name]

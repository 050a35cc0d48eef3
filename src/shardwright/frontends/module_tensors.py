"""Tensors at the boundaries of modules: what each call of a part of a model takes and gives, in the program of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shardwright.ir.graph import Graph

__all__ = ["ModuleTensor", "call_name", "module_of", "renumbered", "still_there"]


@dataclass(frozen=True, slots=True)
class ModuleTensor:
    """A tensor that a call of a module takes or gives.

    Attributes:
        call: The qualified name of the module, `blocks.0.attn`; later calls of the same have a number (`call_name`).
        is_input: Whether the call takes it; else it gives it.
        name: What it is called there: by the parameter of `forward` and its path, or by the path in what is returned.
        value: Its number in the graph of the program.
    """

    call: str
    is_input: bool
    name: str
    value: int

    def __str__(self) -> str:
        """By which it is named beside others: `blocks.0.attn.inputs.x`, `blocks.0.attn.outputs.result0`."""
        return f"{self.call}.{'inputs' if self.is_input else 'outputs'}.{self.name}"


def call_name(module: str, number: int) -> str:
    """What a call of a module is called, the first of which has number 0.

    >>> call_name("blocks.0.attn", 0), call_name("shared", 1)
    ('blocks.0.attn', 'shared#1')
    """
    return f"{module}#{number}" if number else module


def module_of(call: str) -> str:
    """The name of the module that is called.

    >>> module_of("shared#1")
    'shared'
    """
    return call.partition("#")[0]


def still_there(tensors: Sequence[ModuleTensor], graph: Graph) -> tuple[ModuleTensor, ...]:
    """Those that the program computes or takes; of others, of which nothing else is made, nothing is known."""
    made: Mapping[int, object] = dict.fromkeys(
        [*graph.main.block.arguments, *(result for op in graph.main.block.ops for result in op.results)]
    )
    return tuple(one for one in tensors if one.value in made)


def renumbered(tensors: Sequence[ModuleTensor], values: Sequence[int]) -> tuple[ModuleTensor, ...]:
    """The same with these numbers of values."""
    return tuple(replace(one, value=value) for one, value in zip(tensors, values, strict=True))

"""The steps that programs are made of, as lines of JAX, and those lines as functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, AxisType, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

__all__ = ["Block", "Step", "evaluated", "function", "names", "source"]

_LEAVES = "jax.tree.leaves("
"""How the text of a step begins that defines any number of values."""

_NAME = re.compile(r"\bv\d+\b")

_constraint: Any = Primitive("constraint_of_text")
_constraint.def_abstract_eval(lambda value, *, sharding: value)


def _lower_constraint(_: Any, value: ir.Value, *, sharding: str) -> list[ir.Value]:
    return [sdy.ShardingConstraintOp(value, ir.Attribute.parse(f"#sdy.sharding{sharding}")).result]


mlir.register_lowering(_constraint, _lower_constraint)


def constrain(value: Any, sharding: str) -> Any:
    """A sharding constraint as the text of its attribute: JAX's have no parts of axes."""
    return _constraint.bind(value, sharding=sharding)


def some(shape: tuple[int, ...], dtype: str) -> Any:
    """Small numbers without an argument."""
    size = 1
    for length in shape:
        size *= length
    return (lax.iota(jnp.int32, size) * 7 % 5).reshape(shape).astype(dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """A function within a program: the body of a loop, a branch, a function that is called."""

    name: str
    parameters: tuple[str, ...]
    steps: tuple[Step, ...]
    returns: str

    def free(self) -> set[str]:
        """The names it uses and does not define."""
        used, defined = set(names(self.returns)), set(self.parameters)
        for step in self.steps:
            used |= step.free()
            defined |= set(step.targets)
        return used - defined


@dataclass(frozen=True, slots=True)
class Step:
    """A line that defines names, and the functions that it is about.

    Attributes:
        family: What kind of op it is, for statistics.
        targets: The names it defines.
        text: What they are, as JAX code.
        blocks: Functions that the text names.
        reference: What they are without devices, where the text speaks of some.
    """

    family: str
    targets: tuple[str, ...]
    text: str
    blocks: tuple[Block, ...] = ()
    reference: str = ""

    def free(self) -> set[str]:
        """The names it uses and does not define."""
        return set(names(self.text)).union(*(block.free() for block in self.blocks))

    def lines(self, indent: str, sharded: bool) -> Iterator[str]:
        """Its code; for one device if not `sharded`."""
        for block in self.blocks:
            yield from source(block, indent, sharded)
        text = self.text if sharded or not self.reference else self.reference
        comma = "," if text.startswith(_LEAVES) else ""
        yield f"{indent}{', '.join(self.targets)}{comma} = {text}"


def names(text: str) -> list[str]:
    """The values that a text names."""
    return _NAME.findall(text)


def source(block: Block, indent: str, sharded: bool) -> Iterator[str]:
    """The code of a block."""
    yield f"{indent}def {block.name}({', '.join(block.parameters)}):"
    for step in block.steps:
        yield from step.lines(f"{indent}    ", sharded)
    yield f"{indent}    return {block.returns}"


def function(block: Block, sharded: bool = True, axes: Sequence[tuple[str, int]] = ()) -> Callable[..., Any]:
    """A block as a function to trace; `axes` are those of the mesh `MESH`."""
    known: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "P": PartitionSpec, "some": some}
    known["constrain"] = constrain
    axis_sizes, axis_names = tuple(size for _, size in axes), tuple(name for name, _ in axes)
    known["MESH"] = AbstractMesh(axis_sizes, axis_names, axis_types=(AxisType.Auto,) * len(axes))
    exec("\n".join(source(block, "", sharded)), known)
    made: Callable[..., Any] = known[block.name]
    return made


def evaluated(step: Step, types: Mapping[str, jax.ShapeDtypeStruct]) -> list[jax.ShapeDtypeStruct]:
    """The types of what a step defines, all of them in order."""
    text = step.reference or step.text
    text = text if text.startswith(_LEAVES) else f"{_LEAVES}{text})"
    given = sorted(step.free())
    block = Block("probe", tuple(given), (Step("", ("*result",), text, step.blocks),), "result")
    made: list[jax.ShapeDtypeStruct] = jax.eval_shape(function(block, sharded=False), *(types[name] for name in given))
    return made

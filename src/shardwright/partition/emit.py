"""Steps of a reshard plan as ops of the `sdy` dialect."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.ops import STEPS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.sharding import TensorSharding
from shardwright.steps import CollectivePermute, Step, ToUnreduced, layouts_after

__all__ = ["collective", "emit_steps", "step_of"]

_CONSTRAINT = "sdy.sharding_constraint"
_NAMES = {step: name for name, step in STEPS.items()}


def emit_steps(
    builder: Builder, value: int, sharding: TensorSharding, steps: tuple[Step, ...]
) -> list[tuple[TensorSharding, int]]:
    """Append one collective per step; each layout passed through and the value that has it."""
    passed: list[tuple[TensorSharding, int]] = []
    for step, layout in zip(steps, layouts_after(sharding, steps), strict=True):
        (value,) = builder.append(collective(step, builder.type(value)), (value,), (layout,))
        passed.append((layout, value))
    return passed


@memoize
def collective(step: Step, type: TensorType) -> Signature:
    """The sdy op that takes `step` on a tensor of global `type`.

    Contributions to anything but a sum are made by a constraint, the one op whose sharding can be of a kind that jaxlib
    does not know. What it does, and what a permute, the sharding of its result says.
    """
    if isinstance(step, CollectivePermute):
        return Signature(_NAMES[CollectivePermute], (), (type,), (type,))
    if isinstance(step, ToUnreduced) and step.kind != "sum":
        return Signature(_CONSTRAINT, (), (type,), (type,))
    return Signature(_NAMES[step.__class__], (), (type,), (type,), step=step)


def step_of(signature: Signature, before: TensorSharding, after: TensorSharding) -> Step:
    """The step by which a collective of the sdy dialect takes a tensor from `before` to `after`.

    Raises:
        ShardingError: the op is not a collective.
    """
    if signature.step is not None:
        return signature.step
    if signature.name == _NAMES[CollectivePermute]:
        return CollectivePermute(after)
    if signature.name == _CONSTRAINT and after.partial and not before.partial:
        return ToUnreduced(after.partial_axes, after.partial[0].kind)
    raise ShardingError(
        f"{signature.name} is not a collective",
        cause="an explicit program has collectives and local ops only",
        remedy="partition the program from its propagated form",
    )

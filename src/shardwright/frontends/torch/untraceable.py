"""What torch says of modules that it cannot trace, in words that say what to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm

from shardwright.errors import ShardingError
from shardwright.frontends.torch.places import place_of_error

__all__ = ["untraceable"]


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a module cannot be traced.

    Attributes:
        texts: Words of torch, one of which is in its error.
        cause: What that means.
        remedy: What to change.
    """

    texts: Sequence[str]
    cause: str
    remedy: str


_REASONS = (
    _Reason(
        ("DynamicOutputShapeException",),
        "the size of a result depends on values",
        "keep sizes: torch.where(mask, x, 0) in place of x[mask], one_hot(x, count).sum(0) in place of bincount(x)",
    ),
    _Reason(
        ("DataDependentOutputException", "GuardOnDataDependentSymNode"),
        "a value becomes a number of Python's, or decides what comes next",
        "make it a function of its tensors: no branches on values, no sizes that depend on them",
    ),
    _Reason(
        ("storage of TensorWrapper",),
        "tensors of torch.func.grad and the like are of no use outside of them",
        "torch.autograd.grad inside of a module, or give its loss: sw.from_torch(module, args, train=loss)",
    ),
    _Reason(
        ("modified by an inplace operation",),
        "a tensor is written to, of which gradients need what it was",
        "write to a copy of it, x.clone(), or assign a new one in its place",
    ),
    _Reason(
        ("aliased inputs that are mutated",),
        "a buffer is written to of which another is a view",
        "register it as a tensor of its own: self.buffer[:4].clone()",
    ),
    _Reason(
        ("a fake tensor in the exported program constant's list",),
        "something is computed beside what torch.export sees, with the data of a tensor",
        "write to the tensor itself: self.buffer.copy_(…) in place of self.buffer.data.copy_(…)",
    ),
)


def untraceable(tool: str, name: str, error: Exception, remedy: str, module: Any = None) -> ShardingError:
    """That a module cannot be traced, why, where, and what to change.

    Arguments:
        tool: What cannot trace it.
        name: What the module is called.
        error: What it raised.
        remedy: What to change where no reason is known.
        module: The module, if one of its parts may be the reason.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0] if lines else 'it does not say why'}"
    reason = next((one for one in _REASONS if any(words in text for words in one.texts)), None)
    average = _average(module) if module is not None and "GuardOnDataDependentSymNode" in text else ""
    if average:
        text = f"{average} has momentum=None, and divides by num_batches_tracked as a number of Python's"
        remedy = "give it a momentum, BatchNorm2d(…, momentum=0.1), or call eval()"
    elif reason is not None:
        text, remedy = f"{reason.cause}: {text}", reason.remedy
    return ShardingError(f"{tool} cannot trace {name}", location=place_of_error(error), cause=text[:400], remedy=remedy)


def _average(module: Any) -> str:
    """The first part that averages over all calls so far, and counts these; empty where there is none."""
    for path, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.training and part.momentum is None and part.track_running_stats:
            return f"{path}, a {type(part).__name__}," if path else f"a {type(part).__name__}"
    return ""

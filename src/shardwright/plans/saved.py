"""A plan by itself, without its program: the mesh, how each argument and result lies, how it was made, what it came to.

>>> from shardwright.mesh import Mesh
>>> from shardwright.sharding import TensorSharding
>>> lies = TensorSharding.of(Mesh(x=2), [["x"], []])
>>> SavedPlan(lies.mesh, {"w": PlannedTensor(lies, lies)}).arguments["w"].sharding
[{x}, {}]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardwright.cost.outcome import Outcome
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

__all__ = ["Constraint", "Partitioning", "PlannedModule", "PlannedTensor", "SavedPlan", "Unsaid"]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """How an argument or a result lies in a plan.

    Attributes:
        sharding: How it lies.
        given: How it was annotated; `None` where nothing was said, and it followed from what was said of others.
        type: Its type, where that is known.
        line: The line of the file that says so, 0 where none does.
    """

    sharding: TensorSharding
    given: TensorSharding | None
    type: TensorType | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """How what a call of a module takes and gives lies in a plan, by the names that it has there.

    Attributes:
        inputs: The tensors that it takes, by the parameter of `forward` and the path in it: `x`, `batch/mask`.
        outputs: The tensors that it gives, by their path: `result0` where it is alone, `result/1`.
    """

    inputs: Mapping[str, PlannedTensor] = field(default_factory=dict)
    outputs: Mapping[str, PlannedTensor] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, PlannedTensor]:
        """All of them, as messages call them: `input x`, `output result0`."""
        inputs = {f"input {name}": one for name, one in self.inputs.items()}
        return inputs | {f"output {name}": one for name, one in self.outputs.items()}


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the program itself says of a value inside of it.

    Attributes:
        at: Its place in the source, `FILE:LINE`.
        sharding: How the value is to lie.
        type: Its type.
    """

    at: str
    sharding: TensorSharding
    type: TensorType | None = None


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a plan was partitioned: the arguments of `Plan.partition`, and the hardware that was decided for.

    Attributes:
        arguments: How devices take arguments.
        effort: How hard it was looked for how ops are best split.
        optimize: What became of the collectives.
        hardware: The name that `sw.hardware` takes, or what messages call hardware that has none; empty where the
            session said none.
    """

    arguments: str
    effort: str
    optimize: str
    hardware: str = ""


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Something that one format says, and that cannot be said in another, or not of this program.

    Attributes:
        name: What it is said of.
        cause: Why not.
        remedy: What to change.
    """

    name: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        """In one line."""
        return f"{self.name}: {self.cause}"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it is written down.

    Attributes:
        mesh: The devices.
        arguments: How each argument lies, by name, in order.
        results: How each result lies, by name, in order.
        constraints: What the program said of values inside, in order.
        modules: How what stands at the boundaries of a model's modules lies, by the calls of these: `blocks.0.attn`, a
            later call of the same `blocks.0.attn#1`. A tensor of which nothing is known is not there.
        program: What the program was called.
        strategy: How it was propagated; `None` where that is not said.
        conservative: Whether only whole axes flowed; `None` where that is not said.
        partitioning: How it was partitioned, if it was.
        outcome: What it came to, if it was partitioned.
        notes: What is to be told of how it was read from another format, in words.
        unread: What that says, and a plan cannot, or not of this program.
        location: What diagnostics call it.
    """

    mesh: Mesh
    arguments: Mapping[str, PlannedTensor]
    results: Mapping[str, PlannedTensor] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    program: str = ""
    strategy: str | None = None
    conservative: bool | None = None
    partitioning: Partitioning | None = None
    outcome: Outcome | None = None
    notes: tuple[str, ...] = ()
    unread: tuple[Unsaid, ...] = ()
    location: str = field(default="the plan", compare=False)
    modules: Mapping[str, PlannedModule] = field(default_factory=dict)

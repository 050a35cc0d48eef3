"""What holds of values and uses in the mesh RFC's completion, and what it follows from.

What is found keeps what it was found from, so that an axis can be followed back to what the program says (see
`lineage`): nothing needs recording, and nothing is looked up by the time at which it held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardwright.axes import Axes
from shardwright.ir.graph import Op
from shardwright.propagation.rfc.option import OPTION
from shardwright.propagation.working import CONSTRAINT
from shardwright.rules.rule import TensorMapping
from shardwright.sharding import TensorSharding

__all__ = ["Completion", "Decision", "Dropped", "OpStatement", "Origin", "Place", "Spoken", "Statement", "copied"]

Place = int | tuple[Op, int]
"""A value, or a use: an op, and the number of its operand."""


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """What a program says, as it says it; of a value, by its own sharding or by a constraint, or of a use."""

    place: Place
    sharding: TensorSharding
    is_constraint: bool


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """What holds of a value or of a use.

    Attributes:
        sharding: The sharding, closed.
        required: Whether it must be so; else it is a hint.
        line: `FILE:LINE` of the annotation; empty where it has none.
        basis: What the program says, or what it follows from.
    """

    sharding: TensorSharding
    basis: Spoken | Origin
    required: bool = False
    line: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class OpStatement:
    """A sharding that is said of one tensor of an op.

    Attributes:
        tensor: The tensor, operands counted first.
        value: The value that it is.
        statement: What holds of it, or of the value that it reads, or of a use of it.
        name: The tensor as users know it: `operand 1`.
        label: The op of which it is one, which for what a region returns is another than the one that is visited.
        required: Whether it must be so; else it is a hint.
        line: `FILE:LINE` of the annotation; empty where it follows from others.
        decided: Whether dimensions stay whole that it does not split, though it is a hint: a result's own sharding.
    """

    tensor: int
    value: int
    statement: Statement
    name: str
    label: str
    required: bool = False
    line: str = ""
    decided: bool = False

    @property
    def sharding(self) -> TensorSharding:
        """The sharding."""
        return self.statement.sharding

    @property
    def where(self) -> str:
        """`operand 1 of stablehlo.add`."""
        return f"{self.name} of {self.label}"

    def __str__(self) -> str:
        """`operand 1 of stablehlo.add [{x}]`."""
        return f"{self.where} {self.sharding!r}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A hint that could not be followed, and why."""

    hint: OpStatement
    why: str

    @property
    def op(self) -> str:
        """What the hint is a part of: a constraint, or the op whose result it is for."""
        basis = self.hint.statement.basis
        return CONSTRAINT if isinstance(basis, Spoken) and basis.is_constraint else self.hint.label

    @property
    def message(self) -> str:
        """The sentence, without where it is."""
        return f"the hint for {self.hint} is dropped: {self.why}"

    def __str__(self) -> str:
        """The sentence: `p.mlir:5: the hint for operand 1 of stablehlo.add [{y}] is dropped: …`."""
        return f"{self.hint.line}: {self.message}"


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """How the loops of an op came to be split.

    Attributes:
        kind: `step`, or what copies a sharding: `use`, from a use to the argument of `main` or the reshard that it
            reads, and `return`, to a result of `main`.
        op: The op.
        option: The axes of each loop, by factor.
        owners: Who wanted them, by factor; nobody where the program presets the op's option, or a method of its own
            gives it.
        by: What decided where nobody wanted it.
    """

    kind: str
    op: Op
    option: Mapping[int, Axes]
    owners: Mapping[int, OpStatement]
    by: str = OPTION


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where the sharding of a tensor of an op comes from.

    Attributes:
        decision: How the op's loops came to be split.
        target: The tensor as users know it.
        mapping: Its loops, dimension by dimension.
    """

    decision: Decision
    target: str
    mapping: TensorMapping


@dataclass(slots=True)
class Completion:
    """What the RFC's completion of a program found.

    Attributes:
        statements: What holds of each value, and of result `n` of `main` as `~n`, before it was cut for callers;
            values of which nothing holds, and that are replicated therefore, are missing.
        same: For values that a loop ties to another, that reshards make, and for results of `main`: the value.
        dropped: The hints that could not be followed, in the order in which they were found.
    """

    statements: dict[int, Statement] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)


def copied(kind: str, op: Op, statement: OpStatement, target: str) -> Statement:
    """What is split as something else is."""
    axes = statement.sharding.axes
    decision = Decision(kind, op, dict(enumerate(axes)), dict.fromkeys(range(len(axes)), statement))
    return Statement(statement.sharding, Origin(decision, target, tuple((dim,) for dim in range(len(axes)))))

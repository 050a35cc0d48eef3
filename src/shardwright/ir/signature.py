"""What an op computes, apart from which values it reads: the key of every memoized decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardwright.boundary import NOTHING_STATED, Boundary
from shardwright.ir.attributes import decode
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.types import TensorType
from shardwright.memo import Hashed
from shardwright.steps import Step

__all__ = ["Body", "BodyOp", "Signature"]


@dataclass(frozen=True, slots=True)
class BodyOp:
    """An op of a `Body`. Operands are numbers: the body's arguments first, then results in order."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    operands: tuple[int, ...]
    results: tuple[TensorType, ...]
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """A region that computes on scalars inside an op (the combiner of a reduce, the comparator of a sort)."""

    arguments: tuple[TensorType, ...]
    ops: tuple[BodyOp, ...]

    @property
    def kind(self) -> str | None:
        """The name of its single binary op on its two arguments (`stablehlo.add`), or `None`."""
        if len(self.arguments) != 2 or len(self.ops) != 2:
            return None
        op, last = self.ops
        same = sorted(op.operands) == [0, 1] and last.operands == (2,)
        return op.name if same else None

    @property
    def reduction(self) -> str | None:
        """The reduction kind (`sum`, `max`, `min`, `product`, `and`, `or`, `xor`), or `None` if it is none of them."""
        return _KINDS.get(self.kind or "")


_KINDS = {name: kind for kind, name in REDUCTIONS.items()}


@dataclass(frozen=True, eq=False)
class Signature(Hashed):
    """All that decides what an op computes from its operands; compared by value.

    The shardings of values and locations are not part of it; neither are regions that hold tensor programs of their
    own (`while`, `case`), which are blocks of the graph.

    Attributes:
        name: The op's name.
        attributes: Its attributes as MLIR text, sorted by name.
        operands: The types of its operands.
        results: The types of its results.
        bodies: Its regions that compute on scalars.
        boundary: What a manual or named computation, or an op without results, states; of other ops nothing.
        step: What a collective of the `sdy` dialect does. In a program that is not explicit yet it asks for the layout
            of its result, whatever it does. A `collective_permute` has none: where it goes, its result's sharding says.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    bodies: tuple[Body, ...] = ()
    boundary: Boundary = NOTHING_STATED
    step: Step | None = None

    def text(self, attribute: str) -> str | None:
        """The MLIR text of an attribute, or `None`."""
        for name, text in self.attributes:
            if name == attribute:
                return text
        return None

    def get(self, attribute: str, default: Any = None) -> Any:
        """The decoded value of an attribute (see `ir.attributes.decode`), or `default`."""
        text = self.text(attribute)
        return default if text is None else decode(text)

    def replace(
        self,
        *,
        operands: tuple[TensorType, ...] | None = None,
        results: tuple[TensorType, ...] | None = None,
        **attributes: str | None,
    ) -> Signature:
        """The same op with other types or attributes (`None` takes an attribute away)."""
        pairs = self.attributes
        if attributes:
            merged: dict[str, str | None] = {**dict(pairs), **attributes}
            pairs = tuple(sorted((name, text) for name, text in merged.items() if text is not None))
        return Signature(
            self.name,
            pairs,
            self.operands if operands is None else operands,
            self.results if results is None else results,
            self.bodies,
            self.boundary,
            self.step,
        )

    @property
    def label(self) -> str:
        """The op as users know it: its name, and the target of a custom call."""
        target = self.get("call_target_name") if self.name == "stablehlo.custom_call" else None
        return f"{self.name} @{target}" if target else self.name

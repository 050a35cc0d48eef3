"""What an op's attributes state: its signature, with what is a notation's business read by parsers handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shardwright.boundary import NOTHING_STATED, Boundary
from shardwright.ir.carriers import CARRIED_COLLECTIVE, CARRIED_SHARDINGS
from shardwright.ir.handles import body_of, has_body
from shardwright.ir.opaque import attribute_text
from shardwright.ir.ops import COMPUTATIONS, SHARDING_ATTRIBUTES, STEPS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["Readers", "Statements"]

Attributes = tuple[tuple[str, str], ...]
"""MLIR text by name, sorted."""

_BOUNDARY = ("in_shardings", "out_shardings", "manual_axes")
_NOT_SIGNATURE = frozenset({"sdy.sharding", CARRIED_SHARDINGS, CARRIED_COLLECTIVE, "mhlo.sharding"})


@dataclass(frozen=True, slots=True)
class Readers:
    """How the texts of a module are read. All raise `ShardingError` for malformed text.

    Attributes:
        mesh: A mesh from its attribute's text and its symbol.
        shardings: The shardings of an attribute of the `sdy` dialect, with the meshes of the module by symbol.
        manual_axes: The names in the attribute of a manual computation.
        step: The step that an op called so takes, as its attributes say, and the other attributes; with the sharding of
            its operand, where there is one, and the mesh of its result.
        carrier: One sharding as a carrier has it, of a tensor of the shape given, with the meshes of the module.
    """

    mesh: Callable[[str, str], Mesh]
    shardings: Callable[[str, Mapping[str, Mesh]], tuple[TensorSharding, ...]]
    manual_axes: Callable[[str], tuple[str, ...]]
    step: Callable[[str, Attributes, TensorSharding | None, Mesh], tuple[Step | None, Attributes]]
    carrier: Callable[[str, tuple[int, ...], Mapping[str, Mesh]], TensorSharding]


@dataclass(frozen=True, slots=True)
class Statements:
    """Reads what ops state, in a module with these meshes."""

    readers: Readers
    meshes: Mapping[str, Mesh]

    def signature(
        self,
        op: Any,
        name: str,
        handles: Mapping[str, Any],
        types: tuple[tuple[TensorType, ...], tuple[TensorType, ...]],
        before: TensorSharding | None,
    ) -> Signature:
        """The signature of an op called `name` in the graph.

        Arguments:
            op: The op.
            name: What it is called.
            handles: Those of its attributes.
            types: Those of its operands and of its results.
            before: How the operand of a collective lies, where that is said.

        Raises:
            ShardingError: what it states cannot be read, or a computation inside it does not belong to it alone.
        """
        skipped = _BOUNDARY if name in COMPUTATIONS else (SHARDING_ATTRIBUTES.get(name, ""),)
        kept = [(key, value) for key, value in handles.items() if key not in _NOT_SIGNATURE and key not in skipped]
        attributes = tuple(sorted([(key, attribute_text(value)) for key, value in kept]))
        bodies = tuple([body_of(region, op) for region in op.regions]) if has_body(op, name, handles) else ()
        boundary = NOTHING_STATED
        if name in COMPUTATIONS:
            boundary = self._boundary(handles)
        elif not types[1] and "sdy.sharding" in handles:  # there is no value to have it
            boundary = Boundary(out_shardings=self._shardings(handles["sdy.sharding"]))
        step: Step | None = None
        if name in STEPS:
            (after,) = self._shardings(handles[SHARDING_ATTRIBUTES[name]])
            step, attributes = self.readers.step(name, attributes, before, after.mesh)
        return Signature(name, attributes, *types, bodies, boundary, step)

    def _boundary(self, handles: Mapping[str, Any]) -> Boundary:
        """What a manual or named computation states of its operands and results."""
        ins, outs, manual = (handles.get(key) for key in _BOUNDARY)
        return Boundary(
            None if ins is None else self._shardings(ins),
            None if outs is None else self._shardings(outs),
            () if manual is None else self.readers.manual_axes(str(manual)),
        )

    def _shardings(self, handle: Any) -> tuple[TensorSharding, ...]:
        return self.readers.shardings(str(handle), self.meshes)

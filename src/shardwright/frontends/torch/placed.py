"""How the tensors of a plan lie, as placements of `torch.distributed.tensor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.dtensor import Placement, placements_of
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["Layouts", "placed"]


@dataclass(frozen=True, slots=True)
class Layouts:
    """How a plan lays out a module and what goes in and out of it.

    Attributes:
        mesh: The mesh of the plan.
        arguments: How each argument of the program lies, by name.
        results: The same of each result.
        shapes: The shape of each argument, where it is known.
        parts: How what a call of a part of the module takes, or gives, lies: by the call, whether it takes it, and what
            it is called there.
    """

    mesh: Mesh
    arguments: Mapping[str, TensorSharding]
    results: Mapping[str, TensorSharding]
    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[tuple[str, bool, str], TensorSharding] = field(default_factory=dict)

    def of_argument(self, name: str, shape: Sequence[int]) -> tuple[Any, ...] | None:
        """The placements of an argument that has this shape now; `None` where the plan has none of its name.

        Raises:
            ShardingError: placements cannot say how it lies, or it has another number of dimensions in the plan.
        """
        return self._placements(f"argument {name!r}", self.arguments.get(name), shape)

    def of_result(self, name: str, shape: Sequence[int]) -> tuple[Any, ...] | None:
        """The same of a result."""
        return self._placements(f"result {name!r}", self.results.get(name), shape)

    def of_part(self, call: str, is_input: bool, name: str, shape: Sequence[int]) -> tuple[Any, ...] | None:
        """The placements of what a call of a part takes or gives; `None` where DTensor is left to do as it needs.

        That is where the plan does not know the tensor, has another number of dimensions or sums not added up for it,
        where it does not divide, or placements cannot say how it lies.
        """
        lies = self.parts.get((call, is_input, name))
        if lies is None or lies.rank != len(shape) or not lies.divides(shape):
            return None
        try:
            return self._placements(f"{call}: {name!r}", lies, shape)
        except ShardingError:
            return None

    def _placements(self, what: str, lies: TensorSharding | None, shape: Sequence[int]) -> tuple[Any, ...] | None:
        if lies is None:
            return None
        if lies.rank != len(shape):
            raise ShardingError(
                f"{what} has {counted(len(shape), 'dimension')}, {list(shape)}",
                cause=f"the plan has {counted(lies.rank, 'dimension')} for it, {lies!r}",
                remedy="make the plan for what the module is called with",
            )
        if (lies.mesh.axes, lies.mesh.device_ids) != (self.mesh.axes, self.mesh.device_ids):
            raise ShardingError(
                f"{what} lies on {lies.mesh!r}",
                cause=f"a module is laid out over one mesh, here {self.mesh!r}",
                remedy="give the program one mesh",
            )
        try:
            found = placements_of(lies.closed(), tuple(shape))
        except ShardingError as error:
            raise error.replaced(message=f"{what}: {error.diagnostic.message}") from None
        if lies.partial:
            raise ShardingError(
                f"{what} lies as sums that are not added up, {lies!r}",
                cause="a whole tensor cannot be made into these",
                remedy="let it be whole, or split along a dimension",
            )
        return tuple(map(_placement, found))


def _placement(one: Placement) -> Any:
    if one.dim is None:
        return Replicate()
    return _StridedShard(one.dim, split_factor=one.factor) if one.factor > 1 else Shard(one.dim)


def placed(tensor: Any, device_mesh: Any, placements: Sequence[Any]) -> Any:
    """A tensor that every process has whole, as a DTensor: nothing is sent, and gradients flow back to it."""
    whole = DTensor.from_local(tensor, device_mesh, [Replicate()] * device_mesh.ndim, run_check=False)
    return whole.redistribute(placements=placements)

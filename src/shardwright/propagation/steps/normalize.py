"""Shardings in one form before propagation: equal meshes have one name, and axes of size 1 are gone.

Axes of size 1 split nothing. Shardings on meshes that differ in name only would keep each other out.

Source: Shardy's passes `sdy-lift-inlined-meshes` and `sdy-remove-size-one-axes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shardwright.ir.graph import Op
from shardwright.ir.ops import MANUAL
from shardwright.mesh import Mesh
from shardwright.propagation.steps.boundary import without_size_one_axes
from shardwright.propagation.working import NAMED, Working
from shardwright.sharding import TensorSharding

__all__ = ["normalize"]


def normalize(
    working: Working, results: list[TensorSharding | None], meshes: Mapping[str, Mesh]
) -> list[TensorSharding | None]:
    """Bring the shardings of values and at the boundaries of computations into one form.

    Arguments:
        working: The program, which is changed.
        results: The shardings of `main`'s results.
        meshes: The meshes by symbol; of equal ones the first lends its name to all.

    Returns:
        The shardings of `main`'s results in that form.
    """
    form = _NormalForm(meshes)
    computations = (*working.special.get(MANUAL, ()), *working.special.get(NAMED, ()))
    if form.is_that_of(working.shardings) and form.is_that_of(results) and form.fits and not computations:
        return results
    working.shardings[:] = form.all(working.shardings)
    for op in computations:
        form.change(op)
    return form.all(results)


class _NormalForm:
    """The form that shardings are brought into."""

    def __init__(self, meshes: Mapping[str, Mesh]) -> None:
        self.meshes = meshes
        self.names: dict[object, Mesh] = {}
        for mesh in meshes.values():
            self.names.setdefault((mesh.axes, mesh.device_ids), mesh)
        self.fits = len(self.names) == len(meshes)
        self.fits &= all(size > 1 for mesh in meshes.values() for _, size in mesh.axes)
        self._known: dict[TensorSharding, TensorSharding] = {}

    def is_that_of(self, shardings: Iterable[TensorSharding | None]) -> bool:
        """Whether the meshes of all shardings are those of the module: none is spelt out."""
        used = {sharding.mesh for sharding in dict.fromkeys(shardings) if sharding is not None}
        return all(mesh.name in self.meshes for mesh in used)

    def one(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding in the form."""
        answer = self._known.get(sharding)
        if answer is None:
            mesh = self.names.setdefault((sharding.mesh.axes, sharding.mesh.device_ids), sharding.mesh)
            renamed = sharding if mesh == sharding.mesh else replace(sharding, mesh=mesh)
            answer = self._known[sharding] = without_size_one_axes(renamed)
        return answer

    def all(self, shardings: Iterable[TensorSharding | None]) -> list[TensorSharding | None]:
        """Each sharding in the form."""
        return [None if sharding is None else self.one(sharding) for sharding in shardings]

    def change(self, op: Op) -> None:
        """Bring the boundary of a computation into the form; axes of size 1 are not manual either."""
        boundary = op.signature.boundary
        mesh = next((sharding.mesh for sharding in boundary.shardings if sharding.mesh.axes), Mesh())
        manual = tuple([name for name in boundary.manual_axes if mesh.sizes.get(name) != 1])
        op.signature = replace(op.signature, boundary=replace(boundary.changed(self.one), manual_axes=manual))

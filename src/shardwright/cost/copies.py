"""What devices lay out anew for collectives, and for products.

XLA for GPUs gathers, scatters and exchanges along the dimension that is outermost in memory. A tensor that lies
otherwise is copied before or behind, unless what makes it or reads it lays it out so itself, as products and most fused
ops do. Which of them do is known when kernels are made. Loops carry their values as they lie outside: one that stacks
what it gathers along an inner dimension copies the whole stack.

Kernels of products read tensors that lie as a whole. A device that multiplies by its part of a tensor that it has whole
copies that part first; other ops read it where it is, and of many what makes it makes the part only.

So all of it has a price, that of reading and writing it once, though many a copy is not made: of ways that are as good
else, and hardly otherwise, that tells which is taken.

Source: XLA, `xla/service/gpu/transforms/layout_assignment.cc`, what it asks of collectives; and what it compiles of a
product by a slice for H100s.

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(x=2, y=4)
    >>> rows, columns = (AllGather(axes) for axes in (((mesh.axis("x"),), ()), ((), (mesh.axis("x"),))))
    >>> copied_bytes(rows, TensorSharding.of(mesh, [["x"], []]), (8, 8), 4)
    0
    >>> copied_bytes(columns, TensorSharding.of(mesh, [[], ["x"]]), (8, 8), 4)
    256
    >>> copied_bytes(AllSlice(columns.axes), TensorSharding.of(mesh, [[], []]), (8, 8), 4)
    128
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllSlice, AllToAll, ReduceScatter, Step, local_bytes

__all__ = ["copied_bytes"]


def copied_bytes(step: Step, before: TensorSharding, dims: Sequence[int], element_bytes: int) -> int:
    """Bytes that a device lays out anew for a step, if nothing else does.

    Arguments:
        step: What is done.
        before: How the tensor lies before it.
        dims: Its dimensions as a whole.
        element_bytes: Bytes of one element.
    """
    if not isinstance(step, AllGather | ReduceScatter | AllToAll | AllSlice):
        return 0
    after = step.apply(before)
    if isinstance(step, AllSlice):
        return local_bytes(dims, element_bytes, after)
    if isinstance(step, AllToAll):  # what is cut before it, and what is put together behind it
        cut, joined = {target for _, _, target in step.moves}, {source for _, source, _ in step.moves}
        sides = [(before, dim) for dim in cut] + [(after, dim) for dim in joined]
    else:
        lying = after if isinstance(step, AllGather) else before
        sides = [(lying, dim) for dim, axes in enumerate(step.axes) if axes_size(axes) > 1]
    return sum([local_bytes(dims, element_bytes, lying) for lying, dim in sides if not _is_outermost(dim, lying, dims)])


def _is_outermost(dim: int, lying: TensorSharding, dims: Sequence[int]) -> bool:
    """Whether a device has one row of each dimension before it."""
    return all(length <= axes_size(axes) for length, axes in zip(dims[:dim], lying.axes, strict=False))

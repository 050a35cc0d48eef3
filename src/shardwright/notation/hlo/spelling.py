"""Shardings within manual computations as `mhlo.sharding`, in the version asked for.

    >>> from shardwright.sharding import TensorSharding
    >>> mesh = Mesh(x=2, y=4)
    >>> str(spelled(TensorSharding.of(mesh, [["y"], []]), (mesh.axis("x"),)))
    '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={manual}}'

Source: XLA's `HloSharding`; JAX's lowering of `shard_map` for its SPMD partitioner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardwright.axes import Axes, AxisRef, axes_size, subtract_axes
from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.walk import walk
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.sharding import named_hlo, to_hlo
from shardwright.notation.hlo.tiles import Iota, expand
from shardwright.notation.sdy.attributes import parse_manual_axes
from shardwright.notation.sdy.sharding import parse_shardings
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["VERSIONS", "ManualAxes", "local_sharding", "region_axes", "says_something", "spelled"]

VERSIONS = ("V1", "V2", "named")
"""Devices listed, devices counted, and the form with a mesh."""


@memoize
def spelled(sharding: TensorSharding, manual: Axes = (), version: str = "V2") -> HloSharding:
    """`sharding` of a tensor within parts of `manual`, canonical.

    Raises:
        ShardingError: what this notation cannot express, by name.
    """
    mesh = sharding.mesh
    unknown = [axis.name for axis in manual if axis.name not in mesh.sizes and mesh.axes]
    if unknown:
        raise ShardingError(
            f"a manual computation over the axis {unknown[0]!r} holds a sharding over {mesh!r}",
            cause="which devices are manual can be said over one mesh only",
            remedy="use one mesh in the whole manual computation",
        )
    if version == "named" and mesh.axes:
        hlo = named_hlo(sharding)
        return hlo if hlo.named is None else replace(hlo, named=replace(hlo.named, manual=manual))
    hlo = to_hlo(sharding) if not manual or not mesh.axes else _within(sharding, manual)
    if version == "V1" and isinstance(hlo.order, Iota):
        return replace(hlo, order=tuple(int(device) for device in expand(hlo.order)))
    return hlo


def _within(sharding: TensorSharding, manual: Axes) -> HloSharding:
    """Tiles, then subgroups of devices that are manual, unreduced and replicated."""
    to_hlo(sharding)  # for what it refuses
    mesh = sharding.mesh
    every = tuple(AxisRef(name, 1, size) for name, size in mesh.axes)
    if axes_size(manual) == mesh.size:
        return HloSharding("manual")
    partial = mesh.in_order(sharding.partial_axes)
    unused = mesh.in_order(subtract_axes(every, (*sharding.used_axes, *manual, *partial)))
    lists = (*sharding.axes, manual, partial, unused)
    digits = [mesh.digit(axis) for axes in lists for axis in axes]
    order = Iota.of_digits((size, stride) for stride, size in digits)
    hlo = HloSharding("tiled", tuple(map(axes_size, lists)), order, ("manual", "unreduced", "replicated"))
    if mesh.device_ids is not None:
        hlo = replace(hlo, order=tuple(mesh.device_ids[int(position)] for position in expand(order)))
    return hlo.canonical()


def says_something(sharding: TensorSharding) -> bool:
    """Whether there is any statement in it: not if all dimensions are open, and nothing else is said."""
    split = any(dim.axes or not dim.open for dim in sharding.dims)
    return split or not sharding.dims or bool(sharding.partial or sharding.replicated)


def local_sharding(sharding: TensorSharding, manual: Axes) -> TensorSharding:
    """What is left of a sharding where `manual` axes are taken."""
    return replace(
        sharding,
        dims=tuple(DimSharding(subtract_axes(dim.axes, manual), dim.open, dim.priority) for dim in sharding.dims),
        replicated=subtract_axes(sharding.replicated, manual),
        partial=tuple(p for p in sharding.partial if not any(p.axis.overlaps(axis) for axis in manual)),
    )


def region_axes(op: Any, meshes: Mapping[str, Mesh]) -> tuple[Mesh, Axes]:
    """The mesh of an `sdy.manual_computation`, and the axes that it takes."""
    shardings: Sequence[TensorSharding] = ()
    for key in ("in_shardings", "out_shardings"):
        shardings = shardings or [s for s in parse_shardings(str(op.attributes[key]), meshes) if s.mesh.axes]
    mesh = shardings[0].mesh if shardings else next((mesh for mesh in meshes.values() if mesh.axes), Mesh())
    return mesh, tuple(map(mesh.axis, parse_manual_axes(str(op.attributes["manual_axes"]))))


class ManualAxes:
    """The manual axes in force at an op: those of the manual computations around it, through calls."""

    def __init__(
        self,
        functions: Mapping[str, Any],
        regions: Sequence[Any],
        meshes: Mapping[str, Mesh],
        fail: Callable[[Any], Callable[..., ShardingError]],
    ) -> None:
        """Look at who calls whom from within which of the manual computations `regions`."""
        self.functions = functions
        self.fail = fail
        self.bodies = {region.regions[0].blocks[0]: region_axes(region, meshes)[1] for region in regions}
        self._around: dict[Any, tuple[str, Axes]] = {}
        self._contexts: dict[str, set[Axes]] = {name: set() for name in functions}
        self._follow_calls()

    def __call__(self, op: Any) -> Axes:
        """The axes that manual computations around `op` have taken.

        Raises:
            ShardingError: its function is called with different axes taken.
        """
        name, axes = (op.attributes["sym_name"].value, ()) if op.name == "func.func" else self._climb(op.block)
        contexts = self._contexts.get(name) or {()}
        if len(contexts) > 1:
            raise self.fail(op)(
                f"@{name} is called with different axes taken by manual computations",
                cause="what its shardings say of the devices would differ from call to call",
                remedy="call a copy of the function in one of the places",
            )
        return (*next(iter(contexts)), *axes)

    def _climb(self, block: Any) -> tuple[str, Axes]:
        """The function around `block` and the axes taken on the way. (Blocks are keys: hashes of ops change.)"""
        place = self._around.get(block)
        if place is None:
            owner = block.owner.operation
            if owner.name == "func.func":
                place = (owner.attributes["sym_name"].value, ())
            elif owner.parent is None:
                place = ("", ())
            else:
                name, axes = self._climb(owner.block)
                place = (name, (*axes, *self.bodies.get(block, ())))
            self._around[block] = place
        return place

    def _follow_calls(self) -> None:
        calls: dict[str, list[tuple[str, Axes]]] = {name: [] for name in self.functions}
        called: set[str] = set()

        def visit(op: Any) -> Any:
            callee = op.attributes.get("callee")
            if isinstance(callee, ir.FlatSymbolRefAttr):
                name, axes = self._climb(op.block)
                calls.setdefault(name, []).append((callee.value, axes))
                called.add(callee.value)
            return ir.WalkResult.ADVANCE

        for function in self.functions.values():
            walk(function, visit)
        waiting: list[tuple[str, Axes]] = [(name, ()) for name in self.functions if name not in called]
        while waiting:
            name, axes = waiting.pop()
            known = self._contexts.get(name)
            if known is None or axes in known or len(known) > 1:
                continue
            known.add(axes)
            waiting += [(callee, (*axes, *taken)) for callee, taken in calls[name]]

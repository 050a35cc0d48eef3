"""Meshes of other axes over the same devices, said by the axes of one mesh, and sub-meshes by those of all devices.

`a=2, b=4` is `x:(1)2` and `x:(2)2, y` of `x=4, y=2`. Everything behind this knows one list of axes. Orders of devices
stay apart: values move between them.

A sub-mesh (`ir.sub_meshes`) has the axes of all devices already. Its name goes: one program runs on all devices, so
those that were not meant compute the same as these.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from shardwright.axes import Axes, AxisRef, merge_axes
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.sub_meshes import plain_first, sub_meshes
from shardwright.mesh import Mesh
from shardwright.sharding import Partial, TensorSharding
from shardwright.steps import CollectivePermute
from shardwright.strides import axes_of_digits, mesh_names, mesh_of_cuts

__all__ = ["on_one_mesh"]


def on_one_mesh(graph: Graph, annotated: Graph | None) -> tuple[Graph, Graph | None]:
    """A program, and that which it was propagated from, with every sharding over the axes of one mesh.

    That is the mesh whose axes manual computations and stated collectives name, else that of the first sharding, where
    its axes and parts of them can say all others; else, where none are named, one whose axes lie between the places at
    which those of all begin and end. Programs are given back as they are where there is nothing to do, and where
    nothing can be done, which `boundary` refuses.
    """
    graph, annotated = _on_all_devices(graph), None if annotated is None else _on_all_devices(annotated)
    meshes = [*graph.used_meshes, *([] if annotated is None else annotated.used_meshes)]
    if len({mesh.axes for mesh in meshes}) < 2:
        return graph, annotated
    common = _common(meshes, _named(graph), graph.meshes)
    if common is None:
        return graph, annotated
    lifted = _Lifted(common)
    return lifted.graph(graph), None if annotated is None else lifted.graph(annotated)


def _on_all_devices(graph: Graph) -> Graph:
    """A program without sub-meshes: each is the mesh like it of all devices."""
    parts = sub_meshes(graph)
    if not parts:
        return graph
    plain = {symbol: mesh for symbol, mesh in plain_first(graph).meshes.items() if mesh not in parts}
    twins = {(mesh.axes, mesh.device_ids): mesh for mesh in reversed(plain.values())}

    def moved(sharding: TensorSharding) -> TensorSharding:
        mesh = sharding.mesh
        return replace(sharding, mesh=twins[mesh.axes, mesh.device_ids]) if mesh in parts else sharding

    attributes = {symbol: row for symbol, row in graph.mesh_attributes.items() if symbol in plain}
    return replace(_changed(graph, moved, plain), mesh_attributes=attributes)


def _named(graph: Graph) -> list[Mesh]:
    """The meshes whose axes ops name: those of manual computations and of collectives."""
    shardings: dict[TensorSharding | None, None] = {}
    for op in graph.walk():
        if op.signature.boundary.manual_axes:
            shardings |= dict.fromkeys(op.signature.boundary.shardings)
        elif op.signature.step is not None:
            shardings |= dict.fromkeys(graph.shardings[value] for value in op.results)
    return [sharding.mesh for sharding in shardings if sharding is not None and sharding.mesh.axes]


def _common(meshes: list[Mesh], named: list[Mesh], symbols: Container[str]) -> Mesh | None:
    """The mesh by whose axes all others are said, if there is one; a new one has names of its own."""
    first = (named or meshes)[0]
    if all(_by(mesh, mesh.axis(name), first) is not None for mesh in meshes for name, _ in mesh.axes):
        return first if all(mesh.axes == first.axes for mesh in named) else None
    if named:
        return None
    cuts = {first.size, *(stride for mesh in meshes for stride in mesh.strides.values())}
    symbol = next(name for name in mesh_names("common") if name not in symbols)
    return mesh_of_cuts(cuts, first.device_ids, symbol, {name for mesh in meshes for name in mesh.sizes})


def _by(mesh: Mesh, axis: AxisRef, other: Mesh) -> Axes | None:
    """An axis of a mesh as axes of another, or `None` where it begins or ends within one that it does not divide."""
    stride, size = mesh.digit(axis)
    return axes_of_digits(((size, stride),), other)


class _Lifted:
    """Programs over the axes of one mesh, or of meshes like it whose devices lie in another order."""

    def __init__(self, common: Mesh) -> None:
        self.common = common
        self._of_order: dict[tuple[int, ...] | None, Mesh] = {common.device_ids: common}
        self._known: dict[TensorSharding, TensorSharding] = {}

    def graph(self, graph: Graph) -> Graph:
        """A program with every sharding over these axes. The graph given is left as it is."""
        meshes = [self.mesh(mesh) if mesh.axes else mesh for mesh in graph.meshes.values()]
        return _changed(graph, self.sharding, {mesh.name: mesh for mesh in meshes})

    def mesh(self, mesh: Mesh) -> Mesh:
        """The mesh of these axes whose devices lie as those of another one; the first of each order names it."""
        ids = mesh.device_ids
        return self._of_order.setdefault(ids, Mesh(self.common.axes, device_ids=ids, name=mesh.name))

    def sharding(self, sharding: TensorSharding) -> TensorSharding:
        """The same placement; what lies on one device alone stays so."""
        if not sharding.mesh.axes:
            return sharding
        lifted = self._known.get(sharding)
        if lifted is None:
            lifted = self._known[sharding] = self._lifted(sharding)
        return lifted

    def _lifted(self, sharding: TensorSharding) -> TensorSharding:
        mesh = self.mesh(sharding.mesh)
        if sharding.mesh.axes == mesh.axes:
            return replace(sharding, mesh=mesh)

        def axes(old: Axes) -> Axes:
            return merge_axes(tuple([new for axis in old for new in _by(sharding.mesh, axis, mesh) or ()]))

        partial = [Partial(new, p.kind) for p in sharding.partial for new in axes((p.axis,))]
        return replace(
            sharding,
            mesh=mesh,
            dims=tuple([replace(dim, axes=axes(dim.axes)) for dim in sharding.dims]),
            replicated=mesh.in_order(axes(sharding.replicated)),
            partial=tuple(sorted(partial, key=lambda p: mesh.sort_key(p.axis))),
        )


def _changed(graph: Graph, change: Callable[[TensorSharding], TensorSharding], meshes: dict[str, Mesh]) -> Graph:
    """A program with every sharding changed, on these meshes. The graph given is left as it is."""
    main = graph.main
    return replace(
        graph,
        shardings=[None if sharding is None else change(sharding) for sharding in graph.shardings],
        main=replace(
            main,
            block=_block(main.block, change),
            result_shardings=[None if sharding is None else change(sharding) for sharding in main.result_shardings],
        ),
        meshes=meshes,
    )


def _block(block: Block, change: Callable[[TensorSharding], TensorSharding]) -> Block:
    return Block(block.arguments, [_op(op, change) for op in block.ops])


def _op(op: Op, change: Callable[[TensorSharding], TensorSharding]) -> Op:
    signature = op.signature
    if signature.boundary.shardings:
        signature = replace(signature, boundary=signature.boundary.changed(change))
    if isinstance(signature.step, CollectivePermute):
        signature = replace(signature, step=CollectivePermute(change(signature.step.target)))
    regions = tuple([_block(region, change) for region in op.regions])
    return Op(signature, op.operands, op.results, regions, op.location)

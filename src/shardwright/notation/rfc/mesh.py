"""Clusters and meshes: `mesh.cluster @m(rank = 2, dim_sizes = [2, 4])` ↔ `sdy.mesh @m = <["axis_0"=2, "axis_1"=4]>`.

Axes have positions in the RFC and names in sdy: `axis_0`, `axis_1`, … unless the cluster carries `axis_names`. The RFC
counts devices with axis 0 the fastest and the model with the last; which device has which number is left to whoever
runs the program, and positions within the mesh mean the same in both.

Source: the mesh RFC on LLVM's forum, ClusterOp; the sdy dialect reference, MeshOp.
"""

from __future__ import annotations

import re
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.locations import read_location
from shardwright.ir.sub_meshes import DEVICES, devices_of_text, print_devices
from shardwright.mesh import Mesh
from shardwright.notation.names import symbol_text
from shardwright.notation.sdy.sharding import parse_mesh, print_mesh

_STAGE = "stage"
"""The axis along which other stages of a pipeline repeat what a cluster has (see `pipeline`)."""

_OWN = frozenset({"axis_names", "dim_sizes", "mesh", "rank", "sym_name"})

_WORD = re.compile(r"[\w.$-]+", re.ASCII)

__all__ = ["Cluster", "line_at", "line_of", "read_cluster", "write_cluster", "write_mesh"]


class Cluster:
    """A cluster of a module: its op, and its mesh once that is asked for.

    Attributes:
        stage: Its number and how many there are, if it is a stage of a pipeline.
    """

    def __init__(self, op: Any, name: str) -> None:
        """Read a `mesh.cluster` op of the file `name`."""
        attributes = op.attributes
        self.op = op
        self.symbol: str = ir.StringAttr(attributes["sym_name"]).value
        self.location = line_of(op, name)
        self.rank: int = ir.IntegerAttr(attributes["rank"]).value
        self.sizes = (
            [ir.IntegerAttr(size).value for size in attributes["dim_sizes"]] if "dim_sizes" in attributes else []
        )
        self.names = _names(attributes["axis_names"], self.location) if "axis_names" in attributes else []
        self.stage: tuple[int, int] | None = None
        self._mesh: Mesh | None = None

    @property
    def is_static(self) -> bool:
        """Whether the size of every axis is known."""
        return len(self.sizes) == self.rank and min(self.sizes) > 0

    def mesh(self) -> Mesh:
        """The mesh.

        Raises:
            ShardingError: the size of an axis is not known, or `axis_names` does not fit.
        """
        if self._mesh is None:
            self._mesh = self._made()
        return self._mesh

    def _made(self) -> Mesh:
        if not self.is_static:
            unknown = [axis for axis, size in enumerate(self.sizes) if size < 1]
            missing = f"{self.rank - len(self.sizes)} sizes are missing" if len(self.sizes) < self.rank else ""
            some = f"those of axes {unknown} are not positive" if unknown else ""
            raise ShardingError(
                f"cluster {symbol_text(self.symbol)} has axes of unknown size",
                op="mesh.cluster",
                location=self.location,
                cause=f"shardings are laid out on it, and {' and '.join(part for part in (missing, some) if part)}",
                remedy=f"give the size of each of its {self.rank} axes in dim_sizes",
            )
        names = self.names or [f"axis_{axis}" for axis in range(self.rank)]
        if len(names) != self.rank:
            raise ShardingError(
                f"cluster {symbol_text(self.symbol)} has {self.rank} axes and {len(names)} axis_names",
                op="mesh.cluster",
                location=self.location,
                remedy="give one name for each axis, or none",
            )
        odd = next((name for name in (self.symbol, *names) if not _WORD.fullmatch(name)), None)
        if odd is not None:
            raise ShardingError(
                f"cluster {symbol_text(self.symbol)} has a name that cannot be carried over: {odd!r}",
                op="mesh.cluster",
                location=self.location,
                remedy="use letters, digits and . $ - _ in names of clusters and axes",
            )
        try:
            return _of_stage(Mesh(zip(names, self.sizes, strict=True), name=self.symbol), self.stage)
        except ShardingError as error:
            raise error.replaced(op="mesh.cluster", location=self.location) from None


def _of_stage(mesh: Mesh, stage: tuple[int, int] | None) -> Mesh:
    """A cluster as one of several that lie one behind the other: its own devices are at place 0 of the last axis."""
    if stage is None:
        return mesh
    number, count = stage
    devices = [
        (number + place) % count * mesh.size + position for position in range(mesh.size) for place in range(count)
    ]
    return Mesh((*mesh.axes, (_STAGE, count)), device_ids=devices, name=mesh.name)


def _names(attribute: Any, location: str) -> list[str]:
    text = str(attribute)
    if not re.fullmatch(r'\[(?:"[^"]*"(?:, )?)*\]', text):
        raise ShardingError(
            f"axis_names is {text[:80]}, not a list of strings",
            op="mesh.cluster",
            location=location,
            remedy='write axis_names = ["data", "model"]',
        )
    return re.findall(r'"([^"]*)"', text)


def line_of(op: Any, name: str) -> str:
    """`FILE:LINE` of an op; MLIR calls the text it parses `-`, and `name` is its file."""
    return line_at(op.location, name)


def line_at(location: Any, name: str) -> str:
    """The same of MLIR's location of an op."""
    place = read_location(str(location))
    return f"{name if place.file == '-' else place.file}:{place.line}" if place.file else place.name or name


def read_cluster(op: Any, name: str) -> Mesh:
    """The mesh of an `sdy.mesh` op, as one that a cluster can be.

    Raises:
        ShardingError: no axes, or devices in another order.
    """
    symbol = ir.StringAttr(op.attributes["sym_name"]).value
    mesh = parse_mesh(str(op.attributes["mesh"]), symbol)
    if DEVICES in op.attributes and mesh.axes and mesh.axes[-1][0] == _STAGE:
        own, count = Mesh(mesh.axes[:-1], name=symbol), mesh.axes[-1][1]
        first = devices_of_text(str(op.attributes[DEVICES]), mesh)[0]
        if mesh == _of_stage(own, (first // own.size, count)):
            return own
    what = "a mesh of no axes" if not mesh.axes else "a mesh whose devices are reordered"
    if not mesh.axes or mesh.device_ids is not None:
        raise ShardingError(
            f"the RFC cannot express {what}: @{symbol}",
            op="sdy.mesh",
            location=line_of(op, name),
            cause="a cluster is the sizes of its axes and no more",
            remedy="take a mesh with axes and without device_ids",
        )
    return mesh


def write_mesh(cluster: Cluster) -> None:
    """Create the `sdy.mesh` op of a `mesh.cluster` at the insertion point, with what else that op says."""
    mesh = cluster.mesh()
    attributes = {"sym_name": ir.StringAttr.get(mesh.name), "mesh": parse_attribute(print_mesh(mesh))}
    if cluster.stage is not None:
        number, count = cluster.stage
        size = mesh.size // count
        attributes[DEVICES] = parse_attribute(print_devices(range(number * size, (number + 1) * size)))
    ir.Operation.create("sdy.mesh", attributes={**_others(cluster.op), **attributes})


def _others(op: Any) -> dict[str, Any]:
    """The attributes of a mesh or cluster that do not say what it is."""
    return {name: value for name, value in op.attributes.items() if name not in _OWN}


def write_cluster(mesh: Mesh, op: Any) -> None:
    """Create the `mesh.cluster` op of an `sdy.mesh` at the insertion point, with what else that op says."""
    names = [axis for axis, _ in mesh.axes]
    odd = next((name for name in (mesh.name, *names) if not _WORD.fullmatch(name)), None)
    if odd is not None:
        raise ShardingError(
            f"the name {odd!r} cannot be carried over",
            op="sdy.mesh",
            cause="the names of clusters and their axes are plain words",
            remedy="use letters, digits and . $ - _ in the names of meshes and axes",
        )
    others = _others(op)
    if len(mesh.axes) < len(parse_mesh(str(op.attributes["mesh"]), mesh.name).axes):
        del others[DEVICES]  # a stage: what is sent between stages tells their devices
    attributes: dict[str, Any] = {
        **others,
        "sym_name": ir.StringAttr.get(mesh.name),
        "rank": parse_attribute(f"{len(names)} : i64"),
        "dim_sizes": parse_attribute(str([size for _, size in mesh.axes])),
    }
    if names != [f"axis_{axis}" for axis in range(len(names))]:
        attributes["axis_names"] = ir.ArrayAttr.get([ir.StringAttr.get(axis) for axis in names])
    ir.Operation.create("mesh.cluster", attributes=attributes)

"""Shardings as users write them: on the command line, and as JAX's `PartitionSpec`.

A sharding has one entry a dimension, separated by commas:

    data          split over the axis `data`
    model+data    split over both, `model` the major one
    model:(1)2    split over a part of `model`: 2 wide, below 1 of its major-most parts
    -             open: nothing said, propagation may split it
    .             closed and empty: not split

Entries that are missing at the end are not split, as in a `PartitionSpec`. An empty text is the sharding of a scalar.

    >>> mesh = mesh_of("data=2,model=4")
    >>> parse_spec("data,-,model:(1)2", mesh, rank=3)
    [{data}, {?}, {model:(1)2}]
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardwright.axes import AxisRef, merge_axes
from shardwright.errors import ShardingError
from shardwright.frontends.meshes import mesh_of
from shardwright.mesh import Mesh
from shardwright.notation.jax import missing_entries
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.words import counted, kind_of

__all__ = ["GRAMMAR", "is_entry", "is_spec", "parse_argument_option", "parse_spec", "print_spec", "sharding_of"]

GRAMMAR = """\
SPEC: one entry a dimension, separated by commas. An entry is
  AXIS          split over this mesh axis
  AXIS+AXIS     split over both, the first one major
  AXIS:(1)2     split over a part of the axis: 2 wide, below 1 of its major-most parts
  -             open: nothing said, propagation may split it
  .             closed and empty: not split
"data,-,model+data:(1)2" has three dimensions; more of them are not split; "" is a scalar."""

_AXIS = re.compile(r"(?P<name>[^\s:+,=()]+)(?::\((?P<pre>\d{1,18})\)(?P<size>\d{1,18}))?")
_REMEDY = "one entry a dimension, as in data,-,model+data (see --help)"


def parse_argument_option(text: str) -> tuple[str, str]:
    """`NAME_OR_INDEX=SPEC` as its two halves; the name may itself hold `=`, the spec never does."""
    name, equals, spec = text.rpartition("=")
    if not equals or not name.strip():
        raise ShardingError(
            f"not NAME_OR_INDEX=SPEC: {text!r}",
            cause="there is no '=' with a name before it",
            remedy="name an argument of the program and its sharding, as in params/w1=-,model",
        )
    return name.strip(), spec


def parse_spec(text: str, mesh: Mesh, rank: int) -> TensorSharding:
    """The sharding written as `data,-,model+data`, of a tensor of `rank` dimensions.

    Raises:
        ShardingError: malformed text, more entries than dimensions or none, an unknown axis, one used twice.
    """
    entries = [entry.strip() for entry in text.split(",")] if text.strip() else []
    dims = tuple(_entry(entry, mesh, text) for entry in entries)
    if 0 < len(dims) < rank:
        dims += (DimSharding(),) * (rank - len(dims))
    if len(dims) != rank:
        raise ShardingError(
            f"{text!r} has {counted(len(dims), 'entry')}, the tensor has {counted(rank, 'dimension')}",
            cause="a sharding has at most one entry per dimension",
            remedy=f"give {rank}, '-' or '.' where a dimension is not split" if rank else 'give "" to a scalar',
        )
    return _checked(TensorSharding(mesh, dims))


def print_spec(sharding: TensorSharding) -> str:
    """The text that `parse_spec` reads; open dimensions lose what `-` cannot say beside their axes."""
    axis_text = sharding.mesh.axis_text
    return ",".join("+".join(map(axis_text, dim.axes)) or ("-" if dim.open else ".") for dim in sharding.dims)


def sharding_of(spec: Any, mesh: Mesh, rank: int) -> TensorSharding:
    """A sharding from what Python users give: a SPEC text, a `PartitionSpec`, a list or tuple of its entries, a
    `NamedSharding`, or a `TensorSharding`.

    In a `PartitionSpec`, as in JAX, `None` and missing trailing entries are not split (closed), and
    `P.UNCONSTRAINED` is left to propagation (open).

    Raises:
        ShardingError: anything else, and what `parse_spec` refuses.
    """
    if isinstance(spec, str):
        return parse_spec(spec, mesh, rank)
    if isinstance(spec, TensorSharding):
        return _own(spec, mesh, rank)
    from jax.sharding import NamedSharding, PartitionSpec  # takes most of a second, and the command line needs none

    if isinstance(spec, NamedSharding):
        spec = _spec_on(spec, mesh)
    elif type(spec) in (list, tuple):
        spec = _spec_of_entries(spec)
    if not isinstance(spec, PartitionSpec):
        raise ShardingError(
            f"not a sharding: {spec!r}",
            cause=f"it is {kind_of(spec)}",
            remedy='give sw.P(None, "model"), the text "-,model" or a TensorSharding',
        )
    return _partition_spec(spec, mesh, rank)


def _spec_on(sharding: Any, mesh: Mesh) -> Any:
    """The `PartitionSpec` of a `NamedSharding`, which must be on our mesh and in the memory that devices compute in."""
    if tuple(sharding.mesh.shape.items()) != mesh.axes:
        raise ShardingError(
            f"the sharding is on {sharding.mesh}"[:200],
            cause=f"the program is on {mesh!r}",
            remedy="make it on the mesh of the program, or give its spec",
        )
    import jax  # loaded already: the sharding is JAX's

    if (
        isinstance(sharding.mesh, jax.sharding.Mesh)
        and mesh_of(sharding.mesh, anywhere=True).device_ids != mesh.device_ids
    ):
        raise ShardingError(
            f"the sharding is on the devices {', '.join(str(device.id) for device in sharding.mesh.devices.flat)}"[
                :200
            ],
            cause=f"the program is on {mesh!r}, whose devices lie in another order",
            remedy="make it on the mesh of the program, or give its spec",
        )
    if sharding.memory_kind not in (None, "device"):
        raise ShardingError(
            f"the sharding is in the memory {sharding.memory_kind!r}",
            cause="where an argument is stored is said by the function, not by its sharding here",
            remedy="jit the function with in_shardings that say so, and give its spec here",
        )
    return sharding.spec


def _spec_of_entries(entries: Sequence[Any]) -> Any:
    """`("data", None)` as a `PartitionSpec`; what is no entry of one comes back as it is."""
    from jax.sharding import PartitionSpec

    return PartitionSpec(*entries) if all(map(is_entry, entries)) else entries


def is_entry(value: Any) -> bool:
    """Whether this is an entry of a `PartitionSpec`: an axis, several, `None`, or what is left to propagation."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, (list, tuple)):
        return all(isinstance(name, str) for name in value)
    from jax.sharding import PartitionSpec

    return value is PartitionSpec.UNCONSTRAINED


def is_spec(value: Any) -> bool:
    """Whether this is one sharding, in any form that `sharding_of` takes, and no container of several.

    A tuple or list is one if it has entries of a `PartitionSpec` and no others, and some of them name axes.
    """
    if isinstance(value, (str, TensorSharding)):
        return True
    if type(value) in (list, tuple):
        return all(map(is_entry, value)) and any(entry not in (None, (), []) for entry in value)
    if type(value).__module__.partition(".")[0] in ("builtins", "numpy"):
        return False
    from jax.sharding import PartitionSpec, Sharding

    return isinstance(value, (PartitionSpec, Sharding))


def _partition_spec(spec: Any, mesh: Mesh, rank: int) -> TensorSharding:
    entries = list(spec.partitions)  # iterating over one that is unreduced is an error
    missing = missing_entries(len(entries), rank, repr(spec), "a sharding has at most one entry per dimension")
    dims: list[DimSharding] = []
    for entry in entries:
        is_open = entry is spec.UNCONSTRAINED
        names = (entry,) if isinstance(entry, str) else () if entry is None or is_open else tuple(entry)
        dims.append(DimSharding(tuple(_axis(mesh, name) for name in names), is_open))
    reduced, unreduced = (
        mesh.in_order(_axis(mesh, name) for name in getattr(spec, keyword, None) or ())
        for keyword in ("reduced", "unreduced")
    )
    kind = str(getattr(spec, "unreduced_kind", None) or "sum").rpartition(".")[2]
    partial = tuple(Partial(axis, kind) for axis in unreduced)
    sharding = TensorSharding(mesh, (*dims, *missing), reduced, partial)
    if reduced or partial:
        sharding.check()
    return _checked(sharding)


def _own(sharding: TensorSharding, mesh: Mesh, rank: int) -> TensorSharding:
    if (sharding.mesh.axes, sharding.mesh.device_ids) != (mesh.axes, mesh.device_ids):
        raise ShardingError(
            f"the sharding {sharding!r} is on {sharding.mesh!r}",
            cause=f"the program is on {mesh!r}",
            remedy="make the sharding on the mesh of the program",
        )
    if len(sharding.dims) != rank:
        sharding.check((1,) * rank)
    moved = replace(sharding, mesh=mesh)
    moved.check()
    return moved


def _entry(entry: str, mesh: Mesh, spec: str) -> DimSharding:
    if entry in ("-", "."):
        return DimSharding((), open=entry == "-")
    axes: list[AxisRef] = []
    for part in entry.split("+"):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match["name"] in ("-", "."):
            raise ShardingError(
                f"not a sharding: {spec!r}",
                cause=f"{entry!r} is no entry" if entry else "an entry is empty",
                remedy=_REMEDY,
            )
        sub = (int(match["pre"]), int(match["size"])) if match["pre"] else None
        axes.append(_axis(mesh, match["name"], sub))
    return DimSharding(tuple(axes))


def _axis(mesh: Mesh, name: str, sub: tuple[int, int] | None = None) -> AxisRef:
    if name not in mesh.sizes:
        close = difflib.get_close_matches(name, list(mesh.sizes), n=1)
        raise ShardingError(
            f"unknown mesh axis {name!r}",
            cause=f"the mesh has the axes {', '.join(map(repr, mesh.sizes)) or 'none'}",
            remedy=f"did you mean {close[0]!r}?" if close else "name one of them",
        )
    return mesh.axis(name) if sub is None else mesh.axis(name, *sub)


def _checked(sharding: TensorSharding) -> TensorSharding:
    seen: list[AxisRef] = []
    for axis in sharding.used_axes:
        if any(axis.overlaps(other) for other in seen):
            raise ShardingError(
                f"mesh axis {axis.name!r} is used twice in {print_spec(sharding)!r}",
                cause="an axis can split one dimension of a tensor only",
                remedy="take it out of all dimensions but one, or split it into sub-axes",
            )
        seen.append(axis)
    # `x:(1)2+x:(2)2` is what `x:(1)4` says, and sdy refuses the longer form
    dims = tuple(DimSharding(merge_axes(dim.axes), dim.open) for dim in sharding.dims)
    return replace(sharding, dims=dims)

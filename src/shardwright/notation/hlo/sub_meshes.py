"""`mhlo.sharding`s that name a part of the devices, lifted onto all of them.

One program runs on all devices. So a tensor that is to be on some of them alone is on the others too: these are divided
into groups of as many, and each group holds what the named devices hold. Values that lie alike on two such groups, as
the stages of a pipeline, lie alike on all devices then, and nothing has to be moved from one to the other.

    >>> from shardwright.notation.hlo.text import parse_hlo
    >>> stages = [parse_hlo(text) for text in ("{devices=[2,1]0,1}", "{devices=[2,1]3,2}")]
    >>> for lifted in lift(stages, 4).values():
    ...     print(lifted.whole, "for", lifted.devices)
    {devices=[2,1,2]0,3,1,2 last_tile_dim_replicate} for (0, 1)
    {devices=[2,1,2]0,3,1,2 last_tile_dim_replicate} for (2, 3)

Groups are those that the shardings name, where none of these overlap; else each sharding has groups of its own, and so
a mesh of its own. What is left over is divided like the devices named where these count by digits, else in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shardwright.mesh import Mesh
from shardwright.notation.hlo.mesh import Clash, common_mesh
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.several import has_manual, several_meshes
from shardwright.notation.hlo.tiles import Iota, digits_of_list, expand, order_size

__all__ = ["Lifted", "Served", "device_count", "lift", "part_clash", "restricted", "served"]

_DIVISOR = "one program runs on all devices, in groups that hold the same: name a number of devices that divides"

_Groups = tuple[tuple[int, ...], ...]
"""Groups of devices that hold the same, each in the order in which its devices stand for those of the others."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """A sharding over a part of the devices, on all of them.

    Attributes:
        whole: The sharding of all devices.
        devices: Those that the text names, sorted.
    """

    whole: HloSharding
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """The meshes for the shardings of a module.

    Attributes:
        meshes: The one that serves all, or several that do.
        lifted: Those that name a part of the devices, without groups and metadata, on all of them.
    """

    meshes: tuple[Mesh, ...]
    lifted: dict[HloSharding, Lifted]


def served(
    shardings: Sequence[HloSharding], count: int | None, names: Sequence[str], own: Mesh | None = None
) -> Served | Clash:
    """As few meshes as serve all of `shardings`, or what stands in the way of any.

    Arguments:
        shardings: In canonical form, no tuples.
        count: How many devices there are, where that is known otherwise.
        names: What the meshes are called.
        own: The mesh that the module has already.

    Raises:
        ShardingError: more devices in lists than are looked at one by one.
    """
    if count is None:
        count = device_count(shardings) if own is None else own.size
    clash = None if count is None else part_clash(shardings, count)
    if clash is not None:
        return clash
    ways = [_served(shardings, count, names, own, in_order) for in_order in (False, True)]
    found = [way for way in ways if isinstance(way, Served)]
    return min(found, key=lambda way: len(way.meshes)) if found else ways[0]


def _served(
    shardings: Sequence[HloSharding], count: int | None, names: Sequence[str], own: Mesh | None, in_order: bool
) -> Served | Clash:
    bare = [replace(hlo, group=None, metadata="") for hlo in shardings]
    lifted = {} if count is None else lift(bare, count, in_order)
    whole = [lifted[hlo].whole if hlo in lifted else hlo for hlo in bare]
    common = common_mesh(whole, count, names[0], own)
    if isinstance(common, Mesh):
        return Served((common,), lifted)
    several = None
    if common.is_of_meshes and not any(map(has_manual, whole)):
        several = several_meshes(whole, names, own)
    return common if several is None else Served(several, lifted)


def device_count(shardings: Sequence[HloSharding]) -> int | None:
    """How many devices `shardings`, in canonical form, name together; `None` where that tells nothing.

    Devices that are to hold a tensor alone tell it only where they are several and none is left out.
    """
    counted = [order_size(hlo.order) for hlo in shardings if hlo.kind == "tiled" and isinstance(hlo.order, Iota)]
    counted += [math.prod(size for _, size in hlo.named.axes) for hlo in shardings if hlo.named and hlo.named.axes]
    most = max(counted, default=0)
    beyond = {device for hlo in shardings for device in _listed(hlo) if device >= most}
    if most or any(hlo.kind == "tiled" for hlo in shardings):
        return most + len(beyond)
    return len(beyond) if len(beyond) > 1 and max(beyond) < len(beyond) else None


def _listed(hlo: HloSharding) -> Sequence[int]:
    if hlo.kind == "maximal":
        return (hlo.device,)
    return () if isinstance(hlo.order, Iota) else hlo.order


def lift(shardings: Iterable[HloSharding], count: int, in_order: bool = False) -> dict[HloSharding, Lifted]:
    """Those of `shardings` that are tiled over fewer than `count` devices, on all of them.

    Arguments:
        shardings: In canonical form, no tuples, none that `part_clash` tells of.
        count: How many devices there are.
        in_order: Whether the devices of two groups stand for one another in the order of their numbers; else in that in
            which the first sharding of each group lists them.
    """
    orders = {hlo: tuple(map(int, expand(hlo.order))) for hlo in shardings if _is_partial(hlo, count)}
    by_size: dict[int, dict[frozenset[int], tuple[int, ...]]] = {}
    for order in orders.values():
        by_size.setdefault(len(order), {}).setdefault(frozenset(order), tuple(sorted(order)) if in_order else order)
    groups = {devices: divided for sets in by_size.values() for devices, divided in _divided(sets, count).items()}
    return {
        hlo: Lifted(_on_all(hlo, order, groups[frozenset(order)]), tuple(sorted(order)))
        for hlo, order in orders.items()
    }


def _is_partial(hlo: HloSharding, count: int) -> bool:
    return hlo.kind == "tiled" and order_size(hlo.order) < count


def part_clash(shardings: Sequence[HloSharding], count: int) -> Clash | None:
    """The first of `shardings` over fewer than `count` devices that cannot be lifted onto all, and why."""
    for number, hlo in enumerate(shardings):
        most = max(_listed(hlo), default=0)
        if most >= count and (hlo.kind == "maximal" or _is_partial(hlo, count)):
            remedy = f"name devices from 0 to {count - 1}"
            return Clash(number, None, f"device {most} is not one of {count}", remedy, False)
    for number, hlo in enumerate(shardings):
        if not _is_partial(hlo, count):
            continue
        size = order_size(hlo.order)
        if "manual" in hlo.subgroups:
            cause = f"a manual computation on {size} of {count} devices leaves the others nothing to run"
            return Clash(number, None, cause, f"lay it over all {count} devices", False)
        if count % size:
            cause = f"it is for {size} devices, the module for {count}, which do not divide into groups of {size}"
            remedy = f"{_DIVISOR} {count}, or say in mhlo.num_partitions how many there are"
            return Clash(number, None, cause, remedy, False)
    return None


def _divided(sets: Mapping[frozenset[int], tuple[int, ...]], count: int) -> dict[frozenset[int], _Groups]:
    """The groups for each of some sets of devices of one size: the same for all where they do not overlap."""
    if sum(map(len, sets)) == len(frozenset().union(*sets)):
        groups = _with_rest(tuple(sets.values()), count)
        return dict.fromkeys(sets, groups)
    return {devices: _with_rest((order,), count) for devices, order in sets.items()}


def _with_rest(named: _Groups, count: int) -> _Groups:
    """Groups that are named, and those of the other devices."""
    like = _like(tuple(sorted(named[0])), count)
    orders = {frozenset(group): group for group in named}
    if like is not None and orders.keys() <= set(map(frozenset, like)):
        return tuple([orders.get(frozenset(group), group) for group in like])
    rest = sorted(set(range(count)).difference(*named))
    size = len(named[0])
    return (*named, *[tuple(rest[first : first + size]) for first in range(0, len(rest), size)])


def _like(devices: tuple[int, ...], count: int) -> _Groups | None:
    """All devices in groups that count as `devices`, sorted, do, from another first device; `None` where none do.

    >>> _like((1, 3), 8)
    ((0, 2), (1, 3), (4, 6), (5, 7))
    """
    offsets = np.array(devices, dtype=np.int64) - devices[0]
    digits = digits_of_list((len(devices),), offsets)
    if digits is None:
        return None
    spans = sorted((stride, size * stride) for size, stride in digits[0])
    limits = [*(stride for stride, _ in spans[1:]), count]
    if any(limit % end for (_, end), limit in zip(spans, limits, strict=True)):
        return None
    firsts = [device for device in range(count) if all(device % end < stride for stride, end in spans)]
    return tuple([tuple([first + int(offset) for offset in offsets]) for first in firsts])


def _on_all(hlo: HloSharding, order: Sequence[int], groups: _Groups) -> HloSharding:
    """`hlo` with every device followed by those that hold the same."""
    own = next(group for group in groups if set(group) == set(order))
    place = {device: number for number, device in enumerate(own)}
    devices = tuple([group[place[device]] for device in order for group in groups])
    return replace(
        hlo, tile=(*hlo.tile, len(groups)), order=devices, subgroups=(*hlo.subgroups, "replicated")
    ).canonical()


def restricted(hlo: HloSharding, devices: Sequence[int] | None) -> HloSharding:
    """What `hlo`, in canonical form, says of `devices` alone; `hlo` itself for `None`, or where it needs more of them.

    >>> from shardwright.notation.hlo.text import parse_hlo
    >>> str(restricted(parse_hlo("{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}"), (2, 3)))
    '{devices=[2,1]2,3}'
    """
    if devices is None or hlo.kind != "tiled" or hlo.subgroups[-1:] != ("replicated",):
        return hlo
    meant = set(devices)
    rows = expand(hlo.order).reshape(-1, hlo.tile[-1])
    kept = [[int(device) for device in row if int(device) in meant] for row in rows]
    if len({len(row) for row in kept}) > 1 or not kept[0]:
        return hlo
    order = tuple(itertools.chain.from_iterable(kept))
    return replace(hlo, tile=(*hlo.tile[:-1], len(kept[0])), order=order).canonical()

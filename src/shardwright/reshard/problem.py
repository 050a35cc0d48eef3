"""Between named shardings and the bare numbers that the search works on.

Axes of source and target are cut into common sub-axes, the *atoms*; the axes with which a dimension begins on both
sides stay where they are and drop out. Atoms are cut further where it helps: on mesh (x=4, y=2), `[x],[y]` becomes
`[y],[x]` cheapest by moving half of `x`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardwright.axes import Axes, AxisRef, axes_size, can_coexist, clashing_axes, decompose, primes_of, subtract_axes
from shardwright.cost.nodes import spread_of
from shardwright.cost.torus import Line, Torus, is_on_grid, lines_of
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.reshard.atoms import Layout, Problem
from shardwright.sharding import Partial, TensorSharding

__all__ = ["Frame", "Nodes", "idle_axes", "moves_all", "pose"]

_ATOMS = 6
"""How many atoms a search should have at most: cutting stops, and idle axes are left out, where it would have more."""

_ATOMS_ON_LINES = 4
"""How many it has of prime size on a torus at most: more layouts that send as much take as long or not."""

_Lists = tuple[Axes, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A problem and what its numbers stand for.

    Attributes:
        problem: The numbers.
        atoms: Each atom's sub-axis.
        dims: The tensor's dimension for each dimension of the problem; the others do not change.
        fixed: Per dimension of the tensor, the axes that stay, all of them major to the atoms.
        partial: What stays partial.
        kinds: The reduction kind of each partial atom.
        is_far: Whether devices along all atoms are of different nodes.
    """

    problem: Problem
    atoms: Axes
    dims: tuple[int, ...]
    fixed: _Lists
    partial: tuple[Partial, ...]
    kinds: dict[int, str]
    is_far: bool

    def axes(self, layout: Layout) -> _Lists:
        """A layout of the problem as axes per dimension of the tensor."""
        lists = list(self.fixed)
        for dim, atoms in zip(self.dims, layout, strict=True):
            lists[dim] += tuple(self.atoms[atom] for atom in atoms)
        return tuple(lists)


def pose(
    shape: Sequence[int],
    source: TensorSharding,
    target: TensorSharding,
    fine: bool = False,
    idle: bool = False,
    by_hand: frozenset[str] = frozenset(),
    named: bool = False,
    nodes: Nodes | None = None,
    torus: Torus | None = None,
) -> Frame:
    """The problem of bringing a tensor of `shape` from `source` to `target`, both closed and dividing it.

    With `fine`, atoms are cut to primes where they are few; with `idle`, axes may help that neither side uses, and on a
    torus what both begin with. Contributions `by_hand` are gathered where not scattered. With `named`, only steps of
    `sdy` are taken. What goes between `nodes` counts more, else what goes over the busiest link of a `torus`.

    Raises:
        ShardingError: `target` is partial in a way that `source` is not.
    """
    reduced = _reduced(source, target)
    have, goal, awaiting = _common_parts(source.axes, target.axes, tuple([axis for axis, _ in reduced]))
    fixed, have, goal = _without_start(have, goal, idle and torus is not None and moves_all(source.mesh))
    if not named:
        have, goal, awaiting = _cut_further(have, goal, awaiting, fine * _most_primes(idle, torus), source.mesh, nodes)
    atoms = tuple(dict.fromkeys((*_flat(have), *_flat(goal), *awaiting)))
    atoms += _unused(shape, source, target, len(atoms), nodes, torus) if idle and not named else ()
    dims = _dims(have, goal, lengths := _lengths(shape, fixed, atoms))
    number = {axis: index for index, axis in enumerate(atoms)}
    entries = [next(p for whole, p in reduced if whole.contains(axis)) for axis in awaiting]
    runs = dict(zip(source.partial, _runs(source.partial), strict=True))
    far, farther = _weights(atoms, source.mesh, nodes)
    problem = Problem(
        sizes=tuple(axis.size for axis in atoms),
        lengths=tuple(lengths[dim] for dim in dims),
        source=tuple(tuple(number[axis] for axis in have[dim]) for dim in dims),
        target=tuple(tuple(number[axis] for axis in goal[dim]) for dim in dims),
        partial=tuple(number[axis] for axis in awaiting),
        kinds=tuple(runs[p] for p in entries),
        clashes=_clashes(atoms),
        permute=source.mesh != target.mesh,
        by_hand=frozenset(runs[p] for p in entries if p.kind in by_hand),
        named=named,
        far=far,
        farther=farther if far else 0,
        lines=_lines(atoms, source.mesh, torus if nodes is None else None),
        is_on_grid=torus is not None and nodes is None and is_on_grid(source.mesh, torus),
    )
    kinds = dict(zip(problem.partial, [p.kind for p in entries], strict=True))
    return Frame(problem, atoms, dims, fixed, target.partial, kinds, farther > 0 and not far)


def _lines(atoms: Axes, mesh: Mesh, torus: Torus | None) -> tuple[tuple[Line, ...], ...]:
    """On what lines devices along each atom are; nothing where a switch joins them."""
    return () if torus is None else tuple([lines_of((axis,), mesh, torus) for axis in atoms])


def _most_primes(idle: bool, torus: Torus | None) -> int:
    return _ATOMS_ON_LINES if torus else _ATOMS - 2 * idle


def moves_all(mesh: Mesh) -> bool:
    """Whether axes are so few that what both sides begin with may be moved too, where links make a torus."""
    return sum([len(primes_of(mesh.axis(name))) for name, size in mesh.axes if size > 1]) <= _ATOMS_ON_LINES


def _without_start(have: _Lists, goal: _Lists, moves: bool) -> tuple[_Lists, _Lists, _Lists]:
    """The axes with which dimensions begin on both sides, and stay, unless they may move; and what is behind them."""
    fixed = tuple(() if moves else _shared_start(left, right) for left, right in zip(have, goal, strict=True))
    have, goal = (tuple(axes[len(same) :] for axes, same in zip(side, fixed, strict=True)) for side in (have, goal))
    return fixed, have, goal


def _cut_further(
    have: _Lists, goal: _Lists, awaiting: Axes, most_primes: int, mesh: Mesh, nodes: Nodes | None
) -> tuple[_Lists, _Lists, Axes]:
    """The same by smaller parts of axes: see `_cuts` and `_cut_by_nodes`."""
    cuts = _cut_by_nodes(_cuts(have, goal, awaiting, most_primes), mesh, nodes)
    (awaiting,) = _recut((awaiting,), cuts)
    return _recut(have, cuts), _recut(goal, cuts), awaiting


class Nodes(NamedTuple):
    """How devices stand together.

    Attributes:
        devices: How many in a node.
        farther: What a byte to another node takes more than one that stays, in as many of those.
    """

    devices: int
    farther: int


def _weights(atoms: Axes, mesh: Mesh, nodes: Nodes | None) -> tuple[frozenset[int], int]:
    """The atoms along which devices are of different nodes, where not all are so, and what a byte along them counts
    more; that counts for all bytes where there are such atoms only.
    """
    if nodes is None:
        return frozenset(), 0
    far = [number for number, axis in enumerate(atoms) if spread_of((axis,), mesh, nodes.devices).nodes > 1]
    return frozenset(far if len(far) < len(atoms) else ()), nodes.farther if far else 0


def _cut_by_nodes(cuts: dict[AxisRef, Axes], mesh: Mesh, nodes: Nodes | None) -> dict[AxisRef, Axes]:
    """The same, pieces cut in two that go beyond a node, if that does not make too many."""
    if nodes is None:
        return cuts
    finer = {axis: _flat([_by_nodes(piece, mesh, nodes) for piece in pieces]) for axis, pieces in cuts.items()}
    return finer if sum(map(len, finer.values())) <= _ATOMS else cuts


def _by_nodes(axis: AxisRef, mesh: Mesh, nodes: Nodes) -> Axes:
    """What of an axis differs from node to node, and what does within one."""
    across = spread_of((axis,), mesh, nodes.devices).nodes
    if across in (1, axis.size) or axis.size % across:
        return (axis,)
    return AxisRef(axis.name, axis.pre, across), AxisRef(axis.name, axis.pre * across, axis.size // across)


def _by_lines(axis: AxisRef, mesh: Mesh, torus: Torus) -> Axes:
    """The parts of an axis that lie on one line of a torus each, if dimensions cut it evenly."""
    sizes = [line.size for line in lines_of((axis,), mesh, torus)]
    if math.prod(sizes) != axis.size:
        return (axis,)
    starts = itertools.accumulate(sizes, operator.mul, initial=axis.pre)
    return tuple([AxisRef(axis.name, start, size) for start, size in zip(starts, sizes, strict=False)])


def _reduced(source: TensorSharding, target: TensorSharding) -> tuple[tuple[AxisRef, Partial], ...]:
    """What must be reduced: each sub-axis with the entry of `source.partial` it belongs to.

    Raises:
        ShardingError: `target` is partial where `source` is not, or what stays would have to be reduced earlier.
    """
    for p in target.partial:
        if not any(p.kind == q.kind and q.axis.contains(p.axis) for q in source.partial):
            raise ShardingError(
                f"{source!r} cannot become {target!r}",
                cause=f"the target is partial ({p.kind}) along {p.axis.name!r} and the source is not",
                remedy="a reshard reduces, it does not make contributions",
            )
    runs = _runs(source.partial)
    staying = max((run for p, run in zip(source.partial, runs, strict=True) if _stays(p, target)), default=0)
    reduced: list[tuple[AxisRef, Partial]] = []
    for p, run in zip(source.partial, runs, strict=True):
        rest = subtract_axes((p.axis,), target.partial_axes)
        if rest and run < staying:
            raise ShardingError(
                f"{source!r} cannot become {target!r}",
                cause=f"{p.axis.name!r} ({p.kind}) would be reduced before an axis minor to it, of another kind",
                remedy="reduce the minor-most partial axes first",
            )
        reduced += [(axis, p) for axis in rest]
    return tuple(reduced)


def _stays(p: Partial, target: TensorSharding) -> bool:
    return any(p.axis.contains(axis) for axis in target.partial_axes)


def _runs(partial: Sequence[Partial]) -> tuple[int, ...]:
    """For each entry the number of its run of equal kinds; the last run is to be reduced first."""
    runs: list[int] = []
    for index, p in enumerate(partial):
        same = index == 0 or p.kind == partial[index - 1].kind
        runs.append((runs[-1] if runs else 0) + (not same))
    return tuple(runs)


def _common_parts(source: _Lists, target: _Lists, reduced: Axes) -> tuple[_Lists, _Lists, Axes]:
    """All three cut into parts that are equal or disjoint, unless they cannot be (`x:(1)2` and `x:(1)3`)."""
    left, right = (*source, reduced), target
    clashing = clashing_axes((*_flat(left), *_flat(right)))
    free_left = tuple(axis for axis in _flat(left) if axis.name not in clashing)
    free_right = tuple(axis for axis in _flat(right) if axis.name not in clashing)
    left_parts, right_parts = decompose((*left, free_right)), decompose((*right, free_left))
    *have, awaiting = _recut(left, left_parts)
    return tuple(have), _recut(right, right_parts), awaiting


def _recut(lists: Iterable[Axes], parts: Mapping[AxisRef, Axes]) -> _Lists:
    return tuple(tuple(part for axis in axes for part in parts[axis]) for axes in lists)


def _flat(lists: Iterable[Axes]) -> Axes:
    return tuple(axis for axes in lists for axis in axes)


def _shared_start(left: Axes, right: Axes) -> Axes:
    """The atoms with which both begin."""
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return left[:length]


def _cuts(have: _Lists, goal: _Lists, awaiting: Axes, most_primes: int) -> dict[AxisRef, Axes]:
    """How to cut each atom further: to at most `most_primes` primes, else where shard counts do not match."""
    atoms = tuple(dict.fromkeys((*_flat(have), *_flat(goal), *awaiting)))
    clashing = {one for one in atoms for other in atoms if not can_coexist(one, other)}
    ratios = {
        ratio
        for left, right in zip(have, goal, strict=True)
        for ratio in _reduced_fraction(axes_size(left), axes_size(right))
    }
    cuts = {axis: primes_of(axis) for axis in atoms}
    if not most_primes or sum(map(len, cuts.values())) > most_primes:
        cuts = {axis: _by_ratio(axis, ratios) for axis in atoms}
    if sum(map(len, cuts.values())) > _ATOMS:
        return {axis: (axis,) for axis in atoms}
    return cuts | {axis: (axis,) for axis in clashing}


def _reduced_fraction(numerator: int, denominator: int) -> tuple[int, int]:
    shared = math.gcd(numerator, denominator)
    return numerator // shared, denominator // shared


def _by_ratio(axis: AxisRef, ratios: Iterable[int]) -> Axes:
    """`axis` with a minor part cut off that makes up for the largest of `ratios` it has a part of."""
    minor = max((math.gcd(axis.size, ratio) for ratio in ratios), default=1)
    if minor in (1, axis.size):
        return (axis,)
    major = axis.size // minor
    return (AxisRef(axis.name, axis.pre, major), AxisRef(axis.name, axis.pre * major, minor))


def idle_axes(source: TensorSharding, target: TensorSharding) -> Axes:
    """The axes of more than one device, or parts of axes, that neither side uses.

    Of axes that the two cut in ways that cannot be used together, what is left of either one's.
    """
    mesh, held = source.mesh, (*source.used_axes, *source.partial_axes)
    taken = (*held, *target.used_axes)
    clashing = clashing_axes(taken)
    wide = [mesh.axis(name) for name, size in mesh.axes if size > 1 and name not in mesh.manual]
    idle = subtract_axes([axis for axis in wide if axis.name not in clashing], taken)
    torn = [axis for axis in wide if axis.name in clashing]
    return tuple(dict.fromkeys((*idle, *subtract_axes(torn, held), *subtract_axes(torn, target.used_axes))))


def _unused(
    shape: Sequence[int],
    source: TensorSharding,
    target: TensorSharding,
    atoms: int,
    nodes: Nodes | None,
    torus: Torus | None,
) -> Axes:
    """The idle axes, as far as there is room for them: they can share the work of a reduction, or the way to nodes.

    An axis that divides what the source has of some dimension stays whole: all of it is worth more than any part, but
    on a torus that of one line than that of another.
    """
    local = source.local_shape(shape)
    chosen: list[AxisRef] = []
    idle, most = idle_axes(source, target), _ATOMS - (torus is not None)
    if nodes is not None:
        idle = _flat([_by_nodes(axis, source.mesh, nodes) for axis in idle])
    if torus is not None:
        primes = _flat([primes_of(axis) for axis in idle])
        lines = _flat([_by_lines(axis, source.mesh, torus) for axis in idle])
        idle = primes if len(primes) + atoms <= _ATOMS_ON_LINES else lines
    for axis in sorted(idle, key=lambda axis: -axis.size):
        fits = any(size % axis.size == 0 for size in local)
        for pieces in ((axis,),) if fits else (primes_of(axis), (axis,)):
            if pieces and len(pieces) + len(chosen) + atoms <= most:
                chosen += pieces
                break
    return tuple(chosen)


def _lengths(shape: Sequence[int], fixed: _Lists, atoms: Axes) -> tuple[int, ...]:
    """Per dimension what is left of its length for the atoms to split, reduced to what they can divide."""
    total = axes_size(atoms)
    return tuple(math.gcd(size // axes_size(axes), total) for size, axes in zip(shape, fixed, strict=True))


def _dims(have: _Lists, goal: _Lists, lengths: Sequence[int]) -> tuple[int, ...]:
    """The dimensions that change, and one or two others in which an atom can wait."""
    change = [dim for dim, axes in enumerate(zip(have, goal, strict=True)) if any(axes)]
    others = [dim for dim, length in enumerate(lengths) if dim not in change and length > 1]
    others.sort(key=lambda dim: -lengths[dim])
    return tuple(sorted(change + others[: 1 if len(change) > 1 else 2]))


def _clashes(atoms: Axes) -> tuple[int, ...]:
    """Per atom, the set (as bits) of atoms that cannot be in use with it."""
    return tuple(
        sum(
            1 << index
            for index, other in enumerate(atoms)
            if other != atom and (atom.overlaps(other) or not can_coexist(atom, other))
        )
        for atom in atoms
    )

"""A saved plan on a program that may have changed since: what still fits, and why the rest does not, entry by entry.

An entry is about an argument or a result of its name. It fits if the program has one, of as many dimensions, if the
mesh has its axes, and if dimensions that were split evenly when the plan was made are so still.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from shardwright.axes import AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.frontends.annotate import annotate, program_mesh, says_nothing
from shardwright.frontends.constrained_parts import constrain_parts
from shardwright.frontends.diagnose import close_names
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.ir.graph import Graph
from shardwright.ir.locations import pytree_path
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.saved import PlannedTensor, SavedPlan
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.words import counted

if TYPE_CHECKING:
    from shardwright.partition import Note

__all__ = ["Fit", "Unfit", "fit_plan", "mesh_for"]

_LISTED = 20
"""Entries that an error names."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """An entry of a plan that does not fit the program; it is left out.

    Attributes:
        what: `argument`, `result` or `module`, or `entry` of what another format says.
        name: What the plan calls it.
        sharding: How it was to lie, where that is known.
        cause: Why it does not fit.
        remedy: What to change.
        location: The line of the plan.
    """

    what: str
    name: str
    sharding: TensorSharding | None
    cause: str
    remedy: str
    location: str

    def __str__(self) -> str:
        """In one line."""
        return f"{self.location}: {self.what} {self.name!r}: {self.cause}"


@dataclass(frozen=True, slots=True)
class Fit:
    """What of a plan fits a program.

    Attributes:
        plan: The plan.
        mesh: The mesh of the program.
        arguments: What fits, on this mesh, by the names of the program.
        results: The same of results.
        unfit: What does not.
        new: Arguments that the plan does not know; propagation completes them.
        parts: What the modules of the program's model take and give.
        modules: The same of these, by their numbers, where the plan was told how they are to lie.
    """

    plan: SavedPlan
    mesh: Mesh
    arguments: Mapping[str, PlannedTensor]
    results: Mapping[str, PlannedTensor]
    unfit: tuple[Unfit, ...]
    new: tuple[str, ...]
    parts: tuple[ModuleTensor, ...] = ()
    modules: Mapping[int, PlannedTensor] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a plan of which an entry does not fit.

        Raises:
            ShardingError: naming every such entry, at the line of the first.
        """
        if not self.unfit:
            return
        lines = [str(one) for one in self.unfit[:_LISTED]]
        if len(self.unfit) > _LISTED:
            lines.append(f"and {len(self.unfit) - _LISTED} more: `plan.fit.unfit` lists all without strict")
        remedies = dict.fromkeys(one.remedy for one in self.unfit[:_LISTED])
        indent = "\n          "
        raise ShardingError(
            f"the plan does not fit the program: {counted(len(self.unfit), 'entry')} of {self.entries}",
            location=self.unfit[0].location,
            cause=indent.join(lines),
            remedy=indent.join([*remedies, "or do without strict"]),
        )

    @property
    def entries(self) -> int:
        """How many entries the plan has."""
        stated = sum(len(_stated(module.tensors)) for module in self.plan.modules.values())
        return len(self.plan.arguments) + len(self.plan.results) + stated + len(self.plan.unread)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is to be told of it: what does not fit, and what else is not as it was when the plan was made."""
        from shardwright.partition import Note

        place = self.plan.location
        made = [
            Note(f"{one.what} {one.name}", one.location, f"the plan does not fit: {one.cause}", 0, remedy=one.remedy)
            for one in self.unfit
        ]
        more = list(self.plan.notes)
        if self.new:
            more.append(f"the plan says nothing of {_some(self.new)}, which propagation completes")
        if (self.mesh.axes, self.mesh.device_ids) != (self.plan.mesh.axes, self.plan.mesh.device_ids):
            more.append(f"the plan was made for {self.plan.mesh!r}, and is applied on {self.mesh!r}")
        return (*made, *[Note("plan", place, text, 0, is_fallback=False) for text in more])

    def annotated(self, graph: Graph, source: str, *, layouts: bool = False) -> Graph:
        """A copy of the program with what was said of arguments and results when the plan was made, or with their
        `layouts`, where these are closed.
        """
        args: dict[str | int, TensorSharding] = dict(_said(self.arguments, layouts).items())
        copy = annotate(graph, self.mesh, args, source)
        names = copy.main.result_names
        for name, sharding in _said(self.results, layouts).items():
            copy.main.result_shardings[names.index(name)] = replace(sharding, mesh=copy.mesh)
        inside = {number: one.given for number, one in self.modules.items() if one.given is not None}
        return constrain_parts(copy, self.parts, inside)

    def holds(
        self,
        arguments: Mapping[str, TensorSharding],
        results: Mapping[str, TensorSharding],
        besides: Container[str] = (),
    ) -> bool:
        """Whether these lie as the plan says, but for the arguments `besides`."""
        meant = {name: one for name, one in self.arguments.items() if name not in besides}
        pairs = ((meant, arguments), (self.results, results))
        return all(
            lie[name].equivalent(replace(one.sharding, mesh=lie[name].mesh).closed())
            for planned, lie in pairs
            for name, one in planned.items()
            if _is_layout(one)
        )


def _some(names: Sequence[str], limit: int = 3) -> str:
    """The first names, and how many more there are."""
    more = len(names) - limit
    return ", ".join(map(repr, names[:limit])) + (f" and {more} more" if more > 0 else "")


def _said(planned: Mapping[str, PlannedTensor], layouts: bool) -> dict[str, TensorSharding]:
    """What is to be said of each, by name."""
    chosen = {name: one.sharding if layouts and _is_layout(one) else one.given for name, one in planned.items()}
    return {name: sharding for name, sharding in chosen.items() if sharding is not None}


def _is_layout(one: PlannedTensor) -> bool:
    """Whether its sharding says all of how it lies."""
    return not any(dim.open for dim in one.sharding.dims)


def _stated(tensors: Mapping[str, PlannedTensor]) -> dict[str, PlannedTensor]:
    """Those that a plan was told of; the others follow."""
    return {name: one for name, one in tensors.items() if one.given is not None}


def fit_plan(plan: SavedPlan, graph: Graph, mesh: Mesh | None, source: str, parts: Sequence[ModuleTensor] = ()) -> Fit:
    """What of a plan fits a program.

    Arguments:
        plan: The plan.
        graph: The program.
        mesh: The mesh; the program's own where none is given, and that of the plan where it has none either.
        source: What the program is called.
        parts: What the modules of its model take and give.

    Raises:
        ShardingError: another mesh than the program's.
    """
    chosen = mesh_for(plan, graph, mesh, source)
    fitter = _Fitter(plan, chosen)
    arguments = fitter.all("argument", plan.arguments, graph.arguments)
    results = fitter.all("result", plan.results, graph.results)
    modules = fitter.modules(parts, graph)
    new = tuple(name for name, type in graph.arguments.items() if name not in arguments and type.rank)
    fitter.unfit += [Unfit("entry", one.name, None, one.cause, one.remedy, plan.location) for one in plan.unread]
    met = {pytree_path(one.name) for one in fitter.unfit if one.what == "argument"}
    unknown = tuple(name for name in new if name not in met)
    return Fit(plan, chosen, arguments, results, tuple(fitter.unfit), unknown, tuple(parts), modules)


def mesh_for(plan: SavedPlan, graph: Graph, mesh: Mesh | None, source: str) -> Mesh:
    """The mesh that a program is to be on: what is given, else its own of several devices if it says anything of that,
    else the plan's.

    Raises:
        ShardingError: another one is given than the program's.
    """
    own = any(known.size > 1 for known in graph.meshes.values()) and not says_nothing(graph)
    return program_mesh(graph, plan.mesh if mesh is None and not own else mesh, source)


class _Misfit(Exception):
    """Why an entry does not fit, and what to change."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


class _Fitter:
    """Fits entries one after the other, and keeps those that do not."""

    def __init__(self, plan: SavedPlan, mesh: Mesh) -> None:
        self.plan = plan
        self.mesh = mesh
        self.unfit: list[Unfit] = []

    def all(
        self, what: str, planned: Mapping[str, PlannedTensor], types: Mapping[str, TensorType]
    ) -> dict[str, PlannedTensor]:
        """The entries that fit, by the names of the program, in its order: the more specific name wins."""
        found: dict[str, PlannedTensor] = {}
        named: set[str] = set()
        for name in sorted(planned, key=lambda name: (not _names(name, types)[1], -len(name))):
            entry = planned[name]
            inside, _ = _names(name, types)
            if not inside:
                self.refuse(what, name, entry, _gone(what, name, entry, types, planned))
            for one in inside:
                if one in named:
                    continue
                named.add(one)
                try:
                    found[one] = self.moved(entry, types[one])
                except _Misfit as misfit:
                    self.refuse(what, one, entry, misfit)
        return {name: found[name] for name in types if name in found}

    def modules(self, parts: Sequence[ModuleTensor], graph: Graph) -> dict[int, PlannedTensor]:
        """What fits of what was stated of modules, by the number of the tensor."""
        numbers = {(part.call, part.is_input, part.name): number for number, part in enumerate(parts)}
        found: dict[int, PlannedTensor] = {}
        for call, module in self.plan.modules.items():
            for is_input, tensors in ((True, module.inputs), (False, module.outputs)):
                for name, entry in _stated(tensors).items():
                    number = numbers.get((call, is_input, name))
                    what = str(ModuleTensor(call, is_input, name, 0))
                    try:
                        if number is None:
                            raise _Misfit(
                                "the program has no such tensor", "make it of the same model, or leave it out"
                            )
                        found[number] = self.moved(entry, graph.types[parts[number].value])
                    except _Misfit as misfit:
                        self.refuse("module", what, entry, misfit)
        return found

    def refuse(self, what: str, name: str, entry: PlannedTensor, misfit: _Misfit) -> None:
        """Keep an entry that does not fit."""
        place = f"{self.plan.location}:{entry.line}" if entry.line else self.plan.location
        self.unfit.append(Unfit(what, name, entry.sharding, misfit.cause, misfit.remedy, place))

    def moved(self, entry: PlannedTensor, type: TensorType) -> PlannedTensor:
        """An entry on the mesh of the program, of a tensor of a type."""
        if entry.sharding.rank != type.rank:
            raise _Misfit(
                f"it is {type}, the plan says {counted(entry.sharding.rank, 'dimension')}, {entry.sharding!r}",
                "say how each of its dimensions lies, or leave it out",
            )
        sharding = self.on_mesh(entry.sharding)
        self.check_even(entry, sharding, type)
        try:
            sharding.check(type.dims)
            given = None if entry.given is None else self.on_mesh(entry.given)
            if given is not None:
                given.check(type.dims)
        except ShardingError as error:
            remedy = error.diagnostic.remedy or "change it in the plan, or leave it out"
            raise _Misfit(error.diagnostic.message, remedy) from None
        return replace(entry, sharding=sharding, given=given, type=type)

    def check_even(self, entry: PlannedTensor, sharding: TensorSharding, type: TensorType) -> None:
        """Refuse what no longer divides; what did not when the plan was made was meant so."""
        for number, (dim, size) in enumerate(zip(sharding.dims, type.dims, strict=True)):
            shards = axes_size(dim.axes)
            if size % shards == 0:
                continue
            before, parts = entry.type, axes_size(entry.sharding.dims[number].axes)
            if before is None or before.rank != type.rank or before.dims[number] % parts:
                continue
            axes = ", ".join(f"{axis.name}={axis.size}" for axis in dim.axes)
            raise _Misfit(
                f"dimension {number} of {type} does not divide by {shards} ({axes}); "
                f"when the plan was made it was {before.dims[number]} over {parts}",
                "split it over fewer axes, or pad the dimension",
            )

    def on_mesh(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding by the axes of the same names of another mesh; what one of size 1 does, nobody misses."""
        dims = tuple(
            DimSharding(tuple(self.axis(axis) for axis in dim.axes if self.is_there(axis)), dim.open, dim.priority)
            for dim in sharding.dims
        )
        whole = self.mesh.in_order(self.axis(axis) for axis in sharding.replicated if self.is_there(axis))
        partial = [Partial(self.axis(one.axis), one.kind) for one in sharding.partial if self.is_there(one.axis)]
        ordered = tuple(sorted(partial, key=lambda one: self.mesh.sort_key(one.axis)))
        return TensorSharding(self.mesh, dims, whole, ordered, sharding.offsets, sharding.halos)

    def is_there(self, axis: AxisRef) -> bool:
        """Whether the mesh has an axis, or needs none of its name, as it is of size 1."""
        return axis.size > 1 or axis.name in self.mesh.sizes

    def axis(self, axis: AxisRef) -> AxisRef:
        """The axis of the mesh of the same name, or the same part of it."""
        if axis.name not in self.mesh.sizes:
            known = ", ".join(f"{name}={size}" for name, size in self.mesh.axes) or "none"
            close = get_close_matches(axis.name, list(self.mesh.sizes), n=1)
            raise _Misfit(
                f"the mesh has no axis {axis.name!r}, it has {known}",
                f"write {close[0]!r} in its place, or give the mesh such an axis"
                if close
                else "give the mesh such an axis, or write another in its place",
            )
        if self.plan.mesh.is_full(axis):
            return self.mesh.axis(axis.name)
        try:
            return self.mesh.axis(axis.name, axis.pre, axis.size)
        except ShardingError as error:
            raise _Misfit(error.diagnostic.message, "write another part of the axis") from None


def _names(name: str, types: Mapping[str, TensorType]) -> tuple[list[str], bool]:
    """The names of the program that an entry is about, and whether it names one alone."""
    path = pytree_path(name)
    for spelling in (name, path):
        if spelling in types:
            return [spelling], True
    return [known for known in types if path and known.startswith(f"{path}/")], False


def _gone(
    what: str, name: str, entry: PlannedTensor, types: Mapping[str, TensorType], planned: Mapping[str, PlannedTensor]
) -> _Misfit:
    """What to say of an entry for which the program has nothing: it may have another name now."""
    free = [known for known, type in types.items() if known not in planned and entry.type in (None, type)]
    close = get_close_matches(name, free, n=1, cutoff=0.5) or (
        free if entry.type is not None and len(free) == 1 else []
    )
    near = close_names(name, list(types), limit=3)
    return _Misfit(
        f"the program has no such {what}" + (f"; it has {near}" if near else ""),
        f"if it is called {close[0]!r} now, write that in the plan" if close else "leave it out",
    )

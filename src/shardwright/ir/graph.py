"""The graph: a module as small ids. No MLIR handle lives here.

Values are numbers; `types[value]` and `shardings[value]` describe them. An op holds an interned `Signature`, the
numbers of its operands and results, the blocks of its regions, and the number of its location.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from shardwright.boundary import NOTHING_STATED
from shardwright.extents import bounded_dims
from shardwright.ir.callees import Callees
from shardwright.ir.locations import LocationTable
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.stage import Stage

__all__ = ["Block", "Function", "Graph", "Op"]

_regions, _name = attrgetter("regions"), attrgetter("signature.name")


class Op:
    """One operation. `regions` are the blocks of its tensor-program regions, one block each."""

    __slots__ = ("location", "operands", "regions", "results", "signature")

    def __init__(
        self,
        signature: Signature,
        operands: tuple[int, ...],
        results: tuple[int, ...],
        regions: tuple[Block, ...] = (),
        location: int = 0,
    ) -> None:
        """Make an op; the values must belong to the same graph."""
        self.signature = signature
        self.operands = operands
        self.results = results
        self.regions = regions
        self.location = location

    @property
    def name(self) -> str:
        """The op's name, such as `stablehlo.add`."""
        return self.signature.name

    def walk(self) -> Iterator[Op]:
        """This op, and every op in its regions."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def reads(self) -> tuple[int, ...]:
        """Its operands, and those of the ops in its regions."""
        return tuple([value for op in self.walk() for value in op.operands]) if self.regions else self.operands

    def __repr__(self) -> str:
        """`%3 = stablehlo.add(%1, %2)`."""
        results = ", ".join(f"%{value}" for value in self.results)
        return f"{results} = {self.name}({', '.join(f'%{value}' for value in self.operands)})"


@dataclass(slots=True, eq=False)
class Block:
    """Arguments and ops of a region, the terminator last; each block is itself alone, whatever it holds."""

    arguments: tuple[int, ...]
    ops: list[Op]

    @property
    def terminator(self) -> Op:
        """The last op, whose operands the block yields."""
        return self.ops[-1]

    def walk(self, regions_first: bool = False, opaque: Container[str] = ()) -> list[Op]:
        """Every op, an op before those in its regions, or after them; no change of the block disturbs the list.

        Arguments:
            regions_first: Whether an op comes after those in its regions.
            opaque: Names of ops that are seen from outside only.
        """
        walked: list[Op] = []
        ops, end = self.ops, 0
        for place in itertools.compress(range(len(ops)), map(_regions, ops)):  # few: the others are as they stand
            op = ops[place]
            walked += ops[end : place if regions_first else place + 1]
            if op.signature.name not in opaque:
                for region in op.regions:
                    walked += region.walk(regions_first, opaque)
            end = place if regions_first else place + 1
        return walked + ops[end:]

    def blocks(self, opaque: Container[str] = ()) -> Iterator[Block]:
        """This block and all within it, a block before those in its ops, which may be replaced by then.

        Arguments:
            opaque: Names of ops that are seen from outside only.
        """
        yield self
        for op in self.ops:
            if op.regions and op.name not in opaque:
                for region in op.regions:
                    yield from region.blocks(opaque)


@dataclass(slots=True)
class Function:
    """A function: its block, and the attributes (MLIR text by name) of arguments and results, shardings left out.

    Where its arguments stand is known of a function that was read.
    """

    name: str
    block: Block
    argument_attributes: list[dict[str, str]]
    result_attributes: list[dict[str, str]]
    argument_names: list[str]
    result_names: list[str]
    result_shardings: list[TensorSharding | None]
    attributes: dict[str, str] = field(default_factory=dict)
    argument_locations: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """A module entered by `main`, every call inlined, or an `sdy.named_computation` where it is annotated.

    Attributes:
        types: Type of each value.
        shardings: Sharding of each value; `None` where nothing is said yet.
        main: The function.
        meshes: Meshes by symbol.
        locations: Where ops come from.
        attributes: Attributes of the module, as MLIR text.
        name: Name of the module.
        mesh_attributes: What `sdy.mesh` ops say beside their mesh, as MLIR text, by symbol.
        callees: Functions that ops name, kept as they are.
        stage: How far the program has come.
    """

    types: list[TensorType]
    shardings: list[TensorSharding | None]
    main: Function
    meshes: dict[str, Mesh]
    locations: LocationTable
    attributes: dict[str, str] = field(default_factory=dict)
    name: str = ""
    mesh_attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    callees: Callees = field(default_factory=Callees)
    stage: Stage = Stage.ANNOTATED

    def new_value(self, type: TensorType, sharding: TensorSharding | None = None) -> int:
        """A fresh value."""
        self.types.append(type)
        self.shardings.append(sharding)
        return len(self.types) - 1

    def new_values(
        self, types: Sequence[TensorType], shardings: Sequence[TensorSharding | None] = ()
    ) -> tuple[int, ...]:
        """Fresh values, without shardings where none are given; ValueError where there is not one for each."""
        known, laid = self.types, self.shardings
        count, first = len(types), len(known)
        if shardings and len(shardings) != count:
            raise ValueError(f"{len(shardings)} shardings for {count} values")
        known += types
        laid += shardings or (None,) * count
        return (first,) if count == 1 else tuple(range(first, first + count))

    def argument_location(self, number: int) -> str:
        """Where an argument of `main` stands: `FILE:LINE`, or the file where no more is known."""
        places = self.main.argument_locations
        return str(self.locations[places[number]]) if places and places[number] else self.locations.source

    @property
    def stated_results(self) -> list[TensorSharding | None]:
        """What is said of each result: where nothing is, what is of the value that is returned, if it has offsets or
        halos, for which the `mesh` dialect has no other place.
        """
        values = self.main.block.terminator.operands
        pairs = zip(self.main.result_shardings, map(self.shardings.__getitem__, values), strict=True)
        return [own if said is None and own is not None and bounded_dims(own) else said for said, own in pairs]

    @property
    def mesh(self) -> Mesh:
        """The mesh whose positions are the partitions of the program: the first with axes, or one device."""
        return next((mesh for mesh in self.meshes.values() if mesh.axes), Mesh())

    @property
    def used_meshes(self) -> list[Mesh]:
        """The meshes with axes that shardings are on, of values, results and at boundaries of computations."""
        boundaries = [op.signature.boundary for op in self.walk() if op.signature.boundary is not NOTHING_STATED]
        shardings = [*self.different_shardings, *[one for boundary in boundaries for one in boundary.shardings]]
        return list(dict.fromkeys(one.mesh for one in shardings if one.mesh.axes))

    @property
    def different_shardings(self) -> list[TensorSharding]:
        """The shardings of values and results, each object once: most are few objects, and hashing takes longer."""
        stated = [*self.shardings, *self.main.result_shardings]
        return [one for one in dict(zip(map(id, stated), stated, strict=True)).values() if one is not None]

    @property
    def arguments(self) -> dict[str, TensorType]:
        """The type of each argument by name, in order."""
        taken = self.main.block.arguments
        return {name: self.types[value] for name, value in zip(self.main.argument_names, taken, strict=True)}

    @property
    def results(self) -> dict[str, TensorType]:
        """The type of each result by name, in order."""
        returned = self.main.block.terminator.operands
        return {name: self.types[value] for name, value in zip(self.main.result_names, returned, strict=True)}

    def walk(self) -> list[Op]:
        """Every op, an op before those in its regions."""
        return self.main.block.walk()

    def op_names(self) -> set[str]:
        """The names of all ops."""
        return set(map(_name, self.walk()))

    def uses(self) -> list[list[tuple[Op, int]]]:
        """For each value, the `(op, operand number)` pairs that read it, in program order."""
        uses: list[list[tuple[Op, int]]] = [[] for _ in self.types]
        for op in self.walk():
            for number, value in enumerate(op.operands):
                uses[value].append((op, number))
        return uses

    @property
    def op_count(self) -> int:
        """Number of ops, those in regions included."""
        return len(self.walk())

    def skeleton(self, stage: Stage | None = None) -> Graph:
        """An empty graph with the same meshes, locations and names, for a pass that rebuilds the program at a stage."""
        main = Function(
            self.main.name,
            Block((), []),
            self.main.argument_attributes,
            self.main.result_attributes,
            self.main.argument_names,
            self.main.result_names,
            list(self.main.result_shardings),
            self.main.attributes,
            self.main.argument_locations,
        )
        return Graph(
            [],
            [],
            main,
            dict(self.meshes),
            self.locations,
            dict(self.attributes),
            self.name,
            dict(self.mesh_attributes),
            self.callees,
            stage or self.stage,
        )

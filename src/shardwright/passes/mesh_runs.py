"""Programs on meshes of different size: each part by itself, as the C++ passes have them.

What stands on one mesh after the other, without an op between that reads or makes values of meshes of other sizes, is a
program of its own. An op between them, such as a reshard, is left as it is where communication is made explicit; there
is no program of one device that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from shardwright.errors import ShardingError
from shardwright.ir.channels import tell_channels_apart
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Block, Function, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.stages import stage_of
from shardwright.mesh import Mesh
from shardwright.partition.localize import local_type
from shardwright.sharding import TensorSharding

__all__ = ["Change", "explicit_by_mesh", "has_several_sizes", "local_by_mesh"]

Change = Callable[[Graph], Graph]
"""What becomes of a program on meshes of one size."""


def has_several_sizes(graph: Graph) -> bool:
    """Whether meshes that shardings of a program are on have different numbers of devices."""
    return len(_sizes(graph)) > 1


def explicit_by_mesh(graph: Graph, change: Change) -> Graph:
    """A program whose parts are changed; ops between them stay."""
    return _Runs(graph, change).run()


def local_by_mesh(graph: Graph, change: Change) -> Graph:
    """A program of one device, made of those that `change` makes of its parts.

    Raises:
        ShardingError: an op between meshes of different size, or a result that is said to lie on another.
    """
    return _LocalRuns(graph, change).run()


def _sizes(graph: Graph) -> dict[int, Mesh]:
    """A mesh for each number of devices, but for those of one device alone."""
    shardings = [*graph.shardings, *graph.main.result_shardings]
    shardings += [sharding for op in graph.walk() for sharding in op.signature.boundary.shardings]
    meshes = (*graph.meshes.values(), *(sharding.mesh for sharding in shardings if sharding is not None))
    return {mesh.size: mesh for mesh in meshes if mesh.axes}


def _different_sizes(graph: Graph, op: str, location: str) -> ShardingError:
    return ShardingError(
        f"function @{graph.main.name} uses meshes of different size",
        op=op,
        location=location,
        cause="devices: " + ", ".join(f"{_named(mesh)} of {size}" for size, mesh in _sizes(graph).items()),
        remedy="use one set of devices within a program",
    )


def _named(mesh: Mesh) -> str:
    return f"@{mesh.name}" if mesh.name else repr(mesh)


def _meshes(graph: Graph, op: Op) -> Iterator[Mesh]:
    """The meshes of what an op reads and makes, and of what stands in it."""
    for inner in op.walk():
        for value in (*inner.operands, *inner.results):
            sharding = graph.shardings[value]
            if sharding is not None:
                yield sharding.mesh
        yield from [sharding.mesh for sharding in inner.signature.boundary.shardings]


@dataclass(eq=False)
class _Run:
    """Ops that stand one behind the other.

    Attributes:
        size: How many devices the meshes of their values have; `None` where nothing tells, and of an op
            between meshes of different size.
        ops: These.
    """

    size: int | None
    ops: list[Op] = field(default_factory=list)


class _Runs(Copier):
    def __init__(self, graph: Graph, change: Change) -> None:
        super().__init__(graph)
        self.change = change
        self.returned: dict[int, int] = {}

    def run(self) -> Graph:
        """The program; the collectives of its parts, which count their channels each by itself, have their own."""
        made = super().run()
        tell_channels_apart(made)
        return made

    def entry(self, block: Block) -> Block:
        ops: list[Op] = []
        arguments, end = tuple(map(self.value, block.arguments)), block.terminator
        behind = [*block.ops]
        for run in self.runs(block.ops[:-1]):
            behind = behind[len(run.ops) :]
            if run.size is None:
                for op in run.ops:
                    self.op(op, ops)
            else:
                self.part(run, behind, ops)
        for size in _sizes(self.source):
            self.part(_Run(size), (), ops)
        operands = [self.returned.get(place, self.values[value]) for place, value in enumerate(end.operands)]
        types = tuple([self.target.types[value] for value in operands])
        ops.append(Op(replace(end.signature, operands=types), tuple(operands), (), (), end.location))
        return Block(arguments, ops)

    def runs(self, ops: Sequence[Op]) -> Iterator[_Run]:
        """The ops of a block, part after part; what is on no mesh is in the part before it."""
        run = _Run(None)
        for op in ops:
            sizes = {mesh.size for mesh in _meshes(self.source, op) if mesh.axes}
            if len(sizes) > 1:
                yield run
                yield self.between(op)
                run = _Run(None)
                continue
            size = next(iter(sizes), run.size)
            if run.size not in (None, size):
                yield run
                run = _Run(size)
            run.size = size
            run.ops.append(op)
        yield run

    def between(self, op: Op) -> _Run:
        """An op between meshes of different size."""
        return _Run(None, [op])

    def part(self, run: _Run, behind: Sequence[Op], into: list[Op]) -> None:
        """The program of a part, changed, with its ops taken over; one without ops brings results where they lie."""
        end, stated = self.source.main.block.terminator, self.source.main.result_shardings
        made = {value for op in run.ops for value in op.results}
        used = dict.fromkeys(value for op in behind for value in op.reads() if value in made)
        places = [
            place
            for place, value in enumerate(end.operands)
            if self.is_brought(place, run.size) and (value in made or not run.ops)
        ]
        values = (*used, *(end.operands[place] for place in places))
        if not values and not run.ops:
            return
        shardings = [*(self.source.shardings[value] for value in used), *(stated[place] for place in places)]
        taken = self.taken(self.change(_program(self.source, run, values, shardings)), into)
        self.values.update(zip(used, taken, strict=False))
        self.returned.update(zip(places, taken[len(used) :], strict=True))

    def is_brought(self, place: int, size: int | None) -> bool:
        """Whether a result is said to lie on a mesh of this size, otherwise than the value that is returned."""
        stated = self.source.main.result_shardings[place]
        lies = self.source.shardings[self.source.main.block.terminator.operands[place]]
        if place in self.returned or stated is None or stated.mesh.size != size or stated == lies:
            return False
        return lies is None or lies.mesh.size == size

    def taken(self, changed: Graph, into: list[Op]) -> list[int]:
        """The ops of a changed program; what it returns."""
        copier = Copier(changed, self.target)
        block = changed.main.block
        inputs = [self.values[int(name)] for name in changed.main.argument_names]
        copier.values.update(zip(block.arguments, inputs, strict=True))
        for op in block.ops[:-1]:
            copier.op(op, into)
        return [copier.values[value] for value in block.terminator.operands]


def _program(source: Graph, run: _Run, values: tuple[int, ...], shardings: list[TensorSharding | None]) -> Graph:
    """The program of a part that gives these values, lying so; its arguments are called by their numbers."""
    inner = [op for one in run.ops for op in one.walk()]
    defined = {value for op in inner for value in (*op.results, *(v for block in op.regions for v in block.arguments))}
    read = dict.fromkeys(value for op in inner for value in op.operands if value not in defined)
    read |= dict.fromkeys(value for value in values if value not in defined)
    names, types = [str(value) for value in read], tuple([source.types[value] for value in values])
    end = Op(Signature("func.return", (), types, ()), values, (), (), source.main.block.terminator.location)
    results = [f"result{number}" for number in range(len(values))]
    block, nothing = Block(tuple(read), [*run.ops, end]), [dict[str, str]() for _ in (*names, *results)]
    main = Function(source.main.name, block, nothing[: len(names)], nothing[len(names) :], names, results, shardings)
    meshes = {name: mesh for name, mesh in source.meshes.items() if mesh.size == run.size or not mesh.axes}
    own = defined | read.keys()
    lying = [sharding if value in own else None for value, sharding in enumerate(source.shardings)]
    program = replace(source, types=list(source.types), shardings=lying, main=main, meshes=meshes)
    program.stage = stage_of(program)
    return program


class _LocalRuns(_Runs):
    def value(self, value: int) -> int:
        """A shard; what is on no mesh is whole."""
        type, sharding = self.source.types[value], self.source.shardings[value]
        local = type if sharding is None else local_type(type, sharding)
        made = self.values[value] = self.target.new_value(local, sharding)
        return made

    def entry(self, block: Block) -> Block:
        made, end = super().entry(block), block.terminator
        for value, stated in zip(end.operands, self.source.main.result_shardings, strict=True):
            lies = self.source.shardings[value]
            if stated is not None and lies is not None and stated.mesh.size != lies.mesh.size:
                raise _different_sizes(self.source, end.name, str(self.source.locations[end.location]))
        return made

    def between(self, op: Op) -> _Run:
        location = str(self.source.locations[op.location])
        raise _different_sizes(self.source, op.signature.label, location)

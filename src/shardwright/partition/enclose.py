"""What the installed sdy has no words for, written as the manual computations that mean it.

That is values partial by a kind that it lacks. Between ops the `sdy` of jaxlib 0.10 knows partial sums only, that of
0.11 and newer maxima and minima too, as kinds of its collectives and of shardings. So where a module is written, what
makes and reduces a value of another kind

    %0 = reduce max (%a)            tensor<8x4xf32> → tensor<4xf32> partial=max{"x"}
    %1 = sdy.all_reduce max {"x"} %0

becomes one `sdy.manual_computation` over all axes of the mesh (in the body of another one, over all that this leaves).
In it stand the op on one device's shards and the StableHLO collectives that combine what devices have. `recognize`
finds the ops again.

Enclosed is what stands in one block and can be put in one place: a value that a program takes or gives so, or that is
carried round a loop, says its kind in a carrier instead (see `ir.carriers`).

And it is every op inside which devices exchange something (see `localize.exchanges`), by itself; and every all_to_all
that names a dimension twice, and permute in parts, for which sdy has no op (see `named_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from shardwright.boundary import Boundary
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import has_kinds_of
from shardwright.partition.bodies import is_program
from shardwright.partition.localize import Local, local_type, localize_op
from shardwright.partition.localize.exchanges import exchanges_of, may_exchange
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.named_steps import is_named_step
from shardwright.sharding import TensorSharding

__all__ = ["enclose", "is_lacking", "manual_body", "manual_computation"]


@uncollected
def enclose(graph: Graph) -> Graph:
    """An explicit program as sdy can say it; the graph itself where it can already. The graph given stays as it is."""
    lacking = frozenset(value for value, sharding in enumerate(graph.shardings) if is_lacking(sharding))
    if not lacking and not any(_is_beyond_sdy(graph, op) for op in _in_programs(graph, graph.main.block)):
        return graph
    return _Encloser(graph, lacking).run()


def _in_programs(graph: Graph, block: Block) -> Iterator[Op]:
    """Every op that stands in a program, not in the body of a manual computation that is for one device."""
    for op in block.walk(opaque=(MANUAL,)):
        yield op
        if op.name == MANUAL and is_program(graph, op):
            yield from _in_programs(graph, op.regions[0])


def _is_beyond_sdy(graph: Graph, op: Op) -> bool:
    """Whether an op by itself does what sdy has no op for, of whatever kinds its values are."""
    return not is_named_step(graph, op) or _exchanges(graph, op)


def _exchanges(graph: Graph, op: Op) -> bool:
    """Whether devices exchange something inside an op."""
    if not may_exchange(op.name):
        return False
    operands = _layouts(graph, op.operands)
    return not is_at_boundary(op.signature, operands, _layouts(graph, op.results)) and bool(
        exchanges_of(op.signature, operands)
    )


def is_lacking(sharding: TensorSharding | None) -> bool:
    """Whether the installed sdy has no words for how a value lies."""
    return sharding is not None and bool(sharding.partial) and not has_kinds_of(sharding)


@dataclass(eq=False, slots=True)
class _Group:
    """Ops of a block that make and read the same values of kinds that sdy lacks."""

    places: list[int] = field(default_factory=list)
    values: set[int] = field(default_factory=set)


class _Encloser:
    def __init__(self, graph: Graph, lacking: frozenset[int]) -> None:
        self.lacking = lacking
        self.around: tuple[str, ...] = ()
        self.graph = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
        self.reads = [0] * len(graph.types)
        for op in graph.walk():
            for value in op.operands:
                self.reads[value] += 1

    def run(self) -> Graph:
        main = self.graph.main
        self.graph.main = replace(main, block=self.block(main.block))
        return self.graph

    def block(self, block: Block) -> Block:
        """A block whose groups are enclosed, each at the place of its last op."""
        enclosed = {group.places[-1]: group for group in self.groups(block) if self.can_enclose(group, block)}
        inside = {place for group in enclosed.values() for place in group.places}
        ops: list[Op] = []
        for place, op in enumerate(block.ops):
            if place in enclosed:
                ops.append(self.enclosed([block.ops[n] for n in enclosed[place].places]))
            elif place not in inside:
                ops.append(self.enclosed([op]) if _is_beyond_sdy(self.graph, op) else self.with_regions(op))
        return Block(block.arguments, ops)

    def with_regions(self, op: Op) -> Op:
        if not op.regions or (op.name == MANUAL and not is_program(self.graph, op)):
            return op
        around, self.around = self.around, (*self.around, *op.signature.boundary.manual_axes)
        regions = tuple(map(self.block, op.regions))
        self.around = around
        return Op(op.signature, op.operands, op.results, regions, op.location)

    def groups(self, block: Block) -> Iterable[_Group]:
        """The groups of a block, each once."""
        of_value: dict[int, _Group] = {}
        for place, op in enumerate(block.ops):
            values = self.lacking.intersection((*op.operands, *op.results))
            joined = {of_value[value]: None for value in sorted(values) if value in of_value}
            if not values:
                continue
            group = _Group(sorted({place, *(n for one in joined for n in one.places)}), set(values))
            for one in joined:
                group.values |= one.values
            of_value.update(dict.fromkeys(group.values, group))
        return dict.fromkeys(of_value.values())

    def can_enclose(self, group: _Group, block: Block) -> bool:
        """Whether the ops of a group alone make and read its values, and nothing between them reads what they make."""
        ops = [block.ops[place] for place in group.places]
        made = {value for op in ops for value in op.results}
        reads = sum(value in group.values for op in ops for value in op.operands)
        if not group.values <= made or reads != sum(self.reads[value] for value in group.values):
            return False
        layouts = [self.graph.shardings[value] for op in ops for value in (*op.operands, *op.results)]
        if any(op.regions for op in ops) or None in layouts or not made - group.values:
            return False
        between = set(range(group.places[0], group.places[-1])).difference(group.places)
        return not any(made.intersection(read_by(block.ops[place])) for place in between)

    def enclosed(self, ops: list[Op]) -> Op:
        """The manual computation that does what these ops do."""
        made = {value for op in ops for value in op.results}
        inner = [value for op in ops for value in op.operands if value in made]
        results = [value for op in ops for value in op.results if not 0 < self.reads[value] == inner.count(value)]
        return manual_computation(self.graph, ops, [one for one in results if one not in self.lacking], self.around)


def read_by(op: Op) -> Iterator[int]:
    """All values that an op reads, those that its regions do included."""
    yield from op.operands
    for block in op.regions:
        for inner in block.walk():
            yield from inner.operands


def manual_computation(graph: Graph, ops: Sequence[Op], results: Sequence[int], around: tuple[str, ...] = ()) -> Op:
    """The manual computation of ops that give `results`: in its body they stand for one device, as `localize` has them.

    Arguments:
        graph: Where the values lie as the ops have them; the values of the body are added to it.
        ops: Without regions. Values that none of them makes are the operands, one for each time that one is read.
        results: Values that they make, and that the manual computation takes over.
        around: Axes along which manual computations around it are manual already.
    """
    made = {value for op in ops for value in op.results}

    def write(ctx: Local, arguments: Sequence[int]) -> Sequence[int]:
        given = iter(arguments)
        local: dict[int, int] = {}
        for op in ops:
            operands = tuple([local[value] if value in made else next(given) for value in op.operands])
            ctx.location = op.location
            source, target = _layouts(graph, op.operands), _layouts(graph, op.results)
            local.update(zip(op.results, localize_op(ctx, op.signature, operands, source, target), strict=True))
        return [local[value] for value in results]

    taken = [value for op in ops for value in op.operands if value not in made]
    return manual_body(graph, taken, results, write, around, ops[0].location)


def manual_body(
    graph: Graph,
    taken: Sequence[int],
    results: Sequence[int],
    write: Callable[[Local, Sequence[int]], Sequence[int]],
    around: tuple[str, ...] = (),
    location: int = 0,
) -> Op:
    """The manual computation that makes some values of others.

    Arguments:
        graph: Where the values lie; those of the body are added to it.
        taken: What it reads.
        results: What it gives.
        write: Appends what one device does, given what it has of the values that are taken; what it then has of the
            results.
        around: Axes along which manual computations around it are manual already.
        location: Where it comes from.
    """
    body: list[Op] = []
    ctx = Local(graph, body, location)
    ctx.mesh = Mesh(ctx.mesh.axes, name=ctx.mesh.name)  # a manual computation names devices by their ids
    arguments = [graph.new_value(local_type(graph.types[value], graph.shardings[value])) for value in taken]
    yielded = tuple(write(ctx, arguments))
    ctx.append(Signature("sdy.return", (), tuple(map(ctx.type, yielded)), ()), yielded)
    into, out = _layouts(graph, taken), _layouts(graph, results)
    types = tuple(graph.types[value] for value in taken), tuple(graph.types[value] for value in results)
    boundary = Boundary(into, out, tuple([axis for axis in graph.mesh.sizes if axis not in around]))
    signature = Signature(MANUAL, (), *types, boundary=boundary)
    return Op(signature, tuple(taken), tuple(results), (Block(tuple(arguments), body),), location)


def _layouts(graph: Graph, values: Sequence[int]) -> tuple[TensorSharding, ...]:
    return tuple([sharding for value in values if (sharding := graph.shardings[value]) is not None])

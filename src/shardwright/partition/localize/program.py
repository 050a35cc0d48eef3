"""The per-device program of an explicit graph: every value at its local shape, every collective in StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DEVICE_OPS, MANUAL, RETURNS
from shardwright.ir.signature import Signature
from shardwright.ir.stages import LOCAL_MARK
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.partition.bodies import SHARDING_NAMES, is_program, plain_signature
from shardwright.partition.localize.by_hand import is_by_hand
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.manual import agree_at_boundary, by_hand, inline, of_devices
from shardwright.partition.localize.registry import Shardings, form_of, localize_op
from shardwright.partition.localize.uneven import shard_type
from shardwright.rules.custom_call import is_python_with_effects
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

__all__ = ["Localizer", "localize"]

_UNRESOLVED = frozenset({"sdy.reshard", "sdy.sharding_constraint"})
_DROPPED = frozenset({"sdy.sharding_group"})
_UNKNOWN = Signature("", (), (), ())
_BY_THEMSELVES = _UNRESOLVED | _DROPPED | RETURNS | DEVICE_OPS


@uncollected
def localize(graph: Graph, *, grid: bool = False, values: dict[int, int] | None = None) -> Graph:
    """The program that each device of the mesh runs.

    Arguments:
        graph: An explicit program: every tensor has a closed sharding that divides evenly (but for arguments and
            results, see `uneven`), every op can be computed on shards alone, and communication stands between ops
            (sdy collectives) or in manual computations.
        grid: Whether it is for `processes.raised`: slices by the device's place are `shard.all_slice` where these are
            along whole axes of the mesh.
        values: Takes up which value of the program made is the shard of each of the program given.

    Returns:
        A new graph without shardings, whose arguments and results are shards. Its collectives name devices by their
        position in the mesh; `runtime` assigns devices to positions.

    Raises:
        ShardingError: a value without a sharding, or an op that cannot be computed in the parts asked for, at its
            location.
    """
    localizer = Localizer(graph, grid)
    made = localizer.run()
    if values is not None:
        values.update(localizer.values)
    return made


class Localizer:
    """Writes the program of one device."""

    def __init__(self, graph: Graph, grid: bool = False) -> None:
        self.source = graph
        self.grid = grid
        self.mesh = graph.mesh
        self.target = graph.skeleton(Stage.LOCAL)
        self.values: dict[int, int] = {}
        self.forms: dict[tuple[int, ...], Signature | None] = {}  # by signature and shardings, which are few objects
        self.depth = 0  # of manual computations whose bodies are programs

    def begin(self) -> None:
        """Make the graph of one device what it is but for ops."""
        source, target = self.source, self.target
        target.meshes = {name: Mesh(mesh.axes, name=name) for name, mesh in source.meshes.items() if mesh.axes}
        target.attributes |= {
            "mhlo.num_partitions": f"{self.mesh.partitions} : i32",
            "mhlo.num_replicas": "1 : i32",
            **LOCAL_MARK,
        }
        target.callees = source.callees.without_shardings()
        main = target.main
        main.argument_attributes = [_local_attributes(row) for row in source.main.argument_attributes]
        main.result_attributes = [_local_attributes(row) for row in source.main.result_attributes]
        main.result_shardings = [None] * len(source.main.result_shardings)

    def run(self) -> Graph:
        """The program of one device."""
        self.begin()
        source, target, ops = self.source, self.target, list[Op]()
        arguments = self.main_arguments()
        self.check_results()
        ctx = Local(target, ops)
        ctx.mesh, ctx.grid = self.mesh, self.grid
        self.block(source.main.block, ctx)
        target.main.block = Block(arguments, ops)
        return target

    def main_arguments(self) -> tuple[int, ...]:
        """The local arguments of the program, each refused where it stands."""
        main = self.source.main
        for number, (name, value) in enumerate(zip(main.argument_names, main.block.arguments, strict=True)):
            try:
                self.main_argument(value)
            except ShardingError as error:
                told = error.replaced(message=f"argument {name!r}: {error.diagnostic.message}")
                raise told.at("func.func", self.source.argument_location(number)) from None
        return tuple(self.values[value] for value in main.block.arguments)

    def main_argument(self, value: int) -> None:
        """An argument of the program, which may be uneven: what reads it then has to pad it."""
        type, sharding = self.source.types[value], self.source.shardings[value]
        plain = sharding is not None and not sharding.offsets and not sharding.halos and type.dtype != "index"
        if sharding is not None and plain and sharding.rank == type.rank and not sharding.divides(type.dims):
            self.values[value] = self.target.new_value(shard_type(type, sharding))
        else:
            self.argument(value)

    def arguments(self, block: Block) -> tuple[int, ...]:
        """The local arguments of a block."""
        return tuple(map(self.argument, block.arguments))

    def argument(self, value: int) -> int:
        """A new local argument."""
        local = self.target.new_value(local_type(self.source.types[value], self.sharding(value)))
        self.values[value] = local
        return local

    def sharding(self, value: int) -> TensorSharding:
        """The sharding of a value; what is not a tensor has one of no dimensions."""
        sharding = self.source.shardings[value]
        if sharding is None:
            if self.source.types[value].is_tensor:
                raise ShardingError(
                    f"a value of type {self.source.types[value]} has no sharding",
                    remedy="materialize the program before localizing it",
                )
            return replicated(self.mesh, 0)
        return sharding

    def shardings(self, values: tuple[int, ...]) -> Shardings:
        """The sharding of each value."""
        shardings = self.source.shardings
        return tuple([shardings[value] or self.sharding(value) for value in values])

    def check_results(self) -> None:
        """What main returns must lie as main says."""
        main = self.source.main
        for value, stated, name in zip(
            main.block.terminator.operands, main.result_shardings, main.result_names, strict=True
        ):
            if stated is not None and not stated.equivalent(self.sharding(value)):
                raise ShardingError(
                    f"result {name} lies as {self.sharding(value)!r} but is declared as {stated!r}",
                    op="func.return",
                    location=str(self.source.locations[main.block.terminator.location]),
                    remedy="materialize the program before localizing it",
                )

    def block(self, block: Block, ctx: Local) -> None:
        """Write the ops of a block."""
        self.ops(block.ops, ctx)

    def ops(self, ops: Sequence[Op], ctx: Local) -> None:
        """Write ops one after the other; those of which all is as it was of one before them, as that."""
        values, forms = self.values, self.forms
        value_of, sharding_of = values.__getitem__, self.source.shardings.__getitem__
        for op in ops:
            ctx.location = op.location
            key = id(op.signature), *map(id, map(sharding_of, op.operands + op.results))
            form = forms.get(key, _UNKNOWN)
            try:
                if form is _UNKNOWN:
                    form = forms[key] = self.form(op)
                if form is None:
                    self.op(op, ctx)
                    continue
            except ShardingError as error:
                if error.diagnostic.op:
                    raise
                raise error.at(op.signature.label, str(self.source.locations[op.location])) from None
            made = ctx.append(form, tuple(map(value_of, op.operands)))
            values.update(zip(op.results, made, strict=True))

    def form(self, op: Op) -> Signature | None:
        """The one op that an op is on a device, on the same operands; `None` where that is not all that tells."""
        if op.regions or op.signature.name in _BY_THEMSELVES:
            return None
        return form_of(plain_signature(op), self.shardings(op.operands), self.shardings(op.results))

    def op(self, op: Op, ctx: Local) -> None:
        """Write one op."""
        name = op.signature.name
        operands = [self.values[value] for value in op.operands]
        if name in RETURNS:
            types = tuple(map(ctx.type, operands))
            ctx.append(Signature(name, (), types, ()), operands)
            return
        if name in _UNRESOLVED and not any(sharding.partial for sharding in self.shardings(op.results)):
            raise ShardingError(f"{name} is left in the program", remedy="materialize it into collectives first")
        if name in _DROPPED:
            return
        if op.regions:
            results = self.regions(op, operands, ctx)
        elif name == "stablehlo.partition_id" and self.depth:
            results = (ctx.position(Mesh(ctx.mesh.axes)),)
        else:
            signature = plain_signature(op)
            if self.depth and is_python_with_effects(signature):
                raise ShardingError(
                    "Python is called in a manual computation that leaves axes free",
                    cause="whether one device calls, or one for each of its shards, nothing says; JAX has no such call",
                    remedy="make the computation manual along all axes, or take the call out of it",
                )
            if name in DEVICE_OPS and self.depth:
                signature = of_devices(ctx, self.source, signature)
            if self.depth and is_by_hand(signature):
                results = by_hand(ctx, self.source, op, signature, operands)
            else:
                results = localize_op(ctx, signature, operands, self.shardings(op.operands), self.shardings(op.results))
        self.values.update(zip(op.results, results, strict=True))

    def regions(self, op: Op, operands: list[int], ctx: Local) -> tuple[int, ...]:
        """Write an op that holds tensor programs."""
        if op.signature.name == MANUAL and is_program(self.source, op):
            return self.body(op, operands, ctx)
        if op.signature.name == MANUAL:
            return inline(ctx, self.source, op, operands, self.shardings(op.operands), self.shardings(op.results))
        carried = self.shardings(op.results)
        if op.signature.name == "stablehlo.while":
            self.agree("operand", self.shardings(op.operands), carried)
        blocks = tuple(self.region(op, block, carried, ctx) for block in op.regions)
        signature = Signature(
            op.signature.name,
            op.signature.attributes,
            tuple(map(ctx.type, operands)),
            tuple(local_type(self.source.types[value], self.sharding(value)) for value in op.results),
        )
        return ctx.append(signature, operands, (), blocks)

    def body(self, op: Op, operands: list[int], ctx: Local) -> tuple[int, ...]:
        """Write the body of a manual computation that is split along the axes that it leaves free."""
        types, (block,) = self.source.types, op.regions
        agree_at_boundary(op, self.shardings(op.operands), self.shardings(op.results))
        yielded = block.terminator.operands
        outside = [*map(ctx.type, operands), *map(local_type, op.signature.results, self.shardings(op.results))]
        inside = [local_type(types[value], self.sharding(value)) for value in (*block.arguments, *yielded)]
        for number, (there, here) in enumerate(zip(outside, inside, strict=True)):
            if there != here:
                what = f"argument {number}" if number < len(operands) else f"result {number - len(operands)}"
                raise ShardingError(f"{what} of the body has shards of type {here}, outside they are {there}")
        self.values.update(zip(block.arguments, operands, strict=True))
        self.depth += 1
        self.ops(block.ops[:-1], ctx)
        self.depth -= 1
        return tuple(self.values[value] for value in yielded)

    def region(self, op: Op, block: Block, carried: Shardings, ctx: Local) -> Block:
        """Write a region, whose arguments and yielded values lie as the results of the op."""
        if op.signature.name == "stablehlo.while":
            self.agree("region argument", self.shardings(block.arguments), carried)
        if not (op.signature.name == "stablehlo.while" and block is op.regions[0]):
            self.agree("yielded value", self.shardings(block.terminator.operands), carried)
        arguments = self.arguments(block)
        ops: list[Op] = []
        self.block(block, ctx.inner(ops))
        return Block(arguments, ops)

    def agree(self, what: str, flowing: Shardings, carried: Shardings) -> None:
        """Values that flow into one another must lie alike."""
        for number, (one, other) in enumerate(zip(flowing, carried, strict=True)):
            if not one.equivalent(other):
                raise ShardingError(f"{what} {number} lies as {one!r}, the result it flows into as {other!r}")


def _local_attributes(attributes: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in attributes.items() if name not in SHARDING_NAMES}

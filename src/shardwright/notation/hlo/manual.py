"""JAX's form of `shard_map` under `mhlo.sharding` → `sdy.manual_computation`.

Values enter by `@SPMDFullToShardShape` and leave by `@SPMDShardToFullShape`; what is computed from those that entered,
until they leave, is of local shape. JAX has a call between the two, others write the ops inline. All ops that are so
connected move into one region; constants that they share with the rest are repeated there.

    %1 = custom_call @Sharding(%0)              {devices=[2,1]<=[2]}
    %2 = custom_call @SPMDFullToShardShape(%1)  {manual}             sdy.manual_computation(%0)
    %3 = call @body(%2)                                         →      in_shardings, out_shardings, manual_axes
    %4 = custom_call @Sharding(%3)              {manual}               { call @body }
    %5 = custom_call @SPMDShardToFullShape(%4)  {devices=[2,1]<=[2]}

Source: XLA's `spmd_partitioner`; the `sdy` dialect's ManualComputationOp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardwright.axes import Axes, axes_size, subtract_axes
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.ir.walk import walk
from shardwright.mesh import Mesh
from shardwright.notation.hlo.components import FORM, FULL_TO_SHARD, SHARD_TO_FULL, Component, Components, Crossing
from shardwright.notation.hlo.mesh import Placed
from shardwright.notation.hlo.sites import Fail
from shardwright.notation.hlo.spelling import local_sharding
from shardwright.notation.sdy.attributes import print_manual_axes
from shardwright.notation.sdy.sharding import print_shardings
from shardwright.sharding import TensorSharding

__all__ = ["ManualRegions"]


class ManualRegions:
    """The manual computations of a module."""

    def __init__(self, mesh: Mesh, entries: Mapping[Any, Placed], fail: Callable[[Any], Fail]) -> None:
        """Hold what `@Sharding` said of values, and how errors are made."""
        self.mesh = mesh
        self.entries = entries
        self.fail = fail
        self.dead: list[tuple[Any, Any]] = []
        self.idle: list[Any] = []

    def build(self, crossings: Sequence[Crossing]) -> None:
        """Make regions of all that stands between `crossings`.

        Raises:
            ShardingError: ops in another form than JAX's, by name and line.
        """
        by_block: dict[Any, list[Crossing]] = {}
        for crossing in crossings:
            by_block.setdefault(crossing.op.block, []).append(crossing)
        for block, of_block in by_block.items():
            _Block(self, block, of_block).build()

    def finish(self) -> None:
        """Erase the calls between which regions were made, and what `@Sharding` said for these only."""
        absorbed: list[tuple[Any, Any]] = []
        for op, made in self.dead:
            before = op.operands[0].owner
            erase(op)
            if made is not None and not isinstance(before, ir.Block):
                absorbed.append((before.operation, made))
        dropped: list[Any] = []
        for op, made in absorbed:
            if op.name != "sdy.sharding_constraint" or op.results[0] not in self.entries or op in dropped:
                continue
            if all(use.owner.operation == made for use in op.results[0].uses):
                op.results[0].replace_all_uses_with(op.operands[0])
                dropped.append(op)
        for op in (*dropped, *self.idle):
            erase(op)


class _Block:
    """The manual computations of one block being made."""

    def __init__(self, regions: ManualRegions, block: Any, crossings: Sequence[Crossing]) -> None:
        self.regions = regions
        self.mesh = regions.mesh
        self.fail = regions.fail
        self.components = Components(block, crossings, regions.entries, regions.fail)
        self.ops = self.components.ops

    def build(self) -> None:
        for component in self.components.joined:
            self._make(component)

    def _make(self, component: Component) -> None:
        first = self.ops[min([number for number, _ in component.entries] + sorted(component.members)[:1])]
        members = [self.ops[number] for number in sorted(component.members)]
        if not component.exits:
            if not members:
                self.regions.dead += [(crossing.op, None) for _, crossing in component.entries]
                return
            raise self.fail(first)(f"no @{SHARD_TO_FULL} ends this manual computation", FORM, "bring its results out")
        point = min(number for number, _ in component.exits)
        late = [crossing for number, crossing in component.entries if number > point]
        if late:
            raise self.fail(late[0].op)("a value enters a manual computation after others have left", FORM, "split it")
        manual = self._manual_axes(component)
        ins = [self._in_sharding(crossing, manual) for _, crossing in component.entries]
        outs = [self._out_sharding(crossing, manual) for _, crossing in component.exits]
        made = ir.Operation.create(
            "sdy.manual_computation",
            results=[crossing.op.results[0].type for _, crossing in component.exits],
            operands=[crossing.op.operands[0] for _, crossing in component.entries],
            attributes={
                "in_shardings": parse_attribute(print_shardings(ins)),
                "out_shardings": parse_attribute(print_shardings(outs)),
                "manual_axes": parse_attribute(print_manual_axes(axis.name for axis in manual)),
            },
            regions=1,
            loc=component.exits[0][1].op.location,
            ip=ir.InsertionPoint(self.ops[point]),
        )
        self._fill(made, component, members, manual)

    def _fill(self, made: Any, component: Component, members: list[Any], manual: Axes) -> None:
        entries = [crossing.op for _, crossing in component.entries]
        exits = [crossing.op for _, crossing in component.exits]
        body = made.regions[0].blocks.append(
            *[op.results[0].type for op in entries], arg_locs=[op.location for op in entries]
        )
        for op, argument in zip(entries, body.arguments, strict=True):
            op.results[0].replace_all_uses_with(argument)
        repeated: dict[int, Any] = {}
        for op in members:
            for value in self.components.read_from_outside(op):
                number = self.components.results.get(value)
                if number is not None and number not in component.members:
                    self._repeat(number, op, repeated, body)
        for op in members:
            body.append(op)
        returned = [self._returned(crossing, manual) for _, crossing in component.exits]
        ir.Operation.create("sdy.return", operands=returned, loc=made.location, ip=ir.InsertionPoint(body))
        for op, result in zip(exits, made.results, strict=True):
            op.results[0].replace_all_uses_with(result)
        self.regions.dead += [(op, None) for op in exits]
        self.regions.dead += [(op, made) for op in entries]

    def _returned(self, crossing: Crossing, manual: Axes) -> Any:
        """The value that leaves at a crossing; an `@Sharding` that says of it what the crossing says is left out."""
        op = crossing.op
        value, placed = op.operands[0], self._before(op)
        if placed is None or value.owner.operation.name != "sdy.sharding_constraint":
            return value
        again = placed.sharding == local_sharding(crossing.placed.sharding, manual)
        if not again or any(use.owner.operation != op for use in value.uses):
            return value
        self.regions.idle.append(value.owner.operation)
        return value.owner.operation.operands[0]

    def _repeat(self, number: int, reader: Any, repeated: dict[int, Any], body: Any) -> None:
        owner = self.ops[number]
        if number not in repeated:
            repeated[number] = owner.clone(ip=ir.InsertionPoint.at_block_begin(body)).operation

        def visit(inner: Any) -> Any:
            for old, new in zip(owner.results, repeated[number].results, strict=True):
                inner.replace_uses_of_with(old, new)
            return ir.WalkResult.ADVANCE

        walk(reader, visit)

    # What it says

    def _before(self, op: Any) -> Placed | None:
        """What the `@Sharding` in front of a crossing says."""
        return self.regions.entries.get(op.operands[0])

    def _manual_axes(self, component: Component) -> Axes:
        taken_axes: set[Axes] = set()
        for inside, outside in self._both_sides(component):
            taken = subtract_axes(inside, outside)
            if self.mesh.in_order((*taken, *outside)) != self.mesh.in_order(inside):
                at = self.fail((component.entries or component.exits)[0][1].op)
                raise at("a manual computation gives back axes of the one around it", FORM, "keep them manual within")
            taken_axes.add(taken)
        at = self.fail((component.entries or component.exits)[0][1].op)
        if len(taken_axes) != 1 or taken_axes == {()}:
            what = "over different axes" if len(taken_axes) > 1 else "over no axes"
            raise at(f"a manual computation is {what}", FORM, "let all its values be manual over the same devices")
        manual = taken_axes.pop()
        partly = [axis for axis in manual if not self.mesh.is_full(axis)]
        if partly:
            raise at(
                f"a manual computation takes a part of the axis {partly[0].name!r} of {self.mesh!r}",
                "sdy.manual_computation takes whole axes",
                "give the mesh an axis for the part",
            )
        return manual

    def _both_sides(self, component: Component) -> Iterator[tuple[Axes, Axes]]:
        """Of every value that enters or leaves: the axes that are manual inside and outside."""
        for _, crossing in component.entries:
            before = self._before(crossing.op)
            yield crossing.placed.manual, before.manual if before is not None else ()
        for _, crossing in component.exits:
            inner = self._before(crossing.op)
            if inner is not None:
                yield inner.manual, crossing.placed.manual

    def _in_sharding(self, crossing: Crossing, manual: Axes) -> TensorSharding:
        before = self._before(crossing.op)
        if before is None or not before.stated:
            raise self.fail(crossing.op)(
                f"@{FULL_TO_SHARD} is given a value of which @Sharding says nothing", FORM, "put @Sharding before it"
            )
        self._check_shape(crossing.op, before.sharding, manual, crossing.op.operands[0], crossing.op.results[0])
        return before.sharding

    def _out_sharding(self, crossing: Crossing, manual: Axes) -> TensorSharding:
        if not crossing.placed.stated:
            raise self.fail(crossing.op)(f"@{SHARD_TO_FULL} does not say how its result lies", FORM, "give its tiles")
        sharding = crossing.placed.sharding
        self._check_shape(crossing.op, sharding, manual, crossing.op.results[0], crossing.op.operands[0])
        return sharding

    def _check_shape(self, op: Any, sharding: TensorSharding, manual: Axes, whole: Any, local: Any) -> None:
        sizes = list(ir.RankedTensorType(whole.type).shape)
        for dim, axes in enumerate(sharding.axes):
            taken = [axis in manual for axis in axes]
            if taken != sorted(taken, reverse=True):
                raise self.fail(op)(
                    f"dimension {dim} is split over the manual axes within the others",
                    f"{sharding!r} with manual axes {', '.join(axis.name for axis in manual)}",
                    "put the manual axes first",
                )
            sizes[dim] //= axes_size(axis for axis in axes if axis in manual)
        if sizes != list(ir.RankedTensorType(local.type).shape):
            raise self.fail(op)(
                f"the local type {local.type} is not the share of {whole.type} that one device has",
                f"{sharding!r} with manual axes {', '.join(axis.name for axis in manual)}",
                f"make its shape {'x'.join(map(str, sizes)) or 'scalar'}",
            )

"""Is this an explicit program? Every op local as it stands, every communication an op, every sharding honest.

An op inside which devices exchange something (`Splits.exchanged`) is both.

Arguments and results may be uneven; nothing reads and makes such tensors but the ops of `localize.uneven`.

This is what `localize` relies on, for programs that `materialize` made and for those read from a file. It does not
trust either: layouts after collectives are derived again, and each op's operands and results must be one split of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.boundary import Boundary, without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DEVICE_OPS, MANUAL, RETURNS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.bodies import is_program
from shardwright.partition.decisions import Layout
from shardwright.partition.emit import step_of
from shardwright.partition.factors import factor_axes, tensor_sharding
from shardwright.partition.free_axes import stays_within
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.splits import counted_once, linear_operands, splits_of
from shardwright.rules.traits import facts_of, is_scalar_expansion
from shardwright.sharding import Partial, TensorSharding

__all__ = ["check"]

_LOOPS = frozenset({"stablehlo.while", "stablehlo.optimization_barrier"})


def check(graph: Graph) -> None:
    """Check an explicit program.

    Raises:
        ShardingError: naming the first op whose layouts do not fit, and how.
    """
    _Checker(graph).block(graph.main.block, graph.main.result_shardings)


class _Checker:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.around: tuple[str, ...] = ()
        self.known: dict[int, Layout] = {}  # layouts of values that were looked at

    def fail(self, op: Op, cause: str) -> ShardingError:
        return ShardingError(
            f"{op.name} is not local",
            op=op.signature.label,
            location=str(self.graph.locations[op.location]),
            cause=cause,
            remedy="insert the collective that brings its operands where it needs them",
        )

    def layouts(self, op: Op, values: tuple[int, ...], uneven: bool = False) -> list[Layout]:
        if uneven:
            return [self.layout(op, value, uneven) for value in values]
        for value in values:
            if value not in self.known:
                self.known[value] = self.layout(op, value, uneven)
        return [self.known[value] for value in values]

    def layout(self, op: Op, value: int, uneven: bool) -> Layout:
        type, sharding = self.graph.types[value], self.graph.shardings[value]
        if not type.is_tensor:
            return None
        if sharding is None:
            raise self.fail(op, f"value %{value} has no sharding")
        sharding.check(type.dims)
        if not uneven and not sharding.divides(type.dims):
            raise self.fail(op, f"{sharding!r} does not divide {type}")
        return sharding.closed()

    def block(self, block: Block, yields: list[Layout] | None) -> None:
        for op in block.ops:
            if op.name in RETURNS:
                outermost = block is self.graph.main.block
                self.same(op, self.layouts(op, op.operands, outermost), yields, "what is yielded")
            else:
                self.op(op)

    def op(self, op: Op) -> None:
        if self.is_at_boundary(op) or op.name == "sdy.sharding_group":  # which has told propagation all that it tells
            return
        if op.regions:
            self.regions(op)
        elif op.name.startswith("sdy.") and not facts_of(op.name).constant:
            self.collective(op)
        else:
            self.split(op)

    def is_at_boundary(self, op: Op) -> bool:
        """Whether an op pads an uneven argument, or makes an uneven result: see `localize.uneven`."""
        if op.name not in ("stablehlo.pad", "stablehlo.slice"):
            return False
        layouts = self.layouts(op, op.operands, True), self.layouts(op, op.results, True)
        return is_at_boundary(op.signature, *layouts)

    def same(self, op: Op, layouts: list[Layout], expected: Sequence[Layout] | None, what: str) -> None:
        for number, (one, other) in enumerate(zip(layouts, expected or layouts, strict=True)):
            if one != (other.closed() if other is not None else None) and other is not None:
                raise self.fail(op, f"{what} {number} is {one!r} and should be {other!r}")

    def regions(self, op: Op) -> None:
        results = self.layouts(op, op.results)
        operands = self.layouts(op, op.operands)
        if op.name == MANUAL:
            boundary = op.signature.boundary
            self.manual(op, boundary)
            self.same(op, operands, boundary.in_shardings, "operand")
            self.same(op, results, boundary.out_shardings, "result")
            self.body(op)
            return
        if op.name in _LOOPS:
            self.same(op, operands, results, "operand")
        for number, region in enumerate(op.regions):
            condition = op.name == "stablehlo.while" and number == 0
            if region.arguments:
                self.same(op, self.layouts(op, region.arguments), results, "region argument")
            self.block(region, None if condition else results)

    def manual(self, op: Op, boundary: Boundary) -> None:
        """A body makes and takes contributions along manual axes alone; along others each device has the whole."""
        for sharding in boundary.shardings:
            free = sorted({axis.name for axis in sharding.partial_axes}.difference(boundary.manual_axes))
            if free:
                raise self.fail(op, f"{sharding!r} is partial along {', '.join(free)}, which is not manual")

    def body(self, op: Op) -> None:
        """A body that is split along free axes is a program like any other; one without shardings is for one device."""
        (block,), boundary, shardings = op.regions, op.signature.boundary, self.graph.shardings
        yielded = block.terminator.operands
        if not is_program(self.graph, op):
            return
        for number, (value, stated) in enumerate(zip((*block.arguments, *yielded), boundary.shardings, strict=True)):
            layout, expected = shardings[value], without_manual_axes(stated, boundary.manual_axes)
            if layout is not None and (layout.closed().axes != expected.closed().axes or layout.partial):
                raise self.fail(op, f"value {number} of its body is {layout!r} and should be {expected!r}")
        around, self.around = self.around, (*self.around, *boundary.manual_axes)
        for inner in block.ops[:-1]:
            self.op(inner)
        self.around = around

    def stays_within(self, signature: Signature) -> bool:
        """Whether devices that communicate in an op hold the same parts of all values."""
        return stays_within(signature, self.graph, self.graph.mesh.inside(self.around))

    def collective(self, op: Op) -> None:
        (before,), (after,) = self.layouts(op, op.operands), self.layouts(op, op.results)
        assert before is not None
        assert after is not None
        try:
            reached = step_of(op.signature, before, after).apply(before)
        except ShardingError as error:
            raise self.fail(op, error.diagnostic.message) from None
        if reached != after:
            raise self.fail(op, f"it takes {before!r} to {reached!r}, not to {after!r}")

    def split(self, op: Op) -> None:
        operands, results = self.layouts(op, op.operands), self.layouts(op, op.results)
        if op.name in _LOOPS:
            self.same(op, operands, results, "operand")
            return
        signature = op.signature
        if signature.name in DEVICE_OPS and not self.stays_within(signature):
            if any(layout is not None and not layout.is_replicated for layout in (*operands, *results)):
                raise self.fail(op, "devices that hold different parts of a value communicate in it")
            return
        cause = _why_not_local(signature, tuple(operands), tuple(results))
        if cause is not None:
            raise self.fail(op, cause)


@memoize
def _why_not_local(signature: Signature, operands: tuple[Layout, ...], results: tuple[Layout, ...]) -> str | None:
    """Why an op without regions is not local whose tensors lie so; `None` where it is."""
    tensors = (*operands, *results)
    if facts_of(signature.name).constant:
        is_partial = any(layout is not None and layout.partial for layout in tensors)
        return "a constant cannot be partial" if is_partial else None
    if is_scalar_expansion(signature):  # split in any way
        return _why_not_partial(signature, set(), operands, results)
    splits = splits_of(signature)
    if splits is None:
        is_split = any(layout is not None and not layout.is_replicated for layout in tensors)
        return "it has no sharding rule: operands and results must be replicated" if is_split else None
    rule = splits.rule
    factors = factor_axes(rule, [layout for layout in tensors if layout is not None])
    for number, (layout, mapping) in enumerate(zip(tensors, (*rule.operands, *rule.results), strict=True)):
        if layout is not None and layout.axes != tensor_sharding(layout.mesh, mapping, factors).axes:
            return f"tensor {number} has {layout!r}, which is not the split the others have"
    for factor, axes in enumerate(factors):
        if axes and factor not in splits.allowed:
            return f"it is split along a factor of size {rule.sizes[factor]} and cannot be"
    made = {Partial(axis, splits.kind) for factor in splits.contributing for axis in factors[factor]}
    return _why_not_partial(signature, made, operands, results)


def _why_not_partial(
    signature: Signature, made: set[Partial], operands: tuple[Layout, ...], results: tuple[Layout, ...]
) -> str | None:
    """Results are partial along the reduction's axes and those of partial operands that the op is linear in."""
    once = counted_once(signature)
    held = {n: set(s.partial) for n, s in enumerate(operands) if s is not None and s.partial and n not in once}
    passed: set[Partial] = set().union(*held.values()) if held else set()
    kinds = {partial.kind for partial in passed}
    if len(kinds) > 1 or (kinds and kinds != {"sum"} and made):
        return f"contributions to {' and '.join(sorted(kinds | {p.kind for p in made}))} meet in it"
    if held and not any(
        set(held) == set(together) and len({frozenset(partial) for partial in held.values()}) == 1
        for together in linear_operands(signature, *kinds)
    ):
        kind = "" if kinds == {"sum"} else f" in contributions to a {kinds.pop()}"
        return f"operands {sorted(held)} are partial and the op is not linear in them{kind}"
    for number in sorted(once):
        layout = operands[number]
        if layout is not None and not set(layout.partial) <= made | passed:
            return f"operand {number} is partial along {layout.partial}, and its result along {made | passed} only"
    for layout in results:
        if layout is not None and not _same_partial(layout, made | passed):
            return f"its result is partial along {layout.partial}, not along {made | passed}"
    return None


def _same_partial(layout: TensorSharding, partial: set[Partial]) -> bool:
    kinds = {p.kind for p in (*layout.partial, *partial)}
    in_order = layout.mesh.in_order
    return all(
        in_order(p.axis for p in layout.partial if p.kind == kind)
        == in_order(p.axis for p in partial if p.kind == kind)
        for kind in kinds
    )

"""An op's sharding option: mesh axes for each of its loops, and what that says of its operands and results.

    %0 = stablehlo.dot %a, %b {shardwright.option = [[], [], [0]]} : …

The loops of an op are the dimensions of its result, in order, and then those it reduces over. Here the last is the
contracted dimension: both operands are split along axis 0 there, and the result is a partial sum along it.

Source: the mesh RFC on LLVM's forum, ShardingInterface, getShardingOption and setShardingAnnotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.ops import COLLECTIVES
from shardwright.mesh import Mesh
from shardwright.notation.names import symbol_name
from shardwright.notation.rfc.layouts import Layout, layout
from shardwright.notation.rfc.mesh import line_of
from shardwright.notation.rfc.reading import located, ops_of, sharding_on
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings, print_sharding, print_shardings
from shardwright.sharding import TensorSharding, replicated

__all__ = ["FUNCTION_MESH", "OPTION", "Loops", "apply_options", "loops_of"]

OPTION = "shardwright.option"
"""The attribute that holds an op's option: mesh axes, by position, for each of its loops."""

FUNCTION_MESH = "shardwright.mesh"
"""The attribute that holds the mesh of a function, where positions or several meshes ask for it."""

Index = tuple[int | None, ...]
"""The loop that each dimension of a tensor runs with, `None` where it runs with none."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops of an op, those over its result first: how many, and which runs over each dimension of each operand."""

    count: int
    operands: tuple[Index, ...]


def loops_of(op: Any) -> Loops | None:
    """The loops of an op, or `None` where only those of its results are known."""
    if not len(op.results) or not isinstance(op.results[0].type, ir.RankedTensorType):
        return None
    name = op.name
    ranks = tuple(_rank(value) for value in op.operands)
    rank = _rank(op.results[0])
    if None in ranks or rank is None:
        return None
    if name.removeprefix("stablehlo.") in _ELEMENTWISE:
        return Loops(rank, tuple(tuple(range(rank)) if r == rank else (None,) * (r or 0) for r in ranks))
    find = _LOOPS.get(name)
    return None if find is None else find(op, rank, ranks)


def _rank(value: Any) -> int | None:
    type = value.type
    return type.rank if isinstance(type, ir.RankedTensorType) else None


def _dot_general(op: Any, rank: int, ranks: tuple[int, ...]) -> Loops:
    numbers: dict[str, Any] = decode(str(op.attributes["dot_dimension_numbers"]))
    batch = [numbers.get(f"{side}_batching_dimensions", ()) for side in ("lhs", "rhs")]
    contracted = [numbers.get(f"{side}_contracting_dimensions", ()) for side in ("lhs", "rhs")]
    return _product(ranks, batch, contracted, rank)


def _dot(op: Any, rank: int, ranks: tuple[int, ...]) -> Loops:
    del op
    return _product(ranks, [(), ()], [(ranks[0] - 1,), (0,)], rank)


def _product(ranks: tuple[int, ...], batch: list[Any], contracted: list[Any], rank: int) -> Loops:
    """Loops: batch, the free dimensions of the left and of the right side, and those that are contracted."""
    free = len(batch[0])
    operands: list[Index] = []
    for side, count in enumerate(ranks):
        loops: list[int | None] = [None] * count
        for loop, dim in enumerate(batch[side]):
            loops[dim] = loop
        for loop, dim in enumerate(contracted[side]):
            loops[dim] = rank + loop
        for dim in range(count):
            if loops[dim] is None:
                loops[dim] = free
                free += 1
        operands.append(tuple(loops))
    return Loops(rank + len(contracted[0]), tuple(operands))


def _transpose(op: Any, rank: int, ranks: tuple[int, ...]) -> Loops:
    order: tuple[int, ...] = decode(str(op.attributes["permutation"]))
    return Loops(rank, (tuple(order.index(dim) for dim in range(ranks[0])),))


def _broadcast(op: Any, rank: int, ranks: tuple[int, ...]) -> Loops:
    dims: tuple[int, ...] = decode(str(op.attributes["broadcast_dimensions"]))
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    return Loops(rank, (tuple(dim if source[i] == target[dim] else None for i, dim in enumerate(dims)),))


def _reduce(op: Any, rank: int, ranks: tuple[int, ...]) -> Loops:
    reduced: tuple[int, ...] = decode(str(op.attributes["dimensions"]))
    kept = iter(range(rank))
    loops = tuple(rank + reduced.index(dim) if dim in reduced else next(kept) for dim in range(ranks[0]))
    half = len(ranks) // 2
    return Loops(rank + len(reduced), (loops,) * half + ((),) * half)


_LOOPS: Mapping[str, Callable[[Any, int, Any], Loops]] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.reduce": _reduce,
    "stablehlo.transpose": _transpose,
}

_ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "bitcast_convert", "cbrt", "ceil", "clamp", "compare", "complex", "constant",
    "convert", "cosine", "count_leading_zeros", "divide", "exponential", "exponential_minus_one", "floor", "imag",
    "iota", "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or",
    "popcnt", "power", "real", "reduce_precision", "remainder", "round_nearest_afz", "round_nearest_even", "rsqrt",
    "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sine", "sqrt", "subtract",
    "tan", "tanh", "xor",
})  # fmt: skip


@lru_cache(maxsize=4096)
def _loop_axes(text: str) -> tuple[tuple[int, ...], ...]:
    return layout(text, text.count("[") - 1).dims


def apply_options(module: Any, name: str = "-") -> None:
    """Give operands and results the shardings that the options of their ops say, where nothing else does; in place.

    A result without sharding gets one, with partial sums along the axes of loops that are reduced over. An operand
    that no annotation is for, and whose sharding is not that already, gets a constraint. Functions that hold
    collectives have their shardings and are left alone.

    Raises:
        ShardingError: an option with more lists than the op has loops, or for an axis that the mesh lacks.
    """
    meshes: dict[str, Mesh] = {}
    functions = []
    for view in module.body.operations:
        op = view.operation
        if op.name == "sdy.mesh":
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            meshes[symbol] = parse_mesh(str(op.attributes["mesh"]), symbol)
        elif op.name == "func.func":
            functions.append(op)
    for function in functions:
        ops = ops_of(function)
        if any(op_name in COLLECTIVES for op_name, _ in ops):
            continue
        mesh = _mesh_of(function, meshes)
        applying = _Applying(function, mesh, meshes, name)
        for op_name, op in ops:
            if OPTION in op.attributes:
                with located(op_name, line_of(op, name)):
                    applying.apply(op)


def _mesh_of(function: Any, meshes: Mapping[str, Mesh]) -> Mesh | None:
    for key in (FUNCTION_MESH, "mesh_cluster"):
        if key in function.attributes:
            return meshes.get(symbol_name(str(function.attributes[key])))
    return next(iter(meshes.values()), None) if len(meshes) == 1 else None


@dataclass(slots=True)
class _Applying:
    function: Any
    mesh: Mesh | None
    meshes: Mapping[str, Mesh]
    name: str

    def apply(self, op: Any) -> None:
        if self.mesh is None:
            raise ShardingError(
                "a sharding option is given to an op whose function has no mesh",
                cause="an option names axes by their position in the mesh of the function",
                remedy="give the function its cluster: attributes {mesh_cluster = @mesh0}",
            )
        axes = _loop_axes(str(op.attributes[OPTION]))
        loops = loops_of(op)
        if loops is not None and len(axes) > loops.count:
            raise ShardingError(
                f"a sharding option of {len(axes)} lists is given to an op of {loops.count} loops",
                cause="its loops are the dimensions of its result, and then those it reduces over",
                remedy="give at most one list for each loop",
            )
        self._results(op, axes)
        if loops is not None:
            for number, index in enumerate(loops.operands):
                self._operand(op, number, index, axes)

    def _results(self, op: Any, axes: tuple[tuple[int, ...], ...]) -> None:
        ranks = [_rank(value) for value in op.results]
        if "sdy.sharding" in op.attributes or not ranks or ranks[0] is None:
            return
        assert self.mesh is not None
        rank = ranks[0]
        filled = axes + ((),) * (rank - len(axes))
        partial = tuple(axis for loop in filled[rank:] for axis in loop)
        sharding = sharding_on(Layout("", filled[:rank], partial), self.mesh, False)
        shardings = [sharding if other == rank else replicated(self.mesh, other or 0, open=True) for other in ranks]
        op.attributes["sdy.sharding"] = parse_attribute(print_shardings(shardings))

    def _operand(self, op: Any, number: int, index: Index, axes: tuple[tuple[int, ...], ...]) -> None:
        value = op.operands[number]
        if not index or self._is_constrained(value):
            return
        assert self.mesh is not None
        dims = tuple(() if loop is None or loop >= len(axes) else axes[loop] for loop in index)
        sharding = sharding_on(Layout("", dims), self.mesh, False)
        known = self._known(value)
        if known is not None and known.closed() == sharding:
            return
        created = ir.Operation.create(
            "sdy.sharding_constraint",
            results=[value.type],
            operands=[value],
            attributes={"sharding": parse_attribute(print_sharding(sharding))},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        op.operands[number] = created.result

    def _is_constrained(self, value: Any) -> bool:
        return not isinstance(value, ir.BlockArgument) and value.owner.name == "sdy.sharding_constraint"

    def _known(self, value: Any) -> TensorSharding | None:
        """What is said of a value where it is defined."""
        if isinstance(value, ir.BlockArgument):
            return self._argument(value)
        owner = value.owner
        if "sdy.sharding" not in owner.attributes:
            return None
        number = ir.OpResult(value).result_number
        return parse_shardings(str(owner.attributes["sdy.sharding"]), self.meshes)[number]

    def _argument(self, value: Any) -> TensorSharding | None:
        argument: Any = value
        if argument.owner != self.function.regions[0].blocks[0] or "arg_attrs" not in self.function.attributes:
            return None
        row = ir.DictAttr(self.function.attributes["arg_attrs"][argument.arg_number])
        return parse_shardings(str(row["sdy.sharding"]), self.meshes)[0] if "sdy.sharding" in row else None

"""A per-device program whose reductions between devices keep NaN, as StableHLO has it and XLA:CPU does not.

XLA:CPU combines maxima and minima of devices by comparisons, which no NaN wins: in jaxlib 0.10.2, of any floating-point
type and in groups of any size, contributions that are NaN are left out, and where all of them are, the result is an
infinity. `jax.lax.pmax` and `jax.jit` of a sharded maximum lose them likewise. What is verified on virtual devices
would differ from the unsharded program, though it is right on devices that do as StableHLO says.
"""

from __future__ import annotations

from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.runtime.variant import Variant

__all__ = ["NOTE", "keeping_nan", "loses_nan"]

NOTE = (
    "XLA:CPU drops NaN where devices combine maxima or minima; what is verified is the program with these reductions "
    "written so that they keep it"
)
"""What to say where it made a difference."""

_REDUCING = frozenset({"stablehlo.all_reduce", "stablehlo.reduce_scatter"})
_MARKS = {"max": "1.0", "min": "-1.0"}
"""What stands for NaN among zeros, by the kind of the reduction."""


def loses_nan(graph: Graph) -> bool:
    """Whether devices combine maxima or minima of floating-point numbers."""
    return any(_loses(op) for op in graph.walk())


def keeping_nan(graph: Graph) -> Graph:
    """A per-device program with a second reduction beside each such, of marks that tell where a contribution is NaN."""
    return _Keeper(graph).run()


def _loses(op: Op) -> bool:
    signature = op.signature
    if op.name not in _REDUCING or len(signature.operands) != 1:  # XLA:CPU runs none of several operands
        return False
    return signature.bodies[0].reduction in _MARKS and signature.operands[0].dtype.startswith(("f", "bf"))


class _Keeper(Variant):
    def __init__(self, source: Graph) -> None:
        super().__init__(source)
        handles = (op.signature.get("channel_handle", {}).get("handle", 0) for op in source.walk())
        self.channels = max(handles, default=0)

    def op(self, op: Op, into: list[Op]) -> None:
        super().op(op, into)
        if _loses(op):
            (operand,), (result,) = op.operands, op.results
            self.values[result] = self._with_nan(op, self.values[operand], self.values[result], into)

    def _with_nan(self, op: Op, operand: int, result: int, into: list[Op]) -> int:
        """`result`, and NaN wherever one was in an `operand`."""
        before, after = self.target.types[operand], self.target.types[result]
        mark = _MARKS[str(op.signature.bodies[0].reduction)]

        def emit(name: str, operands: tuple[int, ...], type: TensorType, *attributes: tuple[str, str]) -> int:
            types = tuple(self.target.types[value] for value in operands)
            return self.emit(into, Signature(f"stablehlo.{name}", attributes, types, (type,)), operands, op.location)

        def splat(number: str, type: TensorType) -> int:
            return emit("constant", (), type, ("value", f"dense<{number}> : {type}"))

        def differ(left: int, right: int, type: TensorType) -> int:
            unequal = ("comparison_direction", "#stablehlo<comparison_direction NE>")
            return emit("compare", (left, right), TensorType(type.shape, "i1"), unequal)

        marks = emit("select", (differ(operand, operand, before), splat(mark, before), splat("0.0", before)), before)
        reduced = self.emit(into, self._on_own_channel(op.signature), (marks,), op.location)
        zero = splat("0.0", after)
        nan = emit("divide", (zero, zero), after)
        return emit("select", (differ(reduced, zero, after), nan, result), after)

    def _on_own_channel(self, signature: Signature) -> Signature:
        handle = signature.get("channel_handle")
        if handle is None:
            return signature
        self.channels += 1
        text = f"#stablehlo.channel_handle<handle = {self.channels}, type = {handle['type']}>"
        return signature.replace(channel_handle=text)

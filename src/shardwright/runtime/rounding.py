"""A program whose roundings fall out otherwise: Monte Carlo arithmetic on its own text.

Splitting a program over devices changes the order of sums and which operations are fused, and so how results are
rounded, everywhere. Here inputs and the results of arithmetic move by one unit in the last place or not at all, as a
hash of the value and of a seed decides. How far outputs then move is what rounding can do to them, whatever carries
it there: sums that cancel, quotients of noise, comparisons, indices.

Values that are exact in fewer digits (0, 1, 64, infinities) are left alone: arithmetic does not round these.
(D. S. Parker, *Monte Carlo Arithmetic*, 1997.)
"""

from __future__ import annotations

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.traits import facts_of
from shardwright.runtime.variant import Variant

__all__ = ["SEED_TYPE", "perturbed"]

SEED_TYPE = TensorType((), "ui32")
"""The type of the argument that a perturbed program has beside its own, as the last."""

_LAYOUTS = {"f32": ("ui32", 63), "bf16": ("ui16", 3), "f16": ("ui16", 7), "f64": ("ui64", 4095)}
"""Floating-point types: the integers of their size, and the digits that an exact value leaves zero."""

_COMPLEX = {"complex<f32>": "f32", "complex<f64>": "f64"}
_FACTORS = {"ui16": 40503, "ui32": 2654435769, "ui64": 11400714819323198485}

_MANY_SITES = 300
"""Beyond so many roundings only those of sums and of inputs are moved: the rest would double the time to compile."""

_ROUNDING_CONVERSIONS = {"f64": 3, "f32": 2, "f16": 1, "bf16": 1}


def perturbed(graph: Graph, seed: int | None = None) -> Graph:
    """The program with its roundings moved.

    Arguments:
        graph: The program.
        seed: The seed, written into the program; else it is the program's last argument.
    """
    return _Perturber(graph, seed).run()


class _Perturber(Variant):
    def __init__(self, source: Graph, seed: int | None) -> None:
        super().__init__(source)
        self.constant = seed
        self.seed = -1
        self.sums_only = sum(map(_rounds, source.walk())) > _MANY_SITES

    def entry(self, block: Block) -> Block:
        made = Block(tuple(map(self.value, block.arguments)), [])
        if self.constant is None:
            self.seed = self.target.new_value(SEED_TYPE)
            main = self.target.main
            main.argument_names = [*main.argument_names, "shardwright.seed"]
            main.argument_attributes = [*main.argument_attributes, {}]
            made.arguments = (*made.arguments, self.seed)
        for value in block.arguments:
            self.values[value] = self.moved(self.values[value], made.ops, 0)
        for op in block.ops:
            self.op(op, made.ops)
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        super().op(op, into)
        if not _rounds(op) or (self.sums_only and not facts_of(op.name).sums):
            return
        for result in op.results:
            self.values[result] = self.moved(self.values[result], into, op.location)

    def moved(self, value: int, into: list[Op], location: int) -> int:
        """The value, each element moved by a unit in the last place or not."""
        type = self.target.types[value]
        if not type.is_tensor or type.elements == 0:
            return value
        if type.dtype in _COMPLEX:
            part = TensorType(type.shape, _COMPLEX[type.dtype])
            parts = [
                self._moved(self.emit(into, Signature(name, (), (type,), (part,)), (value,), location), into, location)
                for name in ("stablehlo.real", "stablehlo.imag")
            ]
            return self.emit(into, Signature("stablehlo.complex", (), (part, part), (type,)), tuple(parts), location)
        return self._moved(value, into, location) if type.dtype in _LAYOUTS else value

    def _moved(self, value: int, into: list[Op], location: int) -> int:
        type = self.target.types[value]
        integer, digits = _LAYOUTS[type.dtype]
        bits = TensorType(type.shape, integer)

        def two(name: str, left: int, right: int) -> int:
            return self.emit(into, Signature(f"stablehlo.{name}", (), (bits, bits), (bits,)), (left, right), location)

        def splat(number: int) -> int:
            attributes = (("value", f"dense<{number}> : {bits}"),)
            return self.emit(into, Signature("stablehlo.constant", attributes, (), (bits,)), (), location)

        own = self.emit(into, Signature("stablehlo.bitcast_convert", (), (type,), (bits,)), (value,), location)
        mixed = two("multiply", two("xor", own, self._seed(bits, into, location)), splat(_FACTORS[integer]))
        bit = two("shift_right_logical", mixed, splat(int(integer[2:]) - 1))
        moved = two("xor", own, two("minimum", two("and", own, splat(digits)), bit))
        made = self.emit(into, Signature("stablehlo.bitcast_convert", (), (bits,), (type,)), (moved,), location)
        self.target.shardings[made] = self.target.shardings[value]
        return made

    def _seed(self, bits: TensorType, into: list[Op], location: int) -> int:
        """The seed as a tensor of type `bits`."""
        if self.constant is not None:
            number = self.constant % 2 ** int(bits.dtype[2:])
            attributes = (("value", f"dense<{number}> : {bits}"),)
            return self.emit(into, Signature("stablehlo.constant", attributes, (), (bits,)), (), location)
        scalar = TensorType((), bits.dtype)
        seed = self.seed
        if scalar != SEED_TYPE:
            seed = self.emit(into, Signature("stablehlo.convert", (), (SEED_TYPE,), (scalar,)), (seed,), location)
        attributes = (("broadcast_dimensions", "array<i64>"),)
        signature = Signature("stablehlo.broadcast_in_dim", attributes, (scalar,), (bits,))
        return self.emit(into, signature, (seed,), location)


def _rounds(op: Op) -> bool:
    """Whether the results of an op are rounded."""
    signature = op.signature
    if not signature.results or not any(type.dtype in _LAYOUTS or type.dtype in _COMPLEX for type in signature.results):
        return False
    if op.name == "stablehlo.convert":
        source, target = (
            _ROUNDING_CONVERSIONS.get(types[0].dtype, 0) for types in (signature.operands, signature.results)
        )
        return source > target > 0
    if op.name in ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.all_reduce"):
        return any(body.reduction not in ("max", "min") for body in signature.bodies)
    facts = facts_of(op.name)
    is_exact = facts.exact or facts.moves or facts.constant or facts.literal
    return not is_exact and op.name.startswith(("stablehlo.", "chlo."))

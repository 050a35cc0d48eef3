"""What a per-device program computes and moves through memory, read from its HLO: the kernels that it would be run as.

Read after SPMD partitioning, before it is made a program for CPUs. By rules that look at ops only, the same whoever wrote
them:

- Elementwise ops, broadcasts, slices, pads, concatenations, gathers and the like are fused into what reads them and take
  no memory of their own. One is written where a whole tensor has to be there: an operand of a product, a convolution, a
  collective, a loop, a call or an update in place, and a result of its computation. What writes or reduces it reads each
  tensor that the fused ops begin with once, and of one that is only sliced or gathered no more than the slice.
- A reduction, a sort and every other op that is no fused one reads its operands, fused ops included, and writes its
  results.
- A `dynamic-update-slice` reads the update and writes it in place; a `scatter` reads indices, updates and the rows that
  they go to, and writes these.
- Constants of which all elements are the same are part of the kernels that read them.
- Reshapes, transposes, tuples, barriers and copies move nothing: that is a matter of layouts.
- Collectives move nothing here either: what they take is told by their links.
- A product is two operations to each multiply-add, a convolution too, those that meet padding left out; a complex one is
  four. No other op counts operations: what they take is their traffic.
- What is computed twice counts once, as in every program that XLA has gone over.
- The body of a loop counts as often as it runs, once where the text does not say; of a conditional, the branch that moves
  most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tests.oracles.hlo import KINDS, Computation, Instruction, branches, first_tensor, parse, shape_bytes, trip_count
from tests.oracles.hlo_same import shared

__all__ = ["Kernel", "kernels", "multiplied"]

_VIEWS = {"bitcast", "reshape", "transpose", "copy", "opt-barrier", "tuple", "get-tuple-element", "domain"}
_NOTHING = {"iota", "partition-id", "replica-id", "after-all", "add-dependency", "rng-get-and-update-state"}
_TAKING = {"slice", "dynamic-slice", "gather"}
_FUSED = {
    *("abs", "add", "and", "atan2", "bitcast-convert", "broadcast", "cbrt", "ceil", "clamp", "clz", "compare", "complex"),
    *("concatenate", "convert", "cosine", "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one"),
    *("floor", "imag", "is-finite", "log", "log-plus-one", "logistic", "map", "maximum", "minimum", "multiply", "negate"),
    *("not", "or", "pad", "popcnt", "popcount", "power", "real", "reduce-precision", "remainder", "reverse", "rsqrt"),
    *("round-nearest-afz", "round-nearest-even", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical"),
    *("sign", "sine", "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor", *_TAKING),
}  # fmt: skip
_STARTED = {*KINDS, *(f"{kind}-start" for kind in KINDS)}
_WHOLE = {"dot", "convolution", "while", "conditional", "call", "custom-call", *_STARTED}
"""Ops whose operands have to be there as they are."""
_SILENT = {"parameter", "constant", "while", "conditional", "call", *_STARTED, *(f"{kind}-done" for kind in KINDS)}

Leaves = Mapping[str, int]
"""Tensors in memory by name, with the bytes that are read of each."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is run at once.

    Attributes:
        opcode: Its last op.
        operations: Multiplications and additions of a product or a convolution; none of all else.
        dtype: The type of the elements, as HLO writes it; `tf32` for f32 multiplied at the default precision.
        moved: Bytes that it reads from memory and writes to it.
        times: How often it runs.
    """

    opcode: str
    operations: float
    dtype: str
    moved: int
    times: int = 1


def kernels(text: str) -> list[Kernel]:
    """The kernels of a run of a module."""
    computations, entry = parse(text)
    computations = shared(computations)
    return list(_of_computation(computations, computations[entry], 1))


def _of_computation(computations: dict[str, Computation], of: Computation, times: int) -> Iterator[Kernel]:
    fusion = _Fusion(of)
    for op in fusion.live():
        if op.opcode == "while":
            trips = trip_count(computations, of, op)
            for part, runs in (
                ("condition", 1 if trips is None else trips + 1),
                ("body", 1 if trips is None else trips),
            ):
                yield from _of_computation(computations, computations[op.attribute(part).lstrip("%")], times * runs)
        elif op.opcode == "call":
            yield from _of_computation(computations, computations[op.attribute("to_apply").lstrip("%")], times)
        elif op.opcode == "conditional":
            every = [list(_of_computation(computations, computations[name], times)) for name in branches(op)]
            yield from max(every, key=lambda some: sum(kernel.moved * kernel.times for kernel in some), default=[])
        elif (kernel := fusion.kernel(op)) is not None:
            yield replace(kernel, times=times)


class _Fusion:
    """Which ops of a computation are fused into others, and what is read by those that are not."""

    def __init__(self, computation: Computation) -> None:
        self.ops = computation.instructions
        self.root = computation.root
        self._leaves: dict[str, Leaves] = {}
        self._live = self._reached()
        self.written = self._written()

    def live(self) -> list[Instruction]:
        """The ops that the result depends on, in order."""
        return [op for name, op in self.ops.items() if name in self._live]

    def _reached(self) -> set[str]:
        reached, ahead = set[str](), [self.root]
        while ahead:
            if (name := ahead.pop()) not in reached:
                reached.add(name)
                ahead += self.ops[name].operands
        return reached

    def _written(self) -> set[str]:
        """The fused ops whose values are written nevertheless, since a whole tensor is asked for."""
        written = set(self._behind(self.root))
        for op in self.live():
            if op.opcode in _WHOLE:
                written.update(value for name in op.operands for value in self._behind(name))
            elif op.opcode in ("dynamic-update-slice", "scatter"):
                count = 1 if op.opcode == "dynamic-update-slice" else (len(op.operands) - 1) // 2
                written.update(value for name in op.operands[:count] for value in self._behind(name))
        return written

    def _behind(self, name: str) -> Iterator[str]:
        """What a value is when seen through views; all elements of a tuple."""
        op = self.ops[name]
        if op.opcode == "get-tuple-element":
            of = self._tuple_of(op)
            if of.opcode == "tuple":
                yield from self._behind(of.operands[int(op.attribute("index"))])
            else:
                yield name
        elif op.opcode in _VIEWS:
            for operand in op.operands:
                yield from self._behind(operand)
        else:
            yield name

    def _tuple_of(self, op: Instruction) -> Instruction:
        """What makes the tuple that an element is taken from, seen through barriers."""
        of = self.ops[op.operands[0]]
        while of.opcode == "opt-barrier":
            of = self.ops[of.operands[0]]
        return of

    def kernel(self, op: Instruction) -> Kernel | None:
        """What is run for an op; nothing where it is fused into others, or is but another look at a value."""
        if op.opcode in _VIEWS or op.opcode in _NOTHING or op.opcode in _SILENT:
            return None
        dtype = first_tensor(op.shape)[0]
        if op.opcode in _FUSED:
            if op.name not in self.written or op.opcode == "broadcast":
                return None
            return Kernel(op.opcode, 0.0, dtype, sum(self._read_by(op).values()) + op.bytes)
        if op.opcode == "dynamic-update-slice":
            update = self.ops[op.operands[1]]
            return Kernel(op.opcode, 0.0, dtype, self._read(op.operands[1:]) + update.bytes)
        if op.opcode == "scatter":
            count = (len(op.operands) - 1) // 2
            updates = sum(self.ops[name].bytes for name in op.operands[count + 1 :])
            return Kernel(op.opcode, 0.0, dtype, self._read(op.operands[count:]) + 2 * updates)
        moved = self._read(op.operands) + op.bytes
        if op.opcode in ("dot", "convolution"):
            left, right = (self.ops[name] for name in op.operands)
            multiply_adds = (_dot if op.opcode == "dot" else _convolution)(op, left, right)
            kind = multiplied(op, left, right)
            return Kernel(op.opcode, (8 if kind in ("c64", "c128") else 2) * multiply_adds, kind, moved)
        return Kernel(op.opcode, 0.0, dtype, moved)

    def _read(self, names: tuple[str, ...]) -> int:
        """The bytes that are read to have some values, each tensor once."""
        every: dict[str, int] = {}
        for name in names:
            _add(every, self._from(name))
        return sum(every.values())

    def _from(self, name: str) -> Leaves:
        """What is read of memory to have a value."""
        if name not in self._leaves:
            self._leaves[name] = self._new_leaves(name)
        return self._leaves[name]

    def _new_leaves(self, name: str) -> Leaves:
        op = self.ops[name]
        if op.opcode == "get-tuple-element":
            of = self._tuple_of(op)
            if of.opcode == "tuple":
                return self._from(of.operands[int(op.attribute("index"))])
            return {f"{of.name}#{op.attribute('index')}": op.bytes}
        if op.opcode in _NOTHING or _is_one_number(op):
            return {}
        if op.opcode in _VIEWS or op.opcode == "broadcast":
            every: dict[str, int] = {}
            for operand in op.operands:
                _add(every, self._from(operand))
            return every
        if op.opcode in _FUSED and name not in self.written:
            return self._read_by(op)
        return {name: op.bytes}

    def _read_by(self, op: Instruction) -> Leaves:
        """What a fused op and those fused into it read."""
        every: dict[str, int] = {}
        for number, operand in enumerate(op.operands):
            leaves = self._from(operand)
            if op.opcode in _TAKING and number == 0:
                leaves = {name: min(size, op.bytes) for name, size in leaves.items()}
            _add(every, leaves)
        return every


def _is_one_number(op: Instruction) -> bool:
    """Whether an op is a constant of which all elements are the same, which kernels hold in themselves."""
    elements = set(re.findall(r"[^{},\s]+", op.arguments))
    return op.opcode == "constant" and len(elements) == 1 and "..." not in elements


def _add(every: dict[str, int], leaves: Leaves) -> None:
    """Read some tensors too; what was read in part before is read in both parts, and no more than whole."""
    for name, size in leaves.items():
        every[name] = max(size, every.get(name, 0))


def multiplied(op: Instruction, left: Instruction, right: Instruction) -> str:
    """The type that elements are multiplied in: the wider of both."""
    wider = max((first_tensor(one.shape)[0] for one in (left, right)), key=lambda dtype: shape_bytes(f"{dtype}[]"))
    exact = re.search(r'operand_precision"?[=:][\[{][^\]}]*high', op.rest, re.IGNORECASE)
    return "tf32" if wider == "f32" and not exact else wider


def _dot(op: Instruction, left: Instruction, right: Instruction) -> float:
    """Multiply-adds of a product: each element of the result is a sum over what is contracted."""
    dims = first_tensor(left.shape)[1]
    contracted = [dims[int(dim)] for dim in re.findall(r"\d+", op.attribute("lhs_contracting_dims"))]
    return math.prod(first_tensor(op.shape)[1]) * math.prod(contracted)


def _convolution(op: Instruction, left: Instruction, right: Instruction) -> float:
    """Multiply-adds of a convolution: along each dimension the pairs of places that meet no padding and no hole."""
    inputs, kernel, outputs = op.attribute("dim_labels").replace("->", "_").split("_")
    left_dims, right_dims, dims = (first_tensor(one.shape)[1] for one in (left, right, op))
    window = dict(re.findall(r"(\w+)=([\w.\-]+)", op.attribute("window")))
    count = float(right_dims[kernel.index("i")] * right_dims[kernel.index("o")] * dims[outputs.index("b")])
    for number, label in enumerate(sorted(set(inputs) - {"b", "f"})):
        stride, holes, spread = (
            int(_along(window, key, number, "1")) for key in ("stride", "lhs_dilate", "rhs_dilate")
        )
        before = int(_along(window, "pad", number, "0_0").split("_")[0])
        sizes = left_dims[inputs.index(label)], right_dims[kernel.index(label)], dims[outputs.index(label)]
        count *= _meetings(*sizes, stride, holes, spread, before)
    return count


def _along(window: Mapping[str, str], key: str, number: int, default: str) -> str:
    return window[key].split("x")[number] if key in window else default


def _meetings(size: int, kernel: int, outputs: int, stride: int, holes: int, spread: int, before: int) -> int:
    """The pairs of a place of the result and one of the kernel that meet an element, along a dimension of `size`."""
    places = (out * stride + at * spread - before for out in range(outputs) for at in range(kernel))
    return sum(0 <= place <= (size - 1) * holes and place % holes == 0 for place in places)

"""What a program for GPUs takes as XLA has scheduled it: kernels one after the other, and collectives beside them.

Read after all of XLA's passes, so fusions, layouts, copies and the order are those of its compiler. A device computes
on one stream and sends on another: what is started goes on beside what is computed until it is waited for, or until the
next one wants to start. By rules that look at ops only, the same whoever wrote the program:

- A fusion reads each of its operands and writes its results once; of an operand that is only sliced or gathered in it,
  the slices, and of a result that is updated in place the update.
- A product or convolution, which GPUs have in calls of libraries, is two operations to each multiply-add, or its
  traffic, by the roofline. Other calls and ops are their traffic.
- A kernel takes `LAUNCH` besides.
- A loop takes what its body does as often as it runs, once where the text does not say; nothing goes on from one turn
  to the next. Of a conditional, the branch that takes longest.

One H100 took ten programs of which collectives were local copies: by 2.9 TB/s and 750 TFLOP/s kernels come to 0.73 to 1.09
of that, and what ours take by XLA's partitioner's to within 0.04, but for two of which it comes to 0.08 and 0.09 less
(docs/versions.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.cost.hardware import Hardware
from shardwright.cost.roofline import roofline_seconds
from shardwright.cost.torus import torus_on
from tests.oracles.hlo import (
    KINDS,
    Computation,
    Instruction,
    branches,
    first_tensor,
    groups_of,
    moving_pairs,
    parse,
    part_between_nodes,
    part_on_busiest_link,
    replica_groups,
    ring_bytes,
    shape_bytes,
    trip_count,
)
from tests.oracles.hlo_work import multiplied

__all__ = ["LAUNCH", "Scheduled", "scheduled"]

LAUNCH = 2e-6
"""Seconds that a kernel takes however little it does: so many took the smallest ones on an H100."""

_VIEWS = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}
_PASSING = {"bitcast", "reshape", "copy", "transpose", "convert"}
"""In a fusion, ops behind which less than all of an operand may be read."""
_SYNC = '"is_sync":true'


@dataclass(slots=True)
class Scheduled:
    """What a device does in a run of a program.

    Attributes:
        seconds: How long it takes.
        computing: How long its kernels do.
        sending: How long its collectives do.
        exposed: How long it waits for them.
        beside: How many of its collectives go on beside kernels, and
        started: how many there are.
    """

    seconds: float = 0.0
    computing: float = 0.0
    sending: float = 0.0
    exposed: float = 0.0
    beside: int = 0
    started: int = 0


def scheduled(text: str, devices: int, hardware: Hardware) -> Scheduled:
    """What a run of a module takes.

    Arguments:
        text: The HLO that XLA's compiler for GPUs ends with.
        devices: How many there are.
        hardware: Of which the rates are.
    """
    computations, entry = parse(text)
    return _Runs(computations, devices, hardware).of(computations[entry])


class _Runs:
    def __init__(self, computations: dict[str, Computation], devices: int, hardware: Hardware) -> None:
        self.computations = computations
        self.devices = devices
        self.hardware = hardware
        self.moved: dict[str, tuple[list[int | None], int]] = {}

    def of(self, computation: Computation) -> Scheduled:
        """What a run of a computation takes, from where nothing is going on."""
        total, ends = Scheduled(), dict[str, float]()
        free = 0.0  # when the link is
        for op in computation.instructions.values():
            kind = op.opcode.removesuffix("-start")
            if kind in KINDS:
                took = self.sending(computation, op, kind)
                free = ends[op.name] = max(total.seconds, free) + took
                total.sending += took
                total.started += 1
                if op.opcode == kind or _SYNC in op.rest:
                    self.wait(total, free)
                else:
                    total.beside += 1
            elif op.opcode.removesuffix("-done") in KINDS:
                self.wait(total, ends[op.operands[0]])
            elif op.opcode in ("while", "call", "conditional"):
                runs, inner = self.inside(computation, op)
                self.add(total, inner, runs)
            elif op.opcode.startswith("async"):
                raise NotImplementedError(f"{op.opcode} {op.name} goes on beside others and is no collective")
            elif op.opcode not in _VIEWS and not op.opcode.endswith("-done"):
                took = self.computing(computation, op)
                total.computing += took
                total.seconds += took
        self.wait(total, free)
        return total

    @staticmethod
    def wait(total: Scheduled, end: float) -> None:
        """Go on when something has ended."""
        total.exposed += max(0.0, end - total.seconds)
        total.seconds = max(total.seconds, end)

    @staticmethod
    def add(total: Scheduled, inner: Scheduled, runs: int) -> None:
        """Run something so often."""
        for name in Scheduled.__slots__:
            setattr(total, name, getattr(total, name) + runs * getattr(inner, name))

    def inside(self, computation: Computation, op: Instruction) -> tuple[int, Scheduled]:
        """How often what stands in an op is run, and what that takes."""
        if op.opcode == "while":
            trips = trip_count(self.computations, computation, op)
            return 1 if trips is None else trips, self.of(self.computations[op.attribute("body").lstrip("%")])
        if op.opcode == "call":
            return 1, self.of(self.computations[op.attribute("to_apply").lstrip("%")])
        every = [self.of(self.computations[name]) for name in branches(op)]
        return 1, max(every, key=lambda one: one.seconds)

    # --- collectives

    def sending(self, computation: Computation, op: Instruction, kind: str) -> float:
        """How long a collective takes."""
        operand, near = _bytes(computation, op.operands), self.hardware.devices_near
        rows: Sequence[Sequence[int]]
        if kind == "collective-permute":
            rows = moving_pairs(op)
            sent = float(operand) if rows else 0.0
        else:
            rows = replica_groups(groups_of(op), self.devices)
            sent = ring_bytes(kind, operand, operand * len(rows[0]), len(rows[0]))
        far = 0.0 if near is None else sent * part_between_nodes(kind, rows, near)
        over = part_on_busiest_link(kind, rows, torus_on(self.devices, self.hardware.links))
        ways = {"bytes_between_nodes": far, "bytes_beside": (sent - far) * (1 - over)}
        return self.hardware.seconds(sent, 1, **ways) if sent else 0.0

    # --- kernels

    def computing(self, computation: Computation, op: Instruction) -> float:
        """How long a kernel takes."""
        operations, dtype = 0.0, "bf16"
        if op.opcode == "fusion":
            moved = self.fused(computation, op)
        else:
            made, sizes = first_tensor(op.shape)  # what else there is of a call, a library has to work in
            moved = _bytes(computation, op.operands) + math.prod(sizes) * shape_bytes(f"{made}[]")
            operations = 2.0 * _multiply_adds(computation, op)
            if operations:
                dtype = multiplied(op, *[computation.instructions[name] for name in op.operands[:2]])
        return LAUNCH + roofline_seconds(self.hardware, operations=operations, bytes_moved=moved, dtype=dtype)

    def fused(self, computation: Computation, op: Instruction) -> int:
        """The bytes that a fusion reads and writes."""
        name = op.attribute("calls").lstrip("%")
        if name not in self.moved:
            inside = self.computations[name]
            parameters = [one for one in inside.instructions.values() if one.opcode == "parameter"]
            of_each = {int(one.arguments): _read(inside, one.name) for one in parameters}
            read = [of_each.get(number) for number in range(len(op.operands))]
            self.moved[name] = read, _written(inside, inside.root)
        read, written = self.moved[name]
        whole = [computation.instructions[operand].bytes for operand in op.operands]
        return written + sum(size if part is None else min(part, size) for size, part in zip(whole, read, strict=True))


def _bytes(computation: Computation, names: Sequence[str]) -> int:
    return sum(computation.instructions[name].bytes for name in names)


def _read(computation: Computation, name: str) -> int | None:
    """The bytes that are read of a value where it is only sliced or gathered; `None` where that is all of it."""
    total = 0
    for user in computation.uses(name):
        first = user.operands[0] == name
        if user.opcode in _PASSING:
            behind = _read(computation, user.name)
            if behind is None:
                return None
            total += behind
        elif user.opcode == "slice" or (first and user.opcode in ("dynamic-slice", "gather")):
            total += user.bytes
        elif not (first and user.opcode == "dynamic-update-slice"):
            return None
    return total if name != computation.root else None


def _written(computation: Computation, name: str) -> int:
    """The bytes that are written of the result of a fusion: of one that is updated in place, the update."""
    op = computation.instructions[name]
    if op.opcode == "tuple":
        return sum(_written(computation, operand) for operand in op.operands)
    if op.opcode in ("bitcast", "reshape"):
        return _written(computation, op.operands[0])
    if op.opcode == "dynamic-update-slice":
        return computation.instructions[op.operands[1]].bytes
    return op.bytes


def _multiply_adds(computation: Computation, op: Instruction) -> float:
    """Those of a product or a convolution in a call of a library; none of all else."""
    target = op.attribute("custom_call_target").strip('"')
    if op.opcode != "custom-call" or len(op.operands) < 2:
        return 0.0
    left, right = (first_tensor(computation.instructions[name].shape)[1] for name in op.operands[:2])
    result = first_tensor(op.shape)[1]
    if "gemm" in target or "matmul" in target:
        contracted = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', op.rest)
        assert contracted is not None, "products say what is contracted"
        return math.prod(result) * math.prod(left[int(dim)] for dim in re.findall(r"\d+", contracted[1]))
    if not target.startswith("__cudnn$conv"):
        return 0.0
    kernels = op.attribute("dim_labels").replace("->", "_").split("_")[1]
    roles = {"BackwardInput": (left, right), "BackwardFilter": (right, result)}
    written, kernel = next((pair for name, pair in roles.items() if name in target), (result, right))
    return math.prod(written) * math.prod(kernel) / kernel[kernels.index("o")]

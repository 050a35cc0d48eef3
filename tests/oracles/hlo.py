"""What XLA's HLO text says about communication: an independent count for comparisons with ours.

`collectives(text, devices)` reads the text of an `HloModule` after SPMD partitioning and lists every collective with
the bytes that each device sends on a ring, times the trip counts of the loops around it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shardwright.cost.torus import Torus, pairs_over, paths_of_devices

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")

_BITS = {"pred": 8, "s4": 8, "u4": 8, "bf16": 16, "c64": 64, "c128": 128, "token": 0}
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .* )?\{$")
_LINE = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Instruction:
    """One line of a computation; `rest` is everything after the operands."""

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    arguments: str
    rest: str

    @property
    def bytes(self) -> int:
        """Bytes of the result, tuples summed."""
        return shape_bytes(self.shape)

    def attribute(self, name: str) -> str:
        """The text of an attribute up to the comma that ends it, or the empty string."""
        match = re.search(rf"\b{name}=", self.rest)
        return balanced(self.rest[match.end() :]) if match else ""

    @property
    def op_name(self) -> str:
        """The `op_name` of its metadata."""
        match = re.search(r'op_name="((?:[^"\\]|\\.)*)"', self.rest)
        return match.group(1) if match else ""


@dataclass
class Computation:
    """Instructions by name, in program order."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str = ""

    def uses(self, name: str) -> list[Instruction]:
        """The instructions that read `name`."""
        return [instruction for instruction in self.instructions.values() if name in instruction.operands]


@dataclass(frozen=True)
class HloCollective:
    """A collective of one line of HLO.

    Attributes:
        kind: One of `KINDS`; an all-reduce of which every device keeps a slice of its own is a `reduce-scatter`.
        shape: Its result, as HLO writes it.
        operand_bytes: Bytes of the operands on one device.
        result_bytes: Bytes of the result on one device.
        group_size: Devices that take part together.
        groups: The replica groups as HLO writes them.
        sent: Bytes that a device sends when it runs once.
        executed: How often it runs.
        trip_count_known: Whether every loop around it has a known trip count.
        op_name: Where it comes from.
        rows: The devices of each group; of a permute, of each pair that is not one device.
    """

    kind: str
    shape: str
    operand_bytes: int
    result_bytes: int
    group_size: int
    groups: str
    sent: float
    executed: int
    trip_count_known: bool
    op_name: str
    rows: tuple[tuple[int, ...], ...] = ()

    @property
    def total(self) -> float:
        """Bytes that a device sends in all."""
        return self.sent * self.executed


def shape_bytes(shape: str) -> int:
    """Bytes of an HLO shape, tuples summed: `(f32[2,4]{1,0}, s32[])` → 36."""
    total = 0
    for dtype, dims in _ARRAY.findall(_COMMENT.sub("", shape)):
        match = re.search(r"\d+", dtype)
        bits = _BITS.get(dtype, max(8, int(match.group())) if match else 8)
        total += math.prod(int(size) for size in dims.split(",") if size) * bits // 8
    return total


def parse(text: str) -> tuple[dict[str, Computation], str]:
    """The computations of a module by name, and the name of the entry."""
    computations: dict[str, Computation] = {}
    current, entry = Computation(""), ""
    for line in text.splitlines():
        if header := _HEADER.match(line):
            current = computations[header.group(2)] = Computation(header.group(2))
            entry = header.group(2) if header.group(1) else entry
        elif match := _LINE.match(line):
            root, name, body = match.groups()
            if (instruction := _instruction(name, body)) is not None:
                current.instructions |= {read.name: read for read in _elements_read(instruction, current)}
                current.instructions[name] = instruction
                current.root = name if root else current.root
    return computations, entry


def _elements_read(instruction: Instruction, computation: Computation) -> Iterator[Instruction]:
    """The elements of tuples that an instruction reads in place, `%tuple#0`, as XLA of jaxlib 0.12 prints them."""
    for name in instruction.operands:
        of, _, index = name.partition("#")
        if index:
            shape = _parts(computation.instructions[of].shape)[int(index)]
            yield Instruction(name, "get-tuple-element", shape, (of,), f"%{of}", f", index={index}")


def _parts(shape: str) -> list[str]:
    """The shapes of the elements of a tuple."""
    parts, rest = [], shape[1:-1]
    while rest:
        parts.append(balanced(rest))
        rest = rest[len(parts[-1]) + 1 :].lstrip()
    return parts


def _instruction(name: str, body: str) -> Instruction | None:
    body = _COMMENT.sub("", body)
    shape = balanced(body, " ")
    match = re.match(r" ([\w\-]+)\(", body[len(shape) :])
    if match is None:
        return None
    arguments = balanced(body[len(shape) + match.end() :], ")")
    rest = body[len(shape) + match.end() + len(arguments) + 1 :]
    literal = match.group(1) in ("constant", "parameter", "iota")
    operands = () if literal else tuple(re.findall(r"%?([\w.\-#]+)(?:, |$)", arguments))
    return Instruction(name, match.group(1), shape, operands, arguments, rest)


def balanced(text: str, end: str = ",") -> str:
    """The head of `text` up to an `end` outside brackets and strings."""
    depth, quoted = 0, False
    for index, char in enumerate(text):
        if char == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif depth == 0 and char == end:
            return text[:index]
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return text[:index]
    return text


def first_tensor(shape: str) -> tuple[str, tuple[int, ...]]:
    """The type and the sizes of a tensor; of a tuple, of its first element."""
    match = re.match(r"\(*([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]", shape)
    return (match[1], tuple(_ints(match[2]))) if match else ("token", ())


def groups_of(op: Instruction) -> str:
    """The text of the `replica_groups` of a collective."""
    text = op.attribute("replica_groups")
    if text.startswith("mesh["):  # the one form with a comma of its own
        match = re.search(r"replica_groups=(mesh\[[^\]]*\](?:, device_ids=\([^{]*\))? *\{[^}]*\})", op.rest)
        return match.group(1) if match else text
    return text


def moving_pairs(op: Instruction) -> tuple[tuple[int, int], ...]:
    """The pairs of different devices of a `collective-permute`."""
    pairs = re.findall(r"\{(\d+),(\d+)\}", op.attribute("source_target_pairs"))
    return tuple([(int(source), int(target)) for source, target in pairs if source != target])


def replica_groups(text: str, devices: int) -> list[list[int]]:
    """The groups of a `replica_groups=` attribute in any of its forms.

    `{{0,1},{2,3}}`; `{}` for one group of all; `[2,4]<=[4,2]T(1,0)`; `mesh['a'=2,'b'=4], device_ids=(…) {'b':(1)2}`.
    """
    if text.startswith("mesh["):
        return _mesh_groups(text)
    if match := re.match(r"\[([\d,]+)\](<=.*)", text):
        shape = _ints(match.group(1))
        return [list(row) for row in _iota(match.group(2)).reshape(shape).tolist()]
    groups = [_ints(group) for group in re.findall(r"\{([\d,]+)\}", text)]
    return groups or [list(range(devices))]


def _ints(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number.strip()]


def _iota(text: str) -> np.ndarray:
    """`<=[4,2]T(1,0)` or `[4,2]T(1,0)`: that transpose of 0, 1, 2, …."""
    match = re.match(r"(?:<=)?\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    assert match is not None, text
    dims = _ints(match.group(1))
    ids = np.arange(math.prod(dims)).reshape(dims)
    return ids.transpose(_ints(match.group(2))) if match.group(2) else ids


def _mesh_groups(text: str) -> list[list[int]]:
    match = re.match(r"mesh\[([^\]]*)\](?:, device_ids=\((.*)\))? *\{(.*)\}$", text)
    assert match is not None, text
    axes = [(name, int(size)) for name, size in re.findall(r"'?([\w.]+)'?=(\d+)", match.group(1))]
    ids = _mesh_ids(match.group(2) or "", math.prod(size for _, size in axes))
    chosen = re.findall(r"'?([\w.]+)'?(?::\((\d+)\)(\d+))?", match.group(3))
    taken = {name: (int(pre or 1), int(part or 0)) for name, pre, part in chosen}
    shape: list[int] = []
    inside: list[int] = []
    for name, size in axes:
        pre, part = taken.get(name, (1, 1))
        part = part or size // pre
        inside.append(len(shape) + 1)
        shape += [pre, part, size // pre // part]
    grid = np.moveaxis(ids.reshape(shape), inside, range(-len(inside), 0))
    return [list(row) for row in grid.reshape(-1, math.prod(shape[i] for i in inside)).tolist()]


def _mesh_ids(text: str, total: int) -> np.ndarray:
    if not text:
        return np.arange(total)
    return _iota(text).reshape(-1) if text.startswith("[") else np.array(_ints(text))


class Devices:
    """Scalars that a device computes from its own id: the offsets of its slices.

    `value(computation, name)` is an array with one entry per device, or `None` for what depends on data.
    """

    def __init__(self, computations: dict[str, Computation], count: int) -> None:
        self.computations = computations
        self.count = count
        self._known: dict[tuple[str, str], np.ndarray | None] = {}
        self._whiles = {
            loop.attribute("body").lstrip("%"): (computation, loop)
            for computation in computations.values()
            for loop in computation.instructions.values()
            if loop.opcode == "while"
        }

    def value(self, computation: Computation, name: str) -> np.ndarray | None:
        key = (computation.name, name)
        if key not in self._known:
            self._known[key] = None  # what leads back to itself is unknown
            self._known[key] = self._value(computation, computation.instructions[name])
        return self._known[key]

    def _value(self, computation: Computation, op: Instruction) -> np.ndarray | None:
        if op.opcode == "partition-id":
            return np.arange(self.count)
        if op.opcode == "constant":
            return self._constant(op)
        if op.opcode == "get-tuple-element":
            return self._carried(computation, op)
        operands = [self.value(computation, operand) for operand in op.operands]
        if op.opcode == "dynamic-slice" and len(operands) == 2:
            return self._looked_up(computation, op, operands[1])
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or not known:
            return None
        return _scalar(op, known)

    def _constant(self, op: Instruction) -> np.ndarray | None:
        if not re.fullmatch(r"-?\d+|true|false", op.arguments):
            return None
        number = {"true": 1, "false": 0}.get(op.arguments)
        return np.full(self.count, int(op.arguments) if number is None else number)

    def _looked_up(self, computation: Computation, op: Instruction, index: np.ndarray | None) -> np.ndarray | None:
        table = computation.instructions[op.operands[0]]
        values = _ints(table.arguments.strip("{}")) if re.fullmatch(r"\{[\d, \-]*\}", table.arguments) else []
        if table.opcode != "constant" or index is None or not values:
            return None
        return np.asarray(np.array(values)[np.clip(index, 0, len(values) - 1)])

    def _carried(self, computation: Computation, op: Instruction) -> np.ndarray | None:
        """A loop-carried value that the body hands on unchanged is what it was before the loop."""
        number = int(op.attribute("index") or 0)
        source = computation.instructions[op.operands[0]]
        if source.opcode == "tuple":
            return self.value(computation, source.operands[number])
        if source.opcode != "parameter" or computation.name not in self._whiles:
            return None
        outer, loop = self._whiles[computation.name]
        yielded = computation.instructions[computation.instructions[computation.root].operands[number]]
        start = outer.instructions[loop.operands[0]]
        if not _is_element(computation, yielded.name, number) or start.opcode != "tuple":
            return None
        return self.value(outer, start.operands[number])


_BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.floor_divide,
    "remainder": np.remainder,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
_COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _scalar(op: Instruction, operands: list[np.ndarray]) -> np.ndarray | None:
    if op.opcode in ("reshape", "copy", "convert", "bitcast"):
        return operands[0]
    if op.opcode in _BINARY:
        if op.opcode in ("divide", "remainder") and (operands[1] <= 0).any():
            return None
        return np.asarray(_BINARY[op.opcode](*operands))
    if op.opcode == "compare":
        return np.asarray(_COMPARE[op.attribute("direction")](*operands)).astype(int)
    if op.opcode == "select":
        return np.where(operands[0] != 0, operands[1], operands[2])
    if op.opcode == "clamp":
        return np.asarray(np.clip(operands[1], operands[0], operands[2]))
    return None


def ring_bytes(kind: str, operand: int, result: int, group: int) -> float:
    """Bytes that a device sends on a ring of `group` devices; `operand` and `result` are bytes on one device."""
    if group <= 1:
        return 0.0
    share = (group - 1) / group
    match kind:
        case "all-gather":
            return result * share
        case "reduce-scatter" | "all-to-all":
            return operand * share
        case "all-reduce":
            return 2 * operand * share
        case _:
            return float(operand)


def part_between_nodes(kind: str, rows: Sequence[Sequence[int]], near: int) -> float:
    """Which part of what a device sends goes to other nodes, of `near` devices each: what each node must receive of what
    all get or add, each of its devices an equal part; what is for other nodes of an exchange; of a permute all, where
    any goes to one.
    """
    nodes = max([len({device // near for device in row}) for row in rows], default=1)
    size = max(map(len, rows), default=1)
    if nodes == 1 or size == 1:
        return 0.0
    if kind == "collective-permute":
        return 1.0
    return (nodes - 1) / (size - 1) * (size / nodes if kind == "all-to-all" else 1)


def part_on_busiest_link(kind: str, rows: Sequence[Sequence[int]], torus: Torus | None) -> float:
    """How much of what a device sends goes over its busiest link: all of it where a switch joins devices."""
    if torus is None or not rows:
        return 1.0
    if kind == "collective-permute":
        return pairs_over(rows, torus)
    return max([paths_of_devices(row, torus).part_of(kind.replace("-", "_")) for row in rows])


def collectives(text: str, devices: int) -> list[HloCollective]:
    """Every collective that a run of the module executes; of a conditional, those of its costliest branch."""
    computations, entry = parse(text)
    reader = _Reader(computations, Devices(computations, devices))
    return list(reader.computation(computations[entry], 1, True))


@dataclass
class _Reader:
    computations: dict[str, Computation]
    devices: Devices

    def computation(self, computation: Computation, times: int, known: bool) -> Iterator[HloCollective]:
        for op in list(computation.instructions.values()):
            kind = op.opcode.removesuffix("-start")
            if kind in KINDS:
                for use in self._collective(computation, op, kind):
                    yield replace(use, executed=times, trip_count_known=known)
            elif op.opcode == "while":
                trips = trip_count(self.computations, computation, op)
                for part, runs in (("condition", None if trips is None else trips + 1), ("body", trips)):
                    inner = self.computations[op.attribute(part).lstrip("%")]
                    yield from self.computation(
                        inner, times * (1 if runs is None else runs), known and runs is not None
                    )
            elif op.opcode == "call":
                yield from self.computation(self.computations[op.attribute("to_apply").lstrip("%")], times, known)
            elif op.opcode == "conditional":
                every = [list(self.computation(self.computations[name], times, known)) for name in branches(op)]
                yield from max(every, key=lambda uses: sum(use.total for use in uses), default=[])

    def _collective(self, computation: Computation, op: Instruction, kind: str) -> list[HloCollective]:
        operand = sum(computation.instructions[name].bytes for name in op.operands)
        if kind == "collective-permute":
            return [self._permute(op, operand)]
        groups = replica_groups(groups_of(op), self.devices.count)
        size = len(groups[0])
        use = HloCollective(kind, op.shape, operand, op.bytes, size, groups_of(op), 0.0, 1, True, op.op_name)
        use = replace(use, rows=tuple(map(tuple, groups)))
        pieces = self._kept_pieces(computation, op, groups) if kind == "all-reduce" else 1
        if pieces == 1:
            return [replace(use, sent=ring_bytes(kind, operand, op.bytes, size))]
        scattered = replace(use, kind="reduce-scatter", result_bytes=operand // pieces, group_size=pieces)
        uses = [replace(scattered, sent=ring_bytes("reduce-scatter", operand, operand // pieces, pieces))]
        if pieces < size:
            rest = ring_bytes("all-reduce", operand // pieces, 0, size // pieces)
            uses.append(replace(use, operand_bytes=operand // pieces, group_size=size // pieces, sent=rest))
        return uses

    def _permute(self, op: Instruction, operand: int) -> HloCollective:
        pairs, text = moving_pairs(op), op.attribute("source_target_pairs")
        size, sent = 2 if pairs else 1, float(operand) if pairs else 0.0
        return HloCollective(
            "collective-permute", op.shape, operand, op.bytes, size, text, sent, 1, True, op.op_name, pairs
        )

    def _kept_pieces(self, computation: Computation, op: Instruction, groups: list[list[int]]) -> int:
        """In how many different pieces the devices of a group keep the result; 1 when it is used whole."""
        users = computation.uses(op.name)
        while len(users) == 1 and users[0].opcode in ("copy", "bitcast"):
            users = computation.uses(users[0].name)
        if len(users) != 1 or computation.root == op.name or users[0].opcode != "dynamic-slice":
            return 1
        counts = {self._pieces(computation, users[0], group) for group in groups}
        return counts.pop() if len(counts) == 1 else 1

    def _pieces(self, computation: Computation, use: Instruction, group: list[int]) -> int:
        offsets = [self.devices.value(computation, name) for name in use.operands[1:]]
        varying = [offset[group] for offset in offsets if offset is not None]
        different = {tuple(int(offset[i]) for offset in varying) for i in range(len(group))}
        fits = use.bytes * len(different) <= computation.instructions[use.operands[0]].bytes
        return len(different) if fits and len(group) % max(1, len(different)) == 0 else 1


def branches(op: Instruction) -> list[str]:
    """The computations of a conditional."""
    listed = re.search(r"branch_computations=\{([^}]*)\}", op.rest)
    if listed:
        return [name.strip(" %") for name in listed.group(1).split(",")]
    return [op.attribute(f"{branch}_computation").lstrip("%") for branch in ("true", "false")]


def trip_count(computations: dict[str, Computation], outer: Computation, loop: Instruction) -> int | None:
    """How often the body of a `while` runs, where its text says so."""
    if match := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest):
        return int(match.group(1))
    condition = computations[loop.attribute("condition").lstrip("%")]
    body = computations[loop.attribute("body").lstrip("%")]
    start = outer.instructions[loop.operands[0]]
    test = condition.instructions[condition.root]
    if test.opcode != "compare" or start.opcode != "tuple":
        return None
    number = _element(condition, test.operands[0])
    bound = _number(condition, test.operands[1])
    if bound is None and (other := _element(condition, test.operands[1])) is not None:
        bound = _number(outer, start.operands[other]) if _is_invariant(body, other) else None
    if number is None or bound is None:
        return None
    first, step = _number(outer, start.operands[number]), _step(body, number)
    return None if first is None or step is None else count_trips(first, step, bound, test.attribute("direction"))


def count_trips(first: int, step: int, bound: int, direction: str) -> int | None:
    """How often `i` counts from `first` by `step` while `i DIRECTION bound` holds; `None` for never ending."""
    if direction in ("GT", "GE"):
        return count_trips(-first, -step, -bound, {"GT": "LT", "GE": "LE"}[direction])
    if direction not in ("LT", "LE"):
        return None
    end = bound + (direction == "LE")
    if first >= end:
        return 0
    return -((first - end) // step) if step > 0 else None


def _number(computation: Computation, name: str) -> int | None:
    op = computation.instructions[name]
    while op.opcode in ("copy", "convert", "reshape", "bitcast"):
        op = computation.instructions[op.operands[0]]
    return int(op.arguments) if op.opcode == "constant" and re.fullmatch(r"-?\d+", op.arguments) else None


def _element(computation: Computation, name: str) -> int | None:
    """The number of the loop-carried value that `name` is."""
    op = computation.instructions[name]
    while op.opcode in ("copy", "convert", "bitcast"):
        op = computation.instructions[op.operands[0]]
    if op.opcode != "get-tuple-element" or computation.instructions[op.operands[0]].opcode != "parameter":
        return None
    return int(op.attribute("index"))


def _is_element(computation: Computation, name: str, number: int) -> bool:
    return _element(computation, name) == number


def _is_invariant(body: Computation, number: int) -> bool:
    return _is_element(body, body.instructions[body.root].operands[number], number)


def _step(body: Computation, number: int) -> int | None:
    root = body.instructions[body.root]
    if root.opcode != "tuple":
        return None
    op = body.instructions[root.operands[number]]
    while op.opcode == "copy":
        op = body.instructions[op.operands[0]]
    if op.opcode not in ("add", "subtract") or not _is_element(body, op.operands[0], number):
        return None
    step = _number(body, op.operands[1])
    return None if step is None else (step if op.opcode == "add" else -step)

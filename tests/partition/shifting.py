"""Programs of ops whose dimensions move: random ones, sharded at random so that operand and result divide."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import shardwright as sw
from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.cost.hardware import BYTES
from shardwright.cost.price import Cost, step_cost
from shardwright.ir.graph import Op
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import print_mesh, print_sharding
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.runtime.arrays import numpy_dtype
from shardwright.runtime.execute import try_jobs
from shardwright.sharding import TensorSharding
from shardwright.steps import Send, local_bytes
from tests.partition.compare import Case, assert_equal, make_case

MESHES = (Mesh(x=4), Mesh(x=8), Mesh(x=2, y=4), Mesh(a=3, b=2))
DTYPES = ("f32", "i32", "bf16", "i1", "complex<f32>", "ui8", "f64")


@dataclass(frozen=True)
class Moving:
    """An op: the shapes of its operands, all of one element type and one layout, and its text.

    Its tensors may have more dimensions behind those that are drawn, which are not split.
    """

    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    write: Callable[[str, Sequence[str], str], str]
    """`(name of the result, names of operands, element type) -> text`."""


Maker = Callable[[random.Random, tuple[int, ...], tuple[int, ...]], Moving]
"""`(random numbers, shape of the operand, the shards of each dimension) -> op`."""


def tensor(shape: Sequence[int], dtype: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), dtype])}>"


def random_axes(rng: random.Random, mesh: Mesh, rank: int) -> list[Axes]:
    """Axes of the mesh, some of them cut, dealt to the dimensions; one has some."""
    pieces: list[AxisRef] = []
    for name, size in mesh.axes:
        cut = size >= 4 and rng.random() < 0.4
        pieces += [AxisRef(name, 1, 2), AxisRef(name, 2, size // 2)] if cut else [AxisRef(name, 1, size)]
    rng.shuffle(pieces)
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    dims[rng.randrange(rank)].append(pieces.pop())
    for piece in pieces:
        if rng.random() < 0.7:
            rng.choice(dims).append(piece)
    return [tuple(dim) for dim in dims]


def _layout(mesh: Mesh, axes: Sequence[Axes], shape: Sequence[int]) -> str:
    """The attribute of a tensor whose first dimensions are split along these axes."""
    dims = [*axes, *[()] * (len(shape) - len(axes))]
    return f"{{sdy.sharding = {print_sharding(TensorSharding.of(mesh, dims).closed())}}}"


def program(make: Maker, seed: int, count: int = 6) -> tuple[str, Mesh]:
    """A module of some ops of a kind, each on arguments of its own."""
    rng = random.Random(seed)
    mesh = rng.choice(MESHES)
    arguments, lines, results = [], [], []
    for number in range(count):
        rank, dtype = rng.choice([1, 1, 2, 3]), rng.choice(DTYPES)
        axes = random_axes(rng, mesh, rank)
        counts = tuple(map(axes_size, axes))
        shape = tuple(part * rng.randint(1, 6 if rank < 3 else 3) for part in counts)
        made = make(rng, shape, counts)
        names = [f"%a{number}_{index}" for index in range(len(made.operands))]
        for name, of_operand in zip(names, made.operands, strict=True):
            arguments.append(f"{name}: {tensor(of_operand, dtype)} {_layout(mesh, axes, of_operand)}")
        lines.append(made.write(f"%r{number}", names, dtype))
        results.append((f"%r{number}", tensor(made.result, dtype), _layout(mesh, axes, made.result)))
    returned, types = (", ".join(column) for column in list(zip(*results, strict=True))[:2])
    stated = ", ".join(f"{type} {layout}" for _, type, layout in results)
    body = "\n      ".join(lines)
    text = f"""sdy.mesh @mesh = {print_mesh(mesh).removeprefix("#sdy.mesh")}
    func.func @main({", ".join(arguments)}) -> ({stated}) {{
      {body}
      return {returned} : {types}
    }}"""
    return text, mesh


def random_values(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Any:
    """Numbers of a type, no two alike where it has as many; of floating-point ones some are no numbers or infinite."""
    kind = numpy_dtype(dtype)
    if dtype == "i1":
        return rng.random(shape) < 0.5
    values = rng.permutation(int(np.prod(shape))).reshape(shape) + 1
    if not dtype.startswith(("f", "bf", "c")):
        return (values % 251).astype(kind)
    wild = rng.choice([np.nan, np.inf, -np.inf], shape)
    return np.where(rng.random(shape) < 0.1, wild, values).astype(kind)


def with_wild_inputs(case: Case, seed: int) -> Case:
    """The same programs on inputs that hold NaNs and infinities."""
    rng = np.random.default_rng(seed)
    inputs = tuple(
        random_values(rng, array.shape, "i1" if array.dtype.kind == "b" else _name(array.dtype))
        for array in case.unsharded.inputs
    )
    return replace(case, unsharded=replace(case.unsharded, inputs=inputs), local=replace(case.local, inputs=inputs))


def _name(dtype: Any) -> str:
    return next(name for name in DTYPES if numpy_dtype(name) == dtype)


def check_programs(make: Maker, seeds: Sequence[int], *, wild: bool = True) -> None:
    """What random programs of an op compute is what they compute unsharded, with as few bytes sent as they can; with
    NaNs and infinities among their inputs, if these are `wild`.
    """
    cases = []
    for seed in seeds:
        text, _ = program(make, seed)
        with Session(hardware=BYTES):
            case = make_case(text, seed)
        cases.append(with_wild_inputs(case, seed) if wild else case)
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)], timeout=600)
    for number, case in enumerate(cases):
        assert_equal(f"seed {seeds[number]}", case, done[2 * number], done[2 * number + 1])


def check_prices(make: Maker, seeds: Sequence[int]) -> None:
    """What devices send inside ops is priced as it is written."""
    for seed in seeds:
        text, _ = program(make, seed, count=1)
        with Session(hardware=BYTES):
            spmd = sw.load(text).plan().partition(effort="fast")
        inside = [
            exchange for op, layouts in ops_with_layouts(spmd) for exchange in exchanges_of(op.signature, layouts)
        ]
        cost = Cost()
        for one in inside:
            held = local_bytes(one.type.dims, one.type.bytes // one.type.elements, one.before)
            cost += step_cost(one.step, one.before, held)
        opposite = sum(isinstance(one.step, Send) and one.step.is_opposite for one in inside)
        permutes = [op.signature.operands[0] for op in spmd.local.walk() if op.name == "stablehlo.collective_permute"]
        assert (len(permutes), sum(type.bytes for type in permutes)) == (cost.starts + opposite, cost.bytes_sent)


def ops_with_layouts(spmd: sw.Spmd) -> list[tuple[Op, tuple[sw.TensorSharding, ...]]]:
    """The ops of an explicit program, and how the operands of each lie."""
    graph = spmd.explicit
    return [(op, tuple(filter(None, map(graph.shardings.__getitem__, op.operands)))) for op in graph.walk()]


def exchanging(spmd: sw.Spmd) -> int:
    """How many ops there are inside which devices exchange something."""
    return sum(bool(exchanges_of(op.signature, layouts)) for op, layouts in ops_with_layouts(spmd))

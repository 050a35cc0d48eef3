"""Seeded random programs in StableHLO with random partial sdy annotations, as text."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

__all__ = ["Writer", "random_program", "regroup", "tensor_of", "unmerged"]

_SIZES = (1, 2, 3, 4, 4, 6, 8, 8, 12, 16)
_Shape = tuple[int, ...]


@dataclass
class Writer:
    """Text of a function being written; values are `(name, shape)` pairs of f32 tensors."""

    random: random.Random
    axes: list[tuple[str, int]]
    priorities: bool
    lines: list[str] = field(default_factory=list)
    values: list[tuple[str, _Shape]] = field(default_factory=list)
    count: int = 0
    indent: str = "  "
    groups: dict[_Shape, int] = field(default_factory=dict)
    density: float = 0.06

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, rank: int | None = None) -> tuple[str, _Shape]:
        fitting = [value for value in self.values if rank is None or len(value[1]) == rank]
        if not fitting:
            return self.argument_like(rank or 0)
        recent = fitting[-4:] if self.random.random() < 0.6 else fitting
        return self.random.choice(recent)

    def argument_like(self, rank: int) -> tuple[str, _Shape]:
        shape = tuple(self.random.choice(_SIZES) for _ in range(rank))
        return self.constant(shape)

    def emit(self, text: str, shape: _Shape, types: str, annotate: bool = True) -> tuple[str, _Shape]:
        name = self.name()
        note = ""
        if annotate and self.random.random() < self.density:
            # jaxlib dies of a priority on an op that is dead, so only what stays has one.
            sharding = self.sharding(shape, priorities=False)
            note = f" {{sdy.sharding = #sdy.sharding_per_value<[{sharding}]>}}"
        self.lines.append(f"{self.indent}{name} = {text}{note} : {types}")
        self.values.append((name, shape))
        return name, shape

    # Shardings

    def sharding(self, shape: _Shape, closed: float = 0.4, priorities: bool = True) -> str:
        pool = self.pieces()
        self.random.shuffle(pool)
        dims: list[list[str]] = [[] for _ in shape]
        for piece in pool:
            if dims and self.random.random() < 0.55:
                dims[self.random.randrange(len(dims))].append(piece)
        pool = [piece for piece in pool if not any(piece in dim for dim in dims)]
        text = []
        for dim in dims:
            open_ = self.random.random() > closed
            priority = ""
            if priorities and self.priorities and (open_ or dim) and self.random.random() < 0.4:
                priority = f"p{self.random.randrange(4)}"
            text.append("{" + ", ".join(unmerged(dim) + (["?"] if open_ else [])) + "}" + priority)
        replicated = [piece for piece in self.pieces_in_order(pool) if self.random.random() < 0.15]
        tail = f", replicated={{{', '.join(replicated)}}}" if replicated else ""
        rest = [piece for piece in self.pieces_in_order(pool) if piece not in replicated]
        unreduced = [piece for piece in rest if self.random.random() < 0.06]
        tail += f", unreduced={{{', '.join(unreduced)}}}" if unreduced else ""
        return f"<@mesh, [{', '.join(text)}]{tail}>"

    def pieces(self) -> list[str]:
        pieces: list[str] = []
        for axis, size in self.axes:
            cuts = [cut for cut in range(2, size) if size % cut == 0]
            if cuts and self.random.random() < 0.3:
                cut = self.random.choice(cuts)
                pieces += [f'"{axis}":(1){cut}', f'"{axis}":({cut}){size // cut}']
            else:
                pieces.append(f'"{axis}"')
        return pieces

    def pieces_in_order(self, pieces: list[str]) -> list[str]:
        """Of each axis one piece at most, in mesh order."""
        ordered = []
        for axis, _ in self.axes:
            of_axis = [piece for piece in pieces if piece.startswith(f'"{axis}"')]
            ordered += of_axis[:1]
        return ordered

    # Ops

    def constant(self, shape: _Shape) -> tuple[str, _Shape]:
        type = tensor_of(shape)
        if self.random.random() < 0.3 and shape:
            dim = self.random.randrange(len(shape))
            return self.emit(f"stablehlo.iota dim = {dim}", shape, type)
        return self.emit(f"stablehlo.constant dense<{self.random.randrange(2)}.0>", shape, type, annotate=False)

    def some_constant(self) -> None:
        self.constant(tuple(self.random.choice(_SIZES) for _ in range(self.random.randrange(3))))

    def unary(self) -> None:
        value, shape = self.pick()
        self.emit(f"stablehlo.{self.random.choice(('tanh', 'negate', 'sine'))} {value}", shape, tensor_of(shape))

    def binary(self) -> None:
        value, shape = self.pick()
        same = [other for other, its in self.values if its == shape]
        other = self.random.choice(same)
        self.emit(f"stablehlo.{self.random.choice(('add', 'multiply'))} {value}, {other}", shape, tensor_of(shape))

    def transpose(self) -> None:
        value, shape = self.pick()
        order = list(range(len(shape)))
        self.random.shuffle(order)
        to = tuple(shape[i] for i in order)
        self.emit(f"stablehlo.transpose {value}, dims = {order}", to, f"({tensor_of(shape)}) -> {tensor_of(to)}")

    def reshape(self) -> None:
        value, shape = self.pick()
        to = regroup(self.random, math.prod(shape))
        self.emit(f"stablehlo.reshape {value}", to, f"({tensor_of(shape)}) -> {tensor_of(to)}")

    def broadcast(self) -> None:
        value, shape = self.pick()
        rank = max(len(shape), min(4, len(shape) + self.random.randrange(3)))
        dims = sorted(self.random.sample(range(rank), len(shape)))
        to = [self.random.choice(_SIZES) for _ in range(rank)]
        for size, dim in zip(shape, dims, strict=True):
            if size != 1 or self.random.random() < 0.5:
                to[dim] = size
        types = f"({tensor_of(shape)}) -> {tensor_of(tuple(to))}"
        self.emit(f"stablehlo.broadcast_in_dim {value}, dims = {dims}", tuple(to), types)

    def reduce(self) -> None:
        value, shape = self.pick()
        if not shape:
            return
        dims = sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape))))
        zero, _ = self.emit("stablehlo.constant dense<0.0>", (), "tensor<f32>", annotate=False)
        to = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        kind = self.random.choice(("add", "maximum"))
        text = f"stablehlo.reduce({value} init: {zero}) applies stablehlo.{kind} across dimensions = {dims}"
        self.emit(text, to, f"({tensor_of(shape)}, tensor<f32>) -> {tensor_of(to)}", annotate=False)

    def dot(self) -> None:
        left, shape = self.pick()
        if not shape or len(shape) > 3:
            return
        contracted = self.random.randrange(len(shape))
        batch = self.random.choice([dim for dim in range(len(shape)) if dim != contracted] + [-1])
        fitting = [(name, its) for name, its in self.values if shape[contracted] in its and len(its) <= 3]
        right, other = self.random.choice(fitting)
        their = other.index(shape[contracted])
        batches = [d for d in range(len(other)) if d != their and batch >= 0 and other[d] == shape[batch]]
        lines, free = "", (batch, -1)
        if batches:
            lines = f"batching_dims = [{batch}] x [{batches[0]}], "
            free = (batch, batches[0])
        to = tuple(
            ([shape[batch]] if batches else [])
            + [size for dim, size in enumerate(shape) if dim != contracted and (not batches or dim != free[0])]
            + [size for dim, size in enumerate(other) if dim != their and (not batches or dim != free[1])]
        )
        text = f"stablehlo.dot_general {left}, {right}, {lines}contracting_dims = [{contracted}] x [{their}]"
        self.emit(text, to, f"({tensor_of(shape)}, {tensor_of(other)}) -> {tensor_of(to)}")

    def slice(self) -> None:
        value, shape = self.pick()
        if not shape or 0 in shape:
            return
        bounds = []
        for size in shape:
            whole = self.random.random() < 0.6
            start = 0 if whole else self.random.randrange(size)
            bounds.append((start, size if whole else self.random.randint(start + 1, size)))
        to = tuple(high - low for low, high in bounds)
        text = f"stablehlo.slice {value} [{', '.join(f'{low}:{high}' for low, high in bounds)}]"
        self.emit(text, to, f"({tensor_of(shape)}) -> {tensor_of(to)}")

    def concatenate(self) -> None:
        value, shape = self.pick()
        if not shape:
            return
        dim = self.random.randrange(len(shape))
        other = self.random.choice([name for name, its in self.values if its == shape])
        to = tuple(2 * size if d == dim else size for d, size in enumerate(shape))
        types = f"({tensor_of(shape)}, {tensor_of(shape)}) -> {tensor_of(to)}"
        self.emit(f"stablehlo.concatenate {value}, {other}, dim = {dim}", to, types)

    def dynamic_slice(self) -> None:
        value, shape = self.pick()
        if not shape or 0 in shape:
            return
        to = tuple(size if self.random.random() < 0.6 else self.random.randint(1, size) for size in shape)
        zero = self.name()
        self.lines.append(f"{self.indent}{zero} = stablehlo.constant dense<0> : tensor<i32>")
        starts = ", ".join([zero] * len(shape))
        types = f"({', '.join([tensor_of(shape)] + ['tensor<i32>'] * len(shape))}) -> {tensor_of(to)}"
        if self.random.random() < 0.5:
            self.emit(f"stablehlo.dynamic_slice {value}, {starts}, sizes = {list(to)}", to, types)
            return
        update, its = self.constant(to) if self.random.random() < 0.3 else self.pick(len(shape))
        if any(small > big for small, big in zip(its, shape, strict=True)):
            return
        types = (
            f"({', '.join([tensor_of(shape), tensor_of(its)] + ['tensor<i32>'] * len(shape))}) -> {tensor_of(shape)}"
        )
        self.emit(f"stablehlo.dynamic_update_slice {value}, {update}, {starts}", shape, types)

    def barrier(self) -> None:
        value, shape = self.pick()
        if self.random.random() < 0.5:
            self.emit(f"stablehlo.optimization_barrier {value}", shape, tensor_of(shape), annotate=False)
            return
        way = self.random.choice(("FORWARD", "BACKWARD", "NONE"))
        self.emit(f"sdy.propagation_barrier {value} allowed_direction={way}", shape, tensor_of(shape), annotate=False)

    def constraint(self) -> None:
        value, shape = self.pick()
        name = self.name()
        op = "sdy.reshard" if self.random.random() < 0.15 else "sdy.sharding_constraint"
        closed = 0.8 if self.random.random() < 0.7 else 0.2
        sharding = self.sharding(shape, closed, priorities=op == "sdy.sharding_constraint")
        self.lines.append(f"{self.indent}{name} = {op} {value} {sharding} : {tensor_of(shape)}")
        self.values.append((name, shape))

    def group(self) -> None:
        value, shape = self.pick()
        number = self.groups.setdefault(shape, len(self.groups))
        self.lines.append(f"{self.indent}sdy.sharding_group {value} group_id={number} : {tensor_of(shape)}")

    def loop(self) -> None:
        """A while over one or two carried values and a counter."""
        carried = [self.pick() for _ in range(self.random.randint(1, 2))]
        zero, bound = self.name(), self.name()
        self.lines.append(f"{self.indent}{zero} = stablehlo.constant dense<0> : tensor<i32>")
        names, arguments = self.name(), [self.name() for _ in carried]
        counter = self.name()
        types = ", ".join([*[tensor_of(shape) for _, shape in carried], "tensor<i32>"])
        starts = [f"{a} = {v}" for a, (v, _) in zip(arguments, carried, strict=True)] + [f"{counter} = {zero}"]
        note = ""
        if self.random.random() < 0.2:
            notes = [self.sharding(shape) for _, shape in carried]
            note = f" attributes {{sdy.sharding = #sdy.sharding_per_value<[{', '.join(notes)}, <@mesh, []>]>}}"
        self.lines.append(
            f"{self.indent}{names}:{len(carried) + 1} = stablehlo.while({', '.join(starts)}) : {types}{note}"
        )
        inner = self.indent + "  "
        test = self.name()
        self.lines += [
            f"{self.indent}cond {{",
            f"{inner}{bound} = stablehlo.constant dense<3> : tensor<i32>",
            f"{inner}{test} = stablehlo.compare LT, {counter}, {bound} : (tensor<i32>, tensor<i32>) -> tensor<i1>",
            f"{inner}stablehlo.return {test} : tensor<i1>",
            f"{self.indent}}} do {{",
        ]
        outer, self.values = self.values, self.values + list(zip(arguments, [s for _, s in carried], strict=True))
        self.indent = inner
        self.some(self.random.randint(1, 5), nested=True)
        returned = [self.random.choice([n for n, s in self.values if s == shape]) for _, shape in carried]
        self.lines.append(f"{inner}stablehlo.return {', '.join([*returned, counter])} : {types}")
        self.indent = inner[:-2]
        self.lines.append(f"{self.indent}}}")
        self.values = outer + [(f"{names}#{i}", shape) for i, (_, shape) in enumerate(carried)]

    def branches(self) -> None:
        _, shape = self.pick()
        index, name = self.name(), self.name()
        self.lines.append(f"{self.indent}{index} = stablehlo.constant dense<0> : tensor<i32>")
        self.lines.append(f'{self.indent}{name} = "stablehlo.case"({index}) ({{')
        inner, outer = self.indent + "  ", self.values
        for branch in range(2):
            self.values, self.indent = list(outer), inner
            self.some(self.random.randint(0, 3), nested=True)
            returned = self.random.choice([n for n, s in self.values if s == shape])
            self.lines.append(f"{inner}stablehlo.return {returned} : {tensor_of(shape)}")
            self.indent = inner[:-2]
            self.lines.append(self.indent + ("}, {" if branch == 0 else f"}}) : (tensor<i32>) -> {tensor_of(shape)}"))
        self.values = [*outer, (name, shape)]

    def manual(self) -> None:
        """A manual computation over one axis, which splits one dimension of operand and result."""
        value, shape = self.pick()
        axis, size = self.random.choice(self.axes)
        fitting = [dim for dim, length in enumerate(shape) if length % size == 0]
        if not fitting:
            return
        at, to = self.random.choice(fitting), self.random.choice(fitting)

        def boundary(dim: int) -> str:
            open_ = self.random.choice(("", ", ?"))
            rest = "?" if open_ else ""
            parts = [f'{{"{axis}"{open_}}}' if d == dim else f"{{{rest}}}" for d in range(len(shape))]
            return f"[<@mesh, [{', '.join(parts)}]>]"

        local = tuple(length // size if d == at else length for d, length in enumerate(shape))
        name, argument, inner = self.name(), self.name(), self.indent + "  "
        returned_shape = tuple(length // size if d == to else length for d, length in enumerate(shape))
        out = boundary(to if local == returned_shape else at)
        self.lines.append(
            f"{self.indent}{name} = sdy.manual_computation({value}) in_shardings={boundary(at)} out_shardings={out} "
            f'manual_axes={{"{axis}"}} ({argument}: {tensor_of(local)}) {{'
        )
        outer, axes = self.values, self.axes
        self.values, self.indent, self.axes = [(argument, local)], inner, [a for a in axes if a[0] != axis]
        if self.axes:
            self.some(self.random.randint(1, 3), nested=True)
        else:
            self.unary()
        returned = self.random.choice([n for n, s in self.values if s == local])
        self.indent, self.values, self.axes = inner[:-2], [*outer, (name, shape)], axes
        self.lines.append(f"{inner}sdy.return {returned} : {tensor_of(local)}")
        self.lines.append(f"{self.indent}}} : ({tensor_of(shape)}) -> {tensor_of(shape)}")

    def some(self, count: int, nested: bool = False) -> None:
        makers = [self.unary, self.binary, self.binary, self.dot, self.dot, self.broadcast, self.reduce, self.transpose]
        makers += [self.reshape, self.slice, self.concatenate, self.constraint, self.barrier, self.dynamic_slice]
        makers.append(self.some_constant)
        if not nested:
            makers += [self.loop, self.branches, self.manual]
            if self.random.random() < 0.3:
                makers.append(self.group)
        for _ in range(count):
            self.random.choice(makers)()


def random_program(seed: int) -> str:
    """The text of a module: an argument or four, some ops, some annotations."""
    chance = random.Random(seed)
    sizes = [chance.choice((2, 2, 2, 4, 4, 3, 6, 8)) for _ in range(chance.randint(1, 3))]
    axes = [(name, size) for name, size in zip("xyz", sizes, strict=False)]
    writer = Writer(chance, axes, priorities=chance.random() < 0.25)
    arguments = []
    for number in range(chance.randint(1, 4)):
        shape = tuple(chance.choice(_SIZES) for _ in range(chance.randint(1, 3)))
        if number and chance.random() < 0.5:
            shape = writer.values[0][1]
        note = f" {{sdy.sharding = #sdy.sharding{writer.sharding(shape)}}}" if chance.random() < 0.6 else ""
        arguments.append(f"%a{number}: {tensor_of(shape)}{note}")
        writer.values.append((f"%a{number}", shape))
    writer.some(chance.randint(3, 22))
    returned = [writer.pick() for _ in range(chance.randint(1, 3))]
    notes = [
        f" {{sdy.sharding = #sdy.sharding{writer.sharding(shape)}}}" if chance.random() < 0.3 else ""
        for _, shape in returned
    ]
    results = ", ".join(tensor_of(shape) + note for (_, shape), note in zip(returned, notes, strict=True))
    mesh = ", ".join(f'"{name}"={size}' for name, size in axes)
    types = ", ".join(tensor_of(shape) for _, shape in returned)
    return "\n".join(
        [
            f"sdy.mesh @mesh = <[{mesh}]>",
            f"func.func @main({', '.join(arguments)}) -> ({results}) {{",
            *writer.lines,
            f"  return {', '.join(name for name, _ in returned)} : {types}",
            "}",
        ]
    )


def tensor_of(shape: _Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def unmerged(pieces: list[str]) -> list[str]:
    """Neighbouring parts of one axis, minor after major, may not stand side by side: swap them."""
    fixed = list(pieces)
    for index in range(len(fixed) - 1):
        one, other = fixed[index], fixed[index + 1]
        if one.split(":")[0] == other.split(":")[0] and "(1)" in one:
            fixed[index], fixed[index + 1] = other, one
    return fixed


def regroup(chance: random.Random, elements: int) -> _Shape:
    """A shape of as many elements."""
    shape: list[int] = []
    rest = elements
    while rest > 1 and len(shape) < 3:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        size = chance.choice(divisors)
        shape.append(size)
        rest //= size
    if rest > 1:
        shape[-1] *= rest
    if chance.random() < 0.2:
        shape.insert(chance.randrange(len(shape) + 1), 1)
    chance.shuffle(shape)
    return tuple(shape)

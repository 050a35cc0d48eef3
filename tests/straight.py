"""Random programs without loops and branches, all of whose dimensions divide by meshes of axes of two and four."""

from __future__ import annotations

import random

__all__ = ["straight_program"]

_SIZES = (8, 16, 32)
_AXES = ("x", "y")

Shape = tuple[int, ...]


def straight_program(seed: int) -> str:
    """The program of a number, with its mesh and some annotations, as MLIR text."""
    return _Writer(random.Random(f"straight {seed}")).text()


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.values: list[tuple[str, Shape]] = []

    def text(self) -> str:
        """A program of arguments, some ops, and a few results."""
        rng = self.rng
        arguments = []
        for number in range(rng.randint(3, 6)):
            shape = tuple(rng.choice(_SIZES) for _ in range(rng.randint(1, 3)))
            said = f" {{sdy.sharding = #sdy.sharding{self.sharding(shape)}}}" if rng.random() < 0.6 else ""
            arguments.append(f"%a{number}: {_type(shape)}{said}")
            self.values.append((f"%a{number}", shape))
        steps = (self.pointwise, self.pointwise, self.product, self.turned, self.reduced, self.spread, self.constant,
                 self.constrained, self.joined, self.sliced, self.shaped)  # fmt: skip
        for _ in range(rng.randint(6, 30)):
            rng.choice(steps)()
        returned = rng.sample(self.values, rng.randint(1, min(4, len(self.values))))
        types = ", ".join(_type(shape) for _, shape in returned)
        return "\n".join(
            [
                'sdy.mesh @m = <["x"=2, "y"=4]>',
                f"func.func @main({', '.join(arguments)}) -> ({types}) {{",
                *self.lines,
                f"return {', '.join(name for name, _ in returned)} : {types}",
                "}",
            ]
        )

    def sharding(self, shape: Shape) -> str:
        """A sharding of a shape, dimensions open or closed."""
        free = list(_AXES)
        self.rng.shuffle(free)
        dims = []
        for _ in shape:
            axes = [free.pop() for _ in range(self.rng.choice((0, 0, 1, 1, 2))) if free]
            listed = [f'"{axis}"' for axis in axes] + (["?"] if self.rng.random() < 0.4 else [])
            dims.append(f"{{{', '.join(listed)}}}")
        return f"<@m, [{', '.join(dims)}]>"

    def write(self, text: str, shape: Shape) -> str:
        """Write an op of one result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))
        return name

    def pointwise(self) -> None:
        """A sum, product or other function of values of one shape."""
        name, shape = self.rng.choice(self.values)
        other, _ = self.rng.choice([one for one in self.values if one[1] == shape])
        if self.rng.random() < 0.3:
            self.write(f"stablehlo.tanh {name} : {_type(shape)}", shape)
        else:
            op = self.rng.choice(("add", "multiply", "maximum", "subtract"))
            self.write(f"stablehlo.{op} {name}, {other} : {_type(shape)}", shape)

    def product(self) -> None:
        """A product of matrices that fit."""
        matrices = [one for one in self.values if len(one[1]) == 2]
        pairs = [(one, other) for one in matrices for other in matrices if one[1][1] == other[1][0]]
        if pairs:
            (left, (rows, inner)), (right, (_, columns)) = self.rng.choice(pairs)
            types = f"({_type((rows, inner))}, {_type((inner, columns))}) -> {_type((rows, columns))}"
            self.write(f"stablehlo.dot {left}, {right} : {types}", (rows, columns))

    def turned(self) -> None:
        """Dimensions in another order."""
        name, shape = self.rng.choice(self.values)
        order = self.rng.sample(range(len(shape)), len(shape))
        to = tuple(shape[dim] for dim in order)
        self.write(f"stablehlo.transpose {name}, dims = {order} : ({_type(shape)}) -> {_type(to)}", to)

    def reduced(self) -> None:
        """A sum or maximum along a dimension."""
        name, shape = self.rng.choice(self.values)
        if len(shape) > 1:
            dim, op = self.rng.randrange(len(shape)), self.rng.choice(("add", "maximum"))
            to = shape[:dim] + shape[dim + 1 :]
            start = self.scalar()
            types = f"({_type(shape)}, tensor<f32>) -> {_type(to)}"
            self.write(
                f"stablehlo.reduce({name} init: {start}) applies stablehlo.{op} across dimensions = [{dim}] : {types}",
                to,
            )

    def spread(self) -> None:
        """A value repeated along a new dimension."""
        name, shape = self.rng.choice(self.values)
        if len(shape) < 3:
            at = self.rng.randint(0, len(shape))
            to = (*shape[:at], self.rng.choice(_SIZES), *shape[at:])
            dims = [dim + (dim >= at) for dim in range(len(shape))]
            self.write(f"stablehlo.broadcast_in_dim {name}, dims = {dims} : ({_type(shape)}) -> {_type(to)}", to)

    def scalar(self) -> str:
        """A constant, which is no value that others pick."""
        name = f"%c{len(self.lines)}"
        self.lines.append(f"{name} = stablehlo.constant dense<{self.rng.choice((0.0, 1.0, 2.0))}> : tensor<f32>")
        return name

    def constant(self) -> None:
        """A constant repeated everywhere, as a broadcast or at once, and what is made of one by an op."""
        _, shape = self.rng.choice(self.values)
        kind = self.rng.randrange(3)
        if kind == 0:
            scalar = self.scalar()
            self.write(f"stablehlo.broadcast_in_dim {scalar}, dims = [] : (tensor<f32>) -> {_type(shape)}", shape)
            return
        name = self.write(f"stablehlo.constant dense<1.5> : {_type(shape)}", shape)
        if kind == 1:
            self.write(f"stablehlo.negate {name} : {_type(shape)}", shape)

    def constrained(self) -> None:
        """A constraint."""
        name, shape = self.rng.choice(self.values)
        self.write(f"sdy.sharding_constraint {name} {self.sharding(shape)} : {_type(shape)}", shape)

    def joined(self) -> None:
        """Two values behind one another."""
        name, shape = self.rng.choice(self.values)
        other, _ = self.rng.choice([one for one in self.values if one[1] == shape])
        if max(shape) <= 32 and shape[0] < 32:
            to = (2 * shape[0], *shape[1:])
            types = f"({_type(shape)}, {_type(shape)}) -> {_type(to)}"
            self.write(f"stablehlo.concatenate {name}, {other}, dim = 0 : {types}", to)

    def sliced(self) -> None:
        """The first half of a value."""
        name, shape = self.rng.choice(self.values)
        if shape[0] > 8:
            to = (shape[0] // 2, *shape[1:])
            ranges = ", ".join(f"0:{size}" for size in to)
            self.write(f"stablehlo.slice {name} [{ranges}] : ({_type(shape)}) -> {_type(to)}", to)

    def shaped(self) -> None:
        """Two dimensions as one."""
        name, shape = self.rng.choice(self.values)
        if len(shape) == 3 and shape[0] * shape[1] <= 256:
            to = (shape[0] * shape[1], shape[2])
            self.write(f"stablehlo.reshape {name} : ({_type(shape)}) -> {_type(to)}", to)


def _type(shape: Shape) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"

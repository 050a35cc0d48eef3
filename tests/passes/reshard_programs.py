"""Random modules in which shardings are said of every value, at odds with each other and open or closed at random.

What a partitioner finds after propagation is tamer; here concatenations, products, sums that are awaited, loops,
branches, calls and computations meet any sharding, on meshes that differ in their order of devices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

__all__ = ["reshard_program"]

_SHAPES = ((8, 8), (8, 4), (4, 8), (6, 8), (8,), (2, 8, 4))
_MESHES = (
    '["x"=2, "y"=2, "z"=2]',
    '["x"=2, "y"=4]',
    '["x"=4, "y"=2, "w"=3]',
    '["x"=8]',
)
_PARTS = {
    "x=4": ['"x":(1)2', '"x":(2)2'],
    "y=4": ['"y":(1)2', '"y":(2)2'],
    "x=8": ['"x":(1)2', '"x":(2)2', '"x":(4)2', '"x":(1)4', '"x":(2)4'],
}
_Shape = tuple[int, ...]


def reshard_program(seed: int, *, barriers: int = 0) -> str:
    """A module as text; with `barriers`, propagation barriers are as many times as likely as other ops."""
    return _Writer(random.Random(seed), barriers).module()


def _type(shape: _Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


class _Writer:
    def __init__(self, source: random.Random, barriers: int) -> None:
        self.random = source
        self.mesh = source.choice(_MESHES)
        self.axes = [axis.strip() for axis in self.mesh.strip("[]").split(",")]
        self.density = source.choice((0.4, 0.8))
        self.sums = source.choice((0.0, 0.15, 0.5))
        self.loose = source.random() < 0.3
        self.turned = source.random() < 0.15
        self.barriers = barriers
        self.lines: list[str] = []
        self.values: list[tuple[str, _Shape]] = []
        self.count = 0

    def module(self) -> str:
        devices = 1
        for axis in self.axes:
            devices *= int(axis.split("=")[1])
        turned = f"\nsdy.mesh @turned = <{self.mesh}, device_ids={list(reversed(range(devices)))}>"
        mesh = f"sdy.mesh @mesh = <{self.mesh}>" + (turned if self.turned else "")
        called = self._function("private @f", 2, (8, 8))
        return "\n".join([mesh, *called, *self._function("@main", 5, None)])

    # Shardings

    def _sharding(self, shape: _Shape, sums: bool = True) -> str:
        pool = [piece for axis in self.axes if self.random.random() < 0.8 for piece in self._pieces(axis)]
        self.random.shuffle(pool)
        dims: list[list[str]] = [[] for _ in shape]
        awaited: list[str] = []
        for piece in pool:
            if sums and self.random.random() < self.sums:
                awaited.append(piece)
            elif self.random.random() < 0.6:
                self.random.choice(dims).append(piece)
        order = [axis.split("=")[0] for axis in self.axes]
        awaited.sort(key=lambda piece: (order.index(piece.split(":")[0]), piece))
        inner = ", ".join("{" + ", ".join([*axes, *self._open()]) + "}" for axes in dims)
        mesh = "@turned" if self.turned and not any(awaited) and self.random.random() < 0.3 else "@mesh"
        return f"<{mesh}, [{inner}]" + (f", unreduced={{{', '.join(awaited)}}}" if awaited else "") + ">"

    def _pieces(self, axis: str) -> list[str]:
        name = axis.split("=")[0]
        parts = _PARTS.get(axis.replace('"', ""))
        if parts and self.random.random() < 0.3:
            return [self.random.choice(parts)]
        return [name]

    def _open(self) -> list[str]:
        return ["?"] if self.loose and self.random.random() < 0.3 else []

    def _note(self, shapes: Sequence[_Shape], brackets: bool = True) -> str:
        if self.random.random() > self.density:
            return ""
        text = f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(self._sharding(shape) for shape in shapes)}]>"
        return f" {{{text}}}" if brackets else text

    def _boundary(self, shape: _Shape) -> str:
        return f"{{sdy.sharding = #sdy.sharding{self._sharding(shape)}}}" if self.random.random() < self.density else ""

    # Values

    def _name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _take(self, shape: _Shape) -> str:
        known = [name for name, its in self.values if its == shape]
        if known:
            return self.random.choice(known)
        name = self._name()
        self.lines.append(f"  {name} = stablehlo.constant{self._note([shape])} dense<1.0> : {_type(shape)}")
        self.values.append((name, shape))
        return name

    def _made(self, text: str, shapes: Sequence[_Shape], types: str) -> None:
        name = self._name()
        many = f":{len(shapes)}" if len(shapes) > 1 else ""
        self.lines.append(f"  {name}{many} = {text} : {types}")
        for number, shape in enumerate(shapes):
            self.values.append((f"{name}#{number}" if many else name, shape))

    def _function(self, head: str, ops: int, result: _Shape | None) -> list[str]:
        self.lines, self.values = [], []
        shapes = [(8, 8), (8, 8), *(self.random.choice(_SHAPES) for _ in range(2))] if result is None else [(8, 8)] * 2
        arguments = []
        for shape in shapes:
            name = self._name()
            self.values.append((name, shape))
            arguments.append(f"{name}: {_type(shape)} {self._boundary(shape)}")
        makers: list[Callable[[], None]] = [self._add, self._concatenate, self._concatenate, self._dot, self._reduce]
        if result is None:
            makers += [self._loop, self._branch, self._barrier, self._call, self._manual, self._reshard, self._slices]
            makers += [self._propagation_barrier] * self.barriers
        for _ in range(ops + self.random.randrange(4)):
            self.random.choice(makers)()
        returned = (
            [(self._take(result), result)] if result else self.random.sample(self.values, min(3, len(self.values)))
        )
        types = ", ".join(f"{_type(shape)} {self._boundary(shape)}" for _, shape in returned)
        names = f"{', '.join(name for name, _ in returned)} : {', '.join(_type(shape) for _, shape in returned)}"
        return [f"func.func {head}({', '.join(arguments)}) -> ({types}) {{", *self.lines, f"  return {names}", "}"]

    # Ops

    def _add(self) -> None:
        shape = self.random.choice(self.values)[1]
        self._made(
            f"stablehlo.add {self._take(shape)}, {self._take(shape)}{self._note([shape])}", [shape], _type(shape)
        )

    def _concatenate(self) -> None:
        shape = self.random.choice(self.values)[1]
        count, dim = self.random.choice((1, 2, 2, 3)), self.random.randrange(len(shape))
        names = [self._take(shape) for _ in range(count)]
        made = (*shape[:dim], shape[dim] * count, *shape[dim + 1 :])
        types = f"({', '.join([_type(shape)] * count)}) -> {_type(made)}"
        self._made(f"stablehlo.concatenate {', '.join(names)}, dim = {dim}{self._note([made])}", [made], types)

    def _slices(self) -> None:
        half, whole = _type((4, 8)), _type((8, 8))
        value, names = self._take((8, 8)), (self._name(), self._name())
        for name, where in zip(names, ("4:8, 0:8", "0:4, 0:8"), strict=True):
            note = self._note([(4, 8)])
            self.lines.append(f"  {name} = stablehlo.slice {value} [{where}]{note} : ({whole}) -> {half}")
        text = f"stablehlo.concatenate {', '.join(names)}, dim = 0{self._note([(8, 8)])}"
        self._made(text, [(8, 8)], f"({half}, {half}) -> {whole}")

    def _dot(self) -> None:
        left, right, made = self.random.choice(
            (((8, 8), (8, 8), (8, 8)), ((4, 8), (8, 4), (4, 4)), ((8, 4), (4, 8), (8, 8)))
        )
        text = f"stablehlo.dot {self._take(left)}, {self._take(right)}{self._note([made])}"
        self._made(text, [made], f"({_type(left)}, {_type(right)}) -> {_type(made)}")

    def _reduce(self) -> None:
        shape = self.random.choice([shape for _, shape in self.values])
        dim = self.random.randrange(len(shape))
        made = (*shape[:dim], *shape[dim + 1 :])
        if not made:
            return
        zero = self._name()
        self.lines.append(f"  {zero} = stablehlo.constant dense<0.0> : tensor<f32>")
        text = f"stablehlo.reduce({self._take(shape)} init: {zero}) applies stablehlo.add across dimensions = [{dim}]"
        self._made(text + self._note([made]), [made], f"({_type(shape)}, tensor<f32>) -> {_type(made)}")

    def _reshard(self) -> None:
        name, shape = self.random.choice(self.values)
        self._made(f"sdy.reshard {name} {self._sharding(shape)}", [shape], _type(shape))

    def _barrier(self) -> None:
        shapes = [self.random.choice(self.values)[1] for _ in range(2)]
        names, note = ", ".join(map(self._take, shapes)), self._note(shapes)
        self._made(f"stablehlo.optimization_barrier{note} {names}", shapes, ", ".join(map(_type, shapes)))

    def _propagation_barrier(self) -> None:
        name, shape = self.random.choice(self.values)
        direction = self.random.choice(("NONE", "FORWARD", "BACKWARD"))
        text = f"sdy.propagation_barrier {name} allowed_direction={direction}{self._note([shape])}"
        self._made(text, [shape], _type(shape))

    def _branch(self) -> None:
        shape, which = self.random.choice(self.values)[1], self._name()
        self.lines.append(f"  {which} = stablehlo.constant dense<0> : tensor<i32>")
        ends = [f"stablehlo.return {self._take(shape)} : {_type(shape)}" for _ in range(2)]
        text = f'"stablehlo.case"({which}) ({{ {ends[0]} }}, {{ {ends[1]} }}){self._note([shape])}'
        self._made(text, [shape], f"(tensor<i32>) -> {_type(shape)}")

    def _loop(self) -> None:
        shape, test, one, two, end = self.random.choice(self.values)[1], *(self._name() for _ in range(4))
        self.lines.append(f"  {test} = stablehlo.constant dense<false> : tensor<i1>")
        type, note = _type(shape), self._note([shape, shape], brackets=False)
        body = f"{end} = stablehlo.negate {two}{self._note([shape])} : {type}"
        name, first, second = self._name(), self._take(shape), self._take(shape)
        self.lines += [
            f"  {name}:2 = stablehlo.while({one} = {first}, {two} = {second}) : {type}, {type}"
            + (f" attributes {{{note}}}" if note else ""),
            f"  cond {{ stablehlo.return {test} : tensor<i1> }} do {{",
            f"    {body}",
            f"    stablehlo.return {end}, {one} : {type}, {type}",
            "  }",
        ]
        self.values += [(f"{name}#0", shape), (f"{name}#1", shape)]

    def _call(self) -> None:
        type = _type((8, 8))
        text = f"func.call @f({self._take((8, 8))}, {self._take((8, 8))}){self._note([(8, 8)])}"
        self._made(text, [(8, 8)], f"({type}, {type}) -> {type}")

    def _manual(self) -> None:
        argument, inner = self._name(), self._name()
        axis = self.axes[0].split("=")[0]
        size, type = 8 // int(self.axes[0].split("=")[1]), _type((8, 8))
        local = _type((size, 8))
        shardings = [self._free(axis) for _ in range(2)]
        text = (
            f"sdy.manual_computation({self._take((8, 8))}) in_shardings=[{shardings[0]}] out_shardings=[{shardings[1]}] "
            f"manual_axes={{{axis}}} ({argument}: {local}) {{\n"
            f"    {inner} = stablehlo.negate {argument}{self._inside(axis)} : {local}\n"
            f"    sdy.return {inner} : {local}\n  }}"
        )
        self._made(text, [(8, 8)], f"({type}) -> {type}")

    def _free(self, manual: str) -> str:
        """A sharding of an 8x8 tensor whose first dimension is split along the manual axis."""
        free = [axis.split("=")[0] for axis in self.axes[1:]]
        second, awaited = ([axis for axis in free if self.random.random() < 0.3] for _ in range(2))
        awaited = [axis for axis in awaited if axis not in second]
        sums = f", unreduced={{{', '.join(awaited)}}}" if awaited else ""
        return f"<@mesh, [{{{manual}}}, {{{', '.join(second)}}}]{sums}>"

    def _inside(self, manual: str) -> str:
        if self.random.random() > self.density:
            return ""
        sharding = self._free(manual).replace(f"[{{{manual}}}", "[{}")
        return f" {{sdy.sharding = #sdy.sharding_per_value<[{sharding}]>}}"

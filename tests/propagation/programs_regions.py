"""Ops with regions in random programs: loops, branches, manual and named computations, and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.propagation.programs import Writer, tensor_of

if TYPE_CHECKING:
    from tests.propagation.programs_wide import Value, WideWriter

__all__ = ["regions"]


def regions(writer: WideWriter) -> list[Callable[[], None]]:
    """The makers of ops with regions."""
    makers = (loop, loop, branches, conditional, manual, manual, named, call)
    return [lambda maker=maker: maker(writer) for maker in makers]  # type: ignore[misc]


@contextmanager
def _inside(writer: WideWriter, values: Sequence[Value] | None = None) -> Iterator[None]:
    """Write a region: its values are forgotten afterwards. With `values` it sees nothing else."""
    kept = writer.values, writer.others, writer.indent, writer.isolated, writer.scope
    writer.others = {type: list(names) for type, names in writer.others.items()} if values is None else {}
    writer.values = list(writer.values if values is None else values)
    writer.indent += "  "
    if values is not None:
        writer.isolated = True
        writer.scope = writer.count
    yield
    arguments = [value for value in writer.values if value[0].startswith("%a") and value not in kept[0]]
    writer.values, others, writer.indent, writer.isolated, writer.scope = kept
    if values is None:
        writer.values = [*writer.values, *arguments]
        for type, names in writer.others.items():
            new = [name for name in names if name.startswith("%a") and name not in others.get(type, ())]
            if new:
                others.setdefault(type, []).extend(new)
    writer.others = others


def loop(writer: WideWriter) -> None:
    """A while over values and a counter; its condition may look at them."""
    with _restored(writer):
        Writer.loop(writer)


@contextmanager
def _restored(writer: WideWriter) -> Iterator[None]:
    """Around makers that care for f32 values only: forget the others made inside, arguments excepted."""
    others = {type: list(names) for type, names in writer.others.items()}
    count = len(writer.arguments)
    yield
    new = {f"%a{number}" for number in range(count, len(writer.arguments))}
    for type, names in writer.others.items():
        others.setdefault(type, []).extend(name for name in names if name in new)
    writer.others = others


def branches(writer: WideWriter) -> None:
    """A case of one to three branches and one or two results."""
    shapes = [writer.pick()[1] for _ in range(writer.random.randint(1, 2))]
    index = writer.name()
    writer.lines.append(f"{writer.indent}{index} = stablehlo.constant dense<0> : tensor<i32>")
    _choose(writer, "stablehlo.case", index, "tensor<i32>", shapes, writer.random.randint(1, 3))


def conditional(writer: WideWriter) -> None:
    """An if."""
    shapes = [writer.pick()[1]]
    test = writer.name()
    writer.lines.append(f"{writer.indent}{test} = stablehlo.constant dense<true> : tensor<i1>")
    _choose(writer, "stablehlo.if", test, "tensor<i1>", shapes, 2)


def _choose(writer: WideWriter, op: str, index: str, type: str, shapes: Sequence[tuple[int, ...]], count: int) -> None:
    name = writer.name()
    types = ", ".join(tensor_of(shape) for shape in shapes)
    writer.lines.append(f'{writer.indent}{name}:{len(shapes)} = "{op}"({index}) ({{')
    for number in range(count):
        with _inside(writer):
            writer.some(writer.random.randint(0, 3), nested=True)
            returned = [writer.random.choice([n for n, s in writer.values if s == shape]) for shape in shapes]
            writer.lines.append(f"{writer.indent}stablehlo.return {', '.join(returned)} : {types}")
        last = number == count - 1
        note = f" {{{text}}}" if last and (text := writer.note(shapes, writer.density)) else ""
        writer.lines.append(writer.indent + (f"}}){note} : ({type}) -> ({types})" if last else "}, {"))
    writer.values += [(f"{name}#{number}", shape) for number, shape in enumerate(shapes)]


def manual(writer: WideWriter) -> None:
    """A manual computation over one or two axes, on one or two values, perhaps within another."""
    chance, annotator = writer.random, writer.annotator
    mesh = annotator.pick_mesh()
    free = annotator.free(mesh)
    if not free:
        return
    chosen = chance.sample(free, min(len(free), chance.choice((1, 1, 2))))
    axes = [axis for axis in annotator.meshes[mesh] if axis in chosen]
    operands = [writer.pick() for _ in range(chance.randint(1, 2))]
    within, outer = annotator.within, annotator.manual
    annotator.within = mesh
    annotator.manual = outer | {name for name, _ in axes}
    incoming, locals_ = [], []
    for _, shape in operands:
        sharding, local = _boundary(writer, mesh, axes, shape, shrink=True)
        incoming.append(sharding)
        locals_.append(local)
    inner = [(writer.name(), local) for local in locals_]
    head = len(writer.lines)
    writer.lines.append("")
    with _inside(writer, inner):
        writer.some(chance.randint(1, 3), nested=True)
        returned = [writer.random.choice(writer.values[-5:]) for _ in range(chance.randint(1, 2))]
        types = ", ".join(tensor_of(shape) for _, shape in returned)
        writer.lines.append(f"{writer.indent}sdy.return {', '.join(n for n, _ in returned)} : {types}")
    made = [_boundary(writer, mesh, axes, shape, shrink=False) for _, shape in returned]
    annotator.within, annotator.manual = within, outer
    name = writer.name()
    arguments = ", ".join(f"{value}: {tensor_of(shape)}" for value, shape in inner)
    names = ", ".join(f'"{axis}"' for axis, _ in axes)
    writer.lines[head] = (
        f"{writer.indent}{name}:{len(made)} = sdy.manual_computation({', '.join(v for v, _ in operands)}) "
        f"in_shardings=[{', '.join(incoming)}] out_shardings=[{', '.join(sharding for sharding, _ in made)}] "
        f"manual_axes={{{names}}} ({arguments}) {{"
    )
    inward = ", ".join(tensor_of(shape) for _, shape in operands)
    outward = ", ".join(tensor_of(shape) for _, shape in made)
    writer.lines.append(f"{writer.indent}}} : ({inward}) -> ({outward})")
    writer.values += [(f"{name}#{number}", shape) for number, (_, shape) in enumerate(made)]


def _boundary(
    writer: WideWriter, mesh: str, axes: Sequence[tuple[str, int]], shape: Sequence[int], shrink: bool
) -> tuple[str, tuple[int, ...]]:
    """A sharding whose dimensions begin with manual axes, and the shape on the other side of it."""
    chance, annotator = writer.random, writer.annotator
    other = list(shape)
    dims: list[list[str]] = [[] for _ in shape]
    replicated = []
    for axis, size in chance.sample(list(axes), len(axes)):
        fitting = [dim for dim, its in enumerate(other) if not shrink or its % size == 0]
        if fitting and chance.random() < 0.8:
            dim = chance.choice(fitting)
            dims[dim].append(f'"{axis}"')
            other[dim] = other[dim] // size if shrink else other[dim] * size
        elif chance.random() < 0.5:
            replicated.append(f'"{axis}"')
    for piece in annotator.pieces(annotator.free(mesh)):
        if dims and chance.random() < 0.2 and ":" not in piece:
            chance.choice(dims).append(piece)
    order = [f'"{axis}"' for axis, _ in annotator.meshes[mesh]]
    tail = f", replicated={{{', '.join(sorted(replicated, key=order.index))}}}" if replicated else ""
    return f"<@{mesh}, [{', '.join(annotator.dims(dims, None, chance.random() < 0.5))}]{tail}>", tuple(other)


def named(writer: WideWriter) -> None:
    """A named computation, with shardings at its boundary or without."""
    chance = writer.random
    operands = [writer.pick() for _ in range(chance.randint(1, 2))]
    inner = [(writer.name(), shape) for _, shape in operands]
    name = writer.name()
    head = len(writer.lines)
    writer.lines.append("")
    with _inside(writer, inner):
        writer.some(chance.randint(1, 3), nested=True)
        returned = [chance.choice(writer.values[-5:]) for _ in range(chance.randint(1, 2))]
        types = ", ".join(tensor_of(shape) for _, shape in returned)
        writer.lines.append(f"{writer.indent}sdy.return {', '.join(n for n, _ in returned)} : {types}")
    boundary = ""
    for word, values in (("in_shardings", operands), ("out_shardings", returned)):
        if chance.random() < 0.35:
            mesh = writer.annotator.pick_mesh()
            notes = [
                writer.annotator.sharding(shape, priorities=chance.random() < 0.5, mesh=mesh) for _, shape in values
            ]
            boundary += f" {word}=[{', '.join(notes)}]"
    arguments = ", ".join(f"{value}: {tensor_of(shape)}" for value, shape in inner)
    writer.lines[head] = (
        f'{writer.indent}{name}:{len(returned)} = sdy.named_computation<"n{name[1:]}">'
        f"({', '.join(value for value, _ in operands)}){boundary} ({arguments}) {{"
    )
    inward = ", ".join(tensor_of(shape) for _, shape in operands)
    writer.lines.append(f"{writer.indent}}} : ({inward}) -> ({types})")
    writer.values += [(f"{name}#{number}", shape) for number, (_, shape) in enumerate(returned)]


def call(writer: WideWriter) -> None:
    """A call of a private function, one there is or a new one."""
    chance = writer.random
    if writer.annotator.manual:
        return
    if not writer.functions or chance.random() < 0.6:
        _define(writer)
    symbol, takes, gives = chance.choice(writer.functions)
    operands = [writer.take(tensor_of(shape)) for shape in takes]
    name = writer.name()
    sharding = writer.note(gives, 0.15)
    types = f"({', '.join(map(tensor_of, takes))}) -> ({', '.join(map(tensor_of, gives))})"
    note = f" {{{sharding}}}" if sharding else ""
    writer.lines.append(
        f"{writer.indent}{name}:{len(gives)} = func.call @{symbol}({', '.join(operands)}){note} : {types}"
    )
    writer.values += [(f"{name}#{number}", shape) for number, shape in enumerate(gives)]


def _define(writer: WideWriter) -> None:
    chance = writer.random
    takes = [writer.pick()[1] for _ in range(chance.randint(1, 2))]
    inner = [(writer.name(), shape) for shape in takes]
    annotated = chance.random() < 0.3
    lines, writer.lines, indent, writer.indent = writer.lines, [], writer.indent, ""
    functions, writer.functions = writer.functions, []
    grouping, writer.grouping = writer.grouping, False  # the function may be called twice, each time in another region
    with _inside(writer, inner):
        writer.some(chance.randint(1, 3), nested=True)
        returned = [chance.choice(writer.values[-5:]) for _ in range(chance.randint(1, 2))]

    def typed(shape: tuple[int, ...]) -> str:
        annotates = annotated and chance.random() < 0.6
        return tensor_of(shape) + (f" {{sdy.sharding = #sdy.sharding{writer.sharding(shape)}}}" if annotates else "")

    symbol = f"f{writer.count}"
    head = ", ".join(f"{value}: {typed(shape)}" for value, shape in inner)
    results = ", ".join(typed(shape) for _, shape in returned)
    values = ", ".join(value for value, _ in returned)
    types = ", ".join(tensor_of(shape) for _, shape in returned)
    body = [*writer.lines, f"  return {values} : {types}", "}"]
    writer.definitions += [f"func.func private @{symbol}({head}) -> ({results}) {{", *body]
    writer.lines, writer.indent, writer.grouping = lines, indent, grouping
    writer.functions = [*functions, *writer.functions, (symbol, takes, [shape for _, shape in returned])]

"""Random instances of the collectives."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.runtime.arrays import numpy_dtype
from tests.partition.processes import definitions
from tests.partition.processes.definitions import Held
from tests.partition.processes.instances import DTYPES, Instance, Maker, axes_text, i64, maker, split_of, type_text

SPELLINGS = ("#shard.partial<{}>", "#shard<partial {}>", "#mesh.partial<{}>", '"{}"')
KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "sum": (("f32", "f32"), ("f32", "f64"), ("bf16", "f32"), ("i8", "i32"), ("f32", "i32"), ("complex<f32>",) * 2),
    "average": (("f32", "f32"), ("i32", "i32"), ("f64", "f64"), ("bf16", "f64"), ("ui8", "ui8")),
    "product": (("f32", "f32"), ("i8", "i8"), ("i32", "f32"), ("ui8", "ui32")),
    "max": (("f32", "f32"), ("bf16", "bf16"), ("i8", "i64"), ("i1", "i1"), ("ui8", "ui8")),
    "min": (("f16", "f16"), ("f64", "f32"), ("i32", "i32"), ("ui8", "i32")),
    "bitwise_and": (("i32", "i32"), ("i8", "i32"), ("i1", "i1")),
    "bitwise_or": (("i8", "i8"), ("ui8", "ui8"), ("i1", "i1")),
    "bitwise_xor": (("i64", "i64"), ("ui32", "ui32"), ("i1", "i1")),
}


@maker("all_gather")
def _all_gather(m: Maker) -> Instance:
    axes, held = m.axes(), m.held(m.dims(), m.rng.choice(DTYPES))
    dim = m.rng.randrange(held[0].ndim)
    result = definitions.all_gather(m.shape, axes, dim, held)
    return m.collective("all_gather", axes, [f"gather_axis = {dim} : index"], held, result)


@maker("gather")
def _gather(m: Maker) -> Instance:
    axes, held = m.axes(), m.held(m.dims(), m.rng.choice(DTYPES))
    dim = m.rng.randrange(held[0].ndim)
    result = definitions.all_gather(m.shape, axes, dim, held)
    return m.rooted("gather", axes, "root", m.member(axes), [f"gather_axis = {dim} : index"], held, result)


def _divided(m: Maker, axes: Sequence[int], dtype: str, small: bool = False) -> tuple[int, Held]:
    dims = m.dims()
    dim = m.rng.randrange(len(dims))
    dims[dim] *= m.count(axes)
    return dim, m.held(dims, dtype, small)


@maker("all_slice")
def _all_slice(m: Maker) -> Instance:
    axes = m.axes()
    dim, held = _divided(m, axes, m.rng.choice(DTYPES))
    result = definitions.all_slice(m.shape, axes, dim, held)
    return m.collective("all_slice", axes, [f"slice_axis = {dim} : index"], held, result)


@maker("all_to_all")
def _all_to_all(m: Maker) -> Instance:
    axes = m.axes()
    split, held = _divided(m, axes, m.rng.choice(DTYPES))
    concat = m.rng.randrange(held[0].ndim)
    result = definitions.all_to_all(m.shape, axes, split, concat, held)
    attributes = [f"split_axis = {split} : index", f"concat_axis = {concat} : index"]
    return m.collective("all_to_all", axes, attributes, held, result)


@maker("broadcast")
def _broadcast(m: Maker) -> Instance:
    axes, held = m.axes(), m.held(m.dims(0), m.rng.choice(DTYPES))
    root = m.member(axes)
    return m.rooted("broadcast", axes, "root", root, [], held, definitions.broadcast(m.shape, axes, root, held))


@maker("scatter")
def _scatter(m: Maker) -> Instance:
    axes = m.axes()
    dim, held = _divided(m, axes, m.rng.choice(DTYPES))
    root = m.member(axes)
    result = definitions.scatter(m.shape, axes, dim, root, held)
    key = m.rng.choice(["scatter_dim", "scatter_axis"])
    return m.rooted("scatter", axes, "root", root, [f"{key} = {dim} : index"], held, result)


def _reduction(m: Maker) -> tuple[str, list[str], str, str]:
    """Kind, its attribute (often left out for sums), element types."""
    kind = m.rng.choice(list(KINDS))
    attributes = (
        [] if kind == "sum" and m.rng.random() < 0.5 else [f"reduction = {m.rng.choice(SPELLINGS).format(kind)}"]
    )
    return kind, attributes, *m.rng.choice(KINDS[kind])


@maker("all_reduce")
def _all_reduce(m: Maker) -> Instance:
    kind, attributes, source, target = _reduction(m)
    axes, held = m.axes(), m.held(m.dims(0), source, small=True)
    result = definitions.all_reduce(m.shape, axes, kind, numpy_dtype(target), held)
    return m.collective("all_reduce", axes, attributes, held, result)


@maker("reduce")
def _reduce(m: Maker) -> Instance:
    kind, attributes, source, target = _reduction(m)
    axes, held = m.axes(), m.held(m.dims(0), source, small=True)
    result = definitions.all_reduce(m.shape, axes, kind, numpy_dtype(target), held)
    return m.rooted("reduce", axes, "root", m.member(axes), attributes, held, result)


@maker("reduce_scatter")
def _reduce_scatter(m: Maker) -> Instance:
    kind, attributes, source, target = _reduction(m)
    axes = m.axes()
    dim, held = _divided(m, axes, source, small=True)
    result = definitions.reduce_scatter(m.shape, axes, dim, kind, numpy_dtype(target), held)
    return m.collective("reduce_scatter", axes, [f"scatter_dim = {dim} : index", *attributes], held, result)


@maker("shift")
def _shift(m: Maker) -> Instance:
    axes, held = m.axes(1), m.held(m.dims(), m.rng.choice(DTYPES))
    axis, offset, rotate = m.rng.choice(axes), m.rng.randint(-5, 5), m.rng.random() < 0.5
    result = definitions.shift(m.shape, axis, offset, rotate, held)
    attributes = [f"shift_axis = {axis} : index", f"offset = {offset} : i64", *(["rotate"] if rotate else [])]
    return m.collective("shift", axes, attributes, held, result)


@maker("send_recv")
def _send_recv(m: Maker) -> Instance:
    axes, dims, dtype = m.axes(), m.dims(), m.rng.choice(DTYPES)
    sent, own, source, destination = m.held(dims, dtype), m.held(dims, dtype), m.member(axes), m.member(axes)
    result = definitions.send_receive(m.shape, axes, source, destination, sent, own)
    send = m.rooted("send", axes, "destination", destination, [], sent, sent)
    recv = m.rooted("recv", axes, "source", source, [], own, result)
    renamed = [
        line.replace("%a{n}_0", "%a{n}_1").replace("%r{n}_0", "%r{n}_1").replace("%k", "%l") for line in recv.lines
    ]
    results = send.results + [("%r{n}_1", text, held) for _, text, held in recv.results]
    return Instance(send.lines + renamed, results, send.operands + recv.operands)


@maker("update_halo")
def _update_halo(m: Maker) -> Instance:
    rank = m.rng.randint(1, 3)
    split = split_of(m, rank)
    halos = [(m.rng.randint(0, 2), m.rng.randint(0, 2)) if axes else (0, 0) for axes in split]
    dims = [low + high + m.rng.randint(max(low, high, 1), 3) for low, high in halos]
    held = m.held(dims, m.rng.choice(DTYPES))
    result = definitions.update_halo(m.shape, split, halos, held)
    widths = [width for axes, pair in zip(split, halos, strict=True) if axes for width in pair]
    written = (
        split[: max((d + 1 for d, axes in enumerate(split) if axes), default=0)] if m.rng.random() < 0.5 else split
    )
    text = type_text(held[0])
    static, lines, extra = m.mixed(widths, "i64")
    types = ", ".join([text, *["i64"] * len(extra)])
    attributes = f"grid = @g, split_axes = {axes_text(written)}, static_halo_sizes = {i64(static)}"
    lines.append(
        f'%r{{n}}_0 = "shard.update_halo"({", ".join(["%a{n}_0", *extra])}) {{{attributes}}} : ({types}) -> {text}'
    )
    return Instance(lines, [("%r{n}_0", text, result)], [(text, held)])

"""Random instances of the larger ops: reductions, windows, gather and scatter, linear algebra, collectives; and why some
ops have none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from shardwright.ir.context import is_registered
from tests.rules.corpus import Instance, array, binary_body, comparison_body, maker, matrix, shape_of, tensor

__all__ = ["BROADCASTING", "WITHOUT_INSTANCES"]

_DYNAMIC = "result shapes are known when it runs only; propagation needs static shapes and the C++ has no rule"
_EDGE = "data flows through it along edges, not by a rule (tests/propagation)"
_SOURCE = "it has no operands to be split with, and no rule here or in the C++"
_OUTSIDE = "it talks to the host or orders effects; no rule here or in the C++"
BROADCASTING = "chlo's implicit broadcasts are made explicit before sharding; no rule here or in the C++"
_OLD = "no longer produced by any frontend; no rule here or in the C++"
_TUPLE = "tuples are refused"

WITHOUT_INSTANCES = {
    "case": _EDGE,
    "while": _EDGE,
    "optimization_barrier": _EDGE,
    "if": "as in the C++ neither a rule nor an edge; its branches are sharded on their own",
    "return": "it ends a region",
    "composite": "read as a call of its decomposition",
    "constant": _SOURCE,
    "iota": _SOURCE,
    "create_token": _SOURCE,
    "partition_id": _SOURCE,
    "replica_id": _SOURCE,
    "rng": "its operands are scalars and a shape: nothing to be split with",
    "after_all": _OUTSIDE,
    "infeed": _OUTSIDE,
    "outfeed": _OUTSIDE,
    "recv": _OUTSIDE,
    "send": _OUTSIDE,
    "async_start": _OUTSIDE,
    "async_done": _OUTSIDE,
    "tuple": _TUPLE,
    "get_tuple_element": _TUPLE,
    "get_dimension_size": "a scalar that says how large a dimension is; no rule here or in the C++",
    "set_dimension_size": _DYNAMIC,
    "dynamic_broadcast_in_dim": _DYNAMIC,
    "dynamic_conv": _DYNAMIC,
    "dynamic_gather": _DYNAMIC,
    "dynamic_iota": _DYNAMIC,
    "dynamic_pad": _DYNAMIC,
    "dynamic_reshape": _DYNAMIC,
    "real_dynamic_slice": _DYNAMIC,
    "einsum": _OLD,
    "unary_einsum": _OLD,
    "torch_index_select": _OLD,
    "uniform_quantize": "a rule like any pointwise op's; jaxlib reads no module with quantized types",
    "uniform_dequantize": "a rule like any pointwise op's; jaxlib reads no module with quantized types",
    "ragged_dot": "how long its groups are is data; no rule here or in the C++",
    "scan": "its body is a region; no rule here or in the C++",
    "constant_like": "a rule like any pointwise op's; the C++ has none to compare it with",
    "_asin_acos_kernel": "chlo keeps it to itself; a rule like any pointwise op's",
    "cross-replica-sum": "all_reduce by its old name, with its rule",
}

_NEWER = {"collective_reduce": "jaxlib 0.11 has it; as in the C++ no rule"}
WITHOUT_INSTANCES |= {op: reason for op, reason in _NEWER.items() if is_registered(f"stablehlo.{op}")}
"""Ops of StableHLO and chlo of which there are no instances, each with the reason."""


@maker("stablehlo.reduce")
def _reduce(rng: random.Random, name: str) -> Instance:
    shape, count = shape_of(rng), rng.choice((1, 1, 2))
    dims = [dim for dim in range(len(shape)) if rng.random() < 0.5]
    result = tensor([size for dim, size in enumerate(shape) if dim not in dims])
    operands = (*(tensor(shape),) * count, *("tensor<f32>",) * count)
    body = binary_body(rng.choice(("add", "maximum", "multiply", "minimum")), pairs=count)
    return Instance(name, operands, (result,) * count, f"dimensions = {array(dims)}", body)


def _windows(rng: random.Random, shape: Sequence[int]) -> tuple[list[int], list[int], list[list[int]], list[int]]:
    """Window sizes, strides, padding and the number of windows; every dimension has at least one window."""
    sizes = [rng.choice((1, 1, rng.randint(1, size))) for size in shape]
    strides = [rng.choice((1, 1, 2)) for _ in shape]
    pads = [[rng.choice((0, 0, 1)), rng.choice((0, 0, 1))] for _ in shape]
    counts = [
        (low + size + high - window) // stride + 1
        for size, window, stride, (low, high) in zip(shape, sizes, strides, pads, strict=True)
    ]
    return sizes, strides, pads, counts


@maker("stablehlo.reduce_window")
def _reduce_window(rng: random.Random, name: str) -> Instance:
    shape, count = shape_of(rng, 1), rng.choice((1, 1, 2))
    sizes, strides, pads, counts = _windows(rng, shape)
    attributes = f"window_dimensions = {array(sizes)}"
    if rng.random() < 0.8 or any(stride > 1 for stride in strides):
        attributes += f", window_strides = {array(strides)}"
    if rng.random() < 0.8 or any(any(pad) for pad in pads):
        attributes += f", padding = {matrix(pads)}"
    operands = (*(tensor(shape),) * count, *("tensor<f32>",) * count)
    return Instance(name, operands, (tensor(counts),) * count, attributes, binary_body("add", pairs=count))


@maker("stablehlo.select_and_scatter")
def _select_and_scatter(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    sizes, strides, pads, counts = _windows(rng, shape)
    attributes = f"window_dimensions = {array(sizes)}, window_strides = {array(strides)}, padding = {matrix(pads)}"
    regions = f"({{{comparison_body('GE', ['f32'])}}}, {binary_body('add')[1:]}"
    return Instance(name, (tensor(shape), tensor(counts), "tensor<f32>"), (tensor(shape),), attributes, regions)


@maker("stablehlo.batch_norm_inference", "stablehlo.batch_norm_training", "stablehlo.batch_norm_grad")
def _batch_norm(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 2)
    feature = rng.randrange(len(shape))
    data, vector = tensor(shape), tensor([shape[feature]])
    attributes = f"epsilon = 0.1 : f32, feature_index = {feature} : i64"
    operands, results = {
        "stablehlo.batch_norm_inference": ((data, *(vector,) * 4), (data,)),
        "stablehlo.batch_norm_training": ((data, vector, vector), (data, vector, vector)),
        "stablehlo.batch_norm_grad": ((data, vector, vector, vector, data), (data, vector, vector)),
    }[name]
    return Instance(name, operands, results, attributes)


def _lookup(rng: random.Random) -> dict[str, list[int]]:
    """Shapes and dimension numbers that gather and scatter share."""
    batch = shape_of(rng, 0, 1)
    positions = shape_of(rng, 0, 2)
    inner = shape_of(rng, 1, 3)
    kinds = [rng.choice(("collapsed", "whole", "part")) for _ in inner]
    roles = rng.sample(["batch"] * len(batch) + kinds, len(batch) + len(inner))
    sizes, window, rest, batches = [], [], iter(inner), iter(batch)
    for role in roles:
        size = next(batches) if role == "batch" else next(rest)
        sizes.append(size)
        if role in ("whole", "part"):
            window.append(size if role == "whole" else rng.randint(1, size))
    by_role = {role: [dim for dim, its in enumerate(roles) if its == role] for role in ("batch", "collapsed", "part")}
    mapped = [*by_role["collapsed"], *by_role["part"]]
    rng.shuffle(mapped)
    places = [*positions]
    batch_at = [rng.randint(0, len(places))] if batch else []
    places[batch_at[0] if batch_at else 0 : batch_at[0] if batch_at else 0] = batch
    vector = len(places) if len(mapped) == 1 and rng.random() < 0.4 else rng.randint(0, len(places))
    explicit = not (vector == len(places) and len(mapped) == 1 and rng.random() < 0.5)
    indices = [*places[:vector], len(mapped), *places[vector:]] if explicit else places
    batching = [at + (explicit and at >= vector) for at in batch_at]
    rank = len(places) + len(window)
    offsets = sorted(rng.sample(range(rank), len(window)))
    windows, along = iter(window), iter(places)
    slices = [next(windows) if dim in offsets else next(along) for dim in range(rank)]
    taken = iter(window)
    slice_sizes = [next(taken) if role in ("whole", "part") else 1 for role in roles]
    return {
        "input": sizes,
        "indices": indices,
        "slices": slices,
        "offsets": offsets,
        "collapsed": by_role["collapsed"],
        "batching": by_role["batch"],
        "indices_batching": batching,
        "map": mapped,
        "vector": [vector],
        "slice_sizes": slice_sizes,
    }


@maker("stablehlo.gather")
def _gather(rng: random.Random, name: str) -> Instance:
    given = _lookup(rng)
    numbers = (
        f"#stablehlo.gather<offset_dims = {given['offsets']}, collapsed_slice_dims = {given['collapsed']}, "
        f"operand_batching_dims = {given['batching']}, start_indices_batching_dims = {given['indices_batching']}, "
        f"start_index_map = {given['map']}, index_vector_dim = {given['vector'][0]}>"
    )
    attributes = f"dimension_numbers = {numbers}, slice_sizes = {array(given['slice_sizes'])}"
    operands = (tensor(given["input"]), tensor(given["indices"], "i32"))
    return Instance(name, operands, (tensor(given["slices"]),), attributes)


@maker("stablehlo.scatter")
def _scatter(rng: random.Random, name: str) -> Instance:
    given, count, dtype = _lookup(rng), rng.choice((1, 1, 2)), rng.choice(("f32", "f32", "i1", "i32"))
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {given['offsets']}, inserted_window_dims = {given['collapsed']}, "
        f"input_batching_dims = {given['batching']}, "
        f"scatter_indices_batching_dims = {given['indices_batching']}, "
        f"scatter_dims_to_operand_dims = {given['map']}, index_vector_dim = {given['vector'][0]}>"
    )
    ops = ["add", "multiply", "maximum", "minimum"] + (["subtract"] if dtype == "f32" else ["and", "or", "xor"])
    op = rng.choice([op for op in ops if (dtype, op) != ("i1", "subtract")])
    operands = (
        *(tensor(given["input"], dtype),) * count,
        tensor(given["indices"], "i32"),
        *(tensor(given["slices"], dtype),) * count,
    )
    results = (tensor(given["input"], dtype),) * count
    return Instance(name, operands, results, f"scatter_dimension_numbers = {numbers}", binary_body(op, dtype, count))


@maker("stablehlo.sort")
def _sort(rng: random.Random, name: str) -> Instance:
    shape, dtypes = shape_of(rng, 1), rng.choice((["f32"], ["f32", "i32"]))
    if rng.random() < 0.3:
        shape = [rng.choice((1, 1, 4)) for _ in shape]
    types = tuple(tensor(shape, dtype) for dtype in dtypes)
    dim = rng.randrange(len(shape))
    return Instance(name, types, types, f"dimension = {dim} : i64", f"({{{comparison_body('LT', dtypes)}}})")


@maker("stablehlo.fft")
def _fft(rng: random.Random, name: str) -> Instance:
    shape = [max(2, size) for size in shape_of(rng, 1, 4)]
    length = shape[-rng.randint(1, min(3, len(shape))) :]
    kind = rng.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    half = [*shape[:-1], shape[-1] // 2 + 1]
    real, wide, narrow = tensor(shape), tensor(shape, "complex<f32>"), tensor(half, "complex<f32>")
    source, target = {"RFFT": (real, narrow), "IRFFT": (narrow, real)}.get(kind, (wide, wide))
    attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {array(length)}"
    return Instance(name, (source,), (target,), attributes)


@maker("stablehlo.cholesky")
def _cholesky(rng: random.Random, name: str) -> Instance:
    size = rng.randint(1, 5)
    type = tensor([*shape_of(rng, 0, 2), size, size])
    return Instance(name, (type,), (type,), "lower = true")


@maker("stablehlo.triangular_solve")
def _triangular_solve(rng: random.Random, name: str) -> Instance:
    batch, size, other, left = shape_of(rng, 0, 2), rng.randint(1, 5), rng.randint(1, 5), rng.random() < 0.5
    a = tensor([*batch, size, size])
    b = tensor([*batch, size, other] if left else [*batch, other, size])
    transpose = rng.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    attributes = (
        f"left_side = {str(left).lower()}, lower = true, unit_diagonal = false, "
        f"transpose_a = #stablehlo<transpose {transpose}>"
    )
    return Instance(name, (a, b), (b,), attributes)


@maker("chlo.top_k")
def _top_k(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    kept = rng.randint(1, shape[-1])
    result = [*shape[:-1], kept]
    return Instance(name, (tensor(shape),), (tensor(result), tensor(result, "i32")), f"k = {kept} : i64")


@maker("stablehlo.rng_bit_generator")
def _rng_bit_generator(rng: random.Random, name: str) -> Instance:
    state = tensor([2], "ui64")
    algorithm = "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>"
    return Instance(name, (state,), (state, tensor(shape_of(rng), "ui32")), algorithm)


@maker("stablehlo.convolution")
def _convolution(rng: random.Random, name: str) -> Instance:
    groups = rng.choice(((1, 1), (1, 1), (2, 1), (1, 2)))
    feature_groups, batch_groups = groups
    rank = rng.randint(0, 2)
    batch, features, per_group = rng.choice((1, 2, 4)), rng.choice((1, 3, 4)), rng.choice((1, 2, 3))
    outputs = per_group * feature_groups * batch_groups
    spatial = [rng.choice((1, 3, 4, 6, 8)) for _ in range(rank)]
    sizes, strides, pads, counts = _windows(rng, spatial)
    digits = [str(index) for index in range(rank)]
    sides = [
        ({"b": batch * batch_groups, "f": features * feature_groups}, spatial),
        ({"i": features, "o": outputs}, sizes),
        ({"b": batch, "f": outputs}, counts),
    ]
    shapes, names = [], []
    for dims, extents in sides:
        named = dims | dict(zip(digits, extents, strict=True))
        order = rng.sample(list(named), len(named))
        shapes.append(tensor([named[dim] for dim in order]))
        names.append(f"[{', '.join(order)}]")
    padding = f"padding = {matrix(pads)}, " if rank else ""
    attributes = (
        f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>, {padding}"
        f"window_strides = {array(strides)}, feature_group_count = {feature_groups} : i64, "
        f"batch_group_count = {batch_groups} : i64"
    )
    return Instance(name, (shapes[0], shapes[1]), (shapes[2],), attributes)


_GROUPS = (
    "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, "
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
)


@maker("stablehlo.all_reduce", "stablehlo.collective_broadcast", "stablehlo.collective_permute")
def _same_shape_collective(rng: random.Random, name: str) -> Instance:
    type = tensor(shape_of(rng))
    pairs = "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"
    attributes = pairs if name.endswith("permute") else _GROUPS
    body = binary_body("add") if name.endswith("reduce") else ""
    return Instance(name, (type,), (type,), attributes, body)


@maker("stablehlo.all_gather", "stablehlo.reduce_scatter", "stablehlo.all_to_all")
def _resizing_collective(rng: random.Random, name: str) -> Instance:
    shape = [2 * size for size in shape_of(rng, 1)]
    dim, other = rng.randrange(len(shape)), rng.randrange(len(shape))
    result = list(shape)
    if name.endswith("all_gather"):
        result[dim] *= 2
        return Instance(name, (tensor(shape),), (tensor(result),), f"all_gather_dim = {dim} : i64, {_GROUPS}")
    result[dim] //= 2
    if name.endswith("scatter"):
        attributes = f"scatter_dimension = {dim} : i64, {_GROUPS}"
        return Instance(name, (tensor(shape),), (tensor(result),), attributes, binary_body("add"))
    result[other] *= 2
    attributes = f"split_dimension = {dim} : i64, concat_dimension = {other} : i64, split_count = 2 : i64, {_GROUPS}"
    return Instance(name, (tensor(shape),), (tensor(result),), attributes)


@maker("stablehlo.custom_call")
def _custom_call(rng: random.Random, name: str) -> Instance:
    target = rng.choice(("Cholesky", "LayoutConstraint", "MoveToHost", "mhlo.erf", "X64Combine", "X64SplitLow"))
    type = tensor(shape_of(rng))
    return Instance(name, (type,), (type,), f'call_target_name = "{target}"')


@maker("stablehlo.custom_call/decomposition")
def _custom_decomposition(rng: random.Random, name: str) -> Instance:
    batch, rows, columns = shape_of(rng, 0, 2), rng.randint(2, 5), rng.randint(2, 5)
    matrices, vectors = tensor([*batch, rows, columns]), tensor([*batch, min(rows, columns)])
    square, diagonal = tensor([*batch, rows, rows]), tensor([*batch, rows])
    target, operands, results = rng.choice(
        (
            ("Eigh", (square,), (square, diagonal)),
            ("Qr", (matrices,), (matrices, vectors)),
            ("QrDecompositionBlock", (matrices,), (matrices, vectors)),
            ("ProductOfElementaryHouseholderReflectors", (matrices, vectors), (matrices,)),
        )
    )
    return Instance("stablehlo.custom_call", operands, results, f'call_target_name = "{target}"')


@maker("stablehlo.custom_call/top_k")
def _custom_top_k(rng: random.Random, name: str) -> Instance:
    shape = shape_of(rng, 1)
    result = [*shape[:-1], rng.randint(1, shape[-1])]
    results = (tensor(result), tensor(result, "i32"))
    target = rng.choice(("mhlo.topk", "ApproxTopK", "PartialReduce"))
    operands: tuple[str, ...] = (tensor(shape),)
    if target != "mhlo.topk":
        operands = (tensor(shape), tensor(shape, "i32"), "tensor<f32>", "tensor<i32>")
    return Instance("stablehlo.custom_call", operands, results, f'call_target_name = "{target}"')

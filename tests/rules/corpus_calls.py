"""Instances of custom calls, some for each target that has a rule."""

from __future__ import annotations

import random

from tests.rules.corpus import Instance, tensor
from tests.rules.corpus_wide import any_shape, wide

__all__: list[str] = []

_PREFIX = "stablehlo.custom_call/"

_ALIKE = (
    "Cholesky",
    "CompactWyHelper",
    "InspectSharding",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
    "_SPMDInternalOp_MultiPad",
    "_SPMDInternalOp_MultiRotate",
    "_SPMDInternalOp_MultiSlice",
    "_SPMDInternalOp_RotateRight",
    "_SPMDInternalOp_Wrap",
    "annotate_device_placement",
    "mhlo.erf",
    "xla.megascale.provide_metadata",
)


def _call(name: str, operands: tuple[str, ...], results: tuple[str, ...]) -> Instance:
    target = name.removeprefix(_PREFIX)
    return Instance("stablehlo.custom_call", operands, results, f'call_target_name = "{target}"')


@wide(*(_PREFIX + target for target in _ALIKE))
def _alike(rng: random.Random, name: str) -> Instance:
    """One to three operands and some results, of which a few have the leading dimensions only."""
    shape = any_shape(rng)

    def some(least: int) -> tuple[str, ...]:
        ranks = (rng.choice((len(shape), len(shape), rng.randint(0, len(shape)))) for _ in range(rng.randint(least, 3)))
        return tuple(tensor(shape[:rank]) for rank in ranks)

    return _call(name, some(1), (tensor(shape), *some(0)))


@wide(_PREFIX + "Eigh", _PREFIX + "Qr", _PREFIX + "QrDecompositionBlock")
def _decomposition(rng: random.Random, name: str) -> Instance:
    batch, rows, columns = any_shape(rng, 0, 3), rng.randint(0, 5), rng.randint(0, 5)
    if name.endswith("Eigh"):
        columns = rows
    matrices = tensor([*batch, rows, columns])
    return _call(name, (matrices,), (matrices, tensor([*batch, min(rows, columns)])))


@wide(_PREFIX + "ProductOfElementaryHouseholderReflectors")
def _householder_product(rng: random.Random, name: str) -> Instance:
    batch, rows, columns = any_shape(rng, 0, 3), rng.randint(0, 5), rng.randint(0, 5)
    matrices = tensor([*batch, rows, columns])
    return _call(name, (matrices, tensor([*batch, min(rows, columns)])), (matrices,))


@wide(_PREFIX + "mhlo.topk")
def _top_k(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1)
    kept = [*shape[:-1], rng.choice((shape[-1], rng.randint(0, shape[-1])))]
    return _call(name, (tensor(shape),), (tensor(kept), tensor(kept, "i32")))


@wide(_PREFIX + "ApproxTopK", _PREFIX + "PartialReduce")
def _approximate_top_k(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1)
    kept, dim = list(shape), rng.randrange(len(shape))
    kept[dim] = rng.choice((shape[dim], rng.randint(0, shape[dim])))
    operands = (tensor(shape), tensor(shape, "i32"), "tensor<f32>", "tensor<i32>")
    return _call(name, operands, (tensor(kept), tensor(kept, "i32")))

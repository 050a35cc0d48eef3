"""Verification says what is right, and above all can fail: wrong programs are caught."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph, Op
from shardwright.partition.localize import localize
from shardwright.runtime.compare import OutputDifference, compare
from shardwright.runtime.shards import ReplicaDifference
from shardwright.runtime.verify import Verification, verify
from tests.partition.localize.programs import Case, jobs_of, problems

PROGRAM = Case(
    "a product, its sum gathered, and positions added",
    """
    func.func @main(%a: tensor<8x8xf32> ARG([{"x"}, {"y"}])ARG, %b: tensor<8x8xf32> ARG([{"y"}, {}])ARG)
        -> (tensor<8x8xf32>, tensor<8x8xi32>) {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {SH([{"x"}, {}], unreduced={"y"})SH}
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
      %2 = sdy.all_gather [{"x"}, {}] %1 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
      %3 = stablehlo.iota dim = 0 {SH([{"y"}, {"x"}])SH} : tensor<8x8xi32>
      return %2, %3 : tensor<8x8xf32>, tensor<8x8xi32>
    }""",
)


def _find(graph: Graph, name: str) -> Op:
    return next(op for op in graph.walk() if op.name == name)


def _nothing(graph: Graph) -> None:
    pass


def _drop_all_reduce(graph: Graph) -> None:
    """Whoever read the reduced value reads the contribution."""
    gone = _find(graph, "stablehlo.all_reduce")
    graph.main.block.ops.remove(gone)
    for op in graph.walk():
        op.operands = tuple(gone.operands[0] if value == gone.results[0] else value for value in op.operands)


def _permute_group(graph: Graph) -> None:
    """Groups over x, of which one lists its devices the other way round."""
    op = _find(graph, "stablehlo.all_gather")
    groups = "dense<[[0, 4], [5, 1], [2, 6], [3, 7]]> : tensor<4x2xi64>"
    op.signature = op.signature.replace(replica_groups=groups)


def _regroup(graph: Graph) -> None:
    op = _find(graph, "stablehlo.all_reduce")
    groups = "dense<[[0, 1, 2, 7], [4, 5, 6, 3]]> : tensor<2x4xi64>"
    op.signature = op.signature.replace(replica_groups=groups)


def _swap_axis(graph: Graph) -> None:
    op = _find(graph, "stablehlo.all_gather")
    text = (op.signature.text("replica_groups") or "").replace('"x"', '"y", sub_axis_info = (1)2')
    op.signature = op.signature.replace(replica_groups=text)


def _shift_offset(graph: Graph) -> None:
    """The offset of the iota is that of the next larger shard."""
    constants = [op for op in graph.walk() if op.signature.text("value") == "dense<2> : tensor<i32>"]
    constants[-1].signature = constants[-1].signature.replace(value="dense<3> : tensor<i32>")


@pytest.mark.parametrize(
    ("mutate", "wrong"),
    [
        (_nothing, set()),
        (_drop_all_reduce, {"product"}),
        (_permute_group, {"product"}),
        (_regroup, {"product"}),
        (_swap_axis, {"product"}),
        (_shift_offset, {"positions"}),
    ],
)
def test_a_wrong_program_is_caught(mutate: Callable[[Graph], None], wrong: set[str]) -> None:
    local = localize(PROGRAM.graph())
    mutate(local)
    reference, job = jobs_of(PROGRAM, local)
    assert job.mesh is not None
    verification = verify(
        reference.module,
        job.module,
        job.mesh,
        job.in_shardings,
        job.out_shardings,
        job.inputs,
        job.out_types,
        ["product", "positions"],
    )
    copies = {verification.outputs[one.output].name for one in verification.replicas}
    assert {output.name for output in verification.outputs if not output.ok} | copies == wrong
    assert verification.ok == (not wrong)
    if wrong:
        with pytest.raises(ShardingError, match=r"product|positions"):
            verification.require()
    else:
        verification.require()


def test_a_wrong_program_is_caught_by_the_tests_own_harness() -> None:
    local = localize(PROGRAM.graph())
    _drop_all_reduce(local)
    assert "result0 64 of 64 elements differ too far" in problems([PROGRAM], [local])[PROGRAM.name]


def test_a_copy_that_differs_is_told() -> None:
    """The first device of each group is right, so that the assembled output is: only the other copy is not."""
    case = Case(
        "copies",
        """
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }""",
    )
    reference, job = jobs_of(case)
    wrong = job.module.replace(
        "return %arg0",
        """%p = stablehlo.partition_id : tensor<ui32>
        %f = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
        %s = stablehlo.add %arg0, %b : tensor<4xf32>
        return %s""",
    )
    assert job.mesh is not None
    verification = verify(
        reference.module, wrong, job.mesh, job.in_shardings, job.out_shardings, job.inputs, job.out_types, ["out"]
    )
    assert verification.outputs[0].ok
    assert [(one.output, one.position, one.reference) for one in verification.replicas] == [(0, 1, 0)]
    with pytest.raises(ShardingError, match="positions 0 and 1"):
        verification.require()


def _one(reference: np.ndarray, actual: np.ndarray) -> OutputDifference:
    return compare([reference], [actual], ["out"])[0]


RANDOM = np.random.default_rng(0).standard_normal(1000).astype(np.float32)


def test_rounding_passes_and_more_does_not() -> None:
    assert _one(RANDOM, RANDOM * np.float32(1 + 1e-6)).ok
    assert "in norm" in _one(RANDOM, RANDOM * np.float32(1 + 1e-5)).problem


def test_one_wrong_element_of_many_is_found() -> None:
    reference = np.ones(10_000_000, np.float32)
    actual = reference.copy()
    actual[1234] = 1.002
    difference = _one(reference, actual)
    assert difference.norm < 2e-6
    assert "1 of 10000000 elements" in difference.problem
    assert "[1234]" in difference.problem
    assert difference.fraction == pytest.approx(difference.element / difference.allowed)


def test_equal_infinities_and_nans_are_equal() -> None:
    reference = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    assert _one(reference, reference).ok
    assert _one(reference, reference).fraction == 0


@pytest.mark.parametrize("wrong", [[np.nan, 1, np.inf], [1, np.nan, -np.inf], [1, np.nan, 3], [1, 0, np.inf]])
def test_infinities_and_nans_must_be_the_same_and_in_the_same_places(wrong: list[float]) -> None:
    reference = np.array([1.0, np.nan, np.inf], np.float32)
    assert "not finite" in _one(reference, np.array(wrong, np.float32)).problem


def test_integers_and_booleans_are_exact() -> None:
    assert _one(np.arange(4), np.arange(4)).ok
    assert _one(np.arange(4), np.array([0, 1, 2, 4])).problem == "1 of 4 elements differ"
    assert not _one(np.array([True]), np.array([False])).ok


def test_half_precision_is_allowed_its_rounding() -> None:
    reference = RANDOM.astype(ml_dtypes.bfloat16)
    assert _one(reference, (RANDOM * np.float32(1.004)).astype(ml_dtypes.bfloat16)).ok
    assert not _one(reference, (RANDOM * np.float32(1.1)).astype(ml_dtypes.bfloat16)).ok


def test_zeros_are_compared_absolutely() -> None:
    assert _one(np.zeros(4, np.float32), np.full(4, 1e-7, np.float32)).ok
    assert not _one(np.zeros(4, np.float32), np.full(4, 1e-3, np.float32)).ok


def test_shapes_and_types_must_agree() -> None:
    assert "instead of" in _one(np.zeros(4, np.float32), np.zeros(5, np.float32)).problem
    assert "instead of" in _one(np.zeros(4, np.float32), np.zeros(4, np.float64)).problem


def test_empty_outputs_are_right() -> None:
    assert _one(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)).ok


def test_the_worst_of_each_group() -> None:
    outputs = tuple(
        OutputDifference(name, norm, norm, 1e-6, norm / 1e-6, problem)
        for name, norm, problem in [
            ("params/w1", 1e-7, ""),
            ("params/w2", 3e-7, ""),
            ("loss", 1e-7, ""),
            ("result/1/first/blocks/0", 1e-7, ""),
            ("result/1/first/head", 2e-7, ""),
            ("result/0", 1e-7, ""),
            ("grads/a", 9e-7, ""),
            ("grads/b", 1e-8, "wrong"),
        ]
    )
    worst = Verification(outputs).worst
    assert {group: one.name for group, one in worst.items()} == {
        "params": "params/w2",
        "loss": "loss",
        "result/1/first": "result/1/first/head",
        "result/0": "result/0",
        "grads": "grads/b",
    }


def test_copies_that_differ_are_a_failure() -> None:
    right = OutputDifference("out", 0.0, 0.0, 1e-6, 0.0)
    assert not Verification((right,), (ReplicaDifference(0, 1, 0, 0.5),)).ok

"""What is declared of ops, against MLIR's own list of them and against numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.context import is_registered
from shardwright.rules.facts import facts_of, known_ops
from tests.rules.corpus import MAKERS, Instance, instances
from tests.rules.parts import Tensor, inputs_of
from tests.rules.test_numbers import SKIPPED
from tests.rules.xla import run_ops

_COUNT = 6
_NEWER = {"stablehlo.collective_reduce"}
"""Ops that the oldest jaxlib does not know."""

_FLOATS = ("f32", "f64", "complex<f32>")
_RUN = [name for name in MAKERS if name not in SKIPPED]


def _floating(name: str) -> list[Instance]:
    drawn = instances(name, 200, seed=5)
    return [one for one in drawn if all(type.endswith(tuple(f"{t}>" for t in _FLOATS)) for type in one.results)][
        :_COUNT
    ]


def _inputs(name: str, several: Sequence[Instance], seed: int) -> list[list[Tensor]]:
    return [list(inputs_of(one, zlib.crc32(name.encode()) + seed + number)) for number, one in enumerate(several)]


def test_every_op_of_which_something_is_declared_is_known_to_mlir() -> None:
    names = [name for name in known_ops() if name.startswith(("stablehlo.", "chlo.", "func.")) and " " not in name]
    assert len(names) > 100
    assert {name for name in names if not is_registered(name)} <= _NEWER


@pytest.mark.parametrize("name", [name for name in _RUN if facts_of(name).linear])
def test_an_op_is_linear_in_the_operands_that_it_is_declared_to_be(name: str) -> None:
    several = _floating(name)
    assert several
    first, second = _inputs(name, several, 0), _inputs(name, several, 1000)
    for declared in facts_of(name).linear:
        jobs = []
        for one, xs, ys in zip(several, first, second, strict=True):
            pairs = list(enumerate(zip(xs, ys, strict=True)))
            together = declared or range(len(xs))
            other = [y if number in together else x for number, (x, y) in pairs]
            both = [x + y if number in together else x for number, (x, y) in pairs]
            jobs += [(one, xs), (one, other), (one, both)]
        results = run_ops(jobs)
        for x, y, both in zip(results[::3], results[1::3], results[2::3], strict=True):
            for left, right, whole in zip(x, y, both, strict=True):
                np.testing.assert_allclose(left + right, whole, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in _RUN if facts_of(name).moves and name.startswith("stablehlo.")])
def test_what_an_op_that_moves_data_gives_was_there_before(name: str) -> None:
    several = _floating(name)
    inputs = _inputs(name, several, 0)
    for operands, results in zip(inputs, run_ops(list(zip(several, inputs, strict=True))), strict=True):
        for operand, result in zip(operands, results, strict=False):
            assert np.isin(result, operand).all()

"""What rounding does to outputs is measured on the program itself, and differences are held against that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.program import from_jax, load
from shardwright.runtime.arrays import Array
from shardwright.runtime.compare import FACTOR, Noise, OutputDifference, Tolerance, compare_output
from shardwright.runtime.rounding import perturbed
from shardwright.runtime.unsharded import unsharded
from shardwright.runtime.wide import is_wide, widen
from shardwright.runtime.xla import compile_unsharded

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def _run(function: Callable[..., Any], *arguments: Array) -> tuple[list[Array], list[Array], list[list[Array]]]:
    """The results of a function as it is, in wider types, and with roundings moved by eight seeds."""
    graph = unsharded(from_jax(function, *arguments).graph)

    def outputs(text: str, *more: Array) -> list[list[Array]]:
        executable = compile_unsharded(text)
        inputs = [[argument] for argument in arguments]
        return [[one[0] for one in executable.run([*inputs, *seed])] for seed in ([[one]] for one in more)] or [
            [one[0] for one in executable.run(inputs)]
        ]

    own = outputs(modules.text_of(graph, shardings=False))[0]
    wide = outputs(modules.text_of(widen(graph)[0], shardings=False))[0]
    seeds = [np.asarray(seed, np.uint32) for seed in range(8)]
    return own, wide, outputs(modules.text_of(perturbed(graph), shardings=False), *seeds)


def test_inputs_move_by_a_unit_in_the_last_place_or_not_at_all() -> None:
    own, _, moved = _run(lambda x: x, X)
    ratios = [np.abs(sample[0] - own[0]) / np.spacing(np.abs(own[0])) for sample in moved]
    assert {float(ratio) for one in ratios for ratio in one.ravel()} == {0.0, 1.0}
    assert 0.2 < np.mean(ratios) < 0.8


def test_exact_values_stay() -> None:
    values = np.array([0, 1, -2, 64, 0.5, np.inf, -np.inf, np.nan, 1000], np.float32)
    _, _, moved = _run(lambda x: (x, jnp.floor(x)), values)
    for sample in moved:
        np.testing.assert_array_equal(sample[0], values)


def test_sums_that_cancel_have_noise_as_large_as_their_terms_allow() -> None:
    own, wide, moved = _run(lambda x: (x - x.mean(axis=0)).sum(axis=0), np.tile(X, (64, 1)))
    assert 0 < np.abs(own[0]).max() < 1e-4
    assert np.abs(wide[0]).max() < 1e-12
    assert np.max([np.abs(sample[0] - own[0]).max() for sample in moved]) > 1e-7


def test_loops_branches_reductions_and_callees_are_widened_and_perturbed() -> None:
    def function(x: Any, i: Any) -> Any:
        y = jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) + x, x)
        z = jax.lax.cond(i > 2, lambda v: v * 2, lambda v: v - 1, y)
        best, which = jax.lax.top_k(z, 2)
        key = jax.random.key(0)
        return z, best, which, jnp.cumsum(z, axis=1), jax.random.normal(key, (4,)), jnp.sort(z), jnp.linalg.norm(z)

    own, wide, moved = _run(function, X, np.asarray(1, np.int32))
    for number, reference in enumerate(own):
        for other in (wide, *moved):
            np.testing.assert_allclose(other[number], reference, rtol=1e-4, atol=1e-4)
    assert np.any([sample[0] != own[0] for sample in moved])


def test_narrow_and_complex_types_are_perturbed() -> None:
    def function(x: Any) -> Any:
        return x.astype(jnp.bfloat16) * 3, x.astype(jnp.float16) * 3, jnp.exp(1j * x), x.astype(jnp.float32).sum()

    own, wide, moved = _run(function, X)
    assert [one.dtype.name for one in wide] == ["float64", "float64", "complex128", "float64"]
    for number in range(4):
        assert np.any([sample[number] != own[number] for sample in moved])


def test_what_is_made_for_a_type_stays_and_is_counted() -> None:
    def function(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(4)), jax.lax.bitcast_convert_type(x, jnp.int32)

    graph = unsharded(from_jax(function, X).graph)
    wide, kept = widen(graph)
    assert kept["stablehlo.bitcast_convert"] == 1
    assert not is_wide(graph)
    assert is_wide(
        unsharded(load("func.func @main(%a: tensor<2xi32>) -> tensor<2xi32> {\nreturn %a : tensor<2xi32>\n}").graph)
    )
    assert "f64" in modules.text_of(wide, shardings=False)
    own, _, _ = _run(function, X)
    np.testing.assert_array_equal(own[1], X.view(np.int32))


def _noise(*samples: Array) -> Noise:
    return Noise(None, samples)


def test_an_element_may_differ_by_what_it_moves_itself_and_its_neighbours_may_not() -> None:
    reference = np.ones(100, np.float32)
    moved = [reference.copy() for _ in range(4)]
    for number, sample in enumerate(moved):
        sample[7] += 0.1 * (number - 1.5)
    wrong = reference.copy()
    wrong[7] = 1.2
    assert compare_output(reference, wrong, "out", _noise(*moved)).ok
    wrong[8] = 1.2
    difference = compare_output(reference, wrong, "out", _noise(*moved))
    assert "1 of 100 elements" in difference.problem
    assert "[8]" in difference.problem


def test_a_difference_is_held_against_the_factor_of_what_was_seen() -> None:
    generator = np.random.default_rng(1)
    reference = generator.standard_normal(1000).astype(np.float32)
    samples = [(reference + 1e-4 * generator.standard_normal(1000)).astype(np.float32) for _ in range(4)]
    noise = _noise(*samples)
    other = (reference + 1e-4 * generator.standard_normal(1000)).astype(np.float32)
    assert compare_output(reference, other, "out", noise).fraction < 0.5
    other[3] += 1e-4 * 10 * FACTOR
    difference = compare_output(reference, other, "out", noise)
    assert not difference.ok
    assert difference.fraction == pytest.approx(difference.element / difference.allowed)


def test_integers_may_change_where_rounding_changes_them_only() -> None:
    reference = np.arange(10)
    swapped = reference.copy()
    swapped[[2, 3]] = [3, 2]
    noise = _noise(reference, swapped)
    assert compare_output(reference, swapped, "out", noise).ok
    wrong = reference.copy()
    wrong[5] = 0
    assert compare_output(reference, wrong, "out", noise).problem == "1 of 10 elements differ"


def test_as_many_flips_as_other_runs_have_are_no_evidence_and_more_are() -> None:
    generator = np.random.default_rng(2)
    reference = np.zeros(10_000, bool)

    def run(flips: int) -> Array:
        flipped = reference.copy()
        flipped[generator.choice(10_000, flips, replace=False)] = True
        return flipped

    noise = _noise(*(run(20) for _ in range(8)))
    assert compare_output(reference, run(20), "out", noise).ok
    assert not compare_output(reference, run(200), "out", noise).ok


def test_a_wider_type_that_overflows_later_says_nothing() -> None:
    reference = np.array([np.inf, 1.0], np.float32)
    noise = Noise(np.array([1e300, 1.0]), (reference,))
    assert compare_output(reference, reference, "out", noise).ok
    assert not compare_output(reference, np.array([1.0, 1.0], np.float32), "out", noise).ok


def test_a_tolerance_that_is_given_decides() -> None:
    reference = np.array([1.0, 100.0], np.float32)
    other = np.array([1.05, 101.0], np.float32)
    assert compare_output(reference, other, "out", tolerance=Tolerance(rtol=0.06)).ok
    assert compare_output(reference, other, "out", tolerance=Tolerance(atol=1.1)).ok
    difference = compare_output(reference, other, "out", tolerance=Tolerance(rtol=0.02))
    assert difference.allowed == pytest.approx(0.02)
    assert difference.fraction == pytest.approx(2.5, rel=1e-3)
    assert not compare_output(np.arange(2), np.arange(2) + 1, "out", tolerance=Tolerance(atol=5)).ok
    assert Tolerance.given(None, None) is None
    with pytest.raises(ShardingError, match="rtol"):
        Tolerance.given(-1, None)


EQUAL_NUMBERS = """
func.func @main(%x: tensor<65536xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<65536xf32>, tensor<f32>) -> tensor<f32>
  return %sum : tensor<f32>
}
"""


def _drifting(actual: float, own: float) -> OutputDifference:
    """A sum that came out as `actual`, and as `own` in a wider type; the reference is exact and moves by nothing."""
    one = np.float32(1.0)
    noise = Noise(np.array(1.0), (np.array(one),) * 4, np.array(own))
    return compare_output(np.array(one), np.array(np.float32(actual)), "sum", noise)


def test_sums_of_equal_numbers_may_drift_where_both_agree_in_a_wider_type() -> None:
    assert _drifting(1.0 + 2e-5, 1.0).ok
    assert not _drifting(1.0 + 2e-5, 1.0 + 2e-5).ok, "wrong in the wider type too"
    assert not _drifting(1.0 + 1e-3, 1.0).ok, "further than sums drift"


def test_equal_numbers_are_summed_without_a_false_alarm() -> None:
    spmd = load(EQUAL_NUMBERS).shard(Mesh(x=8), args={"x": "x"}).partition()
    spmd.verify({"x": np.full(65536, 0.1, np.float32)}).require()

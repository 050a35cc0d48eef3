"""Contributions that a program states: at its end, at its beginning, and at the boundary of manual computations."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import shardwright as sw
from shardwright.ir.ops import DEVICE_OPS
from shardwright.runtime.contributions import contributed
from shardwright.sharding import TensorSharding
from tests.frontends.devices import eight_devices

eight_devices()

HEAD = 'sdy.mesh @m = <["p"=2, "q"=4]>\n'
P = '#sdy.sharding<@m, [{"p"}, {}]>'
UNREDUCED = '#sdy.sharding<@m, [{"p"}, {}], unreduced={"q"}>'
SPLIT = '#sdy.sharding<@m, [{"p"}, {"q"}]>'
T = "tensor<8x16xf32>"
ALL_REDUCE = "stablehlo.all_reduce"
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(8, 16)).astype(np.float32), RNG.normal(size=(16, 16)).astype(np.float32)

DOT = f"""
func.func @main(%x: {T} {{sdy.sharding = {SPLIT}}},
                %w: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"q"}}, {{}}]>}})
    -> ({T} {{sdy.sharding = {UNREDUCED}}}) {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({T}, tensor<16x16xf32>) -> {T}
  return %0 : {T}
}}"""
TWICE = DOT.replace(f"({T} {{sdy.sharding = {UNREDUCED}}})", f"({T} {{sdy.sharding = {UNREDUCED}}}, {T})").replace(
    f"return %0 : {T}", f"return %0, %0 : {T}, {T}"
)
ABS = f"""
func.func @main(%x: {T} {{sdy.sharding = {SPLIT}}}) -> ({T} {{sdy.sharding = {UNREDUCED}}}) {{
  %0 = stablehlo.abs %x : {T}
  return %0 : {T}
}}"""
CONSTANT = f"""
func.func @main() -> ({T} {{sdy.sharding = {UNREDUCED}}}) {{
  %0 = stablehlo.constant dense<3.0> : {T}
  return %0 : {T}
}}"""
THROUGH = f"""
func.func @main(%x: {T} {{sdy.sharding = {UNREDUCED}}}) -> ({T} {{sdy.sharding = {UNREDUCED}}}, {T}) {{
  %0 = stablehlo.abs %x : {T}
  return %x, %0 : {T}, {T}
}}"""


def partition(text: str) -> sw.Spmd:
    return sw.load(HEAD + text).plan().partition()


def contributions(array: Any) -> Any:
    """The sum over `q` of what devices hold of an unreduced array split over `p`."""
    shards = {shard.device.id: np.asarray(shard.data) for shard in array.addressable_shards}
    return np.concatenate([sum(shards[row * 4 + column] for column in range(4)) for row in range(2)])


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        (DOT, [X, W], [X @ W]),
        (TWICE, [X, W], [X @ W, X @ W]),
        (ABS, [X], [np.abs(X)]),
        (CONSTANT, [], [np.full((8, 16), 3.0)]),
        (THROUGH, [X], [X, np.abs(X)]),
    ],
    ids=["dot", "twice", "abs", "constant", "through"],
)
def test_a_result_that_is_stated_to_be_unreduced_is_given_as_contributions(
    text: str, inputs: list[Any], expected: list[Any]
) -> None:
    """A caller reduces it: where it were reduced here, the caller's sum would be four times too large."""
    spmd = partition(text)
    mesh = spmd.plan.mesh
    unreduced = TensorSharding.of(mesh, [["p"], []], partial=["q"])
    for layouts in (spmd.plan.results.values(), spmd.out_shardings):
        assert next(iter(layouts)) == unreduced
    assert 'unreduced={"q"}' in spmd.module("explicit").split("{\n")[1]
    again = sw.load(spmd.module("explicit")).plan().partition()
    for one in (spmd, again):
        results = one.compile()(*inputs)
        assert results[0].sharding.spec == jax.sharding.PartitionSpec("p", None, unreduced={"q"})
        np.testing.assert_allclose(contributions(results[0]), expected[0], rtol=1e-4, atol=1e-5)
        for array, reference in zip(results[1:], expected[1:], strict=True):
            np.testing.assert_allclose(array, reference, rtol=1e-4, atol=1e-5)


def test_contributions_that_an_op_makes_cost_nothing_to_give() -> None:
    assert partition(DOT).traffic.total.static == 0
    assert [op.name for op in partition(TWICE).local.walk() if "reduce" in op.name] == [ALL_REDUCE]


@pytest.mark.parametrize(
    ("given", "parted", "left", "summed"),
    [
        ('{"p"}, {"q"}', '{}, {"q"}', '{"p"}, {}', '"q"'),
        ('{"q", "p"}, {}', '{"p"}, {}', '{"q"}, {}', '"p"'),
        ('{"q"}, {"p"}', '{"q"}, {"p"}', "{}, {}", '"p", "q"'),
        ('{"p"}, {"q"}', '{}, {"q":(2)2}', '{"p"}, {"q":(1)2}', '"q":(2)2'),
    ],
)
def test_parts_are_made_contributions_where_an_explicit_program_says_so(
    given: str, parted: str, left: str, summed: str
) -> None:
    """Each device then holds zeros around its part, and nothing is sent before they are combined."""
    layout, whole = f"#sdy.sharding<@m, [{given}]>", f"#sdy.sharding<@m, [{left}]>"
    spmd = partition(f"""
func.func @main(%x: {T} {{sdy.sharding = {layout}}}) -> ({T} {{sdy.sharding = {whole}}}) {{
  %0 = sdy.sharded_to_unreduced [{parted}] %x out_sharding=<@m, [{left}], unreduced={{{summed}}}> : {T}
  %1 = sdy.all_reduce {{{summed}}} %0 out_sharding=<@m, [{left}]> : {T}
  return %1 : {T}
}}""")
    assert "sdy.sharded_to_unreduced" in spmd.module("explicit")
    assert [op.name for op in spmd.local.walk() if op.name in DEVICE_OPS] == ["stablehlo.partition_id", ALL_REDUCE]
    assert spmd.verify([X]).ok
    np.testing.assert_array_equal(spmd.compile()(X)[0], X)


def test_verify_combines_contributions() -> None:
    assert partition(TWICE).verify([X, W]).ok
    assert partition(THROUGH).verify([X]).ok


def test_compiled_programs_take_contributions_and_make_them() -> None:
    step = partition(THROUGH).compile()
    (sharding,) = step.in_shardings
    given = contributed(X, sharding)
    for value in (X, jax.numpy.asarray(X), given):
        np.testing.assert_allclose(step(value)[1], np.abs(X))


KINDS = ("max", "min", "product", "and", "or", "xor")


def of_all_kinds(kinds: tuple[str, ...]) -> str:
    results = ", ".join(
        f'tensor<8x16xi32> {{sdy.sharding = #sdy.sharding<@m, [{{"p"}}, {{}}], unreduced={kind}{{"q"}}>}}'
        for kind in kinds
    )
    types = ", ".join(["tensor<8x16xi32>"] * len(kinds))
    return f"""
func.func @main(%x: tensor<8x16xi32> {{sdy.sharding = {SPLIT}}}) -> ({results}) {{
  %0 = stablehlo.not %x : tensor<8x16xi32>
  return {", ".join(["%0"] * len(kinds))} : {types}
}}"""


def test_contributions_of_every_kind_are_given_where_they_are_stated() -> None:
    """JAX has shardings for sums alone: compiled programs combine the others."""
    x = np.random.default_rng(0).integers(-100, 100, (8, 16)).astype(np.int32)
    spmd = partition(of_all_kinds(KINDS))
    assert [sharding.partial[0].kind for sharding in spmd.out_shardings] == [*KINDS]
    again = sw.load(spmd.module("explicit")).plan().partition()
    assert again.out_shardings == spmd.out_shardings
    for one in (spmd, again):
        for result in one.compile()(x):
            np.testing.assert_array_equal(result, ~x)
            assert result.sharding.spec == jax.sharding.PartitionSpec("p", None)
    assert spmd.verify([x]).ok


def test_contributions_of_kinds_without_identity_are_refused() -> None:
    with pytest.raises(sw.ShardingError, match="result 'result0' is partial by average"):
        partition(of_all_kinds(("average",)))


MANUAL = """
func.func @main(%x: {T} {{sdy.sharding = {SPLIT}}},
                %w: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"q"}}, {{}}]>}}) -> {T} {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({T}, tensor<16x16xf32>) -> {T}
  %1 = sdy.manual_computation(%0) in_shardings=[<@m, [{{"p"}}, {{}}]{before}>] out_shardings=[<@m, [{{"p"}}, {{}}]{after}>]
      manual_axes={{{axes}}} (%b: tensor<4x16xf32>) {{
    %a = stablehlo.abs %b : tensor<4x16xf32>
    sdy.return %a : tensor<4x16xf32>
  }} : ({T}) -> {T}
  return %1 : {T}
}}"""
AWAITING = ', unreduced={"q"}'


def manual(before: str, after: str, axes: str) -> str:
    return MANUAL.format(T=T, SPLIT=SPLIT, before=before, after=after, axes=axes)


@pytest.mark.parametrize("after", ["", AWAITING])
@pytest.mark.parametrize("before", ["", AWAITING])
def test_along_a_free_axis_a_body_computes_on_what_the_value_is(before: str, after: str) -> None:
    """Its absolute value is that of the sum, once: neither of contributions, nor one contribution from each device."""
    spmd = partition(manual(before, after, '"p"'))
    np.testing.assert_allclose(spmd.compile()(X, W)[0], np.abs(X @ W), rtol=1e-4, atol=1e-5)
    again = sw.load(spmd.module("explicit")).plan().partition()
    np.testing.assert_allclose(again.compile()(X, W)[0], np.abs(X @ W), rtol=1e-4, atol=1e-5)


def test_along_a_manual_axis_a_body_takes_and_makes_contributions() -> None:
    """As XLA's partitioner has it."""
    parts = [X[:, k : k + 4] @ W[k : k + 4] for k in range(0, 16, 4)]
    for before, after, expected in (
        (AWAITING, AWAITING, sum(map(np.abs, parts))),
        ("", AWAITING, 4 * np.abs(X @ W)),
        ("", "", np.abs(X @ W)),
    ):
        result = partition(manual(before, after, '"p", "q"')).compile()(X, W)[0]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_contributions_are_made_where_a_manual_computation_takes_them_and_nobody_did() -> None:
    """The first device along the axis has the value, the others have zeros: a sum inside finds it again."""
    text = manual(AWAITING, AWAITING, '"p", "q"').replace(
        "%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]", "%0 = stablehlo.add %x, %x"
    )
    text = text.replace(f"({T}, tensor<16x16xf32>) -> {T}", T)
    np.testing.assert_allclose(partition(text).compile()(X, W)[0], np.abs(2 * X), rtol=1e-6)


def test_an_explicit_program_that_is_partial_along_a_free_axis_is_refused() -> None:
    explicit = partition(manual("", "", '"p"')).module("explicit")
    line = next(line for line in explicit.splitlines() if "manual_computation" in line)
    broken = line.replace('out_shardings=[<@m, [{"p"}, {}]>]', f'out_shardings=[<@m, [{{"p"}}, {{}}]{AWAITING}>]')
    assert broken != line
    with pytest.raises(sw.ShardingError, match="not local"):
        sw.load(explicit.replace(line, broken)).plan().partition()


def test_arguments_can_be_given_as_unreduced_from_outside() -> None:
    program = sw.load(
        ABS.replace(f" {{sdy.sharding = {SPLIT}}}", "").replace(f"({T} {{sdy.sharding = {UNREDUCED}}})", T)
    )
    plan = program.shard(sw.Mesh(p=2, q=4), args={"x": sw.P("p", None, unreduced={"q"})})
    assert plan.in_shardings[0].spec == jax.sharding.PartitionSpec("p", None, unreduced={"q"})
    spmd = plan.partition()
    np.testing.assert_allclose(spmd.compile()(X)[0], np.abs(X), rtol=1e-6)


def test_a_program_of_jax_that_returns_contributions() -> None:
    mesh = jax.make_mesh((2, 4), ("p", "q"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    spec = jax.sharding.PartitionSpec("p", None, unreduced={"q"})

    def product(x: Any, w: Any) -> Any:
        return jax.numpy.einsum("ij,jk->ik", x, w, out_sharding=spec)

    with jax.set_mesh(mesh):
        placed = jax.device_put(X, sw.P("p", "q")), jax.device_put(W, sw.P("q", None))
        spmd = sw.from_jax(jax.jit(product), *placed).plan().partition()
        assert spmd.plan.out_shardings.spec == spec
        result = spmd.compile()(X, W)
        assert result.sharding.spec == spec
        np.testing.assert_allclose(jax.sharding.reshard(result, sw.P("p", None)), X @ W, rtol=1e-4, atol=1e-5)

"""Upstream's passes over the `shard` dialect beside upstream: on the cases of `shard_cases`, op by op."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.conversion import as_generic
from shardwright.notation.module_notations import module_notation
from shardwright.passes.registry import Pass, pass_named
from shardwright.program import load
from tests.passes.shard_cases import CASES, module
from tests.passes.shard_upstream import MLIR_OPT, asked, known, normal

OTHERS = {"inline": {"calls_and_reads_half", "calls_what_has_none", "calls_what_is_public"}}
"""Upstream leaves a private function that is called by nothing but one that goes; here it goes as well."""

_PAIRS = [(name, function) for name, functions in CASES.items() for function in functions]


@pytest.fixture(scope="module")
def upstream() -> dict[str, dict[str, str]]:
    return {name: dict(functions) for name, functions in known().items()}


def test_there_are_enough_cases_and_each_is_known(upstream: dict[str, dict[str, str]]) -> None:
    assert len(_PAIRS) >= 250
    assert {(name, function) for name, functions in upstream.items() for function in functions} == {*_PAIRS}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_of_upstream_is_what_it_says(name: str, upstream: dict[str, dict[str, str]]) -> None:
    if MLIR_OPT is None:
        pytest.skip("no mlir-opt-22 here: Debian's mlir-22-tools has it")
    assert asked(name, list(CASES[name].values())) == list(upstream[name].values())


@pytest.mark.parametrize("name", CASES)
def test_passes_make_what_upstream_makes(name: str, upstream: dict[str, dict[str, str]]) -> None:
    others = {
        function for function, text in CASES[name].items() if _made(name, text) != upstream[name].get(function, "")
    }
    assert others == OTHERS.get(name, set())


def test_upstream_reads_the_generic_form() -> None:
    if MLIR_OPT is None:
        pytest.skip("no mlir-opt-22 here: Debian's mlir-22-tools has it")
    modules = [load_module(as_generic(module(text), "-")) for text in CASES["canonicalize"].values()]
    texts = [str(one.operation.get_asm(print_generic_op_form=True)) for one in modules]
    done = subprocess.run(
        [MLIR_OPT, "--split-input-file", "-"],
        input="\n// -----\n".join(texts).replace("scatter_dim", "scatter_axis"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_few_cases_are_other() -> None:
    assert sum(map(len, OTHERS.values())) <= 0.02 * len(_PAIRS)


def _made(name: str, function: str) -> str:
    declared = pass_named(name)
    assert isinstance(declared, Pass)
    read = load_module(as_generic(module(function), "-"))
    declared.apply(read, declared.defaults())
    return normal(str(read.operation.get_asm(print_generic_op_form=True)))


_PARTITIONED = """shard.grid @g(shape = 2x4)
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %rows = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [1, 0]] : !shard.sharding
  %0 = shard.shard %a to %rows : tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  %2 = stablehlo.dot %1, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %3 = shard.shard %2 to %columns : tensor<8x8xf32>
  %4 = shard.shard %3 to %columns annotate_for_users : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
"""


def test_a_partitioned_module_computes_on_every_process_what_the_whole_does() -> None:
    """Upstream has no pattern for a result whose axes are swapped, and writes wrong ones for others."""
    read = load_module(as_generic(_PARTITIONED, "-"))
    for name in ("sharding-propagation", "shard-partition"):
        declared = pass_named(name)
        assert isinstance(declared, Pass)
        declared.apply(read, declared.defaults())
    written = load(module_notation("shard").spell(module_text(read))).per_device()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((8, 16), np.float32), rng.standard_normal((16, 8), np.float32)
    blocks = [block for rows in np.split(a, 2) for block in np.split(rows, 4, axis=1)]
    (result,) = written.run(
        dict(zip(written.local.main.argument_names, [np.stack(blocks), np.stack([b] * 8)], strict=True))
    ).values()
    expected = np.split(np.tanh(a) @ b, 8, axis=1)
    for number, column in enumerate(result):
        first, second = divmod(number, 4)
        np.testing.assert_allclose(column, expected[second * 2 + first], rtol=1e-5, atol=1e-5)


def test_only_annotations_of_the_dialect_are_partitioned() -> None:
    declared = pass_named("shard-partition")
    assert isinstance(declared, Pass)
    module = load_module('sdy.mesh @m = <["x"=2]> func.func @main(%a: tensor<8xf32>) { return }')
    with pytest.raises(ShardingError, match="takes annotations of the shard dialect, these are sdy"):
        declared.apply(module, declared.defaults())

"""Where MLIR's parser stops, what to change depends on what stands there."""

from __future__ import annotations

import pytest

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.load import parse_source

_PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  %c = stablehlo.sine %a : tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
"""


def _refused(old: str, new: str) -> Diagnostic:
    assert old in _PROGRAM
    with pytest.raises(ShardingError) as caught:
        parse_source(_PROGRAM.replace(old, new), "step.mlir")
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"y"}]>}', '"y"]>}'),
        ("#sdy.sharding<@mesh", "#sdy.sharding<mesh"),
        ("sine %a :", "sine %a {sdy.sharding = } :"),
        ("sine %a :", 'sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, y]>]>} :'),
        ("stablehlo.sine %a", 'sdy.sharding_constraint %a [{"x"}, {}]'),
        ("stablehlo.sine %a", 'sdy.sharding_constraint %a <@mesh, [{"x"}, \n {] >'),
    ],
)
def test_in_a_sharding_it_is_how_shardings_are_written(old: str, new: str) -> None:
    assert _refused(old, new).remedy.startswith("write shardings as <@mesh")


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("return %c", "return", "': tensor<8x16xf32>'"),
        ("sine %a :", "sine %a", "'tensor<8x16xf32>'"),
        ("sine %a :", 'sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}', "'tensor<8x16xf32>'"),
        ("%c = stablehlo.sine %a", "%c = stablehlo.sine", "': tensor<8x16xf32>'"),
    ],
)
def test_behind_and_without_shardings_it_is_how_ops_are(old: str, new: str, shown: str) -> None:
    diagnostic = _refused(old, new)
    assert diagnostic.cause.endswith(f"what stands here: {shown}")
    assert '"dialect.op"(%a)' in diagnostic.remedy


def test_a_text_that_ends_too_soon_has_been_cut_off() -> None:
    rest = _PROGRAM[_PROGRAM.index("  %c =") :]
    diagnostic = _refused(rest, '  %c = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_gr\n')
    assert diagnostic.cause == "the text ends here, in the middle of an op"
    assert diagnostic.remedy.startswith("give the whole module")

"""`mhlo.sharding`s in modules of other notations: refused where they would be lost, read where they say nothing new."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.notation import modules
from shardwright.notation.conversion import convert_module, open_module

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
ON_AN_ARGUMENT = """func.func @main(%a: tensor<8x16xf32> {ENTRY}) -> tensor<8x16xf32> {
  %0 = stablehlo.cosine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""
ON_OPS = """func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  OP
  return %0 : tensor<8x16xf32>
}
"""
CONSTRAINT = """%0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[4,2]<=[2,4]T(1,0)}"}
    : (tensor<8x16xf32>) -> tensor<8x16xf32>"""
SAID = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>'


@pytest.mark.parametrize("read", [sw.load, open_module, lambda text: convert_module(text, "mhlo")])
def test_one_on_an_argument_that_sdy_does_not_say_is_refused_by_every_reader(read: Callable[[str], object]) -> None:
    text = MESH + ON_AN_ARGUMENT.replace("ENTRY", 'mhlo.sharding = "{devices=[2,4]<=[8]}"')
    with pytest.raises(
        ShardingError, match=r"argument 0 of @main: there is a mhlo\.sharding, which nothing reads"
    ) as e:
        read(text)
    assert e.value.diagnostic.location == "-:2"
    assert "written in sdy" in e.value.diagnostic.cause
    assert e.value.diagnostic.remedy.startswith("say it in sdy")


@pytest.mark.parametrize(
    "op", [CONSTRAINT, '%0 = stablehlo.tanh %a {mhlo.sharding = "{devices=[2,4]<=[8]}"} : tensor<8x16xf32>']
)
def test_one_on_an_op_is_refused_at_its_line(op: str) -> None:
    with pytest.raises(ShardingError, match="which nothing reads") as caught:
        sw.load(MESH + ON_OPS.replace("OP", op))
    assert caught.value.diagnostic.location == "-:3"


@pytest.mark.parametrize(
    "layout",
    [
        "{devices=[4,2]<=[8]}",
        "{devices=[2,4]<=[8] shard_as 1}",
        "{replicated}",
        "{mesh[x=2,y=4], [{y}, {x}]}",
    ],
)
def test_one_beside_another_sdy_sharding_is_refused(layout: str) -> None:
    text = MESH + ON_AN_ARGUMENT.replace("ENTRY", f'{SAID}, mhlo.sharding = "{layout}"')
    with pytest.raises(ShardingError, match="which nothing reads"):
        sw.load(text)


@pytest.mark.parametrize(
    "layout",
    [
        "{devices=[2,4]<=[8]}",
        "{devices=[2,4]0,1,2,3,4,5,6,7}",
        '{devices=[2,4]<=[8] metadata={op_name="a"}}',
        "{mesh[x=2,y=4], [{x}, {y}]}",
        "{unknown}",
    ],
)
def test_one_that_says_nothing_new_may_stay(layout: str) -> None:
    quoted = layout.replace('"', '\\"')
    text = MESH + ON_AN_ARGUMENT.replace("ENTRY", f'{SAID}, mhlo.sharding = "{quoted}"')
    assert str(sw.load(text).plan().arguments["a"]) == "[{x}, {y}]"


def test_one_in_a_module_of_the_shard_dialect_is_refused() -> None:
    text = """shard.grid @grid(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %y = shard.shard %x to %s : tensor<4xf32>
  %z = stablehlo.tanh %y {mhlo.sharding = "{devices=[2]<=[2]}"} : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
    with pytest.raises(ShardingError, match="which nothing reads") as caught:
        open_module(text)
    assert caught.value.diagnostic.location == "-:5"
    assert "written in shard" in caught.value.diagnostic.cause


def test_one_in_a_large_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "LARGE", 100)
    with pytest.raises(ShardingError, match="which nothing reads"):
        parse_source(MESH + ON_OPS.replace("OP", CONSTRAINT))

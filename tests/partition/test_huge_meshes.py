"""Meshes of more devices than can be listed or numbered: propagated as any other, and refused where that is needed."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.mesh import MOST_LISTED, MOST_PARTITIONS, Mesh


def _program(size: int, after: str = '{"x"}') -> str:
    type = f"tensor<{4 * size}x8xf32>"
    return f"""sdy.mesh @mesh = <["x"={size}, "y"=4]>
func.func @main(%a: {type} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
    -> ({type} {{sdy.sharding = #sdy.sharding<@mesh, [{after}, {{}}]>}}) {{
  %0 = stablehlo.tanh %a : {type}
  return %0 : {type}
}}
"""


@pytest.mark.parametrize("size", [1 << 29, 1 << 30, 1 << 40])
def test_a_program_of_more_partitions_than_32_bits_count_is_refused(size: int) -> None:
    plan = sw.load(_program(size)).plan()
    assert f'"x"={size}' in plan.module()
    with pytest.raises(ShardingError, match=f"a program of {4 * size} partitions cannot be written"):
        plan.partition()
    with pytest.raises(ShardingError, match=f"a program of {4 * size} partitions cannot be written"):
        sw.convert(_program(size), to="mhlo")


def test_devices_that_must_be_listed_are_counted_first() -> None:
    text = _program(1 << 21, after='{"y", "x"}')
    plan = sw.load(text).plan()
    assert '{"y", "x"}' in plan.module()
    with pytest.raises(ShardingError, match="would have to be listed one by one"):
        plan.partition()


def test_the_limits_themselves_are_within() -> None:
    assert Mesh(x=MOST_LISTED).listed == MOST_LISTED
    assert Mesh(x=MOST_PARTITIONS).partitions == MOST_PARTITIONS
    for mesh in (Mesh(x=MOST_LISTED + 1), Mesh(x=2, y=MOST_LISTED)):
        with pytest.raises(ShardingError, match="lists are limited"):
            mesh.listed  # noqa: B018  # a property that raises

"""Ops are visited in order, and what a visit raises comes out as it is."""

from __future__ import annotations

from typing import Any

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import ir, load_module
from shardwright.ir.walk import walk

MODULE = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"


def test_ops_are_visited_in_order() -> None:
    for outer_first, order in ((True, 1), (False, -1)):
        names: list[str] = []

        def visit(op: Any, names: list[str] = names) -> Any:
            names.append(op.name)
            return ir.WalkResult.ADVANCE

        walk(load_module(MODULE).operation, visit, outer_first=outer_first)
        assert names == ["builtin.module", "func.func", "func.return"][::order]


@pytest.mark.parametrize(
    "error", [ShardingError("it does not fit", op="func.func"), KeyError("x"), KeyboardInterrupt()]
)
def test_what_a_visit_raises_comes_out_as_it_is(error: BaseException) -> None:
    seen = []

    def visit(op: Any) -> Any:
        seen.append(op.name)
        raise error

    with pytest.raises(type(error)) as caught:
        walk(load_module(MODULE).operation, visit, outer_first=True)
    assert caught.value is error
    assert seen == ["builtin.module"]

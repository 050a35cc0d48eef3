"""Our rules against those of the C++ Shardy where ops are at the edge of what they may be."""

from __future__ import annotations

import re

import pytest

import tests.rules.corpus_calls  # noqa: F401  (registers makers)
from shardwright.rules.custom_call import known_targets
from tests.oracles.shardy import POPULATE_RULES, ShardyFailure, run_batch, run_pipeline
from tests.rules.corpus import Instance, program, tensor
from tests.rules.corpus_wide import WIDE, wide_instances
from tests.rules.programs import rule_text
from tests.rules.test_shardy import COUNT, SEED, differences

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def outputs() -> dict[str, str | ShardyFailure]:
    jobs = [(program(list(wide_instances(name, COUNT, SEED))), POPULATE_RULES) for name in WIDE]
    return dict(zip(WIDE, run_batch(jobs), strict=True))


@pytest.mark.parametrize("name", WIDE)
def test_rules_at_the_edges_are_those_of_shardy(name: str, outputs: dict[str, str | ShardyFailure]) -> None:
    assert differences(outputs[name]) == []


def test_every_custom_call_with_a_rule_is_compared() -> None:
    assert {name.partition("/")[2] for name in WIDE if "custom_call" in name} == set(known_targets())


def _sort(dimension: int) -> str:
    return f"""func.func @main(%a: tensor<4x8x2xf32>) {{
      %0 = "stablehlo.sort"(%a) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}) {{dimension = {dimension} : i64}} : (tensor<4x8x2xf32>) -> tensor<4x8x2xf32>
      return
    }}"""


@pytest.mark.parametrize("dimension", [-3, -2, -1])
def test_a_sorted_dimension_is_whole_also_counted_from_the_end(dimension: int) -> None:
    theirs = [run_pipeline(_sort(counted), POPULATE_RULES) for counted in (dimension % 3, dimension)]
    (rule,) = re.findall(r"op_sharding_rule<(.*?) need_replication", theirs[0])
    assert rule_text(_sort(dimension), "stablehlo.sort") == f"{rule} need_replication={{{'ijk'[dimension]}}}"
    assert "need_replication" not in theirs[1]


_GROUPS = (
    "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, "
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
)


def test_a_collective_of_several_shapes_has_no_rule() -> None:
    types = (tensor((4, 8)), tensor((2,)))
    attributes = f"all_gather_dim = 0 : i64, {_GROUPS}"
    gathered = Instance("stablehlo.all_gather", types, (tensor((8, 8)), tensor((4,))), attributes)
    assert rule_text(program([gathered]), "stablehlo.all_gather") is None
    (theirs,) = run_batch([(program([gathered]), POPULATE_RULES)])
    assert isinstance(theirs, ShardyFailure) or "sharding_rule" in theirs

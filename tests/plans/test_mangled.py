"""Plans with something wrong in them: whatever it is, they are read, or refused with a diagnostic."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import shardwright as sw
from shardwright.plans.other import OtherPlan
from shardwright.plans.read import parse_plan
from tests.notation.test_rfc import mangled
from tests.plans.formats.programs import program
from tests.plans.test_text import GOOD, PROPERTY

KNOWN = program({"m.layers.0.up.weight": (8, 8), "m.norm.weight": (8,), "x": (8, 8)})
MESH = sw.Mesh(dp=2, tp=4)
CONTENTS: dict[str, Any] = {
    "tp_plan": {"layers.*.up": "colwise", "norm": "replicate"},
    "torchtitan": {
        "layers.*.up": {"state_shardings": {"weight": {"axis_types": {"dp": "V", "tp": "V"}, "partition_spec": [["dp", "tp"], None]}}},
        "norm": {"state_shardings": {"weight": {"dp": "R", "tp": "S(0)"}}},
    },
    "maxtext": {
        "['m']/['norm']/['weight']": {
            "mesh": {"axis_names": ["dp", "tp"], "shape": {"dp": 2, "tp": 4}},
            "partition_spec": [["dp", "tp"]],
            "shape": [8],
        }
    },
    "dtensor": {
        "mesh": {"mesh_dim_names": ["dp", "tp"], "mesh": [[0, 1, 2, 3], [4, 5, 6, 7]]},
        "arguments": {"x": {"shape": [8, 8], "placements": [{"type": "Shard", "dim": 0}, {"type": "Replicate"}]}},
        "results": {},
    },
}  # fmt: skip
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 5, -1, 1.5, True, "", "x", [], {}, ["tp"], [[]], {"tp": "R"}, "S(0)", [None, None, None]]
)


@PROPERTY
@given(mangled(GOOD))
def test_a_plan_in_toml_is_read_or_refused(text: str) -> None:
    try:
        plan = parse_plan(text, "plan.toml")
        sw.load(
            "func.func @main(%batch: tensor<8x8xf32>) -> tensor<8x8xf32> { return %batch : tensor<8x8xf32> }\n"
        ).apply(plan)
    except sw.ShardingError as error:
        assert error.diagnostic.message


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """One of the contents with something else in one place, or without it."""
    content = copy.deepcopy(CONTENTS[draw(st.sampled_from(sorted(CONTENTS)))])
    place: Any = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.booleans()):
            place[key] = draw(ODD)
        elif isinstance(place, dict) and draw(st.booleans()):
            place[draw(st.sampled_from(["mesh", "weight", "x", "state_shardings"]))] = place.pop(key)
        else:
            del place[key]
        return content


@PROPERTY
@given(broken(), st.booleans())
def test_one_of_another_framework_is_read_or_refused(content: Any, has_mesh: bool) -> None:
    try:
        plan = KNOWN.apply(OtherPlan(content), MESH if has_mesh else None)
        assert plan.fit is not None
        for format in CONTENTS:
            plan.to(format)
    except sw.ShardingError as error:
        assert error.diagnostic.message
